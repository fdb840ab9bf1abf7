/* wiring.c - what flows over the wires of a checked workflow: types (also of outputs whose type is that of an input),
 * wires of lazy inputs that nobody wants, lists. See checker.h.
 */
#include "workflow/checker.h"

#include <stdio.h>
#include <string.h>

/* ---- types ---- */

static int is_variable(const char *type) { return type[0] == '*' && type[1]; }

int types_fit(const char *a, const char *b) { return strcmp(a, b) == 0 || a[0] == '*' || b[0] == '*'; }

/* What comes out of a source, as far as it is known: "*" is anything. */
static const char *made_by(const checker *k, source s)
{
    const graph_node *from = &k->w->node[s.node];
    const char *type = from->made ? from->made[s.output] : node_out(from->type, s.output)->type;
    return is_variable(type) ? "*" : type;
}

static void fault_type(checker *k, const graph_node *g, const char *input, const char *takes, source s)
{
    const graph_node *from = &k->w->node[s.node];
    document_fault(k->doc, s.wire->at, g->doc, "input '%s' takes %s, but output '%s' of '%s' (%s) is %s", input, takes,
                   node_out(from->type, s.output)->name, from->doc->name, from->type->type, made_by(k, s));
}

/* The type that the first wire to an input of the node's variable has; "*": none says it. *by: that input. */
static const char *bound(const checker *k, const graph_node *g, const char *variable, const char **by)
{
    for (uint32_t p = 0; p < g->type->n_in; p++) {
        if (strcmp(node_in(g->type, p)->type, variable) != 0) continue;
        for (uint32_t i = 0; i < g->in[p].n; i++) {
            const char *type = made_by(k, g->in[p].from[i]);
            if (strcmp(type, "*") == 0) continue;
            *by = node_in(g->type, p)->name;
            return type;
        }
    }
    return "*";
}

static void check_wire(checker *k, const graph_node *g, const kiln_port *p, source s)
{
    const char *by = NULL, *takes = is_variable(p->type) ? bound(k, g, p->type, &by) : p->type;
    char text[300];
    if (types_fit(takes, made_by(k, s))) return;
    if (by)
        snprintf(text, sizeof text, "%.130s, as '%.130s' does", takes, by);
    else
        snprintf(text, sizeof text, "%.130s", takes);
    fault_type(k, g, p->name, text, s);
}

void wiring_types(checker *k, graph_node *g)
{
    const kiln_node *t = g->type;
    for (uint32_t p = 0; p < t->n_in; p++)
        for (uint32_t i = 0; i < g->in[p].n; i++) check_wire(k, g, node_in(t, p), g->in[p].from[i]);
    for (uint32_t p = 0; p < t->n_param; p++) {
        const char *takes = param_wire_type(node_param(t, p)->type);
        if (g->param_in[p].node == SOURCE_NONE || types_fit(takes, made_by(k, g->param_in[p]))) continue;
        fault_type(k, g, node_param(t, p)->name, takes, g->param_in[p]);
    }
}

/* The types of the node's own outputs. */
static void name_outputs(checker *k, graph_node *g)
{
    const char *by;
    g->made = arena_alloc(&k->doc->memory, (g->type->n_out + 1u) * sizeof *g->made);
    if (!g->made) {
        k->doc->failed = 1;
        return;
    }
    for (uint32_t o = 0; o < g->type->n_out; o++) {
        const char *type = node_out(g->type, o)->type;
        g->made[o] = is_variable(type) ? bound(k, g, type, &by) : type;
    }
}

/* ---- what is known of parameters before a run ---- */

/* The value that a constant gives; 0: it is not known, or not right, which its own check says. */
static int constant_value(checker *k, source s, param_value *out)
{
    const graph_node *from = &k->w->node[s.node];
    if (!(from->type->flags & KILN_NODE_CONSTANT)) return 0;
    const kiln_param *p = node_param(from->type, s.output);
    void *params = arena_alloc(&k->doc->memory, from->type->params_size + 1);
    param_names names = checker_names(k);
    kiln_status status = params ? param_default(p, &k->doc->memory, params) : KILN_ERR_NOMEM;
    const doc_input *in = NULL;
    for (size_t i = 0; i < from->doc->n_input; i++)
        if (strcmp(from->doc->input[i].name, p->name) == 0) in = &from->doc->input[i];
    if (in && (in->is_wire || in->not_scalar)) return 0;
    if (!in && (p->flags & KILN_PARAM_REQUIRED)) return 0;
    if (in && status == KILN_OK) {
        param_value v = param_written(in->text, in->quoted);
        status = param_put(p, &v, &names, &k->doc->memory, params, NULL);
    }
    if (status == KILN_ERR_NOMEM) k->doc->failed = 1;
    if (status != KILN_OK) return 0;
    *out = param_get(p, params);
    out->wired = 1;
    return 1;
}

void *wiring_params(checker *k, graph_node *g, uint32_t skip, int32_t *open)
{
    const kiln_node *t = g->type;
    param_names names = checker_names(k);
    unsigned char *params = arena_alloc(&k->doc->memory, t->params_size + 1);
    *open = SOURCE_NONE;
    if (!params) return k->doc->failed = 1, NULL;
    memcpy(params, g->params, t->params_size);
    for (uint32_t i = 0; i < t->n_param; i++) {
        const kiln_param *p = node_param(t, i);
        param_value v;
        error why = {0};
        if (g->param_in[i].node == SOURCE_NONE || (p->flags & skip)) continue;
        if (!constant_value(k, g->param_in[i], &v)) {
            if (*open == SOURCE_NONE) *open = (int32_t)i;
            continue;
        }
        kiln_status status = param_put(p, &v, &names, &k->doc->memory, params, &why);
        if (status == KILN_ERR_NOMEM) k->doc->failed = 1;
        if (status != KILN_OK) {
            document_fault(k->doc, g->param_in[i].wire->at, g->doc, "wired input '%s': %s", p->name, why.message);
            return NULL;
        }
    }
    return params;
}

static void settle_params(checker *k, graph_node *g)
{
    int32_t open;
    g->known = wiring_params(k, g, 0, &open);
    g->open = open != SOURCE_NONE;
}

/* ---- lazy inputs ---- */

/* Takes the wires away that the node says it does not want, where its parameters alone decide that. */
static void settle_lazy(checker *k, graph_node *g)
{
    const kiln_node *t = g->type;
    uint64_t wanted;
    error why = {0};
    if (!t->wants || !k->catalog->wants || !g->known || g->open) return;
    if (k->catalog->wants(k->catalog->self, g->doc->name, t, g->known, &wanted, &why) != KILN_OK) {
        document_fault(k->doc, g->doc->at, NULL, "%s", why.message);
        return;
    }
    if (wanted & KILN_WANTS_AGAIN) return;
    g->left = arena_alloc(&k->doc->memory, (t->n_in + 1u) * sizeof *g->left);
    if (!g->left) {
        k->doc->failed = 1;
        return;
    }
    for (uint32_t p = 0; p < t->n_in; p++)
        if ((node_in(t, p)->flags & KILN_PORT_LAZY) && !(wanted >> p & 1))
            g->left[p] = g->in[p], g->in[p] = (port_sources){0};
}

/* ---- lists ---- */

static int is_list(const checker *k, source s) { return makes_list(&k->w->node[s.node], s.output); }

static void find_lists(const checker *k, graph_node *g)
{
    const kiln_node *t = g->type;
    for (uint32_t p = 0; p < t->n_in; p++)
        for (uint32_t i = 0; i < g->in[p].n; i++)
            g->mapped |= !(node_in(t, p)->flags & KILN_PORT_LIST) && is_list(k, g->in[p].from[i]);
    for (uint32_t p = 0; p < t->n_param; p++)
        g->mapped |= g->param_in[p].node != SOURCE_NONE && is_list(k, g->param_in[p]);
}

/* Sources come before users in the order, which lacks the nodes of a cycle. */
void wiring_check(checker *k)
{
    workflow *w = k->w;
    for (size_t i = 0; i < w->n_order && !k->doc->failed; i++) {
        graph_node *g = &w->node[w->order[i]];
        if (!g->type) continue;
        wiring_types(k, g);
        name_outputs(k, g);
    }
    for (size_t i = 0; i < w->n && !k->doc->failed; i++)
        if (w->node[i].type && !w->node[i].made) wiring_types(k, &w->node[i]);
    if (k->doc->n_fault) return;
    for (size_t i = 0; i < w->n && !k->doc->failed; i++) {
        settle_params(k, &w->node[w->order[i]]);
        settle_lazy(k, &w->node[w->order[i]]);
        find_lists(k, &w->node[w->order[i]]);
        named_files_find(k, &w->node[w->order[i]]);
    }
}
