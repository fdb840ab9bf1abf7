/* store_index.c - the SQLite file; see store_index.h.
 *
 * An index that is not exactly ours (another application, another schema version, other tables, damaged) is moved aside
 * and a new one begun: it is a cache. A process that has the old one open goes on reading it. SQLite sees that the file
 * was moved (or removed) and refuses to write to it (SQLITE_READONLY_DBMOVED), so that its journal is never taken for
 * the new index's; that process warns once and stores nothing more. Only the file that was seen to be damaged is moved,
 * never one that took its place.
 *
 * Journal: Debian 12's SQLite 3.40.1 can corrupt a WAL database that several connections write to, when a checkpoint
 * meets a commit that restarts the log (sqlite.org/wal.html#walresetbug; mended in 3.51.3, 3.50.7, 3.44.6). The version
 * is asked at run time.
 */
#include "cache/open_store.h"

#include "base/lock.h"
#include "base/file.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { APPLICATION = 0x4b494c4e /* "KILN" */, VERSION = 1, ASIDE_MAX = 1000 };

static const char schema[] = "CREATE TABLE entry(key BLOB PRIMARY KEY,type TEXT,what TEXT,n INTEGER,bytes "
                             "INTEGER,seconds REAL,made REAL,used REAL,seal BLOB)WITHOUT ROWID;"
                             "CREATE TABLE part(key BLOB,i INTEGER,content BLOB,PRIMARY KEY(key,i))WITHOUT ROWID;"
                             "CREATE INDEX part_content ON part(content);"
                             "CREATE TABLE content(digest BLOB PRIMARY KEY,size INTEGER,body BLOB);"
                             "CREATE INDEX content_size ON content(size);"
                             "CREATE TABLE file(device INTEGER,inode INTEGER,size INTEGER,mtime INTEGER,ctime "
                             "INTEGER,digest BLOB,path TEXT,PRIMARY KEY(device,inode))WITHOUT ROWID;";

static const char *const text_of[SQL_COUNT] = {
    [SQL_FIND] = "SELECT n,bytes,seconds,made,used,type,what FROM entry WHERE key=?1",
    [SQL_IS_THERE] = "SELECT 1 FROM entry WHERE key=?1",
    [SQL_PARTS] = ("SELECT p.content,c.size,c.body,e.seal FROM entry e JOIN part p ON p.key=e.key JOIN content c ON "
                   "c.digest=p.content WHERE e.key=?1 ORDER BY p.i"),
    [SQL_ENTRY] = "INSERT OR IGNORE INTO entry VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9)",
    [SQL_PART] = "INSERT OR REPLACE INTO part VALUES(?1,?2,?3)",
    [SQL_CONTENT] = "INSERT OR IGNORE INTO content VALUES(?1,?2,?3)",
    [SQL_TOUCH] = "UPDATE entry SET used=?2 WHERE key=?1",
    [SQL_FILE_FIND] = "SELECT size,mtime,ctime,digest FROM file WHERE device=?1 AND inode=?2",
    [SQL_FILE_ADD] = "INSERT OR REPLACE INTO file VALUES(?1,?2,?3,?4,?5,?6,?7)",
    [SQL_DROP_BY_CONTENT] = "DELETE FROM entry WHERE key IN(SELECT key FROM part WHERE content=?1)",
    [SQL_DROP_PARTS_OF_CONTENT] = "DELETE FROM part WHERE key IN(SELECT key FROM part WHERE content=?1)",
    [SQL_DROP_CONTENT] = "DELETE FROM content WHERE digest=?1",
    [SQL_DROP_ENTRY] = "DELETE FROM entry WHERE key=?1",
    [SQL_DROP_PARTS] = "DELETE FROM part WHERE key=?1",
    [SQL_BYTES] = "SELECT coalesce(sum(size),0) FROM content",
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_BEGIN_READING] = "BEGIN",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
};

int index_wal_is_safe(int version)
{
    return version >= 3051003 || (version >= 3050007 && version < 3051000) || (version >= 3044006 && version < 3045000);
}

/* ---- opening ---- */

static void index_path(const store *s, const char *suffix, char path[STORE_PATH_MAX])
{
    snprintf(path, STORE_PATH_MAX, "%s/index.sqlite%s", s->folder, suffix);
}

static int execute(store *s, const char *sql) { return sqlite3_exec(s->db, sql, NULL, NULL, NULL); }

static int64_t pragma(store *s, const char *sql)
{
    sqlite3_stmt *st = NULL;
    int64_t value = -1;
    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        value = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    return value;
}

/* Why the last call failed. To be asked at once: SQLite forgets it with the next call that succeeds, and then says "not
 * an error". */
static void reason_of(sqlite3 *db, char *reason, size_t capacity)
{
    int code = sqlite3_errcode(db), system = sqlite3_system_errno(db);
    const char *text = code == SQLITE_BUSY || code == SQLITE_LOCKED ? "another process holds its lock"
                       : code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE ? "SQLite gave no reason"
                                                                                        : sqlite3_errmsg(db);
    int from_system = system != 0 && (code == SQLITE_IOERR || code == SQLITE_CANTOPEN || code == SQLITE_FULL);
    snprintf(reason, capacity, "%s%s%s%s", text, from_system ? " (" : "", from_system ? strerror(system) : "",
             from_system ? ")" : "");
}

/* What comes from a file may be anything: nothing in it is executed, nothing in it is mapped. */
static void harden(store *s)
{
    static const struct {
        int what, value;
    } limit[] = {
        {SQLITE_LIMIT_LENGTH, 1 << 20},   {SQLITE_LIMIT_SQL_LENGTH, 100000},      {SQLITE_LIMIT_COLUMN, 100},
        {SQLITE_LIMIT_EXPR_DEPTH, 10},    {SQLITE_LIMIT_COMPOUND_SELECT, 3},      {SQLITE_LIMIT_FUNCTION_ARG, 8},
        {SQLITE_LIMIT_ATTACHED, 0},       {SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50}, {SQLITE_LIMIT_VARIABLE_NUMBER, 10},
        {SQLITE_LIMIT_TRIGGER_DEPTH, 10},
    };
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    for (size_t i = 0; i < sizeof limit / sizeof limit[0]; i++) sqlite3_limit(s->db, limit[i].what, limit[i].value);
    sqlite3_busy_timeout(s->db, STORE_BUSY_MS);
    execute(s, "PRAGMA cell_size_check=ON");
    execute(s, "PRAGMA mmap_size=0");
    execute(s, "PRAGMA temp_store=MEMORY");
    if (s->short_lived) execute(s, "PRAGMA synchronous=OFF"); /* before the tables are made */
}

static void set_journal(store *s)
{
    if (s->read_only) return;
    if (s->short_lived) {
        execute(s, "PRAGMA journal_mode=TRUNCATE");
        return;
    }
    if (index_wal_is_safe(sqlite3_libversion_number())) {
        execute(s, "PRAGMA journal_mode=WAL");
        execute(s, "PRAGMA synchronous=NORMAL");
    } else {
        execute(s, "PRAGMA journal_mode=TRUNCATE");
        execute(s, "PRAGMA synchronous=FULL");
        /* Somebody with a newer SQLite has it open just now: writing the log beside them is what must not be done. */
        if (pragma(s, "SELECT journal_mode='wal' FROM pragma_journal_mode") == 1) {
            s->read_only = 1;
            sqlite3_db_config(s->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
            log_info("the cache %s is in use by a kiln with a newer SQLite: it is only read", s->folder);
        }
    }
}

/* The tables as we make them, in the order of their making: 1 when that is what is there. */
static int schema_is_ours(store *s)
{
    sqlite3_stmt *st = NULL;
    const char *rest = schema;
    int same = sqlite3_prepare_v2(s->db, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid", -1, &st,
                                  NULL) == SQLITE_OK,
        got = 0;
    while (same && (got = sqlite3_step(st)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(st, 0);
        size_t n = text ? strlen(text) : 0;
        same = text && strncmp(rest, text, n) == 0 && rest[n] == ';';
        if (same) rest += n + 1;
    }
    sqlite3_finalize(st);
    return same && got == SQLITE_DONE && *rest == '\0';
}

/* Several may come at once: the first makes the tables, the others find them made. */
static int create(store *s, char *reason, size_t capacity)
{
    char text[sizeof schema + 200];
    execute(s, "PRAGMA page_size=8192");
    int ok = execute(s, "BEGIN EXCLUSIVE") == SQLITE_OK;
    if (ok && pragma(s, "PRAGMA application_id") == 0 && pragma(s, "SELECT count(*) FROM sqlite_schema") == 0) {
        snprintf(text, sizeof text, "%sPRAGMA application_id=%d;PRAGMA user_version=%d;", schema, APPLICATION, VERSION);
        ok = execute(s, text) == SQLITE_OK;
    }
    ok = ok && execute(s, "COMMIT") == SQLITE_OK;
    if (!ok) reason_of(s->db, reason, capacity);
    if (!sqlite3_get_autocommit(s->db)) execute(s, "ROLLBACK");
    return ok;
}

typedef enum { INDEX_GOOD, INDEX_NOT_OURS, INDEX_UNAVAILABLE } verdict;

static int damaged(const store *s)
{
    return sqlite3_errcode(s->db) == SQLITE_CORRUPT || sqlite3_errcode(s->db) == SQLITE_NOTADB;
}

typedef struct {
    int64_t application, version, tables;
    int ours, damaged;
    char reason[256]; /* when one of the numbers is negative */
} looks;

/* In one transaction: read one by one, they could be from before and after another process made the tables. */
static looks look_at(store *s)
{
    looks l = {0};
    execute(s, "BEGIN");
    l.application = pragma(s, "PRAGMA application_id");
    if (l.application >= 0) l.version = pragma(s, "PRAGMA user_version");
    if (l.application >= 0 && l.version >= 0) l.tables = pragma(s, "SELECT count(*) FROM sqlite_schema");
    if (l.application < 0 || l.version < 0 || l.tables < 0) {
        l.damaged = damaged(s);
        reason_of(s->db, l.reason, sizeof l.reason);
    }
    l.ours = l.tables > 0 && schema_is_ours(s);
    if (!sqlite3_get_autocommit(s->db)) execute(s, "ROLLBACK");
    return l;
}

/* *why: what is wrong with an index that is not ours; reason: why one cannot be had. */
static verdict look_over(store *s, int hot, const char **why, char *reason, size_t capacity)
{
    looks l = look_at(s);
    if (l.application == 0 && l.version == 0 && l.tables == 0) {
        snprintf(reason, capacity, "it is empty, and the folder may not be written to");
        if (s->read_only) return INDEX_UNAVAILABLE;
        if (!create(s, reason, capacity)) return INDEX_UNAVAILABLE;
        l = look_at(s);
    }
    *why = "is damaged or no index";
    snprintf(reason, capacity, "%s", l.reason);
    if (l.application < 0 || l.version < 0 || l.tables < 0) return l.damaged ? INDEX_NOT_OURS : INDEX_UNAVAILABLE;
    *why = l.application != APPLICATION ? "belongs to another application"
           : l.version > VERSION        ? "was written by a newer kiln"
           : l.version < VERSION        ? "was written by an older kiln"
                                        : "has other tables than ours";
    if (l.application != APPLICATION || l.version != VERSION || !l.ours) return INDEX_NOT_OURS;
    /* After a crash in the middle of a commit SQLite has just rolled back: worth a look. */
    *why = "is damaged";
    if (!hot) return INDEX_GOOD;
    int64_t faults = pragma(s, "SELECT count(*) FROM pragma_quick_check(1) WHERE quick_check<>'ok'");
    if (faults < 0) reason_of(s->db, reason, capacity);
    return faults == 0 ? INDEX_GOOD : faults > 0 || damaged(s) ? INDEX_NOT_OURS : INDEX_UNAVAILABLE;
}

static void move_aside(store *s, const char *why)
{
    char from[STORE_PATH_MAX], to[STORE_PATH_MAX + 32];
    int n = 1;
    struct stat st;
    index_path(s, "", from);
    if (lstat(from, &st) != 0 || st.st_dev != s->index_device || st.st_ino != s->index_inode)
        return; /* somebody was faster */
    for (; n < ASIDE_MAX; n++) {
        snprintf(to, sizeof to, "%s.aside-%d", from, n);
        if (lstat(to, &st) != 0) break;
    }
    if (rename(from, to) != 0) {
        log_warn("%s %s and could not be moved aside: %s", from, why, strerror(errno));
        return;
    }
    static const char *const suffix[] = {"-journal", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof suffix / sizeof suffix[0]; i++) {
        char side[STORE_PATH_MAX], side_to[STORE_PATH_MAX + 64];
        index_path(s, suffix[i], side);
        snprintf(side_to, sizeof side_to, "%s%s", to, suffix[i]);
        rename(side, side_to);
    }
    log_warn("%s %s: it was moved to %s and a new one is begun", from, why, strrchr(to, '/') + 1);
}

/* Private from its first byte on. An index that is there is not opened here: closing it would free SQLite's locks. */
static void begin_file(const store *s, const char *path)
{
    int fd = s->read_only ? -1 : open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0) close(fd);
}

/* SQLite opens whatever lies there, and would wait for the other end of a FIFO. */
static int files_are_files(const store *s, const char **why)
{
    static const struct {
        const char *suffix, *why;
    } row[] = {
        {"", "is no file"},
        {"-journal", "has something else than a file for a journal"},
        {"-wal", "has something else than a file for a log"},
        {"-shm", "has something else than a file for its log's index"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char path[STORE_PATH_MAX];
        index_path(s, row[i].suffix, path);
        *why = row[i].why;
        if (path_kind(path)) return 0;
    }
    return 1;
}

static int connect(store *s, int *hot, const char **why)
{
    char path[STORE_PATH_MAX], journal[STORE_PATH_MAX];
    struct stat st;
    *hot = 0;
    index_path(s, "", path);
    index_path(s, "-journal", journal);
    begin_file(s, path);
    if (lstat(path, &st) == 0) s->index_device = st.st_dev, s->index_inode = st.st_ino;
    if (!files_are_files(s, why)) return SQLITE_NOTADB;
    *why = "is damaged or no index";
    *hot = lstat(journal, &st) == 0 && st.st_size > 0;
    int flags = s->read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    int got = sqlite3_open_v2(path, &s->db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL);
    if (got == SQLITE_OK) harden(s);
    return got;
}

static void disconnect(store *s)
{
    for (int i = 0; i < SQL_COUNT; i++) {
        sqlite3_finalize(s->statement[i]);
        s->statement[i] = NULL;
    }
    sqlite3_close_v2(s->db); /* a statement of store_gc.c may still be about */
    s->db = NULL;
}

static verdict try_open(store *s, const char **why, char *reason, size_t capacity)
{
    char suspect[STORE_PATH_MAX];
    int hot, got = connect(s, &hot, why);
    index_path(s, "-suspect", suspect);
    int suspected = access(suspect, F_OK) == 0;
    snprintf(reason, capacity, "out of memory");
    if (s->db) reason_of(s->db, reason, capacity);
    verdict v = got == SQLITE_OK                                ? look_over(s, hot || suspected, why, reason, capacity)
                : got == SQLITE_NOTADB || got == SQLITE_CORRUPT ? INDEX_NOT_OURS
                                                                : INDEX_UNAVAILABLE;
    if (v == INDEX_GOOD && suspected && !s->read_only) unlink(suspect);
    if (v == INDEX_GOOD) return v;
    disconnect(s);
    return v;
}

static void open_counter(store *s)
{
    char path[STORE_PATH_MAX];
    index_path(s, "", path);
    if (!s->read_only && !index_wal_is_safe(sqlite3_libversion_number()))
        s->index_fd = open_below(path, O_RDONLY, NULL, NULL);
}

/* Only who holds the house moves an index aside, after a second look: another process may have done it in between. */
kiln_status index_open(store *s, error *e)
{
    char path[STORE_PATH_MAX], reason[256];
    const char *why = NULL;
    index_path(s, "", path);
    verdict v = try_open(s, &why, reason, sizeof reason);
    if (v == INDEX_NOT_OURS && !s->read_only) {
        int house = claims_house(s, STORE_BUSY_MS);
        v = try_open(s, &why, reason, sizeof reason);
        if (v == INDEX_NOT_OURS && house) {
            move_aside(s, why);
            v = try_open(s, &why, reason, sizeof reason);
        }
        if (house) claims_house_free(s);
    }
    if (v == INDEX_NOT_OURS)
        return error_set(e, KILN_ERR_IO, "the cache's index %s %s; move it away, or give another folder with --cache",
                         path, why);
    if (v == INDEX_UNAVAILABLE)
        return error_set(e, KILN_ERR_IO,
                         "the cache's index %s cannot be opened: %s; give another folder with --cache, or --no-cache",
                         path, reason);
    set_journal(s);
    open_counter(s);
    return KILN_OK;
}

/* Our own descriptor is closed after SQLite's: closing any takes a process's locks on the file away. */
void index_close(store *s)
{
    disconnect(s);
    if (s->index_fd >= 0) close(s->index_fd);
    s->index_fd = -1;
}

uint32_t index_changes(const store *s)
{
    unsigned char c[4];
    if (s->index_fd < 0 || pread(s->index_fd, c, sizeof c, 24) != (ssize_t)sizeof c) return 0;
    return (uint32_t)c[0] << 24 | (uint32_t)c[1] << 16 | (uint32_t)c[2] << 8 | c[3];
}

int index_unchanged(store *s)
{
    pthread_mutex_lock(&s->lock);
    int same = s->seen != 0 && index_changes(s) == s->seen;
    pthread_mutex_unlock(&s->lock);
    return same;
}

/* ---- statements ---- */

sqlite3_stmt *index_statement(store *s, store_statement which)
{
    if (!s->db) return NULL;
    if (!s->statement[which] && sqlite3_prepare_v3(s->db, text_of[which], -1, SQLITE_PREPARE_PERSISTENT,
                                                   &s->statement[which], NULL) != SQLITE_OK)
        return NULL;
    sqlite3_reset(s->statement[which]);
    sqlite3_clear_bindings(s->statement[which]);
    return s->statement[which];
}

/* Not copied: a copy can fail for want of memory, and the statement would then run with NULL. */
void index_bind_digest(sqlite3_stmt *st, int column, const digest *d)
{
    sqlite3_bind_blob(st, column, d, sizeof *d, SQLITE_STATIC);
}

digest index_digest(sqlite3_stmt *st, int column)
{
    digest d = {0};
    const void *bytes = sqlite3_column_blob(st, column);
    if (bytes && sqlite3_column_bytes(st, column) == (int)sizeof d) memcpy(&d, bytes, sizeof d);
    return d;
}

/* SQLite says "malformed" of a disk that could not be read once, too: the next who opens the index decides, with a
 * whole check. */
static void mark_suspect(const store *s)
{
    char path[STORE_PATH_MAX];
    index_path(s, "-suspect", path);
    int fd = s->read_only ? -1 : open_below(path, O_WRONLY | O_CREAT, NULL, NULL);
    if (fd >= 0) close(fd);
}

kiln_status index_failed(store *s, const char *doing, error *e)
{
    assert(mutex_held(&s->lock));
    if (!s->db) return error_set(e, KILN_ERR_IO, "the cache %s was given up", s->folder);
    char reason[256];
    int code = sqlite3_errcode(s->db);
    reason_of(s->db, reason, sizeof reason);
    error_set(e, code == SQLITE_NOMEM ? KILN_ERR_NOMEM : KILN_ERR_IO, "the cache %s: %s: %s", s->folder, doing, reason);
    if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
        log_warn("the cache's index in %s seems damaged (%s): nothing more is taken from it, and it is looked over "
                 "when it is opened next",
                 s->folder, reason);
        disconnect(s);
        mark_suspect(s);
    }
    return code == SQLITE_NOMEM ? KILN_ERR_NOMEM : KILN_ERR_IO;
}

static kiln_status run_statement(store *s, store_statement which, const char *doing, error *e)
{
    sqlite3_stmt *st = index_statement(s, which);
    if (!st || sqlite3_step(st) != SQLITE_DONE) return index_failed(s, doing, e);
    sqlite3_reset(st);
    return KILN_OK;
}

kiln_status index_begin(store *s, error *e) { return run_statement(s, SQL_BEGIN, "waiting for other processes", e); }
kiln_status index_commit(store *s, error *e)
{
    assert(mutex_held(&s->lock));
    kiln_status status = run_statement(s, SQL_COMMIT, "committing", e);
    if (status != KILN_OK) index_rollback(s);
    return status;
}

void index_rollback(store *s)
{
    assert(mutex_held(&s->lock));
    sqlite3_stmt *st = s->db && !sqlite3_get_autocommit(s->db) ? index_statement(s, SQL_ROLLBACK) : NULL;
    if (st) sqlite3_step(st), sqlite3_reset(st);
}
