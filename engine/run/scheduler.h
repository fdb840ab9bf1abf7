/* scheduler.h - runs a checked workflow: demand-driven, independent nodes overlapping, one device node at a time.
 *
 * What a node does is behind `call`, so that this file knows neither plugins nor files nor the store. Nodes with equal
 * keys whose type is PURE run once and share their values. A value is let go when its last user is done. Of nodes that
 * could run, the first in the workflow's order does: what comes early in it is finished before what comes late is
 * begun. When a node fails, what hangs on it is skipped and everything else goes on, unless fail_fast.
 *
 * A mapped node (graph_node.mapped) is called once for each item of its lists (node_args.h), one item after the other.
 * What only lazy inputs lead to waits until one of them asks for it (run_hooks.wants), and is left out when none does.
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
    RUN_NODE_UNKNOWN, /* was not called (run_hooks.can_be_called) */
    RUN_ITEM_DONE,    /* one call of a mapped node, between its START and its DONE or FETCHED */
    RUN_ITEM_FETCHED  /* the same, and nothing was computed                                   */
} run_event_kind;

/* One call of a mapped node. */
typedef struct {
    size_t index, n; /* from 0; of how many */
    digest key;
} run_item;

typedef struct {
    run_event_kind kind;
    size_t node;           /* index in workflow.node                        */
    double start, seconds; /* DONE, FETCHED: when it began (clock_seconds()); these and FAILED: how long it took */
    size_t done, total;    /* nodes finished in any way, nodes to be run    */
    const error *failure;  /* FAILED                                        */
    struct supervised_said *said; /* what of it earlier processes of this run have reported (report.h), or NULL */
    const char *because;          /* SKIPPED: name of the node that failed         */
    const run_item *item;         /* ITEM_DONE, ITEM_FETCHED                       */
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
    /* Of a mapped node, on the thread that calls it: before each `call`, which one it is; and after the last, that all
     * succeeded, with their keys. May be NULL. */
    void (*item)(void *self, size_t index, const run_item *item);
    void (*items)(void *self, size_t index, size_t n, const digest *key);
    /* The node's wants(): bits of its lazy inputs. Under the lock. NULL: all lazy inputs are computed. */
    kiln_status (*wants)(void *self, size_t index, const void *params, kiln_value *const *in, uint64_t *inputs,
                         error *e);
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
