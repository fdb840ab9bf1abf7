/* cuda_load.c - opens kiln-cuda.so; see cuda_load.h. */
#include "backend/cuda_load.h"

#include "base/install.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const backend *loaded;
static error why;

/* Not what somebody else may write to. */
static int trusted(const char *path)
{
    struct stat s;
    if (stat(path, &s) != 0) return error_set(&why, KILN_ERR_UNSUPPORTED, "%s is not there", path), 0;
    if (!(s.st_mode & (S_IWGRP | S_IWOTH))) return 1;
    error_set(&why, KILN_ERR_UNSUPPORTED, "%s is not opened: others may write to it (chmod go-w)", path);
    return 0;
}

/* What KILN_CUDA_LIBRARY names, or beside the command: where it is installed, where it is built. */
static int find(char *path, size_t size)
{
    static const char *const beside[] = {"../lib/kiln/kiln-cuda.so", "backends/kiln-cuda.so",
                                         "../../backends/kiln-cuda.so"};
    const char *named = getenv("KILN_CUDA_LIBRARY");
    if (named) return (size_t)snprintf(path, size, "%s", named) < size && trusted(path);
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
        if (install_find(beside[i], path, size)) return trusted(path);
    error_set(&why, KILN_ERR_UNSUPPORTED, "this kiln was built without CUDA: build it where nvcc is");
    return 0;
}

static void load(void)
{
    static const size_t own[] = CUDA_LIBRARY_SIZES;
    char path[4200];
    if (!find(path, sizeof path)) return;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const cuda_library *library = handle ? dlsym(handle, "kiln_cuda_library") : NULL;
    if (!library)
        error_set(&why, KILN_ERR_UNSUPPORTED, "%s cannot be opened: %s", path, dlerror());
    else if (strcmp(library->version, KILN_VERSION) != 0 || memcmp(library->sizes, own, sizeof own) != 0)
        error_set(&why, KILN_ERR_UNSUPPORTED,
                  "%s belongs to another kiln (%s, this is " KILN_VERSION "); build both again", path,
                  library->version);
    else
        loaded = library->backend;
}

const backend *cuda_backend(error *e)
{
    pthread_once(&once, load);
    if (!loaded && e) error_set(e, why.status, "%s", why.message);
    return loaded;
}
