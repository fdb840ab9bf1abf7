/* editor_wires.c - see editor_wires.h. */
#include "workflow/editor/editor_wires.h"

#include "workflow/editor/editor_widgets.h"

#include <string.h>
#include <strings.h>

enum { HOPS_MAX = 10000, BYPASS_MAX = 1000 };

/* Where a wire is on its way up. */
typedef struct {
    editor *x;
    editor_scope *scope;
    const editor_node *user; /* for messages: whose input it is */
    const editor_slot *in;
    const editor_scope *user_scope;
    const char *type;   /* wanted here */
    editor_scope *edge; /* the first subgraph that it left by a promoted input, which has a value where no link ends */
    uint32_t edge_input;
    int hops, rerouted;
} walk;

/* ---- types ---- */

/* Anything, and what is found from what is wired ("*T"). */
static int is_any(const char *type) { return !*type || *type == '*'; }

/* a and b are lists with commas between. */
static int share_type(const char *a, const char *b)
{
    for (const char *p = a; *p; p += strcspn(p, ","), p += *p == ',') {
        size_t n = strcspn(p, ",");
        for (const char *q = b; *q; q += strcspn(q, ","), q += *q == ',')
            if (strcspn(q, ",") == n && strncasecmp(p, q, n) == 0) return 1;
    }
    return 0;
}

static int fits(const char *a, const char *b) { return is_any(a) || is_any(b) || share_type(a, b); }

/* ---- bypass ---- */

typedef struct {
    const char *type;
    const editor_slot *slot; /* NULL: the file has none, so nothing is linked to it */
} passed;

/* The sockets of a known node, with a list port's as the file has them, then its widgets. */
static size_t known_inputs(const editor_node *n, passed *all)
{
    size_t count = 0;
    for (uint32_t i = 0; i < n->row->n_in && count < BYPASS_MAX; i++) {
        const kiln_port *p = node_in(n->row, i);
        size_t length = strlen(p->name);
        const editor_slot *whole = editor_input(n, p->name);
        if (whole || !(p->flags & KILN_PORT_LIST)) {
            all[count++] = (passed){p->type, whole};
            continue;
        }
        for (size_t k = 0; k < n->n_in && count < BYPASS_MAX; k++)
            if (strncmp(n->in[k].name, p->name, length) == 0 && n->in[k].name[length] == '.')
                all[count++] = (passed){p->type, &n->in[k]};
    }
    for (uint32_t i = 0; i < n->row->n_param && count < BYPASS_MAX; i++)
        all[count++] = (passed){editor_param_type(node_param(n->row, i)), editor_input(n, node_param(n->row, i)->name)};
    return count;
}

static size_t file_inputs(const editor_node *n, passed *all)
{
    size_t count = 0;
    for (int widget = 0; widget < 2; widget++)
        for (size_t k = 0; k < n->n_in && count < BYPASS_MAX; k++)
            if (n->in[k].widget == widget) all[count++] = (passed){n->in[k].type, &n->in[k]};
    return count;
}

/* The input that a bypassed node gives for its output `slot`; -1: none. */
static int bypass_input(const passed *in, size_t n, const char *made, uint32_t slot, const char *wanted)
{
    if (is_any(wanted)) return n == 0 ? -1 : slot < n ? (int)slot : 0;
    if (slot < n && fits(in[slot].type, made) && fits(in[slot].type, wanted)) return (int)slot;
    for (size_t i = 0; i < n; i++)
        if (strcasecmp(in[i].type, wanted) == 0) return (int)i;
    for (size_t i = 0; i < n; i++)
        if (fits(in[i].type, made) && fits(in[i].type, wanted)) return (int)i;
    return -1;
}

static const char *output_type(const editor_node *n, uint32_t slot)
{
    if (n->row) return slot < n->row->n_out ? node_out(n->row, slot)->type : "*";
    return slot < n->n_out ? n->out[slot].type : "*";
}

static const editor_slot *through(walk *w, const editor_node *n, uint32_t slot)
{
    passed in[BYPASS_MAX];
    if (!editor_step(w->x, n->n_in + 1)) return NULL;
    size_t count = n->row ? known_inputs(n, in) : file_inputs(n, in);
    int i = bypass_input(in, count, output_type(n, slot), slot, w->type);
    if (i < 0) return NULL;
    w->type = in[i].type;
    return in[i].slot;
}

/* ---- Set and Get ---- */

static const char *key_of(const editor_node *n)
{
    return n->values && n->values->kind == YAML_SEQUENCE && n->values->n ? editor_text(n->values->item[0]) : NULL;
}

/* How many SetNodes of the graph have this name; *first: the first. */
static size_t setters(editor *x, const editor_graph *g, const char *key, const editor_node **first)
{
    size_t found = 0;
    for (size_t i = 0; i < g->n_node && editor_step(x, 1); i++) {
        const char *own = g->node[i].kind == EDITOR_SET ? key_of(&g->node[i]) : NULL;
        if (own && strcmp(own, key) == 0 && found++ == 0) *first = &g->node[i];
    }
    return found;
}

/* The SetNode that a GetNode means: of its own graph, else of the nearest one around that has just one. */
static const editor_node *setter_of(walk *w, const editor_node *get)
{
    const char *key = key_of(get);
    for (editor_scope *s = w->scope; key && s; s = s->up) {
        const editor_node *first = NULL;
        size_t found = setters(w->x, s->graph, key, &first);
        if (found && (found == 1 || s == w->scope)) return w->scope = s, first;
    }
    return NULL;
}

/* ---- one step ---- */

static editor_wire nothing(void) { return (editor_wire){.kind = WIRE_NONE}; }

static editor_wire cut_by(const walk *w, const editor_node *n)
{
    return (editor_wire){.kind = WIRE_NONE, .cut_scope = w->scope, .cut = n};
}

static void broken(const walk *w, place at, const char *what, const char *id)
{
    document_fault(w->x->d, at, NULL, "node '%s%.60s' (%.130s)%s: input '%.100s' %s '%.60s'", w->user_scope->prefix,
                   w->user->id, w->user->type, editor_where(w->x, w->user_scope, w->user), w->in->name, what, id);
}

/* The source of an output of an instance: the first link that its definition lists and has. */
static const editor_link *inside(walk *w, const editor_node *n, uint32_t slot)
{
    const editor_graph *g = n->inner;
    size_t at = slot;
    if (slot < n->n_out)
        for (at = 0; at < g->n_out && strcmp(g->out[at].name, n->out[slot].name) != 0;)
            if (!editor_step(w->x, 1) || ++at == g->n_out) break;
    if (at >= g->n_out) at = slot;
    const yaml_node *ids = at < g->n_out ? g->out[at].links : NULL;
    for (size_t i = 0; ids && i < ids->n && editor_step(w->x, 1); i++) {
        const char *id = editor_text(ids->item[i]);
        const editor_link *l = id ? editor_link_of(g, id) : NULL;
        if (l) return w->scope = editor_scope_of(w->x, w->scope, n), w->scope ? l : NULL;
    }
    return NULL;
}

/* Out of a subgraph by its input: to what is linked to the instance, or to a value. *next: the link to go on with. */
static editor_wire outside(walk *w, uint32_t input, const editor_link **next)
{
    editor_scope *s = w->scope;
    const yaml_node *value = NULL;
    if (input >= s->graph->n_in || !editor_step(w->x, s->instance->n_in + 1)) return nothing();
    const editor_slot *slot = s->set[input] ? NULL : editor_input(s->instance, s->graph->in[input].name);
    if (slot && slot->link) {
        if (!w->edge) w->edge = s, w->edge_input = input;
        w->scope = s->up;
        if (!(*next = editor_link_of(s->up->graph, slot->link)))
            broken(w, slot->at, "is fed from outside its subgraph by a link that is not in the file:", slot->link);
        return nothing();
    }
    if (editor_promoted(w->x, s, input, &value)) return (editor_wire){.kind = WIRE_VALUE, .value = value};
    return nothing();
}

/* What goes on behind one node: the link of its input `slot`. */
static editor_wire behind(walk *w, const editor_slot *slot, const editor_node *n, const editor_link **next)
{
    if (!slot || !slot->link) return cut_by(w, n->kind == EDITOR_NODE || n->kind == EDITOR_INSTANCE ? n : NULL);
    if (!(*next = editor_link_of(w->scope->graph, slot->link)))
        broken(w, slot->at, "goes through a link that is not in the file:", slot->link);
    return nothing();
}

static editor_wire behind_special(walk *w, const editor_node *n, const editor_link **next)
{
    const editor_node *set = n;
    switch (n->kind) {
    case EDITOR_REROUTE: w->rerouted = 1; break;
    case EDITOR_PRIMITIVE:
        if (w->rerouted) return nothing(); /* so it is in the editor: it copies to widgets it is linked to itself */
        return (editor_wire){.kind = WIRE_VALUE, .value = editor_primitive(w->scope, n), .copied = 1};
    case EDITOR_GET:
        if (n->mode == EDITOR_BYPASSED) return cut_by(w, n);
        set = setter_of(w, n);
        break;
    case EDITOR_SET: break;
    default: return nothing();
    }
    return set && set->n_in ? behind(w, &set->in[0], set, next) : nothing();
}

/* One node further up. Either *next is the link to go on with, or the result is the end. */
static editor_wire step(walk *w, const editor_link *l, const editor_link **next)
{
    *next = NULL;
    if (w->scope->up && strcmp(l->from, "-10") == 0) return outside(w, l->slot, next);
    const editor_node *n = editor_node_of(w->scope->graph, l->from);
    if (!n) return broken(w, l->at, "is linked to a node that is not in the file:", l->from), nothing();
    if (n->kind == EDITOR_PRIMITIVE) return behind_special(w, n, next);
    if (n->mode == EDITOR_MUTED && n->kind != EDITOR_SET) return cut_by(w, n);
    if (n->kind != EDITOR_NODE && n->kind != EDITOR_INSTANCE) return behind_special(w, n, next);
    if (n->mode == EDITOR_BYPASSED) return behind(w, through(w, n, l->slot), n, next);
    if (n->kind == EDITOR_INSTANCE) return *next = inside(w, n, l->slot), nothing();
    return (editor_wire){.kind = WIRE_NODE, .scope = w->scope, .node = n, .slot = l->slot};
}

editor_wire editor_follow(editor *x, editor_scope *s, const editor_node *n, const editor_slot *in, const char *type)
{
    walk w = {.x = x, .scope = s, .user = n, .in = in, .user_scope = s, .type = type};
    const editor_link *l = in->link ? editor_link_of(s->graph, in->link) : NULL, *next;
    if (in->link && !l) broken(&w, in->at, "has a link that is not in the file:", in->link);
    editor_wire found = nothing();
    for (; l && editor_step(x, 10); l = next) { /* two searches by id */
        found = step(&w, l, &next);
        if (next && ++w.hops > HOPS_MAX) {
            broken(&w, in->at,
                   "goes in a circle of reroutes or bypassed nodes, or through more than 10,000 of them:", l->id);
            return nothing();
        }
    }
    const yaml_node *value = NULL;
    if (found.kind == WIRE_NONE && w.edge && editor_promoted(x, w.edge, w.edge_input, &value))
        return (editor_wire){.kind = WIRE_VALUE, .value = value};
    return found;
}
