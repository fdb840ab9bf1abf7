/* packed_weight.h - one weight in the form that a kernel reads, and where its bytes are: a state machine. For memory/.
 *
 *     packed_weight (one per identity, tensor and pack form; programs share it)
 *       state   where its bytes are: the diagram below
 *       data    its memory on the device       NULL in ABSENT and HOST
 *       host    its copy in page-locked memory NULL in ABSENT; kept from then on, in every state
 *       pins    who needs it in place          PIN_RUN: the running program; PIN_NEXT: the program being prefetched
 *       batch   the prefetch that sends it     0 but in COPYING
 *
 *                  packed (pass, prefetch: the host limit has room for a copy)
 *     intern  +--------+ ---------------------------------------------> +------+
 *     ------> | ABSENT |                                                | HOST |
 *             +--------+                                                +------+
 *               |    ^                                                    |  ^
 *        placed |    | failed, evicted (no host copy)              placed |  | failed, evicted (host copy)
 *               v    |                                                    v  |
 *             +----------------------------------------------------------------+
 *             | COPYING  memory on the device; its bytes are on their way      | <-- packed (a host copy beside it)
 *             +----------------------------------------------------------------+
 *               | arrived, no pin                         | arrived, pinned
 *               v                                         v
 *             +----------+      first pin               +--------+
 *             | RESIDENT | ---------------------------> | PINNED |
 *             |          | <--------------------------- |        |
 *             +----------+      last pin gone           +--------+
 *               | evicted                                 | evicted (prefetch alone: an own weight of the running
 *               v                                         v  program, past its last use in the run)
 *             HOST or ABSENT                            HOST or ABSENT
 *
 * Who causes what. placed: the running pass for its own weights (pass.c), prefetch for the next program's. arrived: on
 * a host device as soon as packing is done; else when the host knows the copy has happened (the end of the pass, or a
 * wait for the prefetch's event). failed: packing or the copy went wrong; the copy stream has been waited for. evicted:
 * RESIDENT by anybody who needs memory; COPYING by the same, but only a prefetched weight without a pin, and its memory
 * is released after the copy is over (weight_memory_release waits).
 * released: with its last reference a weight that is not pinned gives up all its memory, whatever its state.
 * A weight that streams through a slot of the ring does not change its state: the slot belongs to the pass.
 *
 * Locks. The owner's lock guards every member but the constant ones (key, bytes, capacity). weight_transition is the
 * only function that changes state, data, host, pins and batch. The thread that runs a pass (one at a time) is the only
 * one that packs, places and pins: it may read data and host of a weight that it has pinned, and any host, without the
 * lock. Every other thread may only evict what is not pinned.
 */
#ifndef KILN_MEMORY_PACKED_WEIGHT_H
#define KILN_MEMORY_PACKED_WEIGHT_H

#include "base/hash.h"
#include "memory/residency.h"

typedef enum { WEIGHT_ABSENT, WEIGHT_HOST, WEIGHT_COPYING, WEIGHT_RESIDENT, WEIGHT_PINNED, WEIGHT_STATES } weight_state;

typedef enum {
    WEIGHT_IS_PACKED, /* memory: page-locked, with the packed bytes; the weight's from now on */
    WEIGHT_IS_PLACED, /* memory: on the device, the weight's from now on; batch: the prefetch that will fill it, or 0 */
    WEIGHT_HAS_ARRIVED,
    WEIGHT_HAS_FAILED, /* gives its memory back: weight_detach */
    WEIGHT_IS_EVICTED, /* the same */
    WEIGHT_IS_PINNED,  /* pin: a reason more; a reason it has already is no change */
    WEIGHT_IS_UNPINNED,
    WEIGHT_IS_RELEASED, /* by its last reference: all memory goes, weight_detach gives the device's */
    WEIGHT_EVENTS
} weight_event;

enum { PIN_RUN = 1, PIN_NEXT = 2 };

typedef struct {
    weight_event event;
    void *memory;
    uint64_t batch;
    unsigned pin;
} weight_change;

struct packed_weight {
    packed_weight *next; /* of its bucket */
    residency *owner;
    digest key;
    size_t bytes, capacity; /* packed; and rounded up to the device's alignment */
    weight_state state;
    unsigned pins;
    void *data, *host;
    uint64_t batch;
    unsigned refs;
    /* what decides who is evicted first */
    uint64_t used;   /* clock of the last pass that used it */
    uint64_t wanted; /* programs until its next use, as far as the order is known; UINT64_MAX: none */
    uint64_t victim; /* the prefetch that may evict it */
    uint8_t over;    /* nobody wants it any more */
};

static inline int weight_on_device(const packed_weight *x) { return x->state >= WEIGHT_COPYING; }

/* With the owner's lock held, all three. KILN_ERR_BUG, and nothing changed, when the event is not legal in the state
 * (an assertion in debug builds). */
kiln_status weight_transition(packed_weight *x, const weight_change *change, error *e);
static inline void weight_pin(packed_weight *x, unsigned pin)
{
    weight_transition(x, &(weight_change){.event = WEIGHT_IS_PINNED, .pin = pin}, NULL);
}
static inline void weight_unpin(packed_weight *x, unsigned pin)
{
    weight_transition(x, &(weight_change){.event = WEIGHT_IS_UNPINNED, .pin = pin}, NULL);
}
static inline void weight_arrived(packed_weight *x)
{
    weight_transition(x, &(weight_change){.event = WEIGHT_HAS_ARRIVED}, NULL);
}

/* Memory that was a weight's: the caller's, until weight_memory_release. */
typedef struct {
    void *data; /* NULL: there was none */
    size_t bytes;
    uint64_t batch; /* a prefetch that may still be writing to it; 0: none */
} weight_memory;

/* WEIGHT_IS_EVICTED, WEIGHT_HAS_FAILED, WEIGHT_IS_RELEASED: takes the device's memory from it. With the lock held. */
weight_memory weight_detach(packed_weight *x, weight_event event);
/* Back to the device and the account, after the prefetch that writes to it. Without the lock. */
void weight_memory_release(residency *r, const weight_memory *m);

/* The rest without the lock. Memory on the device for its bytes, which others make way for: COPYING. */
kiln_status weight_place(packed_weight *x, error *e);
/* Evicts it; as failed: the copy stream has been waited for. */
void weight_evict(packed_weight *x);
void weight_fail(packed_weight *x);
/* Page-locked memory for its host copy, counted against the host limit; NULL: over the limit, or none to be had. It
 * becomes the weight's with WEIGHT_IS_PACKED, or goes back. */
void *weight_host_alloc(packed_weight *x);
void weight_host_free(packed_weight *x, void *host);

/* 1: x is to be evicted rather than y: its next use is further away; where that is not known, it was used longer ago.
 */
int weight_goes_before(const packed_weight *x, const packed_weight *y);

#endif
