/* estimate.h - the policy that computes nothing: what a run of a batch would do, and what its programs would need.
 *
 * Nodes are called with call->estimate set (kiln/plugin.h), so programs are recorded and planned and shapes are known.
 * What is in the store is fetched, as in a run. A node that cannot be called so (no KILN_NODE_ESTIMATES) is unknown,
 * and so is what hangs on it. --explain, --dry-run and the check of a memory budget are this one estimate, each with an
 * observer of its own. What all programs together want of memory is in runtime_get_estimate afterwards.
 */
#ifndef KILN_RUN_ESTIMATE_H
#define KILN_RUN_ESTIMATE_H

#include "run/batch.h"

typedef enum { ESTIMATED_RUN, ESTIMATED_CACHED, ESTIMATED_UNKNOWN } estimated_kind;

typedef struct {
    estimated_kind kind;
    runtime_usage usage;     /* RUN: what the node's programs would need, in all its calls */
    uint64_t bytes;          /* CACHED: what is read from the store      */
    size_t n_item, n_cached; /* of a mapped node: calls, and those whose values are in the store; 0: not mapped */
} node_estimate;

typedef struct {
    void (*node)(void *self, size_t i, const node_estimate *found); /* in the order of the run; NULL: nobody asks */
    void *self;
} estimate_observer;

/* The first failure's status, its message in e; nothing follows it. One thread, no program of this machine running. */
kiln_status estimate_batch(machine *m, batch *b, const estimate_observer *o, error *e);

#endif
