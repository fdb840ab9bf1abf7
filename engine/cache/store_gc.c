/* store_gc.c - what is removed from the store: the least valuable when space runs out, what is damaged, what a user
 * clears.
 *
 * An entry is worth seconds / (bytes + 4096) / (1 + days since it was used): what took long and is small stays longest.
 * A time of use in the future (the clock was set back) counts as now. What this process put or got goes last. Rows go
 * first and are committed, then the files that no row names any more; a crash in between leaves orphans, which a sweep
 * finds. Only files older than an hour are orphans: younger ones may be about to be named.
 */
#include "cache/open_store.h"

#include "base/lock.h"
#include "base/clock.h"
#include "base/array.h"
#include "base/log.h"
#include "base/memory_alloc.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ORPHAN_AGE 3600.0
#define STATE_AGE (7 * 86400.0) /* and of indices that were moved aside */

static const char worth_order[] =
    "SELECT key,bytes FROM entry ORDER BY seconds/(bytes+4096.0)/(1.0+max(0.0,?1-used)/86400.0) ASC";

typedef struct {
    digest *item;
    size_t n, capacity;
} digests;

static int digests_add(digests *d, digest x)
{
    if (!array_reserve(&d->item, &d->capacity, d->n + 1, sizeof *d->item)) return 0;
    d->item[d->n++] = x;
    return 1;
}

/* ---- dropping, lock held ---- */

static kiln_status step_with(store *s, store_statement which, digest d, error *e)
{
    sqlite3_stmt *st = index_statement(s, which);
    if (!st) return index_failed(s, "removing", e);
    index_bind_digest(st, 1, &d);
    if (sqlite3_step(st) != SQLITE_DONE) return index_failed(s, "removing", e);
    sqlite3_reset(st);
    return KILN_OK;
}

/* Runs `sql` with a digest and gathers the digests of its first column. */
static kiln_status gather(store *s, const char *sql, const digest *with, digests *out, error *e)
{
    sqlite3_stmt *st = NULL;
    int got = s->db ? sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) : SQLITE_ERROR;
    if (got == SQLITE_OK && with) index_bind_digest(st, 1, with);
    int enough = 1;
    while (got == SQLITE_OK && enough && (got = sqlite3_step(st)) == SQLITE_ROW) {
        enough = digests_add(out, index_digest(st, 0));
        got = SQLITE_OK;
    }
    kiln_status status = !enough              ? error_set(e, KILN_ERR_NOMEM, "out of memory for the cache")
                         : got == SQLITE_DONE ? KILN_OK
                                              : index_failed(s, "looking", e);
    sqlite3_finalize(st);
    return status;
}

static void remove_file(store *s, digest content)
{
    char path[STORE_PATH_MAX];
    value_path(s, content, path);
    unlink(path);
}

/* Contents nobody names any more: their rows now, their files by the caller once this is committed. */
static kiln_status drop_unnamed(store *s, digests *gone, error *e)
{
    assert(mutex_held(&s->lock));
    size_t first = gone->n;
    TRY(gather(s, "SELECT digest FROM content WHERE digest NOT IN(SELECT content FROM part)", NULL, gone, e));
    for (size_t i = first; i < gone->n; i++) TRY(step_with(s, SQL_DROP_CONTENT, gone->item[i], e));
    return KILN_OK;
}

static kiln_status drop_entry(store *s, digest key, digests *gone, error *e)
{
    assert(mutex_held(&s->lock));
    digests mine = {0};
    kiln_status status = gather(s, "SELECT content FROM part WHERE key=?1", &key, &mine, e);
    if (status == KILN_OK) status = step_with(s, SQL_DROP_ENTRY, key, e);
    if (status == KILN_OK) status = step_with(s, SQL_DROP_PARTS, key, e);
    for (size_t i = 0; i < mine.n && status == KILN_OK; i++) {
        digests others = {0};
        status = gather(s, "SELECT content FROM part WHERE content=?1 LIMIT 1", &mine.item[i], &others, e);
        if (status == KILN_OK && others.n == 0) {
            status = step_with(s, SQL_DROP_CONTENT, mine.item[i], e);
            if (status == KILN_OK && !digests_add(gone, mine.item[i]))
                status = error_set(e, KILN_ERR_NOMEM, "out of memory for the cache");
        }
        mem_free(others.item);
    }
    mem_free(mine.item);
    return status;
}

/* 1 when neither a row nor the queue names it. */
static int is_unnamed(store *s, digest content)
{
    assert(mutex_held(&s->lock));
    digests named = {0};
    kiln_status status =
        gather(s, "SELECT digest FROM content WHERE digest=?1 AND body IS NULL", &content, &named, NULL);
    for (size_t i = 0; i < s->n_queue; i++)
        for (uint32_t k = 0; k < s->queue[i].about.n_value; k++)
            named.n += digest_equal(s->queue[i].value[k].content, content);
    mem_free(named.item);
    return status == KILN_OK && named.n == 0;
}

/* Inside of a transaction, so that nobody names it just now: who commits a row looks first whether the file is there.
 */
void gc_drop_unnamed_file(store *s, digest content)
{
    assert(mutex_held(&s->lock));
    if (!s->db || index_begin(s, NULL) != KILN_OK) return;
    if (is_unnamed(s, content)) remove_file(s, content);
    index_rollback(s);
}

/* Ends the transaction; on success the files go too. */
static kiln_status settle(store *s, kiln_status status, digests *gone, error *e)
{
    if (status == KILN_OK)
        status = index_commit(s, e);
    else
        index_rollback(s);
    for (size_t i = 0; i < gone->n && status == KILN_OK; i++) gc_drop_unnamed_file(s, gone->item[i]);
    mem_free(gone->item);
    return status;
}

kiln_status gc_drop_entry(store *s, digest key, error *e)
{
    assert(mutex_held(&s->lock));
    digests gone = {0};
    TRY(index_begin(s, e));
    return settle(s, drop_entry(s, key, &gone, e), &gone, e);
}

kiln_status gc_drop_content(store *s, digest content, error *e)
{
    assert(mutex_held(&s->lock));
    digests gone = {0};
    TRY(index_begin(s, e));
    kiln_status status = step_with(s, SQL_DROP_BY_CONTENT, content, e);
    if (status == KILN_OK) status = step_with(s, SQL_DROP_PARTS_OF_CONTENT, content, e);
    if (status == KILN_OK) status = step_with(s, SQL_DROP_CONTENT, content, e);
    if (status == KILN_OK) digests_add(&gone, content);
    if (status == KILN_OK) status = drop_unnamed(s, &gone, e);
    return settle(s, status, &gone, e);
}

/* ---- eviction, lock held ---- */

static uint64_t bytes_kept(store *s)
{
    assert(mutex_held(&s->lock));
    sqlite3_stmt *st = index_statement(s, SQL_BYTES);
    uint64_t bytes = st && sqlite3_step(st) == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(st, 0) : 0;
    if (st) sqlite3_reset(st);
    return bytes;
}

/* Keys to be evicted, the least worth first, ours last, until `excess` bytes are gathered. */
static kiln_status choose(store *s, uint64_t excess, digests *out, store_report *report, error *e)
{
    assert(mutex_held(&s->lock));
    for (int ours = 0; ours < 2 && excess > 0; ours++) {
        sqlite3_stmt *st = NULL;
        if (!s->db || sqlite3_prepare_v2(s->db, worth_order, -1, &st, NULL) != SQLITE_OK)
            return index_failed(s, "looking", e);
        sqlite3_bind_double(st, 1, clock_wall_seconds());
        while (excess > 0 && sqlite3_step(st) == SQLITE_ROW) {
            digest key = index_digest(st, 0);
            uint64_t bytes = (uint64_t)sqlite3_column_int64(st, 1);
            if (key_set_find(&s->mine, key, NULL) != ours) continue;
            if (!digests_add(out, key)) break;
            report->entries++, report->bytes += bytes;
            excess = bytes < excess ? excess - bytes : 0;
        }
        sqlite3_finalize(st);
    }
    return KILN_OK;
}

static kiln_status evict(store *s, uint64_t limit, store_report *report, error *e)
{
    assert(mutex_held(&s->lock));
    digests gone = {0};
    uint64_t have = bytes_kept(s);
    if (have <= limit) return KILN_OK;
    TRY(index_begin(s, e));
    kiln_status status = KILN_OK;
    /* Values that several entries name free nothing until the last of them goes: hence more than one round. */
    for (size_t chosen = 1; status == KILN_OK && chosen > 0 && (have = bytes_kept(s)) > limit;) {
        digests keys = {0};
        status = choose(s, have - limit, &keys, report, e);
        for (size_t i = 0; i < keys.n && status == KILN_OK; i++) status = drop_entry(s, keys.item[i], &gone, e);
        chosen = keys.n;
        mem_free(keys.item);
    }
    return settle(s, status, &gone, e);
}

/* A little below the limit, so that not each commit has to. One process is enough. */
void gc_after_commit(store *s)
{
    assert(mutex_held(&s->lock));
    error e = {0};
    store_report report = {0};
    if (!s->db || bytes_kept(s) <= s->limit || !claims_house(s, 0)) return;
    if (evict(s, s->limit - s->limit / 20, &report, &e) != KILN_OK) log_info("%s", e.message);
    claims_house_free(s);
}

/* ---- sweeping, without the lock ---- */

static int parse_hex(const char *hex, digest *out)
{
    uint64_t half[2] = {0, 0};
    if (strlen(hex) != 32) return 0;
    for (int i = 0; i < 32; i++) {
        const char *digit = strchr("0123456789abcdef", hex[i]);
        if (!digit) return 0;
        half[i / 16] = half[i / 16] << 4 | (uint64_t)(digit - "0123456789abcdef");
    }
    *out = (digest){.hi = half[0], .lo = half[1]};
    char back[33];
    return strcmp(digest_hex(*out, back), hex) == 0;
}

typedef struct {
    store *store;
    store_report *report;
    uint64_t files, bytes;
    double older_than; /* seconds */
    int (*goes)(store *s, const char *name);
} sweep;

static int is_orphan(store *s, const char *name)
{
    digest content;
    if (!parse_hex(name, &content)) return 0; /* not ours: left alone */
    pthread_mutex_lock(&s->lock);
    int orphan = s->db && is_unnamed(s, content);
    pthread_mutex_unlock(&s->lock);
    return orphan;
}

static int always(store *s, const char *name)
{
    digest key;
    return (void)s, parse_hex(name, &key);
}

/* A temporary file is named PID-N: it goes when that process is gone. */
static int writer_is_gone(store *s, const char *name)
{
    char path[64];
    (void)s;
    long pid = strtol(name, NULL, 10);
    snprintf(path, sizeof path, "/proc/%ld", pid);
    return pid > 0 && strchr(name, '-') && (access("/proc/self", F_OK) != 0 || access(path, F_OK) != 0);
}

static void sweep_folder(sweep *w, const char *path)
{
    DIR *d = open_folder_below(path);
    for (struct dirent *x; d && (x = readdir(d));) {
        char file[STORE_PATH_MAX + 300];
        struct stat st;
        snprintf(file, sizeof file, "%s/%s", path, x->d_name);
        if (x->d_name[0] == '.' || lstat(file, &st) != 0 || !S_ISREG(st.st_mode)) continue;
        w->files++, w->bytes += (uint64_t)st.st_size;
        if (!w->goes || clock_wall_seconds() - (double)st.st_mtim.tv_sec < w->older_than ||
            !w->goes(w->store, x->d_name) || unlink(file) != 0)
            continue;
        w->files--, w->bytes -= (uint64_t)st.st_size;
        w->report->orphans++, w->report->orphan_bytes += (uint64_t)st.st_size;
    }
    if (d) closedir(d);
}

/* The 256 folders of values/ or states/. */
static void sweep_tree(sweep *w, const char *below)
{
    char path[STORE_PATH_MAX + 16];
    for (unsigned i = 0; i < 256; i++) {
        snprintf(path, sizeof path, "%s/%s/%02x", w->store->folder, below, i);
        sweep_folder(w, path);
    }
}

void gc_sweep_temporary(store *s)
{
    char temp[STORE_PATH_MAX];
    store_report report = {0};
    snprintf(temp, sizeof temp, "%s/values/tmp", s->folder);
    sweep_folder(&(sweep){.store = s, .report = &report, .older_than = 60, .goes = writer_is_gone}, temp);
}

static int is_aside(store *s, const char *name) { return (void)s, strncmp(name, "index.sqlite.aside-", 19) == 0; }

static void sweep_all(store *s, double age, double state_age, store_report *report)
{
    char temp[STORE_PATH_MAX];
    snprintf(temp, sizeof temp, "%s/values/tmp", s->folder);
    sweep_folder(&(sweep){.store = s, .report = report, .older_than = age > 0 ? 60 : 0, .goes = writer_is_gone}, temp);
    sweep_tree(&(sweep){.store = s, .report = report, .older_than = age, .goes = is_orphan}, "values");
    sweep_tree(&(sweep){.store = s, .report = report, .older_than = state_age, .goes = always}, "states");
    sweep_folder(&(sweep){.store = s, .report = report, .older_than = state_age, .goes = is_aside}, s->folder);
}

/* ---- public ---- */

static kiln_status may_change(const store *s, error *e)
{
    return s->read_only ? error_set(e, KILN_ERR_IO, "the cache %s is read-only", s->folder) : KILN_OK;
}

kiln_status store_gc(store *s, uint64_t limit, store_report *out, error *e)
{
    *out = (store_report){0};
    TRY(may_change(s, e));
    TRY(store_flush(s, e));
    pthread_mutex_lock(&s->lock);
    kiln_status status = evict(s, limit ? limit : s->limit, out, e);
    pthread_mutex_unlock(&s->lock);
    if (status == KILN_OK) sweep_all(s, ORPHAN_AGE, STATE_AGE, out);
    return status;
}

static kiln_status clear_rows(store *s, const char *type, store_report *out, error *e)
{
    assert(mutex_held(&s->lock));
    digests keys = {0}, gone = {0};
    sqlite3_stmt *st = NULL;
    TRY(index_begin(s, e));
    int got = sqlite3_prepare_v2(s->db, "SELECT key,bytes FROM entry WHERE ?1 IS NULL OR type=?1", -1, &st, NULL);
    if (got == SQLITE_OK && type) sqlite3_bind_text(st, 1, type, -1, SQLITE_STATIC);
    while (got == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW && digests_add(&keys, index_digest(st, 0)))
        out->entries++, out->bytes += (uint64_t)sqlite3_column_int64(st, 1);
    sqlite3_finalize(st);
    kiln_status status = got == SQLITE_OK ? KILN_OK : index_failed(s, "looking", e);
    for (size_t i = 0; i < keys.n && status == KILN_OK; i++) status = drop_entry(s, keys.item[i], &gone, e);
    if (status == KILN_OK && !type)
        status = sqlite3_exec(s->db, "DELETE FROM file", NULL, NULL, NULL) == SQLITE_OK
                     ? KILN_OK
                     : index_failed(s, "removing", e);
    mem_free(keys.item);
    return settle(s, status, &gone, e);
}

kiln_status store_clear(store *s, const char *type, store_report *out, error *e)
{
    *out = (store_report){0};
    TRY(may_change(s, e));
    TRY(store_flush(s, e));
    pthread_mutex_lock(&s->lock);
    kiln_status status = clear_rows(s, type, out, e);
    pthread_mutex_unlock(&s->lock);
    if (status == KILN_OK && !type) sweep_all(s, ORPHAN_AGE, 0, out);
    return status;
}

kiln_status store_each(store *s, store_order order, const char *type, int (*fn)(void *, const store_entry *), void *arg,
                       error *e)
{
    static const char *const by[] = {"used DESC", "bytes DESC", "seconds DESC"};
    char sql[256];
    sqlite3_stmt *st = NULL;
    TRY(store_flush(s, e));
    snprintf(sql, sizeof sql,
             "SELECT key,n,bytes,seconds,made,used,type,what FROM entry WHERE ?1 IS NULL OR type=?1 ORDER BY %s,key",
             by[order]);
    pthread_mutex_lock(&s->lock);
    int got = s->db ? sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) : SQLITE_ERROR, stop = 0;
    if (got == SQLITE_OK && type) sqlite3_bind_text(st, 1, type, -1, SQLITE_STATIC);
    while (got == SQLITE_OK && !stop && (got = sqlite3_step(st)) == SQLITE_ROW) {
        store_entry x = {.key = index_digest(st, 0),
                         .n_value = (uint32_t)sqlite3_column_int64(st, 1),
                         .bytes = (uint64_t)sqlite3_column_int64(st, 2),
                         .seconds = sqlite3_column_double(st, 3),
                         .made = sqlite3_column_double(st, 4),
                         .used = sqlite3_column_double(st, 5)};
        const char *type_text = (const char *)sqlite3_column_text(st, 6),
                   *what = (const char *)sqlite3_column_text(st, 7);
        snprintf(x.type, sizeof x.type, "%s", type_text ? type_text : "");
        snprintf(x.what, sizeof x.what, "%s", what ? what : "");
        stop = fn(arg, &x);
        got = SQLITE_OK;
    }
    kiln_status status = stop || got == SQLITE_DONE ? KILN_OK : index_failed(s, "looking", e);
    sqlite3_finalize(st);
    pthread_mutex_unlock(&s->lock);
    return status;
}

static uint64_t count(store *s, const char *sql)
{
    sqlite3_stmt *st = NULL;
    uint64_t n = 0;
    if (s->db && sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        n = (uint64_t)sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return n;
}

static void journal_of(store *s, char *out, size_t capacity)
{
    sqlite3_stmt *st = NULL;
    if (s->db && sqlite3_prepare_v2(s->db, "PRAGMA journal_mode", -1, &st, NULL) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_ROW)
        snprintf(out, capacity, "%s", (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
}

kiln_status store_total(store *s, store_totals *out, error *e)
{
    TRY(store_flush(s, e));
    pthread_mutex_lock(&s->lock);
    *out = (store_totals){.entries = count(s, "SELECT count(*) FROM entry"),
                          .values = count(s, "SELECT count(*) FROM content"),
                          .bytes = bytes_kept(s),
                          .limit = s->limit,
                          .remembered_files = count(s, "SELECT count(*) FROM file")};
    uint64_t in_files = count(s, "SELECT count(*) FROM content WHERE body IS NULL"),
             file_bytes = count(s, "SELECT coalesce(sum(size),0) FROM content WHERE body IS NULL");
    journal_of(s, out->journal, sizeof out->journal);
    pthread_mutex_unlock(&s->lock);
    snprintf(out->sqlite, sizeof out->sqlite, "%s", sqlite3_libversion());
    sweep values = {.store = s}, states = {.store = s};
    sweep_tree(&values, "values");
    sweep_tree(&states, "states");
    out->states = states.files, out->state_bytes = states.bytes;
    out->orphans = values.files > in_files ? values.files - in_files : 0;
    out->orphan_bytes = values.bytes > file_bytes ? values.bytes - file_bytes : 0;
    return KILN_OK;
}

/* ---- verifying ---- */

typedef struct {
    store_entry *item;
    size_t n, capacity;
} entries;

static int add_entry(void *arg, const store_entry *x)
{
    entries *l = arg;
    if (!array_reserve(&l->item, &l->capacity, l->n + 1, sizeof *l->item)) return 1;
    l->item[l->n++] = *x;
    return 0;
}

static kiln_status verify_entry(store *s, const store_entry *x, store_report *out,
                                void (*bad)(void *, const store_entry *, const char *), void *arg, error *e)
{
    error why = {0};
    kiln_status status = store_check(s, x->key, x->n_value, &why);
    out->checked++;
    if (status == KILN_ERR_NOMEM) return error_set(e, status, "%s", why.message);
    if (status == KILN_OK || status == KILN_ERR_INVALID) return KILN_OK; /* whole, or gone meanwhile */
    out->damaged++;
    if (!s->read_only) out->entries++, out->bytes += x->bytes;
    if (bad) bad(arg, x, why.message);
    return KILN_OK;
}

kiln_status store_verify(store *s, store_report *out, void (*bad)(void *arg, const store_entry *, const char *why),
                         void *arg, error *e)
{
    entries list = {0};
    *out = (store_report){0};
    s->warned_damage = 1; /* the caller tells */
    kiln_status status = store_each(s, STORE_BY_USE, NULL, add_entry, &list, e);
    for (size_t i = 0; i < list.n && status == KILN_OK; i++) status = verify_entry(s, &list.item[i], out, bad, arg, e);
    mem_free(list.item);
    return status;
}
