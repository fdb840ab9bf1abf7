/* merge.c - see merge.h. */
#include "run/merge.h"

#include "base/checked.h"

#include <string.h>

static int shifted_ports(arena *a, graph_node *g, int32_t by)
{
    port_sources *in = arena_alloc(a, (g->type->n_in + 1u) * sizeof *in);
    source *param = arena_alloc(a, (g->type->n_param + 1u) * sizeof *param);
    if (!in || !param) return 0;
    for (uint32_t p = 0; p < g->type->n_in; p++) {
        in[p] = (port_sources){.n = g->in[p].n, .from = arena_alloc(a, (g->in[p].n + 1u) * sizeof(source))};
        if (!in[p].from) return 0;
        for (uint32_t k = 0; k < in[p].n; k++)
            in[p].from[k] = (source){
                .node = g->in[p].from[k].node + by, .output = g->in[p].from[k].output, .wire = g->in[p].from[k].wire};
    }
    for (uint32_t p = 0; p < g->type->n_param; p++) {
        param[p] = g->param_in[p];
        if (param[p].node != SOURCE_NONE) param[p].node += by;
    }
    g->in = in;
    g->param_in = param;
    return 1;
}

static int add_part(merged *m, const workflow *part, size_t at)
{
    size_t first = m->first[at];
    for (size_t i = 0; i < part->n; i++) {
        graph_node *g = &m->all.node[first + i];
        *g = part->node[i];
        g->left = NULL; /* its nodes are the part's */
        m->part_of[first + i] = (uint32_t)at;
        m->all.order[first + i] = (uint32_t)first + part->order[i];
        if (!shifted_ports(&m->memory, g, (int32_t)first)) return 0;
    }
    return 1;
}

kiln_status workflow_merge(merged *m, const workflow *const *part, size_t n, error *e)
{
    size_t total = 0;
    *m = (merged){.n = n, .first = NULL};
    m->first = arena_alloc(&m->memory, (n + 1) * sizeof *m->first);
    for (size_t i = 0; m->first && i < n; i++) {
        m->first[i] = total;
        if (!checked_add_size(total, part[i]->n, &total) || total > INT32_MAX)
            return merged_free(m), error_set(e, KILN_ERR_INVALID, "too many nodes in one run");
    }
    m->all = (workflow){.doc = n ? part[0]->doc : NULL,
                        .n = total,
                        .node = arena_alloc(&m->memory, (total + 1) * sizeof(graph_node)),
                        .order = arena_alloc(&m->memory, (total + 1) * sizeof(uint32_t))};
    m->part_of = arena_alloc(&m->memory, (total + 1) * sizeof *m->part_of);
    int ok = m->first && m->all.node && m->all.order && m->part_of;
    for (size_t i = 0; ok && i < n; i++) ok = add_part(m, part[i], i);
    if (ok) return KILN_OK;
    merged_free(m);
    return error_set(e, KILN_ERR_NOMEM, "out of memory");
}

void merged_free(merged *m)
{
    arena_free(&m->memory);
    *m = (merged){0};
}
