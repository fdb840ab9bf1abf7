/* node_args.c - see node_args.h. */
#include "run/node_args.h"

#include "base/log.h"
#include "base/memory_alloc.h"
#include "param/param.h"
#include "plugin/abilities.h"

#include <string.h>

static kiln_status no_memory(error *e) { return error_set(e, KILN_ERR_NOMEM, "out of memory"); }

/* ---- one wire ---- */

/* An input's wires, as far as their values are there. */
static port_sources wires(const arg_values *v, const graph_node *g, uint32_t p)
{
    return p < 64 && (v->absent >> p & 1) ? (port_sources){0} : g->in[p];
}

static int is_list(const arg_values *v, source from) { return makes_list(&v->w->node[from.node], from.output); }

/* What an ordinary input gets in call number `item`. */
static kiln_value *item_of(const arg_values *v, source from, size_t item)
{
    kiln_value *all = v->value(v->of, from);
    if (!is_list(v, from)) return all;
    size_t n = value_api.count(all);
    return n ? value_api.list_at(all, item < n ? item : n - 1) : NULL;
}

/* ---- how often ---- */

typedef struct {
    const arg_values *v;
    size_t most;
    int lists, empty;
} counter;

static void count_list(counter *c, source from)
{
    const kiln_value *all = c->v->value(c->v->of, from);
    if (!is_list(c->v, from)) return;
    size_t n = value_api.count(all);
    c->lists = 1;
    if (n > c->most) c->most = n;
    if (n == 0) c->empty = 1;
}

size_t args_calls(const arg_values *v, uint32_t node)
{
    const graph_node *g = &v->w->node[node];
    counter c = {.v = v};
    if (!g->mapped) return 1;
    for (uint32_t p = 0; p < g->type->n_in; p++)
        if (wires(v, g, p).n && !(node_in(g->type, p)->flags & KILN_PORT_LIST)) count_list(&c, g->in[p].from[0]);
    for (uint32_t p = 0; p < g->type->n_param; p++)
        if (g->param_in[p].node != SOURCE_NONE) count_list(&c, g->param_in[p]);
    return !c.lists ? 1 : c.empty ? 0 : c.most;
}

/* ---- arguments ---- */

static kiln_status push_all(kiln_value *list, const kiln_value *items)
{
    for (size_t i = 0; i < value_api.count(items); i++) TRY(value_api.list_push(list, value_api.list_at(items, i)));
    return KILN_OK;
}

/* Everything that is wired to a list input, as one list. */
static kiln_status list_input(const arg_values *v, const port_sources *p, node_args *a, kiln_value **out)
{
    kiln_value *list = value_list();
    if (!list) return KILN_ERR_NOMEM;
    a->list[a->n_list++] = list;
    for (uint32_t k = 0; k < p->n; k++) {
        kiln_value *one = v->value(v->of, p->from[k]);
        TRY(is_list(v, p->from[k]) ? push_all(list, one) : value_api.list_push(list, one));
    }
    value_publish(list); /* inputs are read-only, this one too */
    *out = list;
    return KILN_OK;
}

/* A wired value, put where its parameter lies by the rule for a written one. */
static kiln_status fill_param(const graph_node *g, const kiln_param *p, const kiln_value *v, arena *memory,
                              void *params, error *e)
{
    error why = {0};
    int64_t given, used;
    param_value plain = param_wired(&value_api, v);
    kiln_status status = param_put(p, &plain, &registry_names, memory, params, &why);
    if (status != KILN_OK)
        return error_set(e, status, "node '%s' (%s): wired input '%s': %s", g->doc->name, g->type->type, p->name,
                         why.message[0] ? why.message : status_text(status));
    if (param_floored(p, params, &given, &used))
        log_warn("node '%s' (%s): wired input '%s': %lld is no multiple of %g; %lld will be used", g->doc->name,
                 g->type->type, p->name, (long long)given, p->step, (long long)used);
    return KILN_OK;
}

kiln_status args_make(const arg_values *v, uint32_t node, size_t item, node_args *a, error *e)
{
    const graph_node *g = &v->w->node[node];
    const kiln_node *t = g->type;
    *a = (node_args){.params = mem_calloc(1, t->params_size + 1),
                     .in = mem_calloc(t->n_in + 1u, sizeof *a->in),
                     .list = mem_calloc(t->n_in + 1u, sizeof *a->list)};
    if (!a->params || !a->in || !a->list) return no_memory(e);
    memcpy(a->params, g->params, t->params_size);
    for (uint32_t p = 0; p < t->n_in; p++) {
        if (wires(v, g, p).n == 0) continue;
        if (!(node_in(t, p)->flags & KILN_PORT_LIST))
            a->in[p] = item_of(v, g->in[p].from[0], item);
        else if (list_input(v, &g->in[p], a, &a->in[p]) != KILN_OK)
            return no_memory(e);
    }
    for (uint32_t p = 0; p < t->n_param; p++)
        if (g->param_in[p].node != SOURCE_NONE)
            TRY(fill_param(g, node_param(t, p), item_of(v, g->param_in[p], item), &a->memory, a->params, e));
    return KILN_OK;
}

void args_free(node_args *a)
{
    for (size_t i = 0; i < a->n_list; i++) value_unref(a->list[i]);
    mem_free(a->params);
    mem_free(a->in);
    mem_free(a->list);
    arena_free(&a->memory);
    *a = (node_args){0};
}

/* ---- keys of calls ---- */

static kiln_status hash_value(hasher *h, kiln_value *v, error *e)
{
    digest d;
    TRY(value_identity(v, &d, e));
    hash_digest(h, d);
    return KILN_OK;
}

/* A plain source is known by its key, as in the node's own; an item by what it is. */
static kiln_status hash_wire(const arg_values *v, hasher *h, source from, size_t item, error *e)
{
    kiln_value *one = item_of(v, from, item);
    hash_u64(h, is_list(v, from) ? 2 : 1);
    if (is_list(v, from)) return hash_value(h, one, e);
    hash_digest(h, v->w->node[from.node].key);
    hash_u64(h, from.output);
    return KILN_OK;
}

static kiln_status hash_list_input(const arg_values *v, hasher *h, const port_sources *p, error *e)
{
    for (uint32_t k = 0; k < p->n; k++) {
        kiln_value *all = v->value(v->of, p->from[k]);
        if (!is_list(v, p->from[k])) {
            TRY(hash_wire(v, h, p->from[k], 0, e));
            continue;
        }
        hash_u64(h, 3);
        hash_u64(h, value_api.count(all));
        for (size_t i = 0; i < value_api.count(all); i++) TRY(hash_value(h, value_api.list_at(all, i), e));
    }
    return KILN_OK;
}

static kiln_status hash_call(const arg_values *v, hasher *h, uint32_t node, size_t item, error *e)
{
    const graph_node *g = &v->w->node[node];
    hash_text(h, "kiln-item/1");
    hash_digest(h, g->self);
    for (uint32_t p = 0; p < g->type->n_in; p++) {
        int list = (node_in(g->type, p)->flags & KILN_PORT_LIST) != 0;
        hash_u64(h, wires(v, g, p).n);
        if (wires(v, g, p).n == 0) continue;
        TRY(list ? hash_list_input(v, h, &g->in[p], e) : hash_wire(v, h, g->in[p].from[0], item, e));
    }
    for (uint32_t p = 0; p < g->type->n_param; p++)
        if (g->param_in[p].node != SOURCE_NONE) TRY(hash_wire(v, h, g->param_in[p], item, e));
    return KILN_OK;
}

kiln_status args_key(const arg_values *v, uint32_t node, size_t item, digest *out, error *e)
{
    hasher *h = hasher_new();
    if (!h) return no_memory(e);
    kiln_status status = hash_call(v, h, node, item, e);
    *out = hasher_digest(h);
    hasher_free(h);
    if (status != KILN_OK) error_prefix(e, "node '%s' (%s)", v->w->node[node].doc->name, v->w->node[node].type->type);
    return status;
}

/* ---- what a node gives ---- */

void outputs_set_origin(const kiln_node *t, digest key, kiln_value *const *out)
{
    hasher *h = hasher_new();
    for (uint32_t k = 0; h && k < t->n_out; k++) {
        int list = (node_out(t, k)->flags & KILN_PORT_LIST) != 0;
        size_t n = out[k] ? list ? value_api.count(out[k]) : 1 : 0;
        for (size_t i = 0; i < n; i++) {
            hasher_reset(h);
            hash_text(h, "kiln-value/1");
            hash_digest(h, key);
            hash_u64(h, k), hash_u64(h, i);
            value_set_origin(list ? value_api.list_at(out[k], i) : out[k], hasher_digest(h));
        }
    }
    hasher_free(h);
}

kiln_status outputs_lists(const kiln_node *t, kiln_value **lists, error *e)
{
    for (uint32_t k = 0; k < t->n_out; k++) {
        if ((lists[k] = value_list())) continue;
        while (k-- > 0) value_unref(lists[k]), lists[k] = NULL;
        return no_memory(e);
    }
    return KILN_OK;
}

kiln_status outputs_append(const kiln_node *t, kiln_value *const *lists, kiln_value *const *out, error *e)
{
    for (uint32_t k = 0; k < t->n_out; k++) {
        int list = (node_out(t, k)->flags & KILN_PORT_LIST) != 0;
        if (out[k] && (list ? push_all(lists[k], out[k]) : value_api.list_push(lists[k], out[k])) != KILN_OK)
            return no_memory(e);
    }
    return KILN_OK;
}
