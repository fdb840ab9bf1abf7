/* weight_plan.h - which weights of a program stay in memory and which come in through slots while it runs. Layer:
 * memory.
 *
 * A denoising loop reads its weights in the same order every step, so the best policy is a fixed choice made beforehand
 * (Belady's MIN on a cyclic scan): some weights are resident, the rest stream through one ring of slots before they are
 * used.
 *   - tiny weights are always resident: their copies cost calls, not bytes;
 *   - the others are streamed evenly over the program's time, not as a prefix or a tail: each op's work hides the
 *     bytes that arrive during it;
 *   - a ring as small as the streamed weights of an op (twice that where copies run beside work) leaves the rest of the
 *     budget to residents.
 * Pure arithmetic: no allocation on a device, no clock; the same demand and limit give the same placement.
 */
#ifndef KILN_MEMORY_WEIGHT_PLAN_H
#define KILN_MEMORY_WEIGHT_PLAN_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t op, weight; /* op reads weight number `weight` */
} weight_use;

typedef struct {
    size_t n_op, n_weight, n_use;
    const double *work;    /* [n_op] time each op takes, in any unit; >= 0 */
    const size_t *bytes;   /* [n_weight] */
    const weight_use *use; /* [n_use], ops ascending; an op's weights are in memory at once */
    size_t fixed;          /* bytes of activations and the like that are there beside weights */
    size_t alignment;      /* of each weight: a power of two */
    int overlap;           /* copies run beside work */
} weight_demand;

#define WEIGHT_PLAN_NONE UINT32_MAX

typedef struct {
    uint8_t *streamed; /* [n_weight] */
    size_t *slot;      /* [n_use] place in the ring; of streamed weights */
    uint32_t *after;   /* [n_op] the op that must be done before this op's slots are filled; WEIGHT_PLAN_NONE */
    size_t ring;       /* bytes */
    size_t resident, streamed_bytes; /* bytes; the latter a run, each use counted */
    size_t peak;                     /* fixed + resident + ring */
    uint32_t n_streamed;
} weight_plan;

/* limit 0: everything is resident. KILN_ERR_NOMEM with the least limit that works in the message (weight_plan_least).
 */
kiln_status weight_plan_make(const weight_demand *d, size_t limit, weight_plan *out, error *e);
void weight_plan_free(weight_plan *p);
/* The least limit with which it runs: everything streamed, one op's weights at a time. */
size_t weight_plan_least(const weight_demand *d);
/* The limit from which on nothing is streamed. */
size_t weight_plan_whole(const weight_demand *d);

#endif
