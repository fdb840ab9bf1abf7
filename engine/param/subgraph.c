/* subgraph.c - see subgraph.h. */
#include "param/subgraph.h"

#include "base/names.h"
#include "base/str.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static kiln_status no_memory(const kiln_graph *g) { return error_set(g->e, KILN_ERR_NOMEM, "out of memory"); }
static const char *shown(const char *text) { return text ? text : ""; }
static int failed(const kiln_graph *g) { return g->e->status != KILN_OK; }

__attribute__((format(printf, 2, 3))) static kiln_status mistake(const kiln_graph *g, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    kiln_status status = error_setv(g->e, KILN_ERR_BUG, fmt, args);
    va_end(args);
    return status;
}

/* ---- the own row ---- */

static const kiln_port *port_at(const kiln_port *first, uint32_t stride, uint32_t i)
{
    return (const void *)((const char *)first + (size_t)i * stride);
}

static int64_t own_port(const kiln_port *first, uint32_t n, uint32_t stride, const char *name)
{
    for (uint32_t i = 0; name && i < n; i++)
        if (strcmp(port_at(first, stride, i)->name, name) == 0) return i;
    return -1;
}

static int64_t own_input(const kiln_node *t, const char *name) { return own_port(t->in, t->n_in, t->in_stride, name); }

int subgraph_own(const kiln_node *t, const char *name)
{
    if (own_input(t, name) >= 0) return 1;
    for (uint32_t i = 0; name && i < t->n_param; i++) {
        const kiln_param *p = (const void *)((const char *)t->param + (size_t)i * t->param_stride);
        if (strcmp(p->name, name) == 0) return 1;
    }
    return 0;
}

kiln_status subgraph_init(kiln_graph *g, const kiln_node *type, const uint32_t *wires, arena *memory, error *e)
{
    *g = (kiln_graph){.type = type, .wires = wires, .memory = memory, .e = e};
    g->output = arena_alloc(memory, (type->n_out + 1u) * sizeof *g->output);
    return g->output ? KILN_OK : no_memory(g);
}

static uint32_t wires(const kiln_graph *g, const char *own)
{
    int64_t i = own_input(g->type, own);
    return i < 0 ? 0 : g->wires[i];
}

/* ---- nodes ---- */

/* The newest first: wires mostly go to what was just added. */
static subgraph_node *find(const kiln_graph *g, const char *name)
{
    subgraph_node *n = g->newest;
    while (n && name && strcmp(n->name, name) != 0) n = n->older;
    return name ? n : NULL;
}

static kiln_status add_node(kiln_graph *g, const char *name, const char *type)
{
    if (failed(g)) return g->e->status;
    if (!name_is_valid(name))
        return mistake(g, "a node has no usable name ('%.60s'); names are [A-Za-z0-9_.+-]{1,128}", shown(name));
    if (!node_type_is_valid(type)) return mistake(g, "node '%s' has no usable type ('%.60s')", name, shown(type));
    if (find(g, name)) return mistake(g, "two nodes are called '%s'; every name once", name);
    if (g->n_node == SUBGRAPH_NODES_MAX) return mistake(g, "more than %d nodes", SUBGRAPH_NODES_MAX);
    subgraph_node *n = arena_alloc(g->memory, sizeof *n);
    if (!n || !(n->name = arena_strdup(g->memory, name)) || !(n->type = arena_strdup(g->memory, type)))
        return no_memory(g);
    n->older = g->newest;
    *(g->newest ? &g->newest->next : &g->node) = n;
    g->newest = n;
    g->n_node++;
    return KILN_OK;
}

/* ---- inputs ---- */

/* A new entry for the input: the first, or one more wire behind others. NULL after a mistake. */
static subgraph_input *add_input(kiln_graph *g, const char *node, const char *input, subgraph_kind kind)
{
    if (failed(g)) return NULL;
    subgraph_node *n = find(g, node);
    if (!n) return mistake(g, "there is no node '%.130s' to give an input; add it first", shown(node)), NULL;
    if (!name_is_valid(input))
        return mistake(g, "node '%s': an input has no usable name ('%.60s')", node, shown(input)), NULL;
    if (g->n_input == SUBGRAPH_INPUTS_MAX) return mistake(g, "more than %d inputs", SUBGRAPH_INPUTS_MAX), NULL;
    for (const subgraph_input *i = n->input; i; i = i->next)
        if (strcmp(i->name, input) == 0 && (i->kind == SUBGRAPH_VALUE || kind == SUBGRAPH_VALUE))
            return mistake(g, "node '%s': input '%s' is given twice", node, input), NULL;
    subgraph_input *i = arena_alloc(g->memory, sizeof *i);
    if (!i || !(i->name = arena_strdup(g->memory, input))) return no_memory(g), NULL;
    i->kind = kind;
    *(n->last_input ? &n->last_input->next : &n->input) = i;
    n->last_input = i;
    g->n_input++;
    return i;
}

static kiln_status keep(kiln_graph *g, const char **to, const char *text)
{
    return (*to = arena_strdup(g->memory, text)) ? KILN_OK : no_memory(g);
}

static kiln_status set_value(kiln_graph *g, const char *node, const char *input, const char *text, int quoted)
{
    subgraph_input *i = add_input(g, node, input, SUBGRAPH_VALUE);
    if (!i) return g->e->status;
    i->quoted = quoted;
    return keep(g, &i->text, text);
}

static kiln_status set_int(kiln_graph *g, const char *node, const char *input, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    return set_value(g, node, input, text, 0);
}

static kiln_status set_seed(kiln_graph *g, const char *node, const char *input, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return set_value(g, node, input, text, 0);
}

static kiln_status set_float(kiln_graph *g, const char *node, const char *input, double value)
{
    str text = {0};
    if (failed(g)) return g->e->status;
    if (!isfinite(value))
        return mistake(g, "node '%.130s': input '%.130s' is given a number that is not finite", shown(node),
                       shown(input));
    str_double(&text, value);
    kiln_status status = text.failed ? no_memory(g) : set_value(g, node, input, str_text(&text), 0);
    str_free(&text);
    return status;
}

static kiln_status set_bool(kiln_graph *g, const char *node, const char *input, int value)
{
    return set_value(g, node, input, value ? "true" : "false", 0);
}

static kiln_status set_text(kiln_graph *g, const char *node, const char *input, const char *value)
{
    if (failed(g)) return g->e->status;
    if (!value) return mistake(g, "node '%.130s': input '%.130s' is given NULL for a text", shown(node), shown(input));
    return set_value(g, node, input, value, 1);
}

/* 1: `a` was added before `b`. */
static int added_before(const subgraph_node *a, const subgraph_node *b)
{
    while (b && b != a) b = b->older;
    return b != NULL;
}

static kiln_status wire(kiln_graph *g, const char *node, const char *input, const char *from, const char *output)
{
    if (failed(g)) return g->e->status;
    const subgraph_node *to = find(g, node), *source = find(g, from);
    if (to && !source)
        return mistake(g, "node '%s': input '%.130s' is wired to '%.130s', which has not been added", node,
                       shown(input), shown(from));
    if (to && (source == to || !added_before(source, to)))
        return mistake(g, "node '%s' is wired to '%s', which was not added before it; add it first", node, from);
    subgraph_input *i = add_input(g, node, input, SUBGRAPH_WIRE);
    if (!i) return g->e->status;
    TRY(keep(g, &i->from, from));
    return keep(g, &i->output, shown(output));
}

static kiln_status pass(kiln_graph *g, const char *node, const char *input, const char *own)
{
    if (failed(g)) return g->e->status;
    if (!subgraph_own(g->type, own))
        return mistake(g, "node '%.130s': input '%.130s' is given '%.130s', which is no input of the expanding node",
                       shown(node), shown(input), shown(own));
    subgraph_input *i = add_input(g, node, input, SUBGRAPH_PASS);
    return i ? keep(g, &i->from, own) : g->e->status;
}

/* ---- outputs ---- */

/* The slot of the own output, not given yet; NULL after a mistake. */
static subgraph_output *own_output(kiln_graph *g, const char *own)
{
    const kiln_node *t = g->type;
    if (failed(g)) return NULL;
    int64_t i = own_port(t->out, t->n_out, t->out_stride, own);
    if (i < 0) return mistake(g, "gives an output '%.130s', which the node does not have", shown(own)), NULL;
    if (g->output[i].output) return mistake(g, "gives output '%s' twice", own), NULL;
    return &g->output[i];
}

static kiln_status output(kiln_graph *g, const char *own, const char *node, const char *name)
{
    subgraph_output *o = own_output(g, own);
    if (!o) return g->e->status;
    const subgraph_node *from = find(g, node);
    if (!from) return mistake(g, "output '%s' comes from '%.130s', which has not been added", own, shown(node));
    o->node = from->name;
    return keep(g, &o->output, shown(name));
}

static kiln_status output_passed(kiln_graph *g, const char *own, const char *in)
{
    subgraph_output *o = own_output(g, own);
    if (!o) return g->e->status;
    int64_t i = own_input(g->type, in);
    if (i < 0) return mistake(g, "output '%s' is given input '%.130s', which the node does not have", own, shown(in));
    if (g->wires[i] != 1)
        return mistake(g, "output '%s' is given input '%s', which has %u wires and not one", own, in, g->wires[i]);
    return keep(g, &o->output, in);
}

const kiln_graph_api graph_api = {
    .size = sizeof graph_api,
    .node = add_node,
    .set_int = set_int,
    .set_seed = set_seed,
    .set_float = set_float,
    .set_bool = set_bool,
    .set_text = set_text,
    .wire = wire,
    .pass = pass,
    .output = output,
    .output_passed = output_passed,
    .wires = wires,
};
