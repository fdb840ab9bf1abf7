/* store_states.c - states of unfinished calls: FOLDER/states/ab/KEY, the encoded value and its digest. See store.h. */
#include "cache/open_store.h"

#include "base/log.h"
#include "base/memory_alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STATE_BYTES_MAX = 1 << 30 };

static void state_path(const store *s, digest key, char path[STORE_PATH_MAX])
{
    char hex[33];
    digest_hex(key, hex);
    snprintf(path, STORE_PATH_MAX, "%s/states/%.2s/%s", s->folder, hex, hex);
}

static kiln_status make_folders(const store *s, digest key, error *e)
{
    char path[STORE_PATH_MAX], hex[33];
    snprintf(path, sizeof path, "%s/states", s->folder);
    TRY(folder_private(path, e));
    snprintf(path, sizeof path, "%s/states/%.2s", s->folder, digest_hex(key, hex));
    return folder_private(path, e);
}

typedef struct {
    hasher *hash;
    int fd;
    const char *path;
} state_sink;

static kiln_status write_state(void *self, const void *bytes, size_t n, error *e)
{
    state_sink *w = self;
    hash_bytes(w->hash, bytes, n);
    return write_fully(w->fd, bytes, n, w->path, e);
}

static kiln_status write_whole(store *s, state_sink *w, digest key, const kiln_value *state, error *e)
{
    char path[STORE_PATH_MAX];
    TRY(codec_encode(state, s->types, &(codec_sink){.self = w, .write = write_state}, NULL, e));
    digest d = hasher_digest(w->hash);
    TRY(write_fully(w->fd, &d, sizeof d, w->path, e));
    TRY(make_folders(s, key, e));
    state_path(s, key, path);
    return file_settle(s, w->fd, w->path, path, e);
}

kiln_status store_state_put(store *s, digest key, const kiln_value *state, error *e)
{
    char temp[STORE_PATH_MAX];
    if (s->read_only) return error_set(e, KILN_ERR_IO, "the cache %s is read-only: no state can be kept", s->folder);
    state_sink w = {.fd = temp_open(s, temp, e), .hash = hasher_new(), .path = temp};
    kiln_status status = w.fd < 0 ? KILN_ERR_IO
                         : w.hash ? write_whole(s, &w, key, state, e)
                                  : error_set(e, KILN_ERR_NOMEM, "out of memory for a state");
    if (w.fd >= 0) close(w.fd);
    if (w.fd >= 0 && status != KILN_OK) unlink(temp);
    hasher_free(w.hash);
    return status;
}

typedef struct {
    const unsigned char *at;
    size_t left;
} state_source;

static kiln_status read_state(void *self, void *bytes, size_t n, error *e)
{
    state_source *r = self;
    if (r->left < n) return error_set(e, KILN_ERR_INVALID, "it ends early");
    if (n) memcpy(bytes, r->at, n);
    r->at += n, r->left -= n;
    return KILN_OK;
}

static kiln_status decode_state(const store *s, const unsigned char *bytes, size_t n, kiln_value **out, error *e)
{
    digest written;
    if (n < sizeof written) return error_set(e, KILN_ERR_INVALID, "it ends early");
    n -= sizeof written;
    memcpy(&written, bytes + n, sizeof written);
    if (!digest_equal(digest_of(bytes, n), written))
        return error_set(e, KILN_ERR_INVALID, "its bytes are not those that were written");
    state_source r = {.at = bytes, .left = n};
    return codec_decode(&(codec_source){.self = &r, .read = read_state, .size = n}, s->types, out, e);
}

static kiln_status read_bytes(int fd, unsigned char *to, size_t n, error *e)
{
    while (n > 0) {
        ssize_t got = read(fd, to, n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return error_set(e, KILN_ERR_IO, "it cannot be read: %s", strerror(errno));
        if (got == 0) return error_set(e, KILN_ERR_INVALID, "it ends early");
        to += got, n -= (size_t)got;
    }
    return KILN_OK;
}

static kiln_status read_file(const char *path, unsigned char **bytes, size_t *n, error *e)
{
    struct stat st;
    int fd = open_below(path, O_RDONLY, NULL, e);
    if (fd < 0) return KILN_ERR_IO;
    kiln_status status = fstat(fd, &st) == 0 && st.st_size <= STATE_BYTES_MAX
                             ? KILN_OK
                             : error_set(e, KILN_ERR_INVALID, "it is too large");
    if (status == KILN_OK && !(*bytes = mem_alloc((size_t)st.st_size + 1)))
        status = error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (status == KILN_OK) status = read_bytes(fd, *bytes, *n = (size_t)st.st_size, e);
    close(fd);
    return status;
}

kiln_value *store_state_get(store *s, digest key)
{
    char path[STORE_PATH_MAX];
    unsigned char *bytes = NULL;
    size_t n = 0;
    kiln_value *v = NULL;
    error why = {0};
    state_path(s, key, path);
    if (access(path, F_OK) != 0) return NULL;
    kiln_status status = read_file(path, &bytes, &n, &why);
    if (status == KILN_OK) status = decode_state(s, bytes, n, &v, &why);
    mem_free(bytes);
    if (status == KILN_OK) return v;
    log_warn("the saved state %s is of no use (%s): it is removed, and the call begins anew", path, why.message);
    if (!s->read_only) unlink(path);
    return NULL;
}

void store_state_drop(store *s, digest key)
{
    char path[STORE_PATH_MAX];
    state_path(s, key, path);
    if (!s->read_only) unlink(path);
}
