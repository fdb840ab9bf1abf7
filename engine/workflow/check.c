/* check.c - see check.h. */
#include "workflow/check.h"

#include "base/memory_alloc.h"
#include "base/names.h"
#include "base/str.h"
#include "param/param_text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    document *doc;
    const catalog_view *catalog;
    workflow *w;
    uint32_t *by_name; /* node indices sorted by name */
} checker;

const kiln_port *node_in(const kiln_node *n, uint32_t i)
{
    assert(i < n->n_in);
    return (const void *)((const char *)n->in + (size_t)i * n->in_stride);
}
const kiln_port *node_out(const kiln_node *n, uint32_t i)
{
    assert(i < n->n_out);
    return (const void *)((const char *)n->out + (size_t)i * n->out_stride);
}
const kiln_param *node_param(const kiln_node *n, uint32_t i)
{
    assert(i < n->n_param);
    return (const void *)((const char *)n->param + (size_t)i * n->param_stride);
}

/* ---- finding nodes by name ---- */

static _Thread_local const workflow *sorting;

static int by_node_name(const void *a, const void *b)
{
    return strcmp(sorting->node[*(const uint32_t *)a].doc->name, sorting->node[*(const uint32_t *)b].doc->name);
}

static int32_t find_node(const checker *k, const char *name)
{
    size_t low = 0, high = k->w->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(name, k->w->node[k->by_name[middle]].doc->name);
        if (order == 0) return (int32_t)k->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return SOURCE_NONE;
}

static const char *node_name_at(void *arg, size_t i) { return ((workflow *)arg)->node[i].doc->name; }

/* ---- types ---- */

static const char *type_at(void *arg, size_t i)
{
    const catalog_view *c = arg;
    return c->type_at(c->self, i);
}

static int resolve_type(checker *k, graph_node *g)
{
    if (!g->doc->type) return 0;
    g->type = k->catalog->find(k->catalog->self, g->doc->type, &g->plugin);
    if (g->type) return 1;
    const char *near = NULL;
    if (document_may_suggest(k->doc, k->catalog->n_type))
        near = nearest_name(g->doc->type, type_at, k->catalog->n_type, (void *)(uintptr_t)k->catalog);
    if (near)
        document_fault(k->doc, g->doc->type_at, g->doc, "no node type is called '%.130s'; did you mean '%s'?",
                       g->doc->type, near);
    else
        document_fault(
            k->doc, g->doc->type_at, g->doc,
            "no node type is called '%.130s'; `kiln nodes` lists those there are, `kiln plugins` what did not load",
            g->doc->type);
    return 0;
}

static int allocate(checker *k, graph_node *g)
{
    arena *a = &k->doc->memory;
    const kiln_node *t = g->type;
    g->params = arena_alloc(a, t->params_size);
    g->in = arena_alloc(a, t->n_in * sizeof *g->in);
    g->param_in = arena_alloc(a, t->n_param * sizeof *g->param_in);
    g->file = arena_alloc(a, t->n_param * sizeof *g->file);
    if (!g->params || !g->in || !g->param_in || !g->file) {
        k->doc->failed = 1;
        return 0;
    }
    for (uint32_t i = 0; i < t->n_param; i++) g->param_in[i].node = SOURCE_NONE;
    return 1;
}

/* ---- wires ---- */

static int types_fit(const char *a, const char *b)
{
    return strcmp(a, b) == 0 || strcmp(a, "*") == 0 || strcmp(b, "*") == 0;
}

static int find_output(checker *k, const graph_node *user, const doc_input *in, const doc_wire *wr,
                       const graph_node *from, uint32_t *out)
{
    int64_t number;
    if (str_to_i64(wr->output, strlen(wr->output), &number) && number >= 0 && number < (int64_t)from->type->n_out) {
        *out = (uint32_t)number;
        return 1;
    }
    for (uint32_t i = 0; i < from->type->n_out; i++)
        if (strcmp(node_out(from->type, i)->name, wr->output) == 0) {
            *out = i;
            return 1;
        }
    char have[300] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < from->type->n_out && used < sizeof have - 1; i++) {
        int n = snprintf(have + used, sizeof have - used, "%s%u %s", i ? ", " : "", i, node_out(from->type, i)->name);
        used += n > 0 ? (size_t)n : 0;
    }
    document_fault(k->doc, wr->at, user->doc, "input '%s': '%s' (%s) has no output '%.60s'; it has %s", in->name,
                   from->doc->name, from->type->type, wr->output, have[0] ? have : "none");
    return 0;
}

/* The output that a wire names, if it exists and has the wanted type; else 0 after a fault. */
static int resolve_wire(checker *k, const graph_node *user, const doc_input *in, const doc_wire *wr, const char *type,
                        source *out)
{
    int32_t at = find_node(k, wr->node);
    if (at == SOURCE_NONE) {
        const char *near =
            document_may_suggest(k->doc, k->w->n) ? nearest_name(wr->node, node_name_at, k->w->n, k->w) : NULL;
        document_fault(k->doc, wr->at, user->doc, "input '%s' is wired to '%.100s', which is not a node here%s%s%s",
                       in->name, wr->node, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        return 0;
    }
    const graph_node *from = &k->w->node[at];
    uint32_t output;
    if (!from->type || !find_output(k, user, in, wr, from, &output)) return 0;
    const char *made = node_out(from->type, output)->type;
    if (!types_fit(made, type)) {
        document_fault(k->doc, wr->at, user->doc, "input '%s' takes %s, but output '%s' of '%s' (%s) is %s", in->name,
                       type, node_out(from->type, output)->name, from->doc->name, from->type->type, made);
        return 0;
    }
    *out = (source){.node = at, .output = output};
    return 1;
}

static void check_port(checker *k, graph_node *g, const doc_input *in, uint32_t port)
{
    const kiln_port *p = node_in(g->type, port);
    if (!in->is_wire) {
        document_fault(k->doc, in->value_at, g->doc, "input '%s' takes a wire of type %s: [node, output]", in->name,
                       p->type);
        return;
    }
    if (in->n_wire > 1 && !(p->flags & KILN_PORT_LIST)) {
        document_fault(k->doc, in->value_at, g->doc, "input '%s' takes one wire, not %zu", in->name, in->n_wire);
        return;
    }
    g->in[port].from = arena_alloc(&k->doc->memory, in->n_wire * sizeof(source));
    if (!g->in[port].from) {
        k->doc->failed = 1;
        return;
    }
    for (size_t i = 0; i < in->n_wire; i++)
        if (resolve_wire(k, g, in, &in->wires[i], p->type, &g->in[port].from[g->in[port].n])) g->in[port].n++;
}

static param_names names_of(const catalog_view *c)
{
    return (param_names){.self = c->self, .name_at = c->name_at, .file = c->file};
}

/* A fault that says what the parameter takes: "input 'steps' BEFORE a whole number from 1 to 10000AFTER". */
static void fault_takes(checker *k, const graph_node *g, const kiln_param *p, place at, const char *before,
                        const char *after)
{
    str takes = {0};
    param_names names = names_of(k->catalog);
    param_describe(p, &names, PARAM_LISTED, &takes);
    if (takes.failed) k->doc->failed = 1;
    document_fault(k->doc, at, g->doc, "input '%s' %s %s%s", p->name, before, str_text(&takes), after);
    str_free(&takes);
}

static void check_param_wire(checker *k, graph_node *g, const doc_input *in, uint32_t index)
{
    const kiln_param *p = node_param(g->type, index);
    if (in->n_wire != 1)
        document_fault(k->doc, in->value_at, g->doc, "input '%s' takes one value or one wire", in->name);
    else if (p->type == KILN_P_FILE)
        document_fault(k->doc, in->value_at, g->doc, "input '%s' names a file and cannot be wired", in->name);
    else
        resolve_wire(k, g, in, &in->wires[0], param_wire_type(p->type), &g->param_in[index]);
}

static void check_param(checker *k, graph_node *g, const doc_input *in, uint32_t index)
{
    const kiln_param *p = node_param(g->type, index);
    error why = {0};
    int64_t given, used;
    if (in->is_wire) {
        check_param_wire(k, g, in, index);
        return;
    }
    if (in->not_scalar) {
        fault_takes(k, g, p, in->value_at, "takes", ", not a list or map");
        return;
    }
    param_names names = names_of(k->catalog);
    param_value v = param_written(in->text, in->quoted);
    kiln_status status = param_put(p, &v, &names, &k->doc->memory, g->params, &why);
    if (status == KILN_ERR_NOMEM) k->doc->failed = 1;
    if (status != KILN_OK) {
        document_fault(k->doc, in->value_at, g->doc, "input '%s': %s", in->name, why.message);
        return;
    }
    if (param_floored(p, g->params, &given, &used))
        document_warn(k->doc, in->value_at, g->doc, "input '%s': %lld is no multiple of %g; %lld will be used",
                      in->name, (long long)given, p->step, (long long)used);
    if (p->type == KILN_P_FILE) g->file[index] = param_get(p, g->params).text;
}

/* ---- inputs ---- */

static const char *input_name_at(void *arg, size_t i)
{
    const kiln_node *t = arg;
    return i < t->n_in ? node_in(t, (uint32_t)i)->name : node_param(t, (uint32_t)(i - t->n_in))->name;
}

static void unknown_input(checker *k, const graph_node *g, const doc_input *in)
{
    const char *near = NULL;
    if (document_may_suggest(k->doc, 1))
        near = nearest_name(in->name, input_name_at, g->type->n_in + g->type->n_param, (void *)(uintptr_t)g->type);
    if (strcmp(in->name, "control_after_generate") == 0)
        document_fault(
            k->doc, in->at, g->doc,
            "'control_after_generate' works only in ComfyUI's editor; take it out and give the seed with --set");
    else if (near)
        document_fault(k->doc, in->at, g->doc, "has no input '%.100s'; did you mean '%s'?", in->name, near);
    else
        document_fault(k->doc, in->at, g->doc, "has no input '%.100s'; see `kiln nodes %s`", in->name, g->type->type);
}

static void check_input(checker *k, graph_node *g, const doc_input *in, unsigned char *given)
{
    for (uint32_t i = 0; i < g->type->n_in; i++)
        if (strcmp(node_in(g->type, i)->name, in->name) == 0) {
            given[i] = 1;
            check_port(k, g, in, i);
            return;
        }
    for (uint32_t i = 0; i < g->type->n_param; i++)
        if (strcmp(node_param(g->type, i)->name, in->name) == 0) {
            given[g->type->n_in + i] = 1;
            check_param(k, g, in, i);
            return;
        }
    unknown_input(k, g, in);
}

static void check_absent(checker *k, graph_node *g, const unsigned char *given)
{
    for (uint32_t i = 0; i < g->type->n_in; i++) {
        const kiln_port *p = node_in(g->type, i);
        if (!given[i] && !(p->flags & KILN_PORT_OPTIONAL))
            document_fault(k->doc, g->doc->at, g->doc, "input '%s' is missing; wire it to an output of type %s",
                           p->name, p->type);
    }
    for (uint32_t i = 0; i < g->type->n_param; i++) {
        const kiln_param *p = node_param(g->type, i);
        if (given[g->type->n_in + i]) continue;
        if (p->flags & KILN_PARAM_REQUIRED) {
            fault_takes(k, g, p, g->doc->at, "is missing; it takes", "");
        } else if (p->type == KILN_P_FILE && p->def_str && p->def_str[0]) {
            doc_input in = {.name = p->name, .at = g->doc->at, .value_at = g->doc->at, .text = p->def_str};
            check_param(k, g, &in, i);
        }
    }
}

static void check_node(checker *k, graph_node *g)
{
    const kiln_node *t = g->type;
    for (uint32_t i = 0; i < t->n_param; i++) {
        const kiln_param *p = node_param(t, i);
        assert(p->offset + param_size(p->type) <= t->params_size); /* plugin_table.c checked it */
        if (param_default(p, &k->doc->memory, g->params) != KILN_OK) k->doc->failed = 1;
    }
    unsigned char *given = mem_calloc((size_t)t->n_in + t->n_param + 1, 1);
    if (!given) {
        k->doc->failed = 1;
        return;
    }
    for (size_t i = 0; i < g->doc->n_input; i++) check_input(k, g, &g->doc->input[i], given);
    check_absent(k, g, given);
    mem_free(given);
}

/* ---- order and cycles ---- */

typedef struct {
    uint32_t node, port, wire; /* position of the walk among this node's sources */
} walk;

/* The next source of node g from position `at` on: first those of its ports, then wired parameters. SOURCE_NONE at the
 * end. */
static int32_t next_source(const graph_node *g, walk *at)
{
    const kiln_node *t = g->type;
    while (t && at->port < t->n_in + t->n_param) {
        if (at->port < t->n_in) {
            if (at->wire < g->in[at->port].n) return g->in[at->port].from[at->wire++].node;
        } else if (at->wire++ == 0 && g->param_in[at->port - t->n_in].node != SOURCE_NONE) {
            return g->param_in[at->port - t->n_in].node;
        }
        at->port++;
        at->wire = 0;
    }
    return SOURCE_NONE;
}

static void report_cycle(checker *k, const walk *stack, size_t depth, uint32_t again)
{
    char text[600];
    size_t used = 0, i = depth;
    while (i > 0 && stack[i - 1].node != again) i--;
    for (; i <= depth && used < 500; i++) {
        const char *name = i ? k->w->node[stack[i - 1].node].doc->name : "";
        int n = i ? snprintf(text + used, sizeof text - used, "'%.60s' <- ", name) : 0;
        used += n > 0 ? (size_t)n : 0;
    }
    const graph_node *g = &k->w->node[again];
    document_fault(k->doc, g->doc->at, g->doc, "is part of a cycle: %.*s'%.60s'; a node cannot wait for itself",
                   (int)used, text, g->doc->name);
}

/* Depth-first search over sources, without recursion; `order` gets each node after its sources. */
static void order_nodes(checker *k)
{
    workflow *w = k->w;
    unsigned char *state = mem_calloc(w->n + 1, 1); /* 1: on the stack, 2: done */
    walk *stack = mem_alloc((w->n + 1) * sizeof *stack);
    size_t n = 0;
    if (!state || !stack) k->doc->failed = 1;
    for (uint32_t root = 0; root < w->n && !k->doc->failed; root++) {
        size_t depth = 0;
        if (state[root]) continue;
        stack[depth++] = (walk){.node = root};
        state[root] = 1;
        while (depth > 0) {
            walk *top = &stack[depth - 1];
            int32_t next = next_source(&w->node[top->node], top);
            if (next == SOURCE_NONE) {
                state[top->node] = 2;
                w->order[n++] = top->node;
                depth--;
            } else if (state[next] == 0) {
                state[next] = 1;
                stack[depth++] = (walk){.node = (uint32_t)next};
            } else if (state[next] == 1) {
                report_cycle(k, stack, depth, (uint32_t)next);
                break; /* one cycle per root is enough; the search goes on from the next root */
            }
        }
        for (; depth > 0; depth--) state[stack[depth - 1].node] = 2;
    }
    assert(n == w->n || k->doc->failed || k->doc->n_fault > 0);
    mem_free(state);
    mem_free(stack);
}

static void mark_needed(checker *k)
{
    workflow *w = k->w;
    size_t outputs = 0;
    for (size_t i = w->n; i-- > 0;) {
        graph_node *g = &w->node[w->order[i]];
        if (g->type && (g->type->flags & KILN_NODE_OUTPUT)) g->needed = 1, outputs++;
        if (!g->needed) continue;
        walk at = {0};
        for (int32_t s; (s = next_source(g, &at)) != SOURCE_NONE;) w->node[s].needed = 1;
    }
    if (outputs == 0) {
        document_fault(k->doc, w->n ? w->node[0].doc->at : (place){.line = 1, .column = 1}, NULL,
                       "no node writes anything; add one like SaveImage");
        return;
    }
    for (size_t i = 0; i < w->n; i++)
        if (!w->node[i].needed)
            document_warn(k->doc, w->node[i].doc->at, w->node[i].doc,
                          "nothing that is written depends on it; it will not run");
}

kiln_status workflow_check(document *doc, const catalog_view *catalog, workflow *w, error *e)
{
    arena *a = &doc->memory;
    *w = (workflow){.doc = doc, .n = doc->n_node};
    w->node = arena_alloc(a, w->n * sizeof *w->node);
    w->order = arena_alloc(a, w->n * sizeof *w->order);
    checker k = {.doc = doc, .catalog = catalog, .w = w, .by_name = arena_alloc(a, w->n * sizeof(uint32_t))};
    if (!w->node || !w->order || !k.by_name) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", doc->path);
    size_t faults_before = doc->n_fault;
    for (uint32_t i = 0; i < w->n; i++) {
        w->node[i].doc = &doc->node[i];
        k.by_name[i] = i;
    }
    sorting = w;
    qsort(k.by_name, w->n, sizeof *k.by_name, by_node_name);
    for (size_t i = 0; i < w->n; i++)
        if (resolve_type(&k, &w->node[i]) && !allocate(&k, &w->node[i])) break;
    for (size_t i = 0; i < w->n && !doc->failed; i++)
        if (w->node[i].type) check_node(&k, &w->node[i]);
    if (!doc->failed) order_nodes(&k);
    if (!doc->failed && doc->n_fault == faults_before && w->n) mark_needed(&k);
    document_sort_faults(doc);
    return doc->failed ? error_set(e, KILN_ERR_NOMEM, "%s: out of memory", doc->path) : KILN_OK;
}
