/* store.c - the functions of store.h that open, find, get and put; open_store.h lists the other files. */
#include "cache/open_store.h"

#include "base/lock.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/trust.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- where it lies ---- */

const char *store_default_folder(char *path, size_t capacity)
{
    const char *given = getenv("KILN_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n = given && given[0]        ? snprintf(path, capacity, "%s", given)
            : xdg && xdg[0] == '/'   ? snprintf(path, capacity, "%s/kiln", xdg)
            : home && home[0] == '/' ? snprintf(path, capacity, "%s/.cache/kiln", home)
                                     : -1;
    return n > 0 && (size_t)n < capacity ? path : NULL;
}

int store_folder_is_off(const char *folder)
{
    const char *given = folder ? folder : getenv("KILN_CACHE");
    return given && strcmp(given, "off") == 0;
}

/* File systems over a network (linux/magic.h and their sources): their locks and their order of writes cannot be
 * relied upon. */
const char *store_network_file_system(long type)
{
    static const struct {
        unsigned long type;
        const char *name;
    } known[] = {
        {0x6969, "NFS"},        {0x517b, "SMB"},      {0xff534d42, "CIFS"},   {0xfe534d42, "SMB2"},
        {0x5346414f, "AFS"},    {0x6b414653, "AFS"},  {0x73757245, "Coda"},   {0x00c36400, "Ceph"},
        {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"}, {0x01021997, "9p"},     {0x65735546, "FUSE"},
        {0x7461636f, "OCFS2"},  {0x01161970, "GFS2"}, {0x19830326, "BeeGFS"}, {0xaad7aaea, "PanFS"},
        {0x564c, "NCP"},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if ((unsigned long)(uint32_t)type == known[i].type) return known[i].name;
    return NULL;
}

static kiln_status look_at_folder(store *s, error *e)
{
    struct stat st;
    struct statfs fs;
    if (stat(s->folder, &st) != 0)
        return error_set(e, errno == ENOMEM ? KILN_ERR_NOMEM : KILN_ERR_IO,
                         "the cache folder %s: %s; give another with --cache, or --no-cache", s->folder,
                         strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return error_set(e, KILN_ERR_INVALID,
                         "the cache folder %s is no folder; give another with --cache, or --no-cache", s->folder);
    if (others_may_write(&st) || (st.st_uid != geteuid() && st.st_uid != 0))
        return error_set(e, KILN_ERR_INVALID,
                         "the cache folder %s may be written by others, who could put anything into your results; "
                         "chmod go-w it, or give another with --cache",
                         s->folder);
    const char *network = statfs(s->folder, &fs) == 0 ? store_network_file_system((long)fs.f_type) : NULL;
    if (network)
        return error_set(e, KILN_ERR_UNSUPPORTED,
                         "the cache folder %s lies on a network file system (%s), where a database can be damaged; "
                         "give a folder on a local disk with --cache or KILN_CACHE, or --no-cache",
                         s->folder, network);
    return KILN_OK;
}

static kiln_status make_folders(const store *s, error *e)
{
    static const char *const below[] = {"values", "values/tmp", "states"};
    char path[STORE_PATH_MAX];
    for (size_t i = 0; i < sizeof below / sizeof below[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", s->folder, below[i]);
        TRY(folder_private(path, e));
    }
    return KILN_OK;
}

static kiln_status find_folder(store *s, const store_setting *setting, error *e)
{
    char wanted[STORE_FOLDER_MAX], *real;
    const char *path = setting->folder ? setting->folder : store_default_folder(wanted, sizeof wanted);
    if (!path)
        return error_set(e, KILN_ERR_INVALID,
                         "no folder for the cache: neither KILN_CACHE nor XDG_CACHE_HOME nor HOME is set; give --cache "
                         "DIR, or --no-cache");
    if (setting->must_exist && access(path, F_OK) != 0 && errno != ENOENT)
        return error_set(e, KILN_ERR_IO, "the cache folder %s: %s", path, strerror(errno));
    if (setting->must_exist && access(path, F_OK) != 0)
        return error_set(e, KILN_ERR_INVALID, "there is no cache at %s yet; `kiln run` makes one", path);
    if (!setting->read_only && !folder_exists(path)) {
        error why = {0};
        if (folder_make_private(path, &why) != KILN_OK) /* what is kept may be private */
            return error_set(e, why.status,
                             "no cache can be kept at %s; give another folder with --cache, or --no-cache",
                             why.message);
    }
    if (!(real = path_real(path)))
        return error_set(e, KILN_ERR_IO, "the cache folder %s: %s; give another with --cache, or --no-cache", path,
                         strerror(errno));
    int n = snprintf(s->folder, sizeof s->folder, "%s", real);
    mem_free(real);
    return n > 0 && (size_t)n < sizeof s->folder
               ? KILN_OK
               : error_set(e, KILN_ERR_INVALID, "the path of the cache folder is too long");
}

static kiln_status open_parts(store *s, const store_setting *setting, error *e)
{
    TRY(find_folder(s, setting, e));
    TRY(look_at_folder(s, e));
    s->read_only = setting->read_only || access(s->folder, W_OK | X_OK) != 0;
    if (s->read_only && !setting->read_only) log_info("the cache %s cannot be written to: it is only read", s->folder);
    if (!s->read_only) TRY(make_folders(s, e));
    TRY(claims_open(s, e));
    TRY(index_open(s, e));
    if (!s->read_only) gc_sweep_temporary(s);
    return KILN_OK;
}

store *store_open(const store_setting *setting, error *e)
{
    error own = {0};
    pthread_condattr_t monotonic;
    store *s = mem_calloc(1, sizeof *s);
    if (!s) return error_set(e, KILN_ERR_NOMEM, "out of memory for the cache"), NULL;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    s->index_fd = -1;
    for (size_t i = 0; i < CLAIM_FILES; i++) s->claims_fd[i] = -1;
    s->limit = setting->limit ? setting->limit : STORE_LIMIT_DEFAULT;
    s->types = setting->types;
    s->short_lived = setting->short_lived;
    s->opened = clock_wall_seconds();
    if (open_parts(s, setting, e ? e : &own) == KILN_OK) return s;
    store_close(s);
    return NULL;
}

const char *store_folder(const store *s) { return s->folder; }

void store_close(store *s)
{
    error e = {0};
    if (!s) return;
    if (s->remembers_files) file_digest_memory(NULL);
    queue_stop_flusher(s);
    pthread_mutex_lock(&s->lock);
    if (queue_flush(s, &e) != KILN_OK && !s->warned_write) log_warn("%s; not all results are kept", e.message);
    pthread_mutex_unlock(&s->lock);
    queue_free(s);
    files_free(s);
    mem_free(s->file);
    index_close(s);
    claims_close(s);
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}

kiln_status store_flush(store *s, error *e)
{
    pthread_mutex_lock(&s->lock);
    kiln_status status = queue_flush(s, e);
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- looking ---- */

static void copy_text(char *to, size_t capacity, sqlite3_stmt *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st, column);
    snprintf(to, capacity, "%s", text ? text : "");
}

static int find_row(store *s, digest key, store_entry *out)
{
    assert(mutex_held(&s->lock));
    sqlite3_stmt *st = index_statement(s, out ? SQL_FIND : SQL_IS_THERE);
    if (!st) return 0;
    index_bind_digest(st, 1, &key);
    int got = sqlite3_step(st), found = got == SQLITE_ROW;
    if (found && out) {
        *out = (store_entry){.key = key,
                             .n_value = (uint32_t)sqlite3_column_int64(st, 0),
                             .bytes = (uint64_t)sqlite3_column_int64(st, 1),
                             .seconds = sqlite3_column_double(st, 2),
                             .made = sqlite3_column_double(st, 3),
                             .used = sqlite3_column_double(st, 4)};
        copy_text(out->type, sizeof out->type, st, 5);
        copy_text(out->what, sizeof out->what, st, 6);
    }
    sqlite3_reset(st);
    if (got != SQLITE_ROW && got != SQLITE_DONE) index_failed(s, "looking", NULL);
    return found;
}

static int find(store *s, digest key, store_entry *out)
{
    assert(mutex_held(&s->lock));
    const queued *q = queue_find(s, key);
    if (!q) return find_row(s, key, out);
    if (out) *out = q->about;
    return 1;
}

int store_find(store *s, digest key, store_entry *out)
{
    pthread_mutex_lock(&s->lock);
    int found = find(s, key, out);
    pthread_mutex_unlock(&s->lock);
    return found;
}

void store_find_many(store *s, const digest *keys, size_t n, uint8_t *found)
{
    pthread_mutex_lock(&s->lock);
    s->seen = index_changes(s);
    /* One transaction: else SQLite takes and gives back its lock for each key. */
    sqlite3_stmt *begin = index_statement(s, SQL_BEGIN_READING);
    if (begin) sqlite3_step(begin), sqlite3_reset(begin);
    for (size_t i = 0; i < n; i++) found[i] = (uint8_t)find(s, keys[i], NULL);
    index_rollback(s);
    pthread_mutex_unlock(&s->lock);
}

/* ---- getting ---- */

static void parts_free(stored_value *part, uint32_t n)
{
    for (uint32_t i = 0; part && i < n; i++) mem_free(part[i].inline_bytes);
    mem_free(part);
}

static kiln_status copy_part(stored_value *to, digest content, uint64_t size, const void *bytes, error *e)
{
    *to = (stored_value){.content = content, .size = size};
    if (!bytes) return KILN_OK;
    if (!(to->inline_bytes = mem_alloc((size_t)size + 1))) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    memcpy(to->inline_bytes, bytes, (size_t)size);
    return KILN_OK;
}

/* Rows that do not fit together. Lock held. */
static kiln_status rows_damaged(store *s, digest key, error *e)
{
    assert(mutex_held(&s->lock));
    char hex[33];
    if (!s->warned_damage)
        log_warn("the cache's index held a damaged entry (%.16s): it is removed and computed again",
                 digest_hex(key, hex));
    s->warned_damage = 1;
    if (!s->read_only) gc_drop_entry(s, key, NULL);
    return error_set(e, KILN_ERR_IO, "its rows in the index do not fit together");
}

/* The index's rows of an entry's values, copied so that they can be read without the lock. */
static kiln_status list_parts(store *s, digest key, uint32_t n, stored_value *part, error *e)
{
    assert(mutex_held(&s->lock));
    const queued *q = queue_find(s, key);
    if (q) {
        if (q->about.n_value != n) return error_set(e, KILN_ERR_INVALID, "not in the cache");
        for (uint32_t i = 0; i < n; i++)
            TRY(copy_part(&part[i], q->value[i].content, q->value[i].size, q->value[i].inline_bytes, e));
        return KILN_OK;
    }
    sqlite3_stmt *st = index_statement(s, SQL_PARTS);
    uint32_t at = 0;
    if (!st) return index_failed(s, "looking", e);
    index_bind_digest(st, 1, &key);
    int got = SQLITE_DONE;
    kiln_status status = KILN_OK;
    digest seal = key;
    while (status == KILN_OK && (got = sqlite3_step(st)) == SQLITE_ROW && at < n) {
        int kept_inline = sqlite3_column_type(st, 2) == SQLITE_BLOB;
        const void *body = kept_inline ? sqlite3_column_blob(st, 2) : NULL;
        uint64_t size = (uint64_t)sqlite3_column_int64(st, 1), have = (uint64_t)sqlite3_column_bytes(st, 2);
        seal = index_digest(st, 3);
        status = kept_inline && !body && have
                     ? error_set(e, KILN_ERR_NOMEM, "out of memory")
                     : copy_part(&part[at++], index_digest(st, 0), kept_inline ? have : size, body, e);
    }
    if (status == KILN_OK && got != SQLITE_ROW && got != SQLITE_DONE) return index_failed(s, "looking", e);
    sqlite3_reset(st);
    if (status != KILN_OK) return status;
    if (at == n && got == SQLITE_DONE && digest_equal(seal, queue_seal(key, part, n))) return KILN_OK;
    if (!find_row(s, key, NULL)) return error_set(e, KILN_ERR_INVALID, "not in the cache");
    return rows_damaged(s, key, e);
}

static void damaged(store *s, const stored_value *part, const store_entry *about, const error *why)
{
    char hex[33];
    error e = {0};
    pthread_mutex_lock(&s->lock);
    if (!s->warned_damage)
        log_warn("the cache held a damaged value (%.16s of a %s: %s): it is removed and computed again",
                 digest_hex(part->content, hex), about->type, why->message);
    s->warned_damage = 1;
    if (!s->read_only) gc_drop_content(s, part->content, &e);
    pthread_mutex_unlock(&s->lock);
}

/* out NULL: only looked at. */
static kiln_status read_part(store *s, const stored_value *part, kiln_value **out, error *e)
{
    if (out && part->inline_bytes) return value_read_inline(s, part->inline_bytes, part->size, part->content, out, e);
    if (out) return value_read_file(s, part->content, part->size, out, e);
    if (!part->inline_bytes) return value_check_file(s, part->content, part->size, e);
    if (digest_equal(digest_of(part->inline_bytes, (size_t)part->size), part->content)) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID, "its bytes are not those that were written");
}

static kiln_status read_parts(store *s, const store_entry *about, const stored_value *part, kiln_value **out, error *e)
{
    for (uint32_t i = 0; i < about->n_value; i++) {
        error why = {0};
        kiln_status status = read_part(s, &part[i], out ? &out[i] : NULL, &why);
        if (status == KILN_OK) continue;
        if (status == KILN_ERR_INVALID)
            damaged(s, &part[i], about, &why); /* a disk that cannot be read says nothing about the value */
        for (uint32_t k = 0; out && k < about->n_value; k++) {
            value_unref(out[k]);
            out[k] = NULL;
        }
        return error_set(e, status == KILN_ERR_NOMEM ? status : KILN_ERR_IO, "%s", why.message);
    }
    return KILN_OK;
}

/* An index that names so many values was not written by this engine: no memory is asked for on its word. */
static kiln_status too_many(store *s, digest key, uint32_t n, error *e)
{
    store_entry about;
    pthread_mutex_lock(&s->lock);
    kiln_status status = find(s, key, &about) && about.n_value == n
                             ? rows_damaged(s, key, e)
                             : error_set(e, KILN_ERR_INVALID, "not in the cache");
    pthread_mutex_unlock(&s->lock);
    return status;
}

static kiln_status get(store *s, digest key, uint32_t n, kiln_value **out, error *e)
{
    store_entry about;
    if (n > STORE_VALUES_MAX) return too_many(s, key, n, e);
    stored_value *part = mem_calloc(n + 1u, sizeof *part);
    if (!part) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    pthread_mutex_lock(&s->lock);
    kiln_status status =
        find(s, key, &about) && about.n_value == n ? KILN_OK : error_set(e, KILN_ERR_INVALID, "not in the cache");
    if (status == KILN_OK) status = list_parts(s, key, n, part, e);
    pthread_mutex_unlock(&s->lock);
    if (status == KILN_OK) status = read_parts(s, &about, part, out, e);
    if (status == KILN_OK && out) {
        pthread_mutex_lock(&s->lock);
        queue_touch(s, &about);
        pthread_mutex_unlock(&s->lock);
    }
    parts_free(part, n);
    return status;
}

kiln_status store_get(store *s, digest key, uint32_t n, kiln_value **out, error *e)
{
    for (uint32_t i = 0; i < n; i++) out[i] = NULL;
    return get(s, key, n, out, e);
}

kiln_status store_check(store *s, digest key, uint32_t n, error *e) { return get(s, key, n, NULL, e); }

/* ---- putting ---- */

static void describe(const store_note *note, uint32_t n, kiln_value *const *values, store_entry *about)
{
    snprintf(about->type, sizeof about->type, "%s", note->type ? note->type : "");
    if (note->what)
        snprintf(about->what, sizeof about->what, "%s", note->what);
    else if (n)
        codec_describe(values[0], about->what, sizeof about->what);
}

static kiln_status enqueue(store *s, queued *q, error *e)
{
    pthread_mutex_lock(&s->lock);
    int wanted = s->db && !queue_find(s, q->about.key);
    kiln_status status = wanted  ? queue_add(s, q, e)
                         : s->db ? KILN_OK
                                 : error_set(e, KILN_ERR_IO, "the cache %s was given up",
                                             s->folder); /* takes what q owns; the index may be given up in it */
    if (!wanted) parts_free(q->value, q->about.n_value);
    pthread_mutex_unlock(&s->lock);
    return status;
}

kiln_status store_put(store *s, digest key, const store_note *note, uint32_t n, kiln_value *const *values, error *e)
{
    double now = clock_wall_seconds();
    queued q = {.about = {.key = key, .n_value = n, .seconds = note->seconds, .made = now, .used = now}};
    if (s->read_only) return KILN_OK;
    if (n > STORE_VALUES_MAX)
        return error_set(e, KILN_ERR_UNSUPPORTED, "more than %d values are not stored as one result", STORE_VALUES_MAX);
    for (uint32_t i = 0; i < n; i++)
        if (!codec_can_encode(values[i], s->types)) return error_set(e, KILN_ERR_UNSUPPORTED, "a handle is not stored");
    if (!(q.value = mem_calloc(n + 1u, sizeof *q.value)))
        return error_set(e, KILN_ERR_NOMEM, "out of memory for the cache");
    for (uint32_t i = 0; i < n; i++) {
        kiln_status status = value_write(s, values[i], &q.value[i], e);
        if (status != KILN_OK) {
            parts_free(q.value, n);
            return status;
        }
        q.about.bytes += q.value[i].size;
    }
    describe(note, n, values, &q.about);
    return enqueue(s, &q, e);
}
