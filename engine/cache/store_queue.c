/* store_queue.c - what has been put and is not committed; see store_queue.h.
 *
 * A commit costs a few fsyncs, a small value some microseconds: so rows are gathered and committed together, by a
 * thread of the store's own a twentieth of a second after the first of them, or at once when losing them would cost
 * half a second of work or they have become many. Claims of results in the queue last until it is
 * committed, so that no other process computes them in between.
 */
#include "cache/open_store.h"

#include "base/lock.h"
#include "base/clock.h"
#include "base/array.h"
#include "base/log.h"
#include "base/memory_alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { ROWS_MAX = 2000, BYTES_MAX = 4 << 20 };
#define FLUSH_AFTER 0.05
#define WORK_MAX 0.5
#define TOUCH_AFTER 3600.0

/* ---- the queue ---- */

static void queued_free(queued *q)
{
    for (uint32_t i = 0; i < q->about.n_value; i++) mem_free(q->value[i].inline_bytes);
    mem_free(q->value);
}

static void queue_empty(store *s)
{
    for (size_t i = 0; i < s->n_queue; i++) queued_free(&s->queue[i]);
    s->n_queue = 0, s->queue_bytes = 0, s->queue_seconds = 0;
    key_set_clear(&s->queued_keys);
}

void queue_free(store *s)
{
    queue_empty(s);
    mem_free(s->queue);
    mem_free(s->touched);
    key_set_free(&s->queued_keys);
    key_set_free(&s->mine);
}

const queued *queue_find(const store *s, digest key)
{
    uint32_t at;
    return key_set_find(&s->queued_keys, key, &at) ? &s->queue[at] : NULL;
}

static int urgent(const store *s)
{
    return s->n_queue + s->n_file >= ROWS_MAX || s->queue_bytes >= BYTES_MAX || s->queue_seconds >= WORK_MAX;
}

kiln_status queue_add(store *s, queued *q, error *e)
{
    assert(mutex_held(&s->lock));
    if (!array_reserve(&s->queue, &s->queue_capacity, s->n_queue + 1, sizeof *s->queue) ||
        !key_set_add(&s->queued_keys, q->about.key, (uint32_t)s->n_queue)) {
        queued_free(q);
        return error_set(e, KILN_ERR_NOMEM, "out of memory for the cache");
    }
    key_set_add(&s->mine, q->about.key, 0);
    q->since = clock_seconds();
    s->queue[s->n_queue++] = *q;
    s->queue_seconds += q->about.seconds;
    for (uint32_t i = 0; i < q->about.n_value; i++)
        if (q->value[i].inline_bytes) s->queue_bytes += q->value[i].size;
    if (urgent(s)) return queue_flush(s, e);
    queue_start_flusher(s);
    return s->flusher_runs ? KILN_OK : queue_flush(s, e);
}

digest queue_seal(digest key, const stored_value *part, uint32_t n)
{
    digest sum = key;
    for (uint32_t i = 0; i < n; i++) sum = digest_of((digest[]){sum, part[i].content}, 2 * sizeof sum);
    return sum;
}

void queue_touch(store *s, const store_entry *entry)
{
    assert(mutex_held(&s->lock));
    key_set_add(&s->mine, entry->key, 0);
    if (s->read_only || clock_wall_seconds() - entry->used < TOUCH_AFTER) return;
    if (!array_reserve(&s->touched, &s->touched_capacity, s->n_touched + 1, sizeof *s->touched))
        return; /* it only looks older than it is */
    s->touched[s->n_touched++] = entry->key;
}

/* ---- committing ---- */

static kiln_status step_done(store *s, sqlite3_stmt *st, error *e)
{
    if (st && sqlite3_step(st) == SQLITE_DONE) return sqlite3_reset(st), KILN_OK;
    return index_failed(s, "writing", e);
}

static kiln_status write_value_row(store *s, const store_entry *about, uint32_t i, const stored_value *v, error *e)
{
    sqlite3_stmt *st = index_statement(s, SQL_CONTENT);
    if (!st) return index_failed(s, "writing", e);
    index_bind_digest(st, 1, &v->content);
    sqlite3_bind_int64(st, 2, (sqlite3_int64)v->size);
    if (v->inline_bytes) sqlite3_bind_blob(st, 3, v->inline_bytes, (int)v->size, SQLITE_STATIC);
    TRY(step_done(s, st, e));
    if (!(st = index_statement(s, SQL_PART))) return index_failed(s, "writing", e);
    index_bind_digest(st, 1, &about->key);
    sqlite3_bind_int64(st, 2, i);
    index_bind_digest(st, 3, &v->content);
    return step_done(s, st, e);
}

/* An eviction may have taken a file of ours that it found without a name. It takes files inside of a transaction, as
 * this is. */
static int files_are_there(const store *s, const queued *q)
{
    for (uint32_t i = 0; i < q->about.n_value; i++) {
        char path[STORE_PATH_MAX];
        struct stat st;
        if (q->value[i].inline_bytes) continue;
        value_path(s, q->value[i].content, path);
        if (stat(path, &st) != 0 || (uint64_t)st.st_size != q->value[i].size) return 0;
    }
    return 1;
}

static kiln_status write_row(store *s, const queued *q, error *e)
{
    const store_entry *a = &q->about;
    if (!files_are_there(s, q)) return KILN_OK;
    sqlite3_stmt *st = index_statement(s, SQL_ENTRY);
    if (!st) return index_failed(s, "writing", e);
    index_bind_digest(st, 1, &a->key);
    sqlite3_bind_text(st, 2, a->type, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 3, a->what, -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 4, a->n_value);
    sqlite3_bind_int64(st, 5, (sqlite3_int64)a->bytes);
    sqlite3_bind_double(st, 6, a->seconds);
    sqlite3_bind_double(st, 7, a->made);
    sqlite3_bind_double(st, 8, a->used);
    digest seal = queue_seal(a->key, q->value, a->n_value);
    index_bind_digest(st, 9, &seal);
    TRY(step_done(s, st, e));
    if (sqlite3_changes(s->db) == 0) return KILN_OK; /* another process was first */
    for (uint32_t i = 0; i < a->n_value; i++) TRY(write_value_row(s, a, i, &q->value[i], e));
    return KILN_OK;
}

static kiln_status write_touches(store *s, error *e)
{
    for (size_t i = 0; i < s->n_touched; i++) {
        sqlite3_stmt *st = index_statement(s, SQL_TOUCH);
        if (!st) return index_failed(s, "writing", e);
        index_bind_digest(st, 1, &s->touched[i]);
        sqlite3_bind_double(st, 2, clock_wall_seconds());
        TRY(step_done(s, st, e));
    }
    return KILN_OK;
}

static kiln_status write_all(store *s, error *e)
{
    TRY(index_begin(s, e));
    kiln_status status = KILN_OK;
    int rows = sqlite3_total_changes(s->db);
    for (size_t i = 0; i < s->n_queue && status == KILN_OK; i++) status = write_row(s, &s->queue[i], e);
    if (status == KILN_OK) status = write_touches(s, e);
    if (status == KILN_OK) status = files_flush(s, e);
    uint32_t before = index_changes(s);                                      /* nobody else commits while we do */
    int changed = status == KILN_OK && sqlite3_total_changes(s->db) != rows; /* else the commit counts nothing */
    if (status == KILN_OK) status = index_commit(s, e);
    if (status == KILN_OK && changed && s->seen && s->seen == before) s->seen = before + 1;
    if (status == KILN_OK) return KILN_OK;
    index_rollback(s);
    return status;
}

/* What cannot be committed is dropped, with its files: the disk may be full. */
static void give_up_queue(store *s)
{
    queued *list = s->queue;
    size_t n = s->n_queue;
    s->queue = NULL, s->n_queue = s->queue_capacity = 0;
    queue_empty(s);
    if (s->db) sqlite3_busy_timeout(s->db, 0); /* the waiting was done before it failed */
    for (size_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < list[i].about.n_value; k++)
            if (!list[i].value[k].inline_bytes) gc_drop_unnamed_file(s, list[i].value[k].content);
        queued_free(&list[i]);
    }
    if (s->db) sqlite3_busy_timeout(s->db, STORE_BUSY_MS);
    mem_free(list);
}

kiln_status queue_flush(store *s, error *e)
{
    assert(mutex_held(&s->lock));
    size_t entries = s->n_queue;
    if (s->n_queue + s->n_touched + s->n_file == 0) {
        claims_settled(s);
        return KILN_OK;
    }
    kiln_status status = s->read_only ? KILN_OK : write_all(s, e);
    if (status == KILN_OK)
        queue_empty(s);
    else
        give_up_queue(s);
    s->n_touched = 0;
    files_free(s);
    claims_settled(s);
    if (status == KILN_OK && entries) gc_after_commit(s);
    return status;
}

/* ---- the committing thread ---- */

static void wait_for(store *s, double seconds)
{
    int64_t until = clock_ns() + (int64_t)(seconds * 1e9);
    struct timespec t = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    pthread_cond_timedwait(&s->wake, &s->lock, &t);
}

static void *flush_now_and_then(void *arg)
{
    store *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!s->closing) {
        double age = s->n_queue ? clock_seconds() - s->queue[0].since : 0;
        error e = {0};
        if (s->n_queue == 0) {
            pthread_cond_wait(&s->wake, &s->lock);
        } else if (age < FLUSH_AFTER) {
            wait_for(s, FLUSH_AFTER - age);
        } else if (queue_flush(s, &e) != KILN_OK && !s->warned_write) {
            s->warned_write = 1;
            log_warn("%s; the run goes on, but not all results are kept", e.message);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

void queue_start_flusher(store *s)
{
    assert(mutex_held(&s->lock));
    if (!s->flusher_runs)
        s->flusher_runs = pthread_create(&s->flusher, NULL, flush_now_and_then, s) == 0;
    else if (s->n_queue == 1)
        pthread_cond_signal(&s->wake);
}

void queue_stop_flusher(store *s)
{
    pthread_mutex_lock(&s->lock);
    s->closing = 1;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    if (s->flusher_runs) pthread_join(s->flusher, NULL);
    s->flusher_runs = 0;
}
