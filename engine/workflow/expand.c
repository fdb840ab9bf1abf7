/* expand.c - nodes that stand for others (KILN_NODE_EXPANDS): their expand() names nodes, which take their place in the
 * document before anything is checked; see checker.h. As with an included file (include.c), inner nodes are called
 * OUTER/NAME, and wires to the outer node are tied to what its outputs are.
 */
#include "base/memory_alloc.h"
#include "base/str.h"
#include "param/param_text.h"
#include "param/subgraph.h"
#include "workflow/checker.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 16 };

/* An expanded node: what its name stands for in wires. */
typedef struct {
    const graph_node *outer;
    const subgraph_node *node; /* what stands in its place */
    const subgraph_output *output;
    const doc_outer *as;
} scope;

typedef struct {
    checker *k;
    document *d;
    scope *scope; /* sorted by the outer node's name */
    size_t n_scope;
    doc_node *node; /* the new list */
    size_t n, capacity;
    int full;
} expander;

/* ---- calling expand() ---- */

static int is_expanding(const graph_node *g) { return g->type && g->type->expand && !g->doc->stuck; }

/* The wired parameters that were looked at through their constants: those nodes have done their part. */
static void note_folded(checker *k, const graph_node *g)
{
    for (uint32_t i = 0; i < g->type->n_param; i++)
        if (g->param_in[i].node != SOURCE_NONE)
            k->doc->node[g->param_in[i].node].folded |= !(node_param(g->type, i)->flags & KILN_PARAM_PASSED);
}

/* A ${reference} in a parameter that expand() looks at decides which nodes there are. */
static void note_structure(checker *k, const graph_node *g)
{
    for (size_t i = 0; i < g->doc->n_input; i++)
        for (uint32_t p = 0; p < g->type->n_param && g->doc->input[i].source; p++)
            if (strcmp(node_param(g->type, p)->name, g->doc->input[i].name) == 0 &&
                !(node_param(g->type, p)->flags & KILN_PARAM_PASSED))
                document_note_structural(k->doc, g->doc->input[i].source);
}

static int record(checker *k, graph_node *g, const void *params, kiln_graph *out)
{
    uint32_t *wires = arena_alloc(&k->doc->memory, (g->type->n_in + 1u) * sizeof *wires);
    error *said = arena_alloc(&k->doc->memory, sizeof *said), why = {0};
    if (!wires || !said || subgraph_init(out, g->type, wires, &k->doc->memory, said) != KILN_OK)
        return k->doc->failed = 1, 0;
    for (uint32_t i = 0; i < g->type->n_in; i++) wires[i] = g->in[i].n;
    kiln_status status = k->catalog->expand
                             ? k->catalog->expand(k->catalog->self, g->doc->name, g->type, params, out, &why)
                             : error_set(&why, KILN_ERR_UNSUPPORTED, "node '%s' (%s) cannot be expanded here",
                                         g->doc->name, g->type->type);
    if (status == KILN_ERR_NOMEM) k->doc->failed = 1;
    if (status != KILN_OK) document_fault(k->doc, doc_node_place(g->doc, why.param), NULL, "%s", why.message);
    return status == KILN_OK;
}

static const subgraph_node *inner_named(const kiln_graph *made, const char *name)
{
    const subgraph_node *n = made->node;
    while (n && strcmp(n->name, name) != 0) n = n->next;
    return n;
}

/* Every own output is given, by an output that exists and has its type. */
static void check_outputs(checker *k, const graph_node *g, const kiln_graph *made)
{
    for (uint32_t i = 0; i < g->type->n_out; i++) {
        const kiln_port *own = node_out(g->type, i);
        const subgraph_output *o = &made->output[i];
        digest ignored;
        char have[300];
        uint32_t at;
        if (!o->output)
            document_fault(k->doc, g->doc->at, g->doc,
                           "its plugin has a fault: expand() does not say what output '%s' is", own->name);
        if (!o->output || !o->node) continue;
        const subgraph_node *inner = inner_named(made, o->node);
        const kiln_node *t = k->catalog->find(k->catalog->self, inner->type, &ignored);
        if (!t) continue; /* the inner node's own check says so */
        if (!output_named(t, o->output, &at, have))
            document_fault(k->doc, g->doc->at, g->doc,
                           "its plugin has a fault: output '%s' comes from '%s' (%s), which has no output '%.60s'; it "
                           "has %s",
                           own->name, o->node, inner->type, o->output, have);
        else if (!types_fit(own->type, node_out(t, at)->type))
            document_fault(
                k->doc, g->doc->at, g->doc,
                "its plugin has a fault: output '%s' is %s, but comes from '%s' (%s), whose output '%s' is %s",
                own->name, own->type, o->node, inner->type, node_out(t, at)->name, node_out(t, at)->type);
    }
}

static void check_depth(checker *k, const graph_node *g)
{
    if (g->doc->part_of && g->doc->part_of->depth >= DEPTH_MAX)
        document_fault(k->doc, g->doc->at, g->doc, "nodes expand into nodes that expand, more than %d deep", DEPTH_MAX);
}

/* 1: *made is what the node expands into. */
static int expand_one(checker *k, graph_node *g, kiln_graph *made)
{
    size_t before = k->doc->n_fault;
    int32_t open = SOURCE_NONE;
    const void *params = NULL;
    check_depth(k, g);
    if (k->doc->n_fault == before && checker_allocate(k, g)) {
        checker_node(k, g);
        wiring_types(k, g);
        params = k->doc->n_fault == before ? wiring_params(k, g, KILN_PARAM_PASSED, &open) : NULL;
    }
    if (params && open != SOURCE_NONE)
        document_fault(k->doc, g->param_in[open].wire->at, g->doc,
                       "input '%s' decides which nodes it expands into, so it cannot be wired to what a run computes; "
                       "write the value, or wire it to a constant like PrimitiveInt",
                       node_param(g->type, (uint32_t)open)->name);
    else if (params && record(k, g, params, made))
        check_outputs(k, g, made);
    if (k->doc->n_fault > before || !params || k->doc->failed) return 0;
    note_folded(k, g);
    note_structure(k, g);
    return 1;
}

/* ---- inner nodes ---- */

static const char *within(document *d, const char *outer, const char *name)
{
    const char *text = arena_printf(&d->memory, "%s/%s", outer, name);
    if (!text) d->failed = 1;
    return text ? text : "";
}

static const doc_input *input_named(const doc_node *n, const char *name)
{
    for (size_t i = 0; i < n->n_input; i++)
        if (strcmp(n->input[i].name, name) == 0) return &n->input[i];
    return NULL;
}

/* The inner node's input of that name, a new one if it has none yet. */
static doc_input *input_of(doc_node *n, const subgraph_input *from, place at)
{
    for (size_t i = 0; i < n->n_input; i++)
        if (strcmp(n->input[i].name, from->name) == 0) return &n->input[i];
    doc_input *in = &n->input[n->n_input++];
    *in = (doc_input){.name = from->name, .at = at, .value_at = at};
    return in;
}

static void add_wires(document *d, doc_input *in, const doc_wire *wire, size_t n)
{
    doc_wire *all = arena_alloc(&d->memory, (in->n_wire + n + 1) * sizeof *all);
    if (!all) {
        d->failed = 1;
        return;
    }
    if (in->n_wire) memcpy(all, in->wires, in->n_wire * sizeof *all);
    if (n) memcpy(all + in->n_wire, wire, n * sizeof *all);
    in->wires = all;
    in->n_wire += n;
    in->is_wire = 1;
}

static void pass_default(document *d, const graph_node *outer, const subgraph_input *from, doc_node *n)
{
    for (uint32_t p = 0; p < outer->type->n_param; p++) {
        const kiln_param *row = node_param(outer->type, p);
        if (strcmp(row->name, from->from) != 0) continue;
        param_value v = param_default_value(row);
        str text = {0};
        param_value_text(&v, &text);
        if (row->type == KILN_P_FILE && !str_text(&text)[0]) {
            str_free(&text);
            return;
        }
        doc_input *in = input_of(n, from, outer->doc->at);
        in->text = text.failed ? NULL : arena_strdup(&d->memory, str_text(&text));
        in->quoted = param_is_text(row->type);
        if (!in->text) d->failed = 1, in->text = "";
        str_free(&text);
    }
}

/* 1: `images` or `images.NAME` */
static int stands_at(const doc_input *given, const char *own)
{
    size_t n = strlen(own);
    return strncmp(given->name, own, n) == 0 && (given->name[n] == '\0' || given->name[n] == '.');
}

/* What stands at the outer node's input: all its wires, a value, or a parameter's default. */
static void pass(document *d, const graph_node *outer, const subgraph_input *from, doc_node *n)
{
    const doc_node *o = outer->doc;
    size_t wires = 0, found = 0, at = 0;
    for (size_t i = 0; i < o->n_input; i++)
        if (stands_at(&o->input[i], from->from)) wires += o->input[i].n_wire, found++;
    if (!found) {
        pass_default(d, outer, from, n);
        return;
    }
    doc_wire *all = arena_alloc(&d->memory, (wires + 1) * sizeof *all);
    if (!all) {
        d->failed = 1;
        return;
    }
    doc_input *in = input_of(n, from, o->at);
    for (size_t i = 0; i < o->n_input; i++) {
        const doc_input *given = &o->input[i];
        if (!stands_at(given, from->from)) continue;
        in->value_at = given->value_at;
        if (given->n_wire) memcpy(all + at, given->wires, given->n_wire * sizeof *all);
        at += given->n_wire;
        if (given->is_wire) continue;
        in->text = given->text, in->source = given->source;
        in->quoted = given->quoted, in->not_scalar = given->not_scalar;
    }
    if (wires) add_wires(d, in, all, wires);
}

static void fill_inner(document *d, const graph_node *outer, const subgraph_node *from, doc_node *n)
{
    size_t inputs = 0;
    for (const subgraph_input *i = from->input; i; i = i->next) inputs++;
    if (!(n->input = arena_alloc(&d->memory, (inputs + 1) * sizeof *n->input))) {
        d->failed = 1;
        return;
    }
    for (const subgraph_input *i = from->input; i && !d->failed; i = i->next) {
        if (i->kind == SUBGRAPH_PASS) {
            pass(d, outer, i, n);
            continue;
        }
        doc_input *in = input_of(n, i, outer->doc->at);
        if (i->kind == SUBGRAPH_VALUE)
            in->text = i->text, in->quoted = i->quoted;
        else
            add_wires(d, in, &(doc_wire){outer->doc->at, within(d, outer->doc->name, i->from), i->output}, 1);
    }
}

static void push(expander *x, doc_node n)
{
    if (x->n == DOCUMENT_NODES_MAX) {
        if (!x->full)
            document_fault(x->d, n.at, NULL, "more than %d nodes with what they expand into", DOCUMENT_NODES_MAX);
        x->full = 1;
        return;
    }
    if (x->n == x->capacity) {
        size_t capacity = x->capacity ? 2 * x->capacity : 64;
        doc_node *grown = arena_alloc(&x->d->memory, capacity * sizeof *grown);
        if (!grown) {
            x->d->failed = 1;
            return;
        }
        if (x->n) memcpy(grown, x->node, x->n * sizeof *grown);
        x->node = grown, x->capacity = capacity;
    }
    x->node[x->n++] = n;
}

static void push_inner(expander *x, const scope *s)
{
    const doc_node *o = s->outer->doc;
    for (const subgraph_node *from = s->node; from && !x->d->failed; from = from->next) {
        doc_node n = {.name = within(x->d, o->name, from->name),
                      .at = o->at,
                      .type = from->type,
                      .type_at = o->type_at,
                      .part_of = s->as};
        fill_inner(x->d, s->outer, from, &n);
        push(x, n);
    }
}

/* ---- wires to an expanded node ---- */

static int by_outer(const void *a, const void *b)
{
    return strcmp(((const scope *)a)->outer->doc->name, ((const scope *)b)->outer->doc->name);
}

static int named(const void *key, const void *item) { return strcmp(key, ((const scope *)item)->outer->doc->name); }

static const scope *find_scope(const expander *x, const char *name)
{
    return bsearch(name, x->scope, x->n_scope, sizeof *x->scope, named);
}

/* Follows the wire to a node that is there; 0 after a fault. */
static int tie_wire(expander *x, const doc_node *user, const doc_input *in, doc_wire *wire)
{
    const scope *s;
    for (size_t steps = 0; (s = find_scope(x, wire->node)) != NULL; steps++) {
        char have[300];
        uint32_t at;
        if (!output_named(s->outer->type, wire->output, &at, have)) {
            document_fault(x->d, wire->at, user, "input '%s': '%s' (%s) has no output '%.60s'; it has %s", in->name,
                           wire->node, s->outer->type->type, wire->output, have);
            return 0;
        }
        if (s->output[at].node) {
            wire->node = within(x->d, wire->node, s->output[at].node), wire->output = s->output[at].output;
            return 1;
        }
        const doc_input *own = input_named(s->outer->doc, s->output[at].output);
        if (steps > x->n_scope || !own || own->n_wire != 1) {
            document_fault(x->d, wire->at, user,
                           "input '%s' is part of a cycle through '%s' (%s); a node cannot wait "
                           "for itself",
                           in->name, s->outer->doc->name, s->outer->type->type);
            return 0;
        }
        wire->node = own->wires[0].node, wire->output = own->wires[0].output;
    }
    return 1;
}

static void tie(expander *x, doc_node *n)
{
    for (size_t i = 0; i < n->n_input; i++) {
        doc_input *in = &n->input[i];
        size_t kept = 0, touched = 0;
        for (size_t w = 0; w < in->n_wire; w++) touched += find_scope(x, in->wires[w].node) != NULL;
        if (!touched) continue;
        doc_wire *own = arena_alloc(&x->d->memory, in->n_wire * sizeof *own); /* others may have the same wires */
        if (!own) {
            x->d->failed = 1;
            return;
        }
        memcpy(own, in->wires, in->n_wire * sizeof *own);
        for (size_t w = 0; w < in->n_wire; w++) {
            doc_wire wire = own[w];
            if (tie_wire(x, n, in, &wire)) own[kept++] = wire;
        }
        in->wires = own;
        in->n_wire = kept;
    }
}

/* ---- a level ---- */

static void add_scope(expander *x, graph_node *g, const kiln_graph *made)
{
    doc_outer *as = arena_alloc(&x->d->memory, sizeof *as);
    if (!as) {
        x->d->failed = 1;
        return;
    }
    *as = (doc_outer){.outer = g->doc->part_of,
                      .name = g->doc->name,
                      .type = g->doc->type,
                      .depth = g->doc->part_of ? g->doc->part_of->depth + 1 : 1};
    x->scope[x->n_scope++] = (scope){.outer = g, .node = made->node, .output = made->output, .as = as};
}

static void rebuild(expander *x)
{
    const workflow *w = x->k->w;
    qsort(x->scope, x->n_scope, sizeof *x->scope, by_outer);
    for (size_t i = 0; i < w->n && !x->d->failed; i++) {
        const scope *s = is_expanding(&w->node[i]) ? find_scope(x, x->d->node[i].name) : NULL;
        if (s && s->outer == &w->node[i])
            push_inner(x, s);
        else
            push(x, x->d->node[i]);
    }
    for (size_t i = 0; i < w->n && x->full; i++)
        if (is_expanding(&w->node[i])) x->d->node[i].stuck = 1;
    if (x->full) return;
    for (size_t i = 0; i < x->n && !x->d->failed; i++) tie(x, &x->node[i]);
    x->d->node = x->node;
    x->d->n_node = x->n;
}

int expand_level(checker *k)
{
    workflow *w = k->w;
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++) n += is_expanding(&w->node[i]);
    if (!n) return 0;
    expander x = {.k = k, .d = k->doc, .scope = arena_alloc(&k->doc->memory, n * sizeof(scope))};
    if (!x.scope) return k->doc->failed = 1, 0;
    for (size_t i = 0; i < w->n && !k->doc->failed; i++) {
        kiln_graph made;
        if (!is_expanding(&w->node[i])) continue;
        if (expand_one(k, &w->node[i], &made))
            add_scope(&x, &w->node[i], &made);
        else
            k->doc->node[i].stuck = 1;
    }
    if (!x.n_scope || k->doc->failed) return 0;
    rebuild(&x);
    return !k->doc->failed && !x.full;
}
