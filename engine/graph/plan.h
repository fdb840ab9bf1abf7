/* plan.h - a fused recording with views and memory offsets: all that is known before it runs.
 *
 * Slices and reshapes are views where the layout allows, a
 * concatenation's operands are written straight into it when nobody else reads them. Each remaining tensor gets an
 * offset in one arena by its lifetime; `arena_bytes` is the exact peak.
 *
 * Ops that depend on step-invariant inputs alone (a prompt's keys and values) need not run again while those are the
 * same: results of theirs that other ops read keep their memory from the first op to the last.
 */
#ifndef KILN_GRAPH_PLAN_H
#define KILN_GRAPH_PLAN_H

#include "graph/program.h"

typedef enum { PLACE_NONE, PLACE_INPUT, PLACE_WEIGHT, PLACE_STATE, PLACE_ARENA } place_kind;

/* Where tensor id is. A view's offset includes its place in the base. */
typedef struct {
    place_kind kind;
    uint32_t dtype;
    uint32_t base;        /* id of the tensor whose memory it is (itself when no view) */
    int64_t shift;        /* elements into the base                                    */
    int64_t ld;           /* elements between rows                                     */
    size_t offset;        /* ARENA: bytes, of the base                                 */
    uint32_t first, last; /* ops between which the base's memory is in use         */
} placement;

typedef struct {
    recording *r;       /* owned by the caller */
    placement *place;   /* [r->n + 1] by id          */
    uint8_t *skip;      /* [r->n]: a view or a leaf: nothing to run */
    uint8_t *invariant; /* [r->n] 1: runs only when step-invariant inputs have changed */
    size_t arena_bytes;
    uint64_t flops, invariant_flops; /* the latter are part of the former */
    uint32_t n_invariant;
    uint32_t n_run;
} plan;

kiln_status plan_make(plan *p, recording *r, error *e);
void plan_free(plan *p);

#endif
