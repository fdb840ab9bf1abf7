/* install.c - see install.h. dladdr() names the file that contains this code. For a statically linked program that is
 * argv[0], which need not be a path; /proc has the full one. */
#include "base/install.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[PATH_MAX];

/* Debian's libraries are a folder deeper than plugins (/usr/lib/x86_64-linux-gnu): from there the folder above. */
static void leave_architecture(void)
{
    char path[PATH_MAX + 24];
    char *slash = strrchr(folder, '/');
    snprintf(path, sizeof path, "%s/../kiln/plugins", folder);
    if (slash && slash != folder && access(path, F_OK) == 0) *slash = '\0';
}

static void find_folder(void)
{
    Dl_info object;
    char *slash = NULL;
    int (*self)(const char *, char *, size_t) = install_find;
    void *address;
    memcpy(&address, &self, sizeof address);
    int in_library = dladdr(address, &object) && object.dli_fname && strstr(object.dli_fname, "libkiln.so");
    if (in_library && !realpath(object.dli_fname, folder)) folder[0] = '\0';
    if (!in_library) {
        ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
        folder[n > 0 ? n : 0] = '\0';
    }
    if ((slash = strrchr(folder, '/'))) *slash = '\0';
    if (in_library) leave_architecture();
}

const char *install_folder(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_folder);
    return folder[0] ? folder : NULL;
}

int install_find(const char *relative, char *path, size_t capacity)
{
    const char *from = install_folder();
    int n = from ? snprintf(path, capacity, "%s/%s", from, relative) : -1;
    return n > 0 && (size_t)n < capacity && access(path, F_OK) == 0;
}
