/* plugin_data.c - see plugin_data.h. */
#include "plugin/plugin_data.h"

#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/trust.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    hasher *h;
    error *e;
    size_t files, bytes;
} walk;

/* Hashes the open file's size and content. */
static kiln_status hash_content(walk *w, int fd, size_t size, const char *path)
{
    if (size > DATA_BYTES_MAX - w->bytes)
        return error_set(w->e, KILN_ERR_INVALID, "%s: a plugin's data is at most %d MiB together", path,
                         DATA_BYTES_MAX >> 20);
    w->bytes += size;
    hash_text(w->h, "file");
    hash_u64(w->h, size);
    if (!size) return KILN_OK;
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return error_set(w->e, KILN_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    hash_digest(w->h, digest_of(data, size));
    munmap(data, size);
    return KILN_OK;
}

static kiln_status hash_file(walk *w, const char *path)
{
    struct stat s;
    const char *fault = NULL;
    kiln_status status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &s) != 0)
        status = error_set(w->e, KILN_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    else if (!S_ISREG(s.st_mode))
        status = error_set(w->e, KILN_ERR_INVALID, "%s: is neither a file nor a folder", path);
    else if ((fault = trust_fault(&s)) != NULL)
        status = error_set(w->e, KILN_ERR_INVALID, "%s: %s", path, fault);
    else
        status = hash_content(w, fd, (size_t)s.st_size, path);
    if (fd >= 0) close(fd);
    return status;
}

static int is_listed(const struct dirent *d) { return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0; }
static int by_bytes(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static kiln_status hash_folder(walk *w, const char *folder, int depth);

static kiln_status hash_entry(walk *w, const char *folder, const char *name, int depth)
{
    struct stat s;
    char *path = path_join(folder, name);
    if (!path) return error_set(w->e, KILN_ERR_NOMEM, "out of memory");
    kiln_status status = KILN_OK;
    hash_text(w->h, name);
    if (lstat(path, &s) != 0)
        status = error_set(w->e, KILN_ERR_IO, "%s: cannot be checked: %s", path, strerror(errno));
    else if (++w->files > DATA_FILES_MAX)
        status = error_set(w->e, KILN_ERR_INVALID, "%s: a plugin's data is at most %d files", folder, DATA_FILES_MAX);
    else
        status = S_ISDIR(s.st_mode) ? hash_folder(w, path, depth + 1) : hash_file(w, path);
    mem_free(path);
    return status;
}

static kiln_status hash_folder(walk *w, const char *folder, int depth)
{
    struct stat s;
    struct dirent **found = NULL;
    if (depth > DATA_DEPTH_MAX)
        return error_set(w->e, KILN_ERR_INVALID, "%s: more than %d folders deep", folder, DATA_DEPTH_MAX);
    const char *fault = stat(folder, &s) == 0 ? trust_fault(&s) : strerror(errno);
    int n = fault ? 0 : scandir(folder, &found, is_listed, by_bytes);
    if (fault || n < 0) return error_set(w->e, KILN_ERR_INVALID, "%s: %s", folder, fault ? fault : strerror(errno));
    kiln_status status = KILN_OK;
    hash_text(w->h, "folder");
    hash_u64(w->h, (uint64_t)n);
    for (int i = 0; i < n; i++) {
        if (status == KILN_OK) status = hash_entry(w, folder, found[i]->d_name, depth);
        free(found[i]);
    }
    free(found);
    return status;
}

kiln_status plugin_data_find(const char *so, arena *memory, const char **folder, digest *identity, error *e)
{
    error own = {0};
    struct stat s;
    size_t n = strlen(so);
    *folder = NULL;
    char *path = arena_printf(memory, "%.*s.data", (int)(n > 3 ? n - 3 : n), so);
    if (!path) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (lstat(path, &s) != 0 && (errno == ENOENT || errno == ENOTDIR)) return KILN_OK;
    walk w = {.h = hasher_new(), .e = e ? e : &own};
    if (!w.h) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    hash_digest(w.h, *identity);
    kiln_status status = hash_folder(&w, path, 1);
    if (status == KILN_OK) *identity = hasher_digest(w.h), *folder = path;
    hasher_free(w.h);
    return status;
}
