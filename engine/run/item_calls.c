/* item_calls.c - see item_calls.h. */
#include "run/item_calls.h"

#include "base/clock.h"
#include "base/memory_alloc.h"

#include <stdio.h>
#include <string.h>

/* So far. */
typedef struct {
    size_t n, taken;
    digest *key;      /* [n]                 */
    kiln_value **out; /* [n_out]: of one call */
} progress;

kiln_status call_node(const item_calls *c, size_t item, kiln_value **out, error *e)
{
    node_args a;
    kiln_status status = args_make(&c->values, c->node, item, &a, e);
    if (status == KILN_OK) status = c->hooks->call(c->hooks->self, c->node, a.params, a.in, out, e);
    args_free(&a);
    return status;
}

/* Takes the references of what a call gave. */
static kiln_status take_outputs(const kiln_node *t, digest key, kiln_value **one, kiln_value **lists, error *e)
{
    for (uint32_t k = 0; k < t->n_out; k++)
        if (one[k]) value_publish(one[k]);
    outputs_set_origin(t, key, one);
    kiln_status status = outputs_append(t, lists, one, e);
    for (uint32_t k = 0; k < t->n_out; k++) {
        value_unref(one[k]);
        one[k] = NULL;
    }
    return status;
}

static kiln_status call_item(const item_calls *c, size_t item, progress *p, kiln_value **lists, error *e)
{
    const kiln_node *t = c->values.w->node[c->node].type;
    double start = clock_seconds();
    if (c->cancel && atomic_load(c->cancel)) return error_set(e, KILN_CANCELLED, "cancelled");
    TRY(args_key(&c->values, c->node, item, &p->key[item], e));
    run_item which = {.index = item, .n = p->n, .key = p->key[item]};
    if (c->hooks->item) c->hooks->item(c->hooks->self, c->node, &which);
    TRY(call_node(c, item, p->out, e));
    TRY(take_outputs(t, which.key, p->out, lists, e));
    int taken = c->hooks->taken && c->hooks->taken(c->hooks->self, c->node);
    p->taken += (size_t)taken;
    run_event done = {.kind = taken ? RUN_ITEM_FETCHED : RUN_ITEM_DONE,
                      .node = c->node,
                      .seconds = clock_seconds() - start,
                      .item = &which};
    return c->did(c->of, &done) || item + 1 == p->n ? KILN_OK : KILN_CANCELLED;
}

static void name_item(error *e, size_t item, size_t n)
{
    size_t used = strlen(e->message);
    if (e->status != KILN_CANCELLED && e->status != KILN_OK)
        snprintf(e->message + used, sizeof e->message - used, " (item %zu of %zu)", item + 1, n);
}

kiln_status call_items(const item_calls *c, kiln_value **out, int *taken, error *e)
{
    const kiln_node *t = c->values.w->node[c->node].type;
    progress p = {.n = args_calls(&c->values, c->node)};
    p.key = mem_calloc(p.n + 1, sizeof *p.key);
    p.out = mem_calloc(t->n_out + 1u, sizeof *p.out);
    kiln_status status = p.key && p.out ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (status == KILN_OK) status = outputs_lists(t, out, e);
    for (size_t k = 0; k < p.n && status == KILN_OK; k++)
        if ((status = call_item(c, k, &p, out, e)) != KILN_OK) name_item(e, k, p.n);
    if (status == KILN_OK && c->hooks->items) c->hooks->items(c->hooks->self, c->node, p.n, p.key);
    *taken = p.n > 0 && p.taken == p.n;
    mem_free(p.key), mem_free(p.out);
    return status;
}
