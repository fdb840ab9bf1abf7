/* residency_parts.h - what residency.c (weights and their memory), pass.c (programs while they run) and prefetch.c (the
 * one after) share. */
#ifndef KILN_MEMORY_RESIDENCY_PARTS_H
#define KILN_MEMORY_RESIDENCY_PARTS_H

#include "base/hash.h"
#include "memory/residency.h"

#include <pthread.h>

enum { BUCKETS = 4096, STAGES = 2, CHECKPOINTS = 7 };

struct resident {
    resident *next;
    residency *owner;
    digest key;
    void *data;             /* the device's, or NULL */
    void *host;             /* page-locked and packed, or NULL; asynchronous devices */
    size_t bytes, capacity; /* packed; and rounded up to the device's alignment */
    unsigned refs;
    uint64_t used;   /* clock of the last pass that wanted it */
    uint64_t wanted; /* how many programs from now somebody wants it again, as far as known; UINT64_MAX: never */
    const residency_pass *in;       /* the running pass that holds it in place */
    const residency_pass *kept_for; /* the pass that is being brought in wants it in place */
    uint64_t prefetch_batch; /* the batch its bytes came with ahead of use; above the owner's prefetch_seen: perhaps
                       they are still on their way */
    uint64_t victim;         /* the batch for which it is to make way */
};

/* Page-locked memory between a weight without a host copy and the device. */
typedef struct {
    void *data;
    size_t bytes;
    device_event *copied;
    int busy;
} stage;

struct residency_pass {
    residency *r;
    residency_pass *next;
    residency_demand d;
    weight_plan place;
    int placed;
    size_t limit;                 /* that the placement was made for; 0: none */
    uint64_t clock;               /* of its last run */
    unsigned streak;              /* runs of it in a row, the last time */
    const void **data;            /* [n_use] */
    size_t issued;                /* uses whose copies are under way: the next one */
    const uint8_t *skip;          /* [n_op] ops that do not run this time, or NULL */
    device_event **ready, **done; /* [n_op] made when first needed */
    uint8_t *arriving;            /* [n_op] ready was recorded in this run */
    /* the last of its runs in a row, when weights of it make way for the next program's while it is under way */
    uint32_t check_op[CHECKPOINTS]; /* ascending; check[i]: all ops up to check_op[i] are done */
    device_event *check[CHECKPOINTS];
    unsigned n_check, n_checked; /* wanted, and recorded so far in this run */
    unsigned guards;             /* it is used by another program's run: freeing it waits. Under r->lock */
};

/* Runs of a program in a row, as estimated. */
typedef struct {
    residency_pass *pass;
    unsigned runs;
} order_entry;

struct residency {
    residency_setting setting;
    memory_device *device;
    const device_table *call;
    budget *budget;
    pthread_mutex_t lock; /* the table of weights and what they hold */
    resident *bucket[BUCKETS];
    size_t bytes, peak, host_bytes;
    residency_traffic traffic;
    uint64_t clock;
    /* of the running program */
    residency_pass *running, *last;
    char *block, *ring;
    const residency_pass *block_user; /* whose run was the last in the block and went well; NULL: nobody's */
    size_t block_bytes, ring_bytes;
    uint64_t generation;
    size_t granted, refused; /* the device gave no more than `granted`: a limit until it has the `refused` bytes again;
                                0: no such */
    device_stream *compute, *copy;
    device_event *fork;
    stage stage[STAGES];
    unsigned next_stage;
    residency_pass *passes; /* all programs */
    /* the order programs come in, as estimated */
    order_entry *order;
    size_t n_order, order_capacity, at; /* at: of the running one */
    unsigned ran;                       /* runs of it in a row that have begun */
    /* what was brought in ahead: batches that began, whose end `arrived` stands for, that the compute stream waits for,
     * that have happened */
    uint64_t prefetch_batch, prefetch_recorded, prefetch_waited, prefetch_seen;
    device_event *arrived;
    char prefetch_name[64];
    pthread_cond_t unguarded;
};

/* Memory on the device, within the limit; asks others to go when there is none. */
kiln_status residency_alloc(residency *r, memory_kind kind, size_t bytes, const char *what, void **out, error *e);
void residency_drop(residency *r, memory_kind kind, size_t bytes, void *data);
/* Device memory for one weight's packed bytes. */
kiln_status resident_place(resident *x, const char *what, error *e);
/* Takes it out of the device's memory; its host copy stays. */
void resident_evict(resident *x);
/* Page-locked memory for it; 0: over the host limit or none to be had. */
int resident_host(resident *x);
void resident_unhost(resident *x);
/* 1: x should go rather than y: its next use is further away; where that is not known, it was used longer ago. */
int resident_goes_before(const resident *x, const resident *y);

/* pass.c. The limit as it is now, 0: none; bytes of activations and the like; the placement, made or found; bytes of
 * residents that are not there; a weight's copy on the copy stream, packed if need be, to dst. */
size_t pass_limit(residency *r);
size_t pass_block(const residency_pass *p);
kiln_status pass_find_placement(residency_pass *p, error *e);
size_t pass_missing(const residency_pass *p);
kiln_status pass_copy_weight(residency_pass *p, uint32_t w, void *dst, error *e);
kiln_status pass_pack_weight(residency_pass *p, uint32_t w, void *dst, error *e);
kiln_status pass_event(residency *r, device_event **event, error *e); /* makes it, the first time */

/* prefetch.c. With the lock held: where p's run stands in the order, and what that says of every weight's next use; p
 * is gone. */
void order_find(residency *r, const residency_pass *p);
void order_set_wanted(residency *r, size_t from);
void order_forget(residency *r, const residency_pass *p);
/* p's run has begun: is it the last in a row, what will the next program want? Never fails: then nothing comes ahead.
 */
void prefetch_begin(residency_pass *p);
/* After op: a checkpoint, where one is due. */
void prefetch_checkpoint(residency_pass *p, uint32_t op);
/* The compute stream waits for what was brought in. */
kiln_status prefetch_wait(residency *r, error *e);
/* All up to that batch is known to have happened; or is waited for, so that memory of it can be given back. */
void prefetch_seen(residency *r, uint64_t batch);
void prefetch_settle(residency *r, uint64_t batch);
static inline size_t residency_round(const residency *r, size_t bytes)
{
    return (bytes + r->call->alignment - 1) & ~(r->call->alignment - 1);
}

#endif
