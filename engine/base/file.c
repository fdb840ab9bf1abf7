/* file.c - maps, small reads, atomic writes, folders, paths; see file.h. */
#include "base/file.h"

#include "base/map_fault.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "base/unfinished.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t nanoseconds(struct timespec t) { return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec; }

file_identity file_identity_of(const struct stat *st)
{
    return (file_identity){.device = st->st_dev,
                           .inode = st->st_ino,
                           .size = (uint64_t)st->st_size,
                           .mtime_ns = nanoseconds(st->st_mtim),
                           .ctime_ns = nanoseconds(st->st_ctim)};
}

int file_identity_same(const file_identity *a, const file_identity *b)
{
    return a->device == b->device && a->inode == b->inode && a->size == b->size && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns;
}

static kiln_status open_regular(const char *path, int *fd, struct stat *st, error *e)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) return error_set(e, KILN_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (fstat(*fd, st) != 0 || !S_ISREG(st->st_mode)) {
        close(*fd);
        return error_set(e, KILN_ERR_IO, "%s: not a regular file", path);
    }
    return KILN_OK;
}

kiln_status file_map_open(file_map *m, const char *path, error *e)
{
    int fd;
    struct stat st;
    *m = (file_map){0};
    TRY(open_regular(path, &fd, &st, e));
    m->size = (size_t)st.st_size;
    m->identity = file_identity_of(&st);
    m->path = mem_strdup(path);
    void *data = m->size && m->path ? mmap(NULL, m->size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    int failed = errno;
    close(fd);
    if (m->path && data != MAP_FAILED) {
        m->data = data;
        m->guard = map_guard(data, m->size);
        return KILN_OK;
    }
    kiln_status status = m->path ? error_set(e, failed == ENOMEM ? KILN_ERR_NOMEM : KILN_ERR_IO, "%s: cannot map: %s",
                                             path, strerror(failed))
                                 : error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    mem_free(m->path);
    *m = (file_map){0};
    return status;
}

void file_map_close(file_map *m)
{
    map_unguard(m->guard);
    if (m->data) munmap((void *)(uintptr_t)m->data, m->size);
    mem_free(m->path);
    *m = (file_map){0};
}

kiln_status file_map_unchanged(const file_map *m, error *e)
{
    struct stat st;
    size_t torn = map_torn(m->guard);
    if (torn != MAP_WHOLE)
        return error_set(e, KILN_ERR_IO,
                         "%s: byte %zu: cannot be read: the file was cut short while it was in use, or its disk fails; "
                         "put it back and run again",
                         m->path, torn);
    if (stat(m->path, &st) != 0)
        return error_set(e, KILN_ERR_IO, "%s: gone since it was opened: %s", m->path, strerror(errno));
    return file_map_is(m, &st, e);
}

kiln_status file_map_is(const file_map *m, const struct stat *st, error *e)
{
    file_identity now = file_identity_of(st);
    if (file_identity_same(&now, &m->identity)) return KILN_OK;
    return error_set(e, KILN_ERR_IO, "%s: changed since it was opened; run again", m->path);
}

static kiln_status read_all(int fd, const char *path, char *data, size_t *size, size_t limit, error *e)
{
    size_t got = 0;
    while (got < limit) {
        ssize_t n = read(fd, data + got, limit - got);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_set(e, KILN_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
        if (n == 0) break;
        got += (size_t)n;
    }
    *size = got;
    return KILN_OK;
}

kiln_status file_read(const char *path, size_t limit, char **data, size_t *size, error *e)
{
    int fd;
    struct stat st;
    *data = NULL;
    TRY(open_regular(path, &fd, &st, e));
    kiln_status status = KILN_OK;
    if ((uint64_t)st.st_size > limit)
        status = error_set(e, KILN_ERR_INVALID, "%s: %lld bytes, more than the limit of %zu", path,
                           (long long)st.st_size, limit);
    char *buffer = status == KILN_OK ? mem_alloc((size_t)st.st_size + 1) : NULL;
    if (status == KILN_OK && !buffer) status = error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    if (status == KILN_OK) status = read_all(fd, path, buffer, size, (size_t)st.st_size, e);
    close(fd);
    if (status != KILN_OK) return mem_free(buffer), status;
    buffer[*size] = '\0';
    *data = buffer;
    return KILN_OK;
}

/* Doubles the buffer until the stream ends. */
static kiln_status read_stream(int fd, const char *path, size_t limit, str *to, error *e)
{
    char piece[1 << 14];
    for (;;) {
        ssize_t n = read(fd, piece, sizeof piece);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return error_set(e, KILN_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
        if (n == 0) break;
        str_append_n(to, piece, (size_t)n);
        if (to->len > limit) return error_set(e, KILN_ERR_INVALID, "%s: more bytes than the limit of %zu", path, limit);
    }
    str_append_n(to, "", 0);
    return to->failed ? error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path) : KILN_OK;
}

kiln_status file_read_stream(const char *path, size_t limit, char **data, size_t *size, error *e)
{
    int standard = strcmp(path, "-") == 0;
    const char *name = standard ? "standard input" : path;
    struct stat st;
    str text = {0};
    *data = NULL;
    if (!standard && (stat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode)))
        return file_read(path, limit, data, size, e);
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return error_set(e, KILN_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    kiln_status status = read_stream(fd, name, limit, &text, e);
    if (!standard) close(fd);
    *size = text.len;
    if (status == KILN_OK && !(*data = str_take(&text)))
        status = error_set(e, KILN_ERR_NOMEM, "%s: out of memory", name);
    str_free(&text);
    return status;
}

int file_descriptor_of(const char *path)
{
    int fd = -1, end = 0;
    if (sscanf(path, "/dev/fd/%d%n", &fd, &end) != 1 || path[end])
        if (sscanf(path, "/proc/self/fd/%d%n", &fd, &end) != 1 || path[end]) return -1;
    return fd;
}

int file_keep_pipe(int fd)
{
    char bytes[1 << 14];
    int to = memfd_create("input", MFD_CLOEXEC), whole = to >= 0;
    for (ssize_t n; whole && (n = read(fd, bytes, sizeof bytes)) != 0;) {
        if (n < 0 && errno == EINTR) continue;
        whole = n > 0;
        for (ssize_t done = 0, wrote; whole && done < n; done += wrote)
            whole = (wrote = write(to, bytes + done, (size_t)(n - done))) > 0;
    }
    whole = whole && dup2(to, fd) >= 0;
    if (to >= 0) close(to);
    return whole;
}

static int write_all(int fd, const void *data, size_t size)
{
    const char *p = data;
    while (size > 0) {
        ssize_t n = write(fd, p, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return 0;
        p += n;
        size -= (size_t)n;
    }
    return 1;
}

static void sync_folder_of(const char *path)
{
    char *copy = mem_strdup(path);
    if (!copy) return;
    char *slash = strrchr(copy, '/');
    if (slash) slash[slash == copy] = '\0';
    int fd = open(slash ? copy : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    mem_free(copy);
}

kiln_status file_write_whole(const char *path, const void *data, size_t size, error *e)
{
    str temp = {0};
    assert(path && (data || !size));
    str_printf(&temp, "%s.tmpXXXXXX", path);
    if (temp.failed) return str_free(&temp), error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    int fd = mkostemp(temp.data, O_CLOEXEC);
    if (fd < 0) {
        error_set(e, KILN_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
        str_free(&temp);
        return KILN_ERR_IO;
    }
    int listed = unfinished_begin(AT_FDCWD, temp.data);
    mode_t mask = umask(0);
    umask(mask);
    int ok = write_all(fd, data, size) && fchmod(fd, 0666 & ~mask) == 0 && fsync(fd) == 0;
    int failed = errno;
    if (close(fd) != 0 && ok) ok = 0, failed = errno;
    if (ok && rename(temp.data, path) != 0) ok = 0, failed = errno;
    if (!ok) unlink(temp.data);
    unfinished_end(listed);
    if (ok) sync_folder_of(path);
    str_free(&temp);
    return ok ? KILN_OK : error_set(e, KILN_ERR_IO, "%s: cannot write: %s", path, strerror(failed));
}

static kiln_status make_folders(const char *path, mode_t mode, error *e)
{
    char *copy = mem_strdup(path);
    if (!copy) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    int ok = 1;
    for (char *p = copy + 1; ok && *p; p++)
        if (*p == '/') {
            *p = '\0';
            ok = mkdir(copy, 0777) == 0 || errno == EEXIST;
            *p = '/';
        }
    ok = ok && (mkdir(copy, mode) == 0 || (errno == EEXIST && folder_exists(path)));
    int failed = errno;
    mem_free(copy);
    if (!ok && failed == EEXIST) return error_set(e, KILN_ERR_IO, "%s: this is a file and no folder", path);
    return ok ? KILN_OK : error_set(e, KILN_ERR_IO, "%s: cannot make the folder: %s", path, strerror(failed));
}

kiln_status folder_make(const char *path, error *e) { return make_folders(path, 0777, e); }
kiln_status folder_make_private(const char *path, error *e) { return make_folders(path, 0700, e); }

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *where)
{
    (void)s, (void)kind, (void)where;
    return remove(path), 0;
}

void folder_remove(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

int file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int folder_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

char *path_join(const char *a, const char *b)
{
    str s = {0};
    size_t n = strlen(a);
    while (n > 1 && a[n - 1] == '/') n--;
    if (b[0] == '/' || n == 0) {
        str_append(&s, b);
    } else {
        str_append_n(&s, a, n);
        if (a[n - 1] != '/' && b[0]) str_char(&s, '/');
        str_append(&s, b);
    }
    return str_take(&s);
}

char *path_real(const char *path)
{
    char *real = realpath(path, NULL);
    char *copy = real ? mem_strdup(real) : NULL;
    if (real && !copy) errno = ENOMEM;
    free(real);
    return copy;
}
