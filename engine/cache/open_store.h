/* open_store.h - the inside of an open store, for store*.c:
 *
 *     store.c         opening, finding, getting, putting: the functions of store.h
 *     store_index.c   the SQLite file: schema, settings, statements, what to do with one that is not ours
 *     store_queue.c   what has been put and is not committed yet; the thread that commits it
 *     store_paths.c   how anything below the folder is opened
 *     store_values.c  values as files, and inline bytes back to values
 *     store_claims.c  which process computes what
 *     store_states.c  states of unfinished calls
 *     store_files.c   remembered digests of files
 *     store_gc.c      eviction, sweeping, verifying, clearing
 *
 * Locks. `lock` guards the connection and everything below it in the struct. Files are written and read without it.
 */
#ifndef KILN_CACHE_OPEN_STORE_H
#define KILN_CACHE_OPEN_STORE_H

#include "cache/key_set.h"
#include "cache/store_claims.h"
#include "cache/store_files.h"
#include "cache/store_gc.h"
#include "cache/store_index.h"
#include "cache/store_queue.h"
#include "cache/store_values.h"

#include <pthread.h>

enum { STORE_VALUES_MAX = 4096 }; /* of one result; a node has 256 outputs at most */
#define STORE_LIMIT_DEFAULT 10000000000ull

struct store {
    char folder[STORE_FOLDER_MAX];
    uint64_t limit;
    const codec_types *types;
    pthread_mutex_t lock;
    sqlite3 *db; /* NULL: given up (damaged, deleted) */
    sqlite3_stmt *statement[SQL_COUNT];
    int read_only, short_lived, warned_damage, warned_write;
    double opened;
    uint64_t index_device, index_inode;   /* the file that is open, so that no other is moved aside */
    uint64_t relied_device, relied_inode; /* the same once it is open for good (descriptors_rely_on_file) */
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

/* store_get without making values of the bytes: types that are not loaded are no damage. */
kiln_status store_check(store *s, digest key, uint32_t n, error *e);

#endif
