/* store.h - results that outlive the process: key -> values, many processes, one folder.
 *
 *     FOLDER/index.sqlite    entries, small values, remembered file digests (store_index.c: the schema, its version)
 *     FOLDER/values/ab/...   larger values, named by the digest of their bytes; equal content is stored once
 *     FOLDER/claims          a file of byte-range locks: which process computes which key
 *     FOLDER/states/...      resumable states of unfinished calls, by key
 *
 * An entry is complete or absent: the value's file is written, synced and renamed before its row is committed. Rows are
 * committed in batches (store_flush; by itself when enough work would be lost), so that a power cut costs the last
 * second at most. Whatever is wrong with the store costs time, never a run: functions that find return "not
 * there", functions that put return a status the caller may log. Every function may be called from any thread.
 *
 * Layer: base, tensor. Depends on neither workflows nor plugins.
 */
#ifndef KILN_CACHE_STORE_H
#define KILN_CACHE_STORE_H

#include "base/hash.h"
#include "base/status.h"
#include "cache/codec.h"

typedef struct store store;

typedef struct {
    const char *folder;       /* NULL: store_default_folder()                                  */
    uint64_t limit;           /* bytes of values kept at most; 0 = 10 GB                       */
    const codec_types *types; /* how objects become plain data; may be NULL                    */
    int read_only;            /* find and get, put nothing (also when the folder cannot be written to) */
    int short_lived; /* the folder goes with the run: it outlives a process, not the machine, so nothing is synced */
    int must_exist;  /* KILN_ERR_INVALID when there is none yet (`kiln cache ls`)      */
} store_setting;

/* KILN_CACHE, else $XDG_CACHE_HOME/kiln, else ~/.cache/kiln; NULL when there is none of them. */
const char *store_default_folder(char *path, size_t capacity);
/* 1: the word "off" stands where a folder would: `folder` or, where that is NULL, KILN_CACHE. Nothing is kept then. */
int store_folder_is_off(const char *folder);
/* The name of a file system on which a store would not be safe ("NFS"), by statfs's f_type; NULL: none of those. */
const char *store_network_file_system(long type);
/* Opens or makes it. A foreign, damaged or newer index is moved aside (index.sqlite.aside-N) with one warning. A folder
 * on a network file system is KILN_ERR_UNSUPPORTED with the remedy; any other failure says what to do. NULL then. */
store *store_open(const store_setting *setting, error *e);
void store_close(store *s); /* flushes; NULL is allowed */
const char *store_folder(const store *s);

/* What is known of an entry without reading its values. */
typedef struct {
    digest key;
    uint32_t n_value;
    uint64_t bytes;    /* of all values, encoded                     */
    double seconds;    /* what computing it took                     */
    double used, made; /* unix time                                  */
    char type[129];    /* node type, for people                      */
    char what[65];     /* "LATENT 1x64x64x4", for people             */
} store_entry;

/* Index only, no value is read. 1: there. */
int store_find(store *s, digest key, store_entry *out); /* out may be NULL */
/* The same for many keys at once (graphs of 10,000 nodes): found[i] = 1 when keys[i] is there. */
void store_find_many(store *s, const digest *keys, size_t n, uint8_t *found);
/* Reads and verifies. out[n]: references for the caller. KILN_OK; KILN_ERR_INVALID: not there (or n differs);
 * KILN_ERR_IO: it was damaged or has vanished; it has been reported once and removed, and the caller computes it;
 * KILN_ERR_NOMEM: no memory or descriptors, nothing was removed. */
kiln_status store_get(store *s, digest key, uint32_t n, kiln_value **out, error *e);
/* Stores values. KILN_ERR_UNSUPPORTED when one of them is no plain data (nothing was stored, nothing is wrong);
 * KILN_ERR_IO, KILN_ERR_NOMEM: could not be kept (disk full, ...). An entry that is there already stays. */
typedef struct {
    const char *type, *what; /* for people; what may be NULL: made from the values */
    double seconds;          /* what computing it took: its value when space runs out */
} store_note;
kiln_status store_put(store *s, digest key, const store_note *note, uint32_t n, kiln_value *const *values, error *e);
/* Commits what has been put. */
kiln_status store_flush(store *s, error *e);

/* ---- at most one computation of a key among all processes ---- */

typedef struct store_claim store_claim;
typedef enum {
    STORE_MINE,     /* compute it, then store_release; others wait meanwhile                       */
    STORE_IS_THERE, /* another process finished it while we waited: store_get                      */
    STORE_STOPPED,  /* cancelled() said so                                                          */
    STORE_UNCLAIMED /* claims cannot be made here (read-only, out of descriptors): compute it anyway */
} store_turn;
/* Waits while another process computes `key`; takes over when that process dies or gives up. `cancelled` (may be NULL)
 * is asked every 50 ms at least. `waiting` (may be NULL) is called once when there is somebody to wait for. */
store_turn store_claim_key(store *s, digest key, int (*cancelled)(void *), void (*waiting)(void *), void *arg,
                           store_claim **claim);
/* The same for a key that was not there at the last store_find_many: saves a look when nobody has written since. */
store_turn store_claim_unseen(store *s, digest key, int (*cancelled)(void *), void (*waiting)(void *), void *arg,
                              store_claim **claim);
void store_release(store_claim *claim); /* NULL is allowed */

/* ---- states of unfinished calls ---- */

kiln_status store_state_put(store *s, digest key, const kiln_value *state, error *e); /* replaces */
kiln_value *store_state_get(store *s, digest key); /* verified; NULL: none (a damaged one is removed) */
void store_state_drop(store *s, digest key);

/* ---- digests of files, remembered across processes ---- */

/* Files whose times are younger than two seconds when reading began are not remembered: a later write could leave them
 * as they are. Installs the store as the memory behind file_digest() (base/file.h: file_digest_memory); undone by
 * store_close. */
void store_remember_digests(store *s);

/* ---- housekeeping (`kiln cache`) ---- */

typedef struct {
    uint64_t entries, values, bytes, limit; /* bytes: in the folder, values counted once */
    uint64_t states, state_bytes, orphans, orphan_bytes, remembered_files;
    char journal[16]; /* "wal", "truncate": see store_index.c for the choice */
    char sqlite[16];
} store_totals;
kiln_status store_total(store *s, store_totals *out, error *e);

typedef enum { STORE_BY_USE, STORE_BY_SIZE, STORE_BY_TIME } store_order; /* newest, biggest, most seconds first */
/* Calls fn for each entry until it returns nonzero. type (may be NULL) filters. */
kiln_status store_each(store *s, store_order order, const char *type, int (*fn)(void *arg, const store_entry *),
                       void *arg, error *e);

typedef struct {
    uint64_t entries, bytes; /* what was removed */
    uint64_t orphans, orphan_bytes;
    uint64_t checked, damaged;
} store_report;
/* Evicts down to `limit` bytes (0: the setting's) by value: least recompute seconds per byte, aged by disuse, go
 * first; sweeps files no row names, and states and indices moved aside that are older than a week.
 * What this process put or got goes last, and only when nothing else is left to keep the limit. The formula:
 * store_gc.c. */
kiln_status store_gc(store *s, uint64_t limit, store_report *out, error *e);
/* Reads every value and compares its digest, decodes none (so types that are not loaded are no damage); damaged ones
 * are removed and counted (a read-only store: counted). */
kiln_status store_verify(store *s, store_report *out, void (*bad)(void *arg, const store_entry *, const char *why),
                         void *arg, error *e);
/* Removes every entry, value and state (type != NULL: entries of that type). */
kiln_status store_clear(store *s, const char *type, store_report *out, error *e);

#endif
