/* manifest.c - see manifest.h. */
#include "run/manifest.h"

#include "base/arena.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory_alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MANIFEST_BYTES_MAX = 1 << 30 };
#define SYNC_EVERY 2.0 /* seconds */

typedef struct {
    char key[33];
    int done;
    size_t line, n_file;
    const char **file;
} entry;

struct manifest {
    char *path;
    int fd;
    double synced;
    arena memory;
    entry *entry; /* by key, then line */
    size_t n, capacity;
};

static int by_key(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* A file below the output folder, and nothing else. */
static int stays_inside(const char *name)
{
    if (!*name || *name == '/') return 0;
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') return 0;
        p += n + (p[n] == '/');
    }
    return 1;
}

static kiln_status add_entry(manifest *m, const json_t *row, size_t line, error *e)
{
    const json_t *files = json_object_get(row, "files");
    const char *key = json_string_value(json_object_get(row, "key")),
               *status = json_string_value(json_object_get(row, "status"));
    if (!key || strlen(key) != 32 || !status || !json_is_array(files)) return KILN_OK;
    if (!array_reserve(&m->entry, &m->capacity, m->n + 1, sizeof *m->entry))
        return error_set(e, KILN_ERR_NOMEM, "out of memory");
    entry x = {.done = strcmp(status, "done") == 0, .line = line};
    memcpy(x.key, key, sizeof x.key);
    x.file = arena_alloc(&m->memory, (json_array_size(files) + 1) * sizeof *x.file);
    for (size_t i = 0; x.file && i < json_array_size(files); i++) {
        const char *name = json_string_value(json_array_get(files, i));
        if (!name || !stays_inside(name))
            x.done = 0; /* nothing we wrote: the row is run again */
        else if (!(x.file[x.n_file++] = arena_strdup(&m->memory, name)))
            x.file = NULL;
    }
    if (!x.file) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    m->entry[m->n++] = x;
    return KILN_OK;
}

static kiln_status read_lines(manifest *m, const char *text, size_t size, error *e)
{
    size_t line = 0, rows = 0;
    kiln_status status = KILN_OK;
    for (const char *p = text; p < text + size && status == KILN_OK; line++) {
        const char *end = memchr(p, '\n', (size_t)(text + size - p));
        size_t n = end ? (size_t)(end - p) : (size_t)(text + size - p);
        json_t *row = json_loadb(p, n, 0, NULL);
        if (json_is_object(row) && json_object_get(row, "row")) rows++, status = add_entry(m, row, line, e);
        json_decref(row);
        p += n + 1;
    }
    if (status == KILN_OK && size > 0 && rows == 0 && strncmp(text, "{\"row\"", size < 6 ? size : 6) != 0)
        return error_set(e, KILN_ERR_INVALID, "%s: it is no manifest of a sweep; give another file with --manifest",
                         m->path);
    return status;
}

static kiln_status read_old(manifest *m, int *cut, error *e)
{
    char *text = NULL;
    size_t size = 0;
    *cut = 0;
    if (!file_exists(m->path))
        return folder_exists(m->path)
                   ? error_set(e, KILN_ERR_INVALID, "%s: it is a folder; give a file with --manifest", m->path)
                   : KILN_OK;
    TRY(file_read(m->path, MANIFEST_BYTES_MAX, &text, &size, e));
    *cut = size > 0 && text[size - 1] != '\n';
    kiln_status status = read_lines(m, text, size, e);
    mem_free(text);
    if (m->n) qsort(m->entry, m->n, sizeof *m->entry, by_key);
    return status;
}

static kiln_status write_all(manifest *m, const char *text, size_t n, error *e)
{
    while (n > 0) {
        ssize_t done = write(m->fd, text, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return error_set(e, KILN_ERR_IO, "%s: cannot write: %s", m->path, strerror(errno));
        text += done, n -= (size_t)done;
    }
    return KILN_OK;
}

manifest *manifest_open(const char *path, error *e)
{
    int cut = 0;
    manifest *m = mem_calloc(1, sizeof *m);
    if (!m) return error_set(e, KILN_ERR_NOMEM, "out of memory"), NULL;
    m->fd = -1;
    kiln_status status =
        (m->path = mem_strdup(path)) ? read_old(m, &cut, e) : error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (status == KILN_OK && (m->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)) < 0)
        status = error_set(e, KILN_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    if (status == KILN_OK && cut) status = write_all(m, "\n", 1, e);
    if (status == KILN_OK) return m;
    manifest_close(m, NULL);
    return NULL;
}

static int exists_in(const char *folder, const char *name)
{
    char *path = path_join(folder, name);
    int exists = path && file_exists(path);
    mem_free(path);
    return exists;
}

const char *const *manifest_find(const manifest *m, digest key, const char *out, size_t *n)
{
    char hex[33];
    size_t low = 0, high = m->n;
    digest_hex(key, hex);
    while (low < high) { /* the first behind all of this key */
        size_t middle = (low + high) / 2;
        if (strcmp(m->entry[middle].key, hex) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || strcmp(m->entry[low - 1].key, hex) != 0 || !m->entry[low - 1].done) return NULL;
    const entry *x = &m->entry[low - 1];
    for (size_t i = 0; i < x->n_file; i++)
        if (!exists_in(out, x->file[i])) return NULL;
    *n = x->n_file;
    return x->file;
}

uint64_t manifest_bytes(const manifest *m)
{
    struct stat s;
    return m && fstat(m->fd, &s) == 0 ? (uint64_t)s.st_size : 0;
}

kiln_status manifest_add(manifest *m, const str *line, error *e)
{
    str whole = {0};
    str_append_n(&whole, str_text(line), line->len);
    str_char(&whole, '\n');
    kiln_status status = whole.failed || line->failed
                             ? error_set(e, KILN_ERR_NOMEM, "out of memory")
                             : write_all(m, whole.data, whole.len, e); /* in one write: a line is whole or cut */
    str_free(&whole);
    if (status == KILN_OK && clock_seconds() - m->synced > SYNC_EVERY) {
        if (fsync(m->fd) != 0 && errno != EINVAL && errno != EROFS)
            return error_set(e, KILN_ERR_IO, "%s: cannot write to disk: %s", m->path, strerror(errno));
        m->synced = clock_seconds();
    }
    return status;
}

kiln_status manifest_close(manifest *m, error *e)
{
    kiln_status status = KILN_OK;
    if (!m) return KILN_OK;
    if (m->fd >= 0 && fsync(m->fd) != 0 && errno != EINVAL && errno != EROFS)
        status = error_set(e, KILN_ERR_IO, "%s: cannot write to disk: %s", m->path, strerror(errno));
    if (m->fd >= 0) close(m->fd);
    arena_free(&m->memory);
    mem_free(m->entry);
    mem_free(m->path);
    mem_free(m);
    return status;
}
