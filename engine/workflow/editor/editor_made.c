/* editor_made.c - see editor_made.h. */
#include "workflow/editor/editor_made.h"

#include "base/memory_alloc.h"
#include "base/str.h"
#include "workflow/editor/editor_widgets.h"

#include <assert.h>
#include <string.h>

doc_node editor_doc_node(editor *x, const made_node *n)
{
    return (doc_node){
        .name = n->id, .at = n->node->at, .type = n->node->type, .where = editor_where(x, n->scope, n->node)};
}

/* ---- nodes ---- */

static void make_node(made_graph *m, editor_scope *s, const editor_node *n)
{
    /* A type that nobody knows, without inputs and outputs, is something of the editor's: a label, a switch. */
    if (!n->row && n->n_in + n->n_out == 0) return;
    const char *id = arena_printf(&m->x->d->memory, "%s%s", s->prefix, n->id);
    if (!id) m->x->d->failed = 1;
    s->made[n - s->graph->node] = (int32_t)m->n;
    m->node[m->n++] = (made_node){.scope = s, .node = n, .id = id};
}

static size_t count_nodes(made_graph *m, editor_scope *s)
{
    size_t n = s->graph->n_node;
    for (size_t i = 0; i < s->graph->n_node && !m->x->d->failed; i++) {
        const editor_node *one = &s->graph->node[i];
        editor_scope *in =
            one->kind == EDITOR_INSTANCE && one->mode == EDITOR_ON ? editor_scope_of(m->x, s, one) : NULL;
        if (in) n += count_nodes(m, in); /* EDITOR_DEPTH_MAX at most */
    }
    return n;
}

static void make_nodes(made_graph *m, editor_scope *s)
{
    for (size_t i = 0; i < s->graph->n_node && !m->x->d->failed; i++) {
        const editor_node *n = &s->graph->node[i];
        if (n->mode != EDITOR_ON) continue;
        if (n->kind == EDITOR_NODE) make_node(m, s, n);
        if (n->kind == EDITOR_INSTANCE && s->child[i]) make_nodes(m, s->child[i]);
    }
}

void editor_make(made_graph *m)
{
    editor_scope *top = editor_scope_top(m->x);
    size_t n = top ? count_nodes(m, top) : 0;
    if (top && !(m->node = arena_alloc(&m->x->d->memory, (n + 1) * sizeof *m->node))) m->x->d->failed = 1;
    if (!m->x->d->failed) make_nodes(m, top);
}

/* ---- inputs ---- */

static made_input *add_input(made_node *n, const char *name, place at, int port)
{
    made_input *in = &n->in[n->n_in++];
    *in = (made_input){.name = name, .at = at, .port = port, .from = SOURCE_NONE};
    return in;
}

/* An input that is not there counts as cut off by the muted node, if one is to blame. */
static void note_cut(made_node *n, const kiln_port *p, const editor_wire *w)
{
    if (p->flags & KILN_PORT_OPTIONAL || n->cut || !w->cut) return;
    n->cut_scope = w->cut_scope, n->cut = w->cut, n->cut_input = p->name;
}

static void wire_input(made_input *in, const editor_wire *w)
{
    in->from = w->scope->made[w->node - w->scope->graph->node];
    in->slot = w->slot;
}

static void make_port(made_graph *m, made_node *n, int port, const editor_slot *slot)
{
    const kiln_port *p = node_in(n->node->row, (uint32_t)port);
    editor_wire w = editor_follow(m->x, n->scope, n->node, slot, p->type);
    if (w.kind == WIRE_NODE)
        wire_input(add_input(n, slot->name, slot->at, port), &w);
    else if (w.kind == WIRE_VALUE && w.value)
        add_input(n, slot->name, slot->at, port)->value = w.value;
    else
        note_cut(n, p, &w);
}

/* A list port's wires are inputs of their own: images.image0, images.image1. */
static void make_list(made_graph *m, made_node *n, int port)
{
    const kiln_port *p = node_in(n->node->row, (uint32_t)port);
    size_t length = strlen(p->name), before = n->n_in;
    editor_wire last = {0};
    for (size_t i = 0; i < n->node->n_in; i++) {
        const editor_slot *slot = &n->node->in[i];
        int part = strncmp(slot->name, p->name, length) == 0 && (!slot->name[length] || slot->name[length] == '.');
        for (size_t k = before; part && k < n->n_in && editor_step(m->x, 1); k++)
            part = strcmp(n->in[k].name, slot->name) != 0;
        if (!part || !slot->link) continue;
        editor_wire w = editor_follow(m->x, n->scope, n->node, slot, p->type);
        if (w.kind == WIRE_NODE) wire_input(add_input(n, slot->name, slot->at, port), &w);
        if (w.cut) last = w;
    }
    if (n->n_in == before) note_cut(n, p, &last);
}

static void make_param(made_graph *m, made_node *n, uint32_t index)
{
    const kiln_param *p = node_param(n->node->row, index);
    const editor_slot *slot = editor_input(n->node, p->name);
    editor_wire w = {0};
    if (slot && slot->link) w = editor_follow(m->x, n->scope, n->node, slot, editor_param_type(p));
    const yaml_node *value = editor_value(m->x, n->scope, n->node, p->name);
    if (w.kind == WIRE_VALUE && w.value) value = w.copied ? editor_copied(m->x, p, w.value) : w.value;
    if (w.kind != WIRE_NODE && !value) return;
    made_input *in = add_input(n, p->name, slot ? slot->at : n->node->at, -1);
    in->value = value;
    if (w.kind == WIRE_NODE) wire_input(in, &w);
}

static int is_of_row(const kiln_node *t, const char *name)
{
    if (editor_param(t, name) >= 0) return 1;
    for (uint32_t i = 0; i < t->n_in; i++) {
        const kiln_port *p = node_in(t, i);
        size_t n = strlen(p->name);
        if (strncmp(p->name, name, n) == 0 && (!name[n] || (name[n] == '.' && p->flags & KILN_PORT_LIST))) return 1;
    }
    return 0;
}

/* Links of sockets that the row does not have stay, so that the check can say so; a widget's socket has no meaning. */
static void make_strange(made_graph *m, made_node *n)
{
    for (size_t i = 0; i < n->node->n_in; i++) {
        const editor_slot *slot = &n->node->in[i];
        if (!slot->link || slot->widget || is_of_row(n->node->row, slot->name)) continue;
        editor_wire w = editor_follow(m->x, n->scope, n->node, slot, slot->type);
        if (w.kind == WIRE_NODE) wire_input(add_input(n, slot->name, slot->at, -1), &w);
    }
}

static void make_inputs(made_graph *m, made_node *n)
{
    const kiln_node *t = n->node->row;
    size_t most = (size_t)t->n_in + t->n_param + n->node->n_in;
    if (!editor_step(m->x, most)) return;
    if (!(n->in = arena_alloc(&m->x->d->memory, (most + 1) * sizeof *n->in))) {
        m->x->d->failed = 1;
        return;
    }
    for (uint32_t i = 0; i < t->n_in; i++) {
        const editor_slot *slot = editor_input(n->node, node_in(t, i)->name);
        if (node_in(t, i)->flags & KILN_PORT_LIST)
            make_list(m, n, (int)i);
        else if (slot && slot->link)
            make_port(m, n, (int)i, slot);
    }
    for (uint32_t i = 0; i < t->n_param; i++) make_param(m, n, i);
    make_strange(m, n);
    assert(n->n_in <= most);
}

void editor_make_inputs(made_graph *m)
{
    for (size_t i = 0; i < m->n && !m->x->d->failed; i++)
        if (m->node[i].node->row) make_inputs(m, &m->node[i]);
}
