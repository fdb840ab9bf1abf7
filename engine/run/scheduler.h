/* scheduler.h - runs a checked workflow: demand-driven, independent nodes overlapping, one device node at a time.
 *
 * What a node does is behind `call`, so that this file knows neither plugins nor files nor the store. Nodes with equal
 * keys whose type is PURE run once and share their values. A value is let go when its last user is done. Of nodes that
 * could run, the first in the workflow's order does: what comes early in it is finished before what comes late is
 * begun. When a node fails, what hangs on it is skipped and everything else goes on, unless fail_fast.
 *
 * A node whose values are at hand (`known`) is fetched instead of run, and what only it needs is not run at all. If the
 * values are gone when they are fetched, what hangs on them is done in a further round.
 */
#ifndef KILN_RUN_SCHEDULER_H
#define KILN_RUN_SCHEDULER_H

#include "tensor/value.h"
#include "workflow/check.h"

#include <stdatomic.h>

typedef enum {
    RUN_NODE_START,
    RUN_NODE_DONE,
    RUN_NODE_FETCHED,
    RUN_NODE_SHARED,
    RUN_NODE_FAILED,
    RUN_NODE_SKIPPED,
    RUN_NODE_UNKNOWN /* was not called (run_hooks.can_be_called) */
} run_event_kind;

typedef struct {
    run_event_kind kind;
    size_t node;          /* index in workflow.node                        */
    double seconds;       /* DONE, FETCHED, FAILED: how long it took       */
    size_t done, total;   /* nodes finished in any way, nodes to be run    */
    const error *failure; /* FAILED                                        */
    const char *because;  /* SKIPPED: name of the node that failed         */
} run_event;

typedef struct {
    void *self;
    /* Runs node `index`. in[port]: a value, a list value for list ports, or NULL; params: the node's struct with
     * wired parameters filled in. Sets out[0 .. n_out-1] (references for the caller). Any worker thread. */
    kiln_status (*call)(void *self, size_t index, const void *params, kiln_value *const *in, kiln_value **out,
                        error *e);
    /* Called under a lock, one event at a time. */
    void (*event)(void *self, const run_event *);
    /* 1: the node's values can be fetched. Asked once a round for nodes somebody needs. NULL: none can. */
    int (*known)(void *self, size_t index);
    /* Gives the values of a known node, like call. A failure is not the run's: the node is computed in another round.
     */
    kiln_status (*fetch)(void *self, size_t index, kiln_value **out, error *e);
    /* Asked after a call that succeeded: 1 when it took the values from elsewhere and computed nothing. NULL: never. */
    int (*taken)(void *self, size_t index);
    /* 0: the node cannot be called; its values stay unknown, and what hangs on them is not called either. NULL: all
     * can.
     */
    int (*can_be_called)(void *self, size_t index);
} run_hooks;

typedef struct {
    unsigned workers; /* threads that run nodes; 0 = 3 */
    int fail_fast;
    atomic_int *cancel; /* nonzero: start nothing more */
    /* By node, where the workflow is several ones merged: nodes of different parts are shared only when their keys say
     * everything (graph_node.cacheable). NULL: one part. */
    const uint32_t *part_of;
} run_setting;

typedef struct {
    size_t ran, fetched, shared, failed, skipped, unknown, total;
    size_t outputs_done; /* nodes that write, and did */
    int cancelled;
} run_summary;

/* KILN_OK when all needed nodes ran, KILN_CANCELLED, or the first failure's status (its message in e). */
kiln_status run_schedule(const workflow *w, const run_hooks *hooks, const run_setting *setting, run_summary *summary,
                         error *e);

#endif
