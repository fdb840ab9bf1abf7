/* store_claims.c - which process computes which key; see store_claims.h.
 *
 * A claim is a lock on one byte of FOLDER/claims, claims.1, ..., at a place made from the key (fcntl's
 * open-file-description locks): it goes when the process dies, however it dies. Two keys with the same byte
 * only make a process wait without need. Locks of one open file do not exclude each other, so inside the process a
 * table of claims does. There are several files because the system walks through all locks of a file for each one more,
 * and a run of small nodes has thousands until they are committed; they are opened when first needed, and where one
 * cannot be opened its keys are computed without a claim.
 */
#include "cache/open_store.h"

#include "base/descriptors.h"
#include "base/lock.h"
#include "base/clock.h"
#include "base/memory_alloc.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define HOUSE_PLACE INT64_C(0x7ffffffffffffffe)
enum { POLL_MS = 10 };

static int64_t place_of(digest key) { return (int64_t)(key.lo & UINT64_C(0x3fffffffffffffff)); }

/* 1: done, 0: somebody else has it, -1: locks cannot be had here. */
static int set_lock(int fd, int64_t place, short type)
{
    struct flock l = {.l_type = type, .l_whence = SEEK_SET, .l_start = place, .l_len = 1};
    while (fcntl(fd, F_OFD_SETLK, &l) != 0) {
        if (errno == EINTR) continue;
        return errno == EAGAIN || errno == EACCES ? 0 : -1;
    }
    return 1;
}

static void nap(void)
{
    struct timespec t = {.tv_nsec = POLL_MS * 1000000L};
    nanosleep(&t, NULL);
}

static int open_file(store *s, int file, error *e)
{
    char path[STORE_PATH_MAX];
    if (file)
        snprintf(path, STORE_PATH_MAX, "%s/claims.%d", s->folder, file);
    else
        snprintf(path, STORE_PATH_MAX, "%s/claims", s->folder);
    s->claims_fd[file] = open_below(path, O_RDWR | (s->read_only ? 0 : O_CREAT), NULL, e);
    descriptors_rely_on(s->claims_fd[file]);
    return s->claims_fd[file];
}

kiln_status claims_open(store *s, error *e)
{
    error why = {0};
    if (open_file(s, 0, &why) >= 0 || s->read_only) return KILN_OK;
    return error_set(e, KILN_ERR_IO,
                     "the cache's locks cannot be had: %s; move it away, or give another folder with --cache",
                     why.message);
}

/* Of a process that may open few files these are not the ones to spend them on. */
static int may_open_many(void)
{
    struct rlimit r;
    return getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur >= 8 * CLAIM_FILES;
}

/* The file of a key; -1: it cannot be had. Lock held. */
static int file_of(store *s, digest key)
{
    assert(mutex_held(&s->lock));
    int file = (int)(key.hi >> 32 & (CLAIM_FILES - 1));
    if (file && s->claims_fd[file] < 0 && !may_open_many()) return -1;
    return s->claims_fd[file] >= 0 || s->read_only ? s->claims_fd[file] : open_file(s, file, NULL);
}

int claims_house(store *s, int milliseconds)
{
    double until = clock_seconds() + milliseconds * 1e-3;
    for (;;) {
        int got = s->claims_fd[0] < 0 ? -1 : set_lock(s->claims_fd[0], HOUSE_PLACE, F_WRLCK);
        if (got != 0) return got > 0;
        if (clock_seconds() >= until) return 0;
        nap();
    }
}

void claims_house_free(store *s) { set_lock(s->claims_fd[0], HOUSE_PLACE, F_UNLCK); }

static store_claim **bucket_of(store *s, digest key) { return &s->claim[key.lo % CLAIM_BUCKETS]; }

static store_claim *claimed_here(store *s, digest key)
{
    assert(mutex_held(&s->lock));
    store_claim *c = *bucket_of(s, key);
    while (c && !digest_equal(c->key, key)) c = c->next;
    return c;
}

static void let_go(store *s, store_claim *claim)
{
    assert(mutex_held(&s->lock));
    store_claim **link = bucket_of(s, claim->key);
    while (*link && *link != claim) link = &(*link)->next;
    if (*link) *link = claim->next;
    if (claim->locked) set_lock(file_of(s, claim->key), place_of(claim->key), F_UNLCK);
    mem_free(claim);
}

void claims_settled(store *s)
{
    assert(mutex_held(&s->lock));
    for (size_t i = 0; i < CLAIM_BUCKETS; i++)
        for (store_claim *c = s->claim[i], *next; c; c = next) {
            next = c->next;
            if (c->deferred) let_go(s, c);
        }
}

void claims_close(store *s)
{
    for (size_t i = 0; i < CLAIM_BUCKETS; i++)
        while (s->claim[i]) let_go(s, s->claim[i]);
    for (size_t i = 0; i < CLAIM_FILES; i++)
        if (s->claims_fd[i] >= 0) descriptors_let_go(s->claims_fd[i]), close(s->claims_fd[i]);
}

/* Lock held. STORE_STOPPED here means: not yet, try again. */
static store_turn try_claim(store *s, digest key, store_claim **out)
{
    assert(mutex_held(&s->lock));
    if (queue_find(s, key)) return STORE_IS_THERE;
    if (s->read_only || !s->db) return STORE_UNCLAIMED;
    if (claimed_here(s, key)) return STORE_STOPPED;
    int file = file_of(s, key), got = file < 0 ? -1 : set_lock(file, place_of(key), F_WRLCK);
    if (got == 0) return STORE_STOPPED;
    store_claim *c = got > 0 ? mem_calloc(1, sizeof *c) : NULL;
    if (!c) {
        if (got > 0) set_lock(file, place_of(key), F_UNLCK);
        return STORE_UNCLAIMED;
    }
    store_claim **bucket = bucket_of(s, key);
    *c = (store_claim){.next = *bucket, .store = s, .key = key, .locked = 1};
    *bucket = c;
    *out = c;
    return STORE_MINE;
}

static store_turn wait_for_claim(store *s, digest key, int unseen, int (*cancelled)(void *), void (*waiting)(void *),
                                 void *arg, store_claim **claim)
{
    int waited = 0;
    *claim = NULL;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        store_turn turn = try_claim(s, key, claim);
        pthread_mutex_unlock(&s->lock);
        /* Who had it may have finished between the first look and our turn; not when the index is as it was then. */
        if (turn == STORE_MINE && !(unseen && index_unchanged(s)) && store_find(s, key, NULL)) {
            store_release(*claim);
            *claim = NULL;
            return STORE_IS_THERE;
        }
        if (turn != STORE_STOPPED) return turn;
        if (cancelled && cancelled(arg)) return STORE_STOPPED;
        if (!waited++ && waiting) waiting(arg);
        nap();
    }
}

store_turn store_claim_key(store *s, digest key, int (*cancelled)(void *), void (*waiting)(void *), void *arg,
                           store_claim **claim)
{
    return wait_for_claim(s, key, 0, cancelled, waiting, arg, claim);
}

store_turn store_claim_unseen(store *s, digest key, int (*cancelled)(void *), void (*waiting)(void *), void *arg,
                              store_claim **claim)
{
    return wait_for_claim(s, key, 1, cancelled, waiting, arg, claim);
}

void store_release(store_claim *claim)
{
    if (!claim) return;
    store *s = claim->store;
    pthread_mutex_lock(&s->lock);
    if (queue_find(s, claim->key))
        claim->deferred = 1;
    else
        let_go(s, claim);
    pthread_mutex_unlock(&s->lock);
}
