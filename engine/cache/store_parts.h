/* store_parts.h - the store's inside, shared by store*.c and nobody else.
 *
 *     store.c         opening, finding, getting, putting: the functions of store.h
 *     store_index.c   the SQLite file: schema, settings, statements, what to do with one that is not ours
 *     store_queue.c   what has been put and is not committed yet; the thread that commits it
 *     store_paths.c   how anything below the folder is opened
 *     store_values.c  values as files, and inline bytes back to values
 *     store_claims.c  who computes what
 *     store_states.c  states of unfinished calls
 *     store_files.c   remembered digests of files
 *     store_gc.c      eviction, sweeping, verifying, clearing
 *
 * One lock guards the connection and the queue. Files are written and read outside of it.
 */
#ifndef KILN_CACHE_STORE_PARTS_H
#define KILN_CACHE_STORE_PARTS_H

#include "base/file.h"
#include "cache/store.h"

#include <dirent.h>
#include <pthread.h>
#include <sqlite3.h>

enum {
    STORE_INLINE_MAX = 64 << 10, /* larger values become files: SQLite is the slower of the two from about 100 KB on */
    STORE_BUSY_MS = 5000,        /* nobody waits longer for another process's lock */
    STORE_VALUES_MAX = 4096,     /* of one result; a node has 256 outputs at most */
    STORE_FOLDER_MAX = 3800,
    STORE_PATH_MAX = 4096
};
#define STORE_LIMIT_DEFAULT 10000000000ull

typedef enum {
    SQL_FIND,
    SQL_IS_THERE,
    SQL_PARTS,
    SQL_ENTRY,
    SQL_PART,
    SQL_CONTENT,
    SQL_TOUCH,
    SQL_FILE_FIND,
    SQL_FILE_ADD,
    SQL_DROP_BY_CONTENT,
    SQL_DROP_PARTS_OF_CONTENT,
    SQL_DROP_CONTENT,
    SQL_DROP_ENTRY,
    SQL_DROP_PARTS,
    SQL_BYTES,
    SQL_BEGIN,
    SQL_BEGIN_READING,
    SQL_COMMIT,
    SQL_ROLLBACK,
    SQL_COUNT
} store_statement;

/* One encoded value: its bytes, or a file of them in values/. */
typedef struct {
    digest content;
    uint64_t size;
    unsigned char *inline_bytes; /* NULL: a file; owned by the queue entry */
} stored_value;

typedef struct {
    store_entry about;
    stored_value *value; /* [about.n_value] */
    double since;        /* monotonic       */
} queued;

/* A set of keys: open addressing, never shrinks. */
typedef struct {
    digest *key;
    uint32_t *tag; /* what goes with the key + 1; 0: free place */
    size_t n, capacity;
} key_set;

typedef struct {
    file_identity file;
    digest content;
    char *path;
} queued_file;

enum { CLAIM_FILES = 16, CLAIM_BUCKETS = 256 };

struct store_claim {
    store_claim *next;
    store *store;
    digest key;
    int deferred; /* given back, but held until what was put is committed */
    int locked;   /* other processes see it                               */
};

struct store {
    char folder[STORE_FOLDER_MAX];
    uint64_t limit;
    const codec_types *types;
    pthread_mutex_t lock;
    sqlite3 *db; /* NULL: given up (damaged, deleted) */
    sqlite3_stmt *statement[SQL_COUNT];
    int read_only, warned_damage, warned_write;
    double opened;
    uint64_t index_device, index_inode; /* the file that is open, so that no other is moved aside */
    /* queue */
    queued *queue;
    size_t n_queue, queue_capacity;
    uint64_t queue_bytes;
    double queue_seconds, queue_since;
    key_set queued_keys, mine; /* mine: put or got by this process: evicted last */
    digest *touched;
    size_t n_touched, touched_capacity;
    queued_file *file;
    size_t n_file, file_capacity;
    /* the committing thread */
    pthread_t flusher;
    pthread_cond_t wake;
    int flusher_runs, closing;
    /* claims */
    int claims_fd[CLAIM_FILES];        /* -1: not open */
    int index_fd;                      /* of our own, to read the index's change counter without a lock; -1: none */
    uint32_t seen;                     /* that counter at the last store_find_many, our own commits added; 0: none   */
    store_claim *claim[CLAIM_BUCKETS]; /* held by this process */
    int remembers_files;
    uint32_t next_temp;
};

double store_clock(void); /* monotonic seconds */
double store_time(void);  /* unix seconds      */

/* ---- store_index.c ---- */
kiln_status index_open(store *s, error *e);
void index_close(store *s);
/* WAL where SQLite has it mended, else a rollback journal (see the table there). */
int index_wal_is_safe(int version);
sqlite3_stmt *index_statement(store *s, store_statement which); /* reset and unbound; NULL: failed */
void index_bind_digest(sqlite3_stmt *st, int column,
                       const digest *d); /* *d has to stay until the statement was stepped */
digest index_digest(sqlite3_stmt *st, int column);
/* Records a failed call: a damaged index is moved aside and given up. Returns the status and writes a message. */
kiln_status index_failed(store *s, const char *doing, error *e);
/* SQLite's count of changes to the file (sqlite.org/fileformat.html, offset 24); 0: not known (write-ahead log, no
 * descriptor). */
uint32_t index_changes(const store *s);
/* 1: nobody but us has committed since the last store_find_many. */
int index_unchanged(store *s);
kiln_status index_begin(store *s, error *e);
kiln_status index_commit(store *s, error *e);
void index_rollback(store *s);

/* ---- store.c ---- */
/* store_get without making values of the bytes: types that are not loaded are no damage. */
kiln_status store_check(store *s, digest key, uint32_t n, error *e);

/* ---- store_queue.c ---- (all with the lock held) */
const queued *queue_find(const store *s, digest key);
kiln_status queue_add(store *s, queued *q, error *e); /* takes what q owns, also on failure */
kiln_status queue_flush(store *s, error *e);
void queue_free(store *s);
void queue_start_flusher(store *s);
void queue_stop_flusher(store *s); /* without the lock */
digest queue_seal(digest key, const stored_value *part,
                  uint32_t n); /* which values belong to the key, in which order */
void queue_touch(store *s, const store_entry *entry);
int key_set_add(key_set *set, digest key, uint32_t tag); /* 0: no memory; an older tag is replaced */
int key_set_find(const key_set *set, digest key, uint32_t *tag);
void key_set_clear(key_set *set);
void key_set_free(key_set *set);

/* ---- store_values.c ---- (without the lock) */
kiln_status value_write(store *s, const kiln_value *v, stored_value *out, error *e);
kiln_status value_read_inline(store *s, const unsigned char *bytes, uint64_t size, digest content, kiln_value **out,
                              error *e);
kiln_status value_read_file(store *s, digest content, uint64_t size, kiln_value **out, error *e);
/* Reads it all and compares, decodes nothing. */
kiln_status value_check_file(store *s, digest content, uint64_t size, error *e);
void value_path(const store *s, digest content, char path[STORE_PATH_MAX]);
/* FOLDER/values/tmp/PID-N opened for writing; -1 with a message. */
int temp_open(store *s, char path[STORE_PATH_MAX], error *e);
kiln_status write_fully(int fd, const void *bytes, size_t n, const char *path, error *e);
/* fsync, rename, fsync of the folder. */
kiln_status file_settle(int fd, const char *from, const char *to, error *e);

/* ---- store_paths.c ---- */
/* open() of a regular file, without waiting and without following a link; -1 with a message, and in *why (may be NULL)
 * errno, ELOOP for whatever is no regular file. */
int open_below(const char *path, int flags, int *why, error *e);
DIR *open_folder_below(const char *path); /* NULL: none, or a link */
/* "a FIFO": what is there and is no regular file; NULL: a file, or nothing. */
const char *path_kind(const char *path);
kiln_status folder_private(const char *path, error *e); /* mkdir 0700 unless it is there */
kiln_status folder_sync(const char *path, error *e);

/* ---- store_claims.c ---- */
kiln_status claims_open(store *s, error *e);
void claims_close(store *s);
void claims_settled(store *s); /* lock held: what was deferred is free now */
/* A lock for housekeeping, one process at a time: 1 when taken, within so many milliseconds. */
int claims_house(store *s, int milliseconds);
void claims_house_free(store *s);

/* ---- store_files.c ---- (the first two without the lock: file_memory's) */
int store_file_find(void *self, const file_identity *f, digest *out);
void store_file_add(void *self, const char *path, const file_identity *f, digest content, int64_t began_ns);
kiln_status files_flush(store *s, error *e);
void files_free(store *s);

/* ---- store_gc.c ---- */
kiln_status gc_drop_entry(store *s, digest key, error *e); /* lock held: one whose rows do not fit together */
void gc_drop_unnamed_file(store *s, digest content);       /* lock held: unless a row or the queue names it */
void gc_sweep_temporary(store *s);                         /* what dead processes left in values/tmp */
kiln_status gc_drop_content(store *s, digest content,
                            error *e); /* lock held: a damaged value and the entries that name it */
void gc_after_commit(store *s);        /* lock held: keeps the limit */

#endif
