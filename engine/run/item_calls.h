/* item_calls.h - the calls of a mapped node (graph_node.mapped), one for each item of its lists: their keys, what they
 * give as lists, and what is said of each. One after the other: a node's instance is one.
 */
#ifndef KILN_RUN_ITEM_CALLS_H
#define KILN_RUN_ITEM_CALLS_H

#include "run/node_args.h"
#include "run/scheduler.h"

typedef struct {
    const run_hooks *hooks;
    arg_values values; /* of the node's sources */
    uint32_t node;
    const atomic_int *cancel; /* as run_setting.cancel */
    /* Called after each call that succeeded. 0: the run stops, so no further item is begun. */
    int (*did)(void *of, const run_event *);
    void *of;
} item_calls;

/* One call of a node, mapped or not. */
kiln_status call_node(const item_calls *c, size_t item, kiln_value **out, error *e);
/* All calls of a mapped node. out[n_out]: lists. *taken: there were some, and all values came from elsewhere.
 * KILN_CANCELLED without a message: `did` has said to stop. */
kiln_status call_items(const item_calls *c, kiln_value **out, int *taken, error *e);

#endif
