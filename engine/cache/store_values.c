/* store_values.c - values as bytes: inline, or files named by the digest of their content; see store_values.h.
 *
 * A file is written under values/tmp/PID-N, synced and renamed, before anything names it. Its digest is made while
 * it is written and while it is read.
 */
#include "cache/open_store.h"

#include "base/memory_alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 256 << 10 /* stays in the processor's second cache between reading or writing and hashing */ };

void value_path(const store *s, digest content, char path[STORE_PATH_MAX])
{
    char hex[33];
    digest_hex(content, hex);
    snprintf(path, STORE_PATH_MAX, "%s/values/%.2s/%s", s->folder, hex, hex);
}

int temp_open(store *s, char path[STORE_PATH_MAX], error *e)
{
    for (int attempt = 0; attempt < 3; attempt++) {
        snprintf(path, STORE_PATH_MAX, "%s/values/tmp/%ld-%u", s->folder, (long)getpid(),
                 __atomic_fetch_add(&s->next_temp, 1, __ATOMIC_RELAXED));
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0) return fd;
        if (errno == EEXIST)
            unlink(path); /* left by a process that had our number */
        else if (errno != EINTR)
            break;
    }
    error_set(e, KILN_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    return -1;
}

kiln_status write_fully(int fd, const void *bytes, size_t n, const char *path, error *e)
{
    const char *at = bytes;
    while (n > 0) {
        ssize_t did = write(fd, at, n);
        if (did < 0 && errno == EINTR) continue;
        if (did <= 0)
            return error_set(e, KILN_ERR_IO, "%s: cannot be written: %s", path,
                             did < 0 ? strerror(errno) : "nothing was written");
        at += did, n -= (size_t)did;
    }
    return KILN_OK;
}

static kiln_status sync_folder_of(const char *path, error *e)
{
    char folder[STORE_PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    return folder_sync(folder, e);
}

kiln_status file_settle(const store *s, int fd, const char *from, const char *to, error *e)
{
    if (!s->short_lived && fsync(fd) != 0)
        return error_set(e, KILN_ERR_IO, "%s: cannot be synced: %s", from, strerror(errno));
    if (rename(from, to) != 0) return error_set(e, KILN_ERR_IO, "%s: cannot be renamed: %s", to, strerror(errno));
    return s->short_lived ? KILN_OK : sync_folder_of(to, e);
}

/* ---- writing ---- */

typedef struct {
    hasher *hash;
    int fd; /* -1: to memory */
    unsigned char *memory;
    size_t at;
    const char *path;
} writing;

/* In pieces, so that what is hashed is still in the processor's cache when it is written. */
static kiln_status write_piece(void *self, const void *bytes, size_t n, error *e)
{
    writing *w = self;
    const char *from = bytes;
    while (n > 0) {
        size_t piece = n < PIECE ? n : PIECE;
        hash_bytes(w->hash, from, piece);
        if (w->fd < 0)
            memcpy(w->memory + w->at, from, piece);
        else
            TRY(write_fully(w->fd, from, piece, w->path, e));
        w->at += piece, from += piece, n -= piece;
    }
    return KILN_OK;
}

static kiln_status write_inline(store *s, const kiln_value *v, writing *w, stored_value *out, error *e)
{
    if (!(w->memory = mem_alloc((size_t)out->size))) return error_set(e, KILN_ERR_NOMEM, "out of memory for the cache");
    kiln_status status = codec_encode(v, s->types, &(codec_sink){.self = w, .write = write_piece}, NULL, e);
    if (status == KILN_OK && w->at != out->size)
        status = error_set(e, KILN_ERR_BUG, "a value changed while it was stored");
    if (status != KILN_OK) {
        mem_free(w->memory);
        return status;
    }
    out->inline_bytes = w->memory;
    out->content = hasher_digest(w->hash);
    return KILN_OK;
}

/* The folder of two digits, made when it is not there. A new one has to be synced into values/ as well. */
static kiln_status value_folder(const store *s, digest content, error *e)
{
    char path[STORE_PATH_MAX], hex[33];
    snprintf(path, sizeof path, "%s/values/%.2s", s->folder, digest_hex(content, hex));
    if (mkdir(path, 0700) == 0) return s->short_lived ? KILN_OK : sync_folder_of(path, e);
    return folder_private(path, e);
}

static kiln_status write_file(store *s, const kiln_value *v, writing *w, stored_value *out, error *e)
{
    char temp[STORE_PATH_MAX], path[STORE_PATH_MAX];
    if ((w->fd = temp_open(s, temp, e)) < 0) return KILN_ERR_IO;
    w->path = temp;
    kiln_status status = codec_encode(v, s->types, &(codec_sink){.self = w, .write = write_piece}, NULL, e);
    if (status == KILN_OK && w->at != out->size)
        status = error_set(e, KILN_ERR_BUG, "a value changed while it was stored");
    out->content = hasher_digest(w->hash);
    value_path(s, out->content, path);
    if (status == KILN_OK) status = value_folder(s, out->content, e);
    if (status == KILN_OK) status = file_settle(s, w->fd, temp, path, e);
    close(w->fd);
    if (status != KILN_OK) unlink(temp);
    return status;
}

kiln_status value_write(store *s, const kiln_value *v, stored_value *out, error *e)
{
    writing w = {.fd = -1, .hash = hasher_new()};
    *out = (stored_value){0};
    kiln_status status = w.hash ? codec_encode(v, s->types, NULL, &out->size, e)
                                : error_set(e, KILN_ERR_NOMEM, "out of memory for the cache");
    if (status == KILN_OK)
        status = out->size <= STORE_INLINE_MAX ? write_inline(s, v, &w, out, e) : write_file(s, v, &w, out, e);
    hasher_free(w.hash);
    return status;
}

/* ---- reading ---- */

typedef struct {
    const unsigned char *at, *end;
} reading_memory;

static kiln_status read_memory(void *self, void *bytes, size_t n, error *e)
{
    reading_memory *r = self;
    if ((size_t)(r->end - r->at) < n) return error_set(e, KILN_ERR_INVALID, "it ends early");
    if (n) memcpy(bytes, r->at, n);
    r->at += n;
    return KILN_OK;
}

kiln_status value_read_inline(store *s, const unsigned char *bytes, uint64_t size, digest content, kiln_value **out,
                              error *e)
{
    reading_memory r = {.at = bytes, .end = bytes + size};
    if (!digest_equal(digest_of(bytes, (size_t)size), content))
        return error_set(e, KILN_ERR_INVALID, "its bytes are not those that were written");
    return codec_decode(&(codec_source){.self = &r, .read = read_memory, .size = size}, s->types, out, e);
}

typedef struct {
    hasher *hash;
    int fd;
} reading_file;

static kiln_status read_file(void *self, void *bytes, size_t n, error *e)
{
    reading_file *r = self;
    char *to = bytes;
    while (n > 0) {
        ssize_t got = read(r->fd, to, n < PIECE ? n : PIECE);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return error_set(e, KILN_ERR_IO, "it cannot be read: %s", strerror(errno));
        if (got == 0) return error_set(e, KILN_ERR_INVALID, "it ends early");
        hash_bytes(r->hash, to, (size_t)got);
        to += got, n -= (size_t)got;
    }
    return KILN_OK;
}

/* Out of descriptors or memory says nothing about the file: it must not be removed for that. */
static kiln_status open_status(int why)
{
    if (why == EMFILE || why == ENFILE || why == ENOMEM) return KILN_ERR_NOMEM;
    return why == ENOENT || why == ENOTDIR || why == ELOOP ? KILN_ERR_INVALID : KILN_ERR_IO;
}

static kiln_status open_value(const char *path, int *fd, error *e)
{
    error what = {0};
    int why = 0;
    *fd = open_below(path, O_RDONLY, &why, &what);
    return *fd >= 0 ? KILN_OK : error_set(e, open_status(why), "%s", what.message);
}

static kiln_status has_size(const reading_file *r, uint64_t size, error *e)
{
    struct stat st;
    if (fstat(r->fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == size) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID, "it has another size");
}

static kiln_status read_open_file(store *s, reading_file *r, digest content, uint64_t size, kiln_value **out, error *e)
{
    kiln_value *v = NULL;
    TRY(has_size(r, size, e));
    TRY(codec_decode(&(codec_source){.self = r, .read = read_file, .size = size}, s->types, &v, e));
    if (!digest_equal(hasher_digest(r->hash), content)) {
        value_unref(v);
        return error_set(e, KILN_ERR_INVALID, "its bytes are not those that were written");
    }
    *out = v;
    return KILN_OK;
}

kiln_status value_read_file(store *s, digest content, uint64_t size, kiln_value **out, error *e)
{
    char path[STORE_PATH_MAX];
    value_path(s, content, path);
    reading_file r = {.hash = hasher_new()};
    kiln_status status = open_value(path, &r.fd, e);
    if (status == KILN_OK)
        status = r.hash ? read_open_file(s, &r, content, size, out, e) : error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (r.fd >= 0) close(r.fd);
    hasher_free(r.hash);
    return status;
}

kiln_status value_check_file(store *s, digest content, uint64_t size, error *e)
{
    char path[STORE_PATH_MAX];
    value_path(s, content, path);
    unsigned char *piece = mem_alloc(PIECE);
    reading_file r = {.hash = hasher_new()};
    kiln_status status = open_value(path, &r.fd, e);
    if (status == KILN_OK)
        status = piece && r.hash ? has_size(&r, size, e) : error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (uint64_t left = size; status == KILN_OK && left > 0;) {
        size_t n = left < PIECE ? (size_t)left : PIECE;
        status = read_file(&r, piece, n, e);
        left -= n;
    }
    if (status == KILN_OK && !digest_equal(hasher_digest(r.hash), content))
        status = error_set(e, KILN_ERR_INVALID, "its bytes are not those that were written");
    if (r.fd >= 0) close(r.fd);
    hasher_free(r.hash);
    mem_free(piece);
    return status;
}
