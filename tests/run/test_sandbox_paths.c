/* test_sandbox_paths.c - what a run in a sandbox may touch: a GPU's devices where it may compute on one, and only then.
 */
#include "run/sandbox_paths.h"

#include "base/file.h"
#include "harness.h"

#include <stdlib.h>
#include <string.h>

/* 1: it is on the list for reading, 2: for writing too; 0: it is not. */
static int allowed(const sandbox_list *l, const char *path)
{
    int found = 0;
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->item[i].path, path) == 0) found |= l->item[i].writable ? 2 : 1;
    return found;
}

static sandbox_list paths(int gpu)
{
    static char folder[] = "/tmp/kiln-test-XXXXXX";
    static int made;
    sandbox_list l = {.n = 0};
    error e = {0};
    if (!made) made = mkdtemp(folder) != NULL;
    setenv("HOME", folder, 1);
    unsetenv("XDG_CACHE_HOME"), unsetenv("CUDA_CACHE_PATH");
    CHECK_EQ(sandbox_paths(&l, &(sandbox_run){.workflow = "-", .out = folder, .gpu = gpu}, &e), KILN_OK);
    return l;
}

static const char *const devices[] = {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-caps",
                                      "/dev/dri"};

static void test_gpu_has_its_devices(void)
{
    sandbox_list l = paths(1);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) CHECK_EQ(allowed(&l, devices[i]), 2);
    CHECK_EQ(allowed(&l, "/etc/nvidia"), 1);
    CHECK_EQ(allowed(&l, "/proc"), 1); /* /proc/driver/nvidia */
    CHECK_EQ(allowed(&l, "/sys"), 1);  /* /sys/bus/pci        */
    const char *compiled = getenv("CUDA_CACHE_PATH");
    CHECK(compiled && strstr(compiled, "/.cache/kiln/cuda-sandbox"));
    sandbox_list_free(&l);
}

static void test_processor_has_none(void)
{
    sandbox_list l = paths(0);
    for (size_t i = 0; i < l.n; i++)
        CHECK(!strstr(l.item[i].path, "nvidia") && strcmp(l.item[i].path, "/dev/dri") != 0);
    CHECK(getenv("CUDA_CACHE_PATH") == NULL);
    CHECK_EQ(allowed(&l, "/dev/null"), 2);
    CHECK_EQ(allowed(&l, "/dev/shm"), 0);
    sandbox_list_free(&l);
    folder_remove(getenv("HOME"));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_gpu_has_its_devices), CASE(test_processor_has_none)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
