/* choose.c - see choose.h. */
#include "backend/choose.h"

#include "backend/cuda_load.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A driver's traces, looked for before its library is: opening that costs time where there is none. */
static int driver_present(void)
{
    return getenv("KILN_CUDA_LIBRARY") || access("/dev/nvidiactl", F_OK) == 0 ||
           access("/dev/nvhost-ctrl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
}

static kiln_status open_cuda(const char *name, const backend **out, unsigned *index, error *e)
{
    char *end = NULL;
    memory_device *device;
    *index = 0;
    if (name[4] == ':') {
        unsigned long n = strtoul(name + 5, &end, 10);
        if (end == name + 5 || *end || n > 1023)
            return error_set(e, KILN_ERR_INVALID, "--device %s: say cuda, or cuda:1 for the second one", name);
        *index = (unsigned)n;
    }
    const backend *b = cuda_backend(e);
    if (!b) return KILN_ERR_UNSUPPORTED;
    TRY(b->open(*index, &device, e));
    *out = b;
    return KILN_OK;
}

kiln_status backend_choose(const char *name, const backend **out, unsigned *index, error *e)
{
    error why = {0};
    *index = 0;
    *out = NULL;
    if (!name || strcmp(name, "auto") == 0) {
        if (driver_present() && open_cuda("cuda", out, index, &why) != KILN_OK)
            log_info("computing on the processor: %s", why.message);
        if (!*out) *out = &backend_cpu;
        return KILN_OK;
    }
    if (strcmp(name, "cuda") == 0 || strncmp(name, "cuda:", 5) == 0) {
        kiln_status status = open_cuda(name, out, index, &why);
        return status == KILN_OK ? status : error_set(e, status, "--device %s: %s", name, why.message);
    }
    *out = backend_find(name);
    return *out ? KILN_OK
                : error_set(e, KILN_ERR_INVALID,
                            "--device %s: it is auto, cpu, cuda (or cuda:1, ...), or reference, which is slow", name);
}
