/* store_files.c - digests of files, remembered across processes; see store_files.h.
 *
 * A file whose times are younger than two seconds when reading it began is not remembered: it could be written again
 * without its times changing (what git calls racily clean).
 */
#include "cache/open_store.h"

#include "base/lock.h"
#include "base/array.h"
#include "base/memory_alloc.h"

#include <assert.h>
#include <string.h>

#define RACY_NS INT64_C(2000000000)

static int same(const file_identity *a, int64_t size, int64_t mtime, int64_t ctime)
{
    return a->size == (uint64_t)size && a->mtime_ns == mtime && a->ctime_ns == ctime;
}

static int find_row(store *s, const file_identity *f, digest *out)
{
    assert(mutex_held(&s->lock));
    sqlite3_stmt *st = index_statement(s, SQL_FILE_FIND);
    if (!st) return 0;
    sqlite3_bind_int64(st, 1, (sqlite3_int64)f->device);
    sqlite3_bind_int64(st, 2, (sqlite3_int64)f->inode);
    int found = sqlite3_step(st) == SQLITE_ROW && sqlite3_column_bytes(st, 3) == (int)sizeof *out &&
                same(f, sqlite3_column_int64(st, 0), sqlite3_column_int64(st, 1), sqlite3_column_int64(st, 2));
    if (found) *out = index_digest(st, 3);
    sqlite3_reset(st);
    return found;
}

int store_file_find(void *self, const file_identity *f, digest *out)
{
    store *s = self;
    pthread_mutex_lock(&s->lock);
    int found = find_row(s, f, out);
    pthread_mutex_unlock(&s->lock);
    return found;
}

void store_file_add(void *self, const char *path, const file_identity *f, digest content, int64_t began)
{
    store *s = self;
    int64_t newest = f->mtime_ns > f->ctime_ns ? f->mtime_ns : f->ctime_ns;
    if (s->read_only || began - newest < RACY_NS) return;
    pthread_mutex_lock(&s->lock);
    if (array_reserve(&s->file, &s->file_capacity, s->n_file + 1, sizeof *s->file))
        s->file[s->n_file++] = (queued_file){.file = *f, .content = content, .path = mem_strdup(path)};
    pthread_mutex_unlock(&s->lock);
}

kiln_status files_flush(store *s, error *e)
{
    assert(mutex_held(&s->lock));
    for (size_t i = 0; i < s->n_file; i++) {
        const queued_file *q = &s->file[i];
        sqlite3_stmt *st = index_statement(s, SQL_FILE_ADD);
        if (!st) return index_failed(s, "writing", e);
        sqlite3_bind_int64(st, 1, (sqlite3_int64)q->file.device);
        sqlite3_bind_int64(st, 2, (sqlite3_int64)q->file.inode);
        sqlite3_bind_int64(st, 3, (sqlite3_int64)q->file.size);
        sqlite3_bind_int64(st, 4, q->file.mtime_ns);
        sqlite3_bind_int64(st, 5, q->file.ctime_ns);
        index_bind_digest(st, 6, &q->content);
        sqlite3_bind_text(st, 7, q->path, -1, SQLITE_STATIC);
        if (sqlite3_step(st) != SQLITE_DONE) return index_failed(s, "writing", e);
        sqlite3_reset(st);
    }
    return KILN_OK;
}

void files_free(store *s)
{
    for (size_t i = 0; i < s->n_file; i++) mem_free(s->file[i].path);
    s->n_file = 0;
}

void store_remember_digests(store *s)
{
    file_digest_memory(&(file_memory){.self = s, .find = store_file_find, .add = store_file_add});
    s->remembers_files = 1;
}
