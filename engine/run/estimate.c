/* estimate.c - see estimate.h. */
#include "run/estimate.h"

#include "run/interrupt.h"
#include "run/node_call.h"

#include <assert.h>

typedef struct {
    machine *machine;
    batch *batch;
    const estimate_observer *observer;
    call_environment env;
    run_item item;   /* of a mapped node: the call that is next */
    size_t n_cached; /* calls of it that the store has          */
} estimation;

static void observe(const estimation *x, size_t i, const node_estimate *found)
{
    if (x->observer->node) x->observer->node(x->observer->self, i, found);
}

static const char *env_text(void *self, size_t node, const char *name)
{
    return batch_text(((estimation *)self)->batch, node, name);
}

static const char *env_find_file(void *self, size_t node, arena *a, const char *folder, const char *name, error *e)
{
    const estimation *x = self;
    (void)node;
    return file_roots_resolve(x->machine->roots, a, folder, name, e);
}

static uint64_t env_wanted(void *self, size_t node) { return batch_node(((estimation *)self)->batch, node)->used; }

static int can_be_called(void *self, size_t i)
{
    return (batch_node(((estimation *)self)->batch, i)->type->flags & KILN_NODE_ESTIMATES) != 0;
}

static kiln_status call(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e)
{
    estimation *x = self;
    int mapped = batch_node(x->batch, i)->mapped;
    assert(can_be_called(self, i));
    if (!mapped || x->item.index == 0) runtime_usage_reset(x->machine->runtime), x->n_cached = 0;
    if (mapped && result_cache_item_fetch(x->machine->result_cache, i, out))
        x->n_cached++;
    else
        TRY(node_call(x->batch, &x->env, i, params, in, out, e));
    if (!mapped)
        observe(x, i, &(node_estimate){.kind = ESTIMATED_RUN, .usage = runtime_usage_get(x->machine->runtime)});
    return KILN_OK;
}

static void item(void *self, size_t i, const run_item *which)
{
    estimation *x = self;
    x->item = *which;
    result_cache_item(x->machine->result_cache, i, which->key);
}

/* All calls of a mapped node: one estimate. Nothing was computed, so nothing is kept. */
static void items(void *self, size_t i, size_t n, const digest *key)
{
    estimation *x = self;
    (void)key;
    if (n == 0) runtime_usage_reset(x->machine->runtime), x->n_cached = 0;
    result_cache_items(x->machine->result_cache, i, SIZE_MAX, NULL);
    observe(x, i,
            &(node_estimate){.kind = n && x->n_cached == n ? ESTIMATED_CACHED : ESTIMATED_RUN,
                             .usage = runtime_usage_get(x->machine->runtime),
                             .n_item = n,
                             .n_cached = x->n_cached});
}

static void on_event(void *self, const run_event *ev)
{
    if (ev->kind == RUN_NODE_UNKNOWN) observe(self, ev->node, &(node_estimate){.kind = ESTIMATED_UNKNOWN});
}

static int known(void *self, size_t i) { return result_cache_known(((estimation *)self)->machine->result_cache, i); }

static kiln_status fetch(void *self, size_t i, kiln_value **out, error *e)
{
    const estimation *x = self;
    store_entry entry = {0};
    result_cache_look(x->machine->result_cache, i, &entry);
    TRY(result_cache_fetch(x->machine->result_cache, i, out, e));
    observe(x, i, &(node_estimate){.kind = ESTIMATED_CACHED, .bytes = entry.bytes});
    return KILN_OK;
}

kiln_status estimate_batch(machine *m, batch *b, const estimate_observer *o, error *e)
{
    estimation x = {.machine = m, .batch = b, .observer = o};
    run_summary summary;
    x.env = (call_environment){.runtime = m->runtime,
                               .pool = runtime_pool(m->runtime),
                               .cancelled = interrupt_asked,
                               .text = env_text,
                               .find_file = env_find_file,
                               .wanted = env_wanted,
                               .arg = &x,
                               .estimate = 1};
    run_hooks hooks = {.self = &x,
                       .call = call,
                       .event = on_event,
                       .known = known,
                       .fetch = fetch,
                       .item = item,
                       .items = items,
                       .can_be_called = can_be_called};
    run_setting setting = {.workers = 1, .fail_fast = 1, .cancel = &interrupted, .part_of = b->merged.part_of};
    runtime_estimate_reset(m->runtime);
    kiln_status status = run_schedule(&b->merged.all, &hooks, &setting, &summary, e);
    runtime_usage_reset(m->runtime);
    return status;
}
