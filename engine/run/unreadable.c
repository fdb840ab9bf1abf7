/* unreadable.c - see unreadable.h. */
#include "run/unreadable.h"

#include "base/arena.h"
#include "base/memory_alloc.h"
#include "base/status.h"
#include "weights/gguf_header.h"
#include "weights/safetensors.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 8, ENTRIES_MAX = 10000 };

static const int64_t LARGE_FROM = INT64_C(256) << 20; /* smaller files are digested in no time */
static const int64_t READ_MAX = INT64_C(1) << 40;     /* a quarter of an hour from the fastest disks */

static int ends_in(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n > m && strcasecmp(path + n - m, ending) == 0;
}

static int read_exactly(int fd, void *to, size_t n)
{
    for (size_t got = 0; got < n;) {
        ssize_t some = pread(fd, (char *)to + got, n - got, (off_t)got);
        if (some <= 0) return 0;
        got += (size_t)some;
    }
    return 1;
}

/* 1: the header, read whole, is not one of a file of this size. */
static int header_is_wrong(const char *path, int64_t size)
{
    uint8_t length[8], *head = NULL;
    safetensors_header h = {.count = 0};
    error e = {0};
    uint64_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), wrong = 0;
    if (fd < 0) return 0; /* whoever digests it reports that */
    if (read_exactly(fd, length, 8)) {
        for (int i = 7; i >= 0; i--) n = n << 8 | length[i];
        wrong = n > SAFETENSORS_HEADER_MAX || (int64_t)n > size - 8;
        if (!wrong && (head = mem_alloc((size_t)n + 9)) && read_exactly(fd, head, (size_t)n + 8))
            wrong = safetensors_parse(&h, path, head, (size_t)size, &e) == KILN_ERR_INVALID;
    }
    safetensors_free(&h);
    mem_free(head);
    close(fd);
    return wrong;
}

/* The same of a .gguf file, whose header does not say how long it is: it is read through a map. */
static int gguf_header_is_wrong(const char *path, int64_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), wrong = 0;
    void *data = fd < 0 ? MAP_FAILED : mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (fd >= 0) close(fd);
    if (data == MAP_FAILED) return 0; /* whoever digests it reports that */
    gguf_header h = {0};
    safetensors_header tensors = {.count = 0};
    error e = {0};
    wrong = gguf_header_parse(&h, &tensors, path, data, (size_t)size, &e) == KILN_ERR_INVALID;
    gguf_header_free(&h);
    safetensors_free(&tensors);
    munmap(data, (size_t)size);
    return wrong;
}

static int unreadable(const char *path, int depth);

static int contains_unreadable(const char *folder, int depth)
{
    DIR *d = depth < DEPTH_MAX ? opendir(folder) : NULL;
    int found = 0;
    for (int i = 0; d && !found && i < ENTRIES_MAX; i++) {
        struct dirent *x = readdir(d);
        if (!x) break;
        arena a = {0};
        const char *path = x->d_name[0] == '.' ? NULL : arena_printf(&a, "%s/%s", folder, x->d_name);
        found = path && unreadable(path, depth + 1);
        arena_free(&a);
    }
    if (d) closedir(d);
    return found;
}

static int unreadable(const char *path, int depth)
{
    struct stat st;
    if (stat(path, &st) != 0) return 0;
    if (S_ISDIR(st.st_mode)) return contains_unreadable(path, depth);
    if (!S_ISREG(st.st_mode) || st.st_size < LARGE_FROM) return 0;
    return st.st_size > READ_MAX || (ends_in(path, ".safetensors") && header_is_wrong(path, st.st_size)) ||
           (ends_in(path, ".gguf") && gguf_header_is_wrong(path, st.st_size));
}

int file_is_unreadable(void *arg, const char *path) { return (void)arg, unreadable(path, 0); }
