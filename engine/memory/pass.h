/* pass.h - one program's weights: where they are to be (the placement), and getting them there while it runs. For
 * memory/; residency.h has the user's view.
 *
 * placement.c chooses which weights stay on the device and which stream through the ring; pass.c carries it out, op by
 * op; prefetch.c uses both for the program after the running one.
 *
 * A pass belongs to the thread that runs it, except `next`, `guards`, `due`, `asked`, `leaves` and what the order says,
 * which the owner's lock guards.
 */
#ifndef KILN_MEMORY_PASS_H
#define KILN_MEMORY_PASS_H

#include "memory/residency.h"

enum { CHECKPOINTS = 7 };

struct residency_pass {
    residency *r;
    residency_pass *next;
    residency_demand d;
    weight_plan place;
    int placed;                   /* `place` is there */
    size_t limit;                 /* that it was made for; 0: none */
    uint64_t clock;               /* of its last run */
    unsigned streak;              /* its runs in a row, the last time */
    const void **data;            /* [n_use] where the weight of a use is in this run */
    size_t issued;                /* uses whose weights are there or on their way: the next one */
    const uint8_t *skip;          /* [n_op] ops that do not run this time, or NULL */
    device_event **ready, **done; /* [n_op] weights have arrived; slots may be filled again. Made when first needed */
    uint8_t *arriving;            /* [n_op] ready was recorded in this run */
    /* in the last of its runs in a row, if weights of it are evicted for the next program's while it is under way */
    uint32_t check_op[CHECKPOINTS]; /* ascending; check[i]: all ops up to check_op[i] are done */
    device_event *check[CHECKPOINTS];
    unsigned n_check, n_checked; /* wanted, and recorded so far in this run */
    unsigned guards;             /* who prefetches or reads ahead for it: freeing it waits */
    uint8_t due, asked, leaves;  /* its files are wanted, were asked for (read_ahead.h); it is being freed */
};

/* ---- placement.c ---- */

/* The limit as it is now; 0: none. */
size_t placement_limit(residency *r);
/* Finds or makes p's placement for the limit as it is now. KILN_ERR_NOMEM: not even the least fits. */
kiln_status placement_find(residency_pass *p, error *e);
/* Bytes of activations, working memory, inputs and outputs. */
size_t placement_block(const residency_pass *p);
/* Bytes of weights that the placement keeps on the device and that are not there yet. Takes the lock. */
size_t placement_missing(const residency_pass *p);
static inline int placement_keeps(const residency_pass *p, size_t w) { return !p->place.streamed[w]; }

/* ---- pass.c ---- */

/* Packs weight w of p into dst, host memory. */
kiln_status pass_pack_weight(residency_pass *p, uint32_t w, void *dst, error *e);
/* Gives weight w a host copy, if it has none. KILN_OK and no copy: it is over the host limit. */
kiln_status pass_host_copy(residency_pass *p, uint32_t w, error *e);
/* Puts weight w on the copy stream, packed first if need be, to dst on the device. */
kiln_status pass_copy_weight(residency_pass *p, uint32_t w, void *dst, error *e);

#endif
