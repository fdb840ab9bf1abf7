/* result_cache.h - what a run keeps in the store and takes from it: between the scheduler and engine/cache.
 *
 * A node's result is kept when its key says everything about it (graph_node.cacheable), it writes nothing, and its
 * outputs are plain data or of a type with a stored form. Before such a node is computed its key is claimed: of several
 * processes one computes and the others wait for it. A store that fails costs time, never the run.
 *
 * All functions take a NULL result_cache: nothing is known, nothing is kept. Any thread, one call a node at a time.
 */
#ifndef KILN_RUN_RESULT_CACHE_H
#define KILN_RUN_RESULT_CACHE_H

#include "cache/store.h"
#include "workflow/check.h"

typedef struct result_cache result_cache;

typedef struct {
    const char *folder;   /* --cache; NULL: store_default_folder                                            */
    uint64_t limit;       /* --cache-size in bytes; 0: the store's default                                   */
    double state_seconds; /* --save-state: between two states of one call; 0: 30; negative: none              */
    int short_lived;      /* store_setting.short_lived                                                       */
    int off;              /* --no-cache                                                                      */
    const codec_types *types;
    int (*cancelled)(void *);                /* asked while another process is waited for */
    void (*waiting)(void *arg, size_t node); /* called once a node when that begins; may be NULL */
    void *arg;
} result_cache_setting;

/* *out NULL with KILN_OK when nothing is to be kept: off, KILN_CACHE=off, or a store that cannot be opened, for which
 * there is one warning. */
kiln_status result_cache_open(const result_cache_setting *setting, result_cache **out, error *e);
/* Before the first node, after the keys: the workflow whose nodes the indices below mean. Forgets the one before. */
kiln_status result_cache_watch(result_cache *k, const workflow *w, error *e);
void result_cache_close(result_cache *k);               /* commits */
const char *result_cache_folder(const result_cache *k); /* where results lie; NULL: nothing is kept */

int result_cache_known(result_cache *k, size_t node);
kiln_status result_cache_fetch(result_cache *k, size_t node, kiln_value **out, error *e);
/* What is known of a kept result without reading it; 0: none. */
int result_cache_look(result_cache *k, size_t node, store_entry *out);

/* Runs compute(arg, out, e) for the node, unless another process has or makes the values. *fetched: they came from the
 * store. */
kiln_status result_cache_compute(result_cache *k, size_t node,
                                 kiln_status (*compute)(void *arg, kiln_value **out, error *e), void *arg,
                                 kiln_value **out, int *fetched, error *e);

/* Of the call that compute() is in: its key does not say everything about what it makes. Nothing is kept of it, nor of
 * what is made of it in this run, states included. */
void result_cache_not_kept(result_cache *k, size_t node);

/* ---- mapped nodes (graph_node.mapped): a result for each call, and for the node a list of their keys ---- */

/* From here on `node` means one call of it, with a key of its own: for compute, taken and the states. */
void result_cache_item(result_cache *k, size_t node, digest key);
/* The kept values of that call; 0: there are none. */
int result_cache_item_fetch(result_cache *k, size_t node, kiln_value **out);
/* All n calls are done. Keeps their keys, so that the next run knows the node, if each call's values were kept. */
void result_cache_items(result_cache *k, size_t node, size_t n, const digest *key);

/* 1: result_cache_compute took the values from the store instead. */
int result_cache_taken(result_cache *k, size_t node);

/* The call_environment's state functions (plugin/ctx.h). `stopping`: the run was interrupted, a last state is wanted
 * now. */
kiln_value *result_cache_state_load(result_cache *k, size_t node);
int result_cache_state_due(result_cache *k, size_t node, int stopping);
kiln_status result_cache_state_save(result_cache *k, size_t node, const kiln_value *state, error *e);

/* ---- how fast this machine is, learnt from what has run: for estimates alone ---- */

/* A node of this type did so many floating-point operations in so many seconds. */
void result_cache_learn(result_cache *k, const char *type, double flops, double seconds);
/* Operations a second of nodes of this type here; 0: none has run yet. `setting` as given to result_cache_rates_for. */
double result_cache_rate(result_cache *k, const char *type);
/* Whose rates are meant: "cpu bf16 ...". Before the two above. */
void result_cache_rates_for(result_cache *k, const char *setting);

#endif
