/* editor_file.c - see editor_file.h. */
#include "workflow/editor/editor_file.h"

#include "base/memory_alloc.h"
#include "base/str.h"
#include "workflow/editor/editor_widgets.h"

#include <stdlib.h>
#include <string.h>

enum { SLOT_MAX = 1 << 20, STEPS_MAX = 20000000 };

const char *editor_text(const yaml_node *v)
{
    if (!v || v->kind != YAML_SCALAR) return NULL;
    if (!v->quoted && (strcmp(v->text, "null") == 0 || !*v->text)) return NULL;
    return v->text;
}

int editor_step(editor *x, size_t steps)
{
    x->steps += steps;
    if (x->steps > STEPS_MAX && !x->stopped) {
        document_fault(x->d, (place){.line = 1, .column = 1}, NULL,
                       "the wires of this file take more than %d steps to follow", STEPS_MAX);
        x->stopped = 1;
    }
    return !x->stopped;
}

/* ---- lists ---- */

static void *room(editor *x, size_t n, size_t size)
{
    void *p = arena_alloc(&x->d->memory, (n + 1) * size);
    if (!p) x->d->failed = 1;
    return p;
}

/* The list at `key`; NULL: there is none, or something else stands there, which is a fault. */
static const yaml_node *list_at(editor *x, const yaml_node *map, const char *key)
{
    const yaml_node *v = yaml_get(map, key);
    if (!v || v->kind == YAML_SEQUENCE) return v;
    if (editor_text(v) || v->kind == YAML_MAP) document_fault(x->d, v->at, NULL, "`%s` must be a list", key);
    return NULL;
}

/* ---- links ---- */

static int slot_number(const yaml_node *v, uint32_t *out)
{
    int64_t n;
    const char *text = editor_text(v);
    if (!text || !str_to_i64(text, strlen(text), &n) || n < 0 || n > SLOT_MAX) return 0;
    return *out = (uint32_t)n, 1;
}

/* [id, node, slot, node, slot, type], or a map; which of them is told by each link, whatever the version says. */
static int read_link(editor *x, const yaml_node *v, editor_link *l)
{
    int list = v->kind == YAML_SEQUENCE && v->n >= 5;
    const yaml_node *id = list ? v->item[0] : yaml_get(v, "id"), *from = list ? v->item[1] : yaml_get(v, "origin_id"),
                    *slot = list ? v->item[2] : yaml_get(v, "origin_slot");
    *l = (editor_link){.id = editor_text(id), .from = editor_text(from), .user = SOURCE_NONE, .at = v->at};
    if (l->id && l->from && slot_number(slot, &l->slot)) return 1;
    document_fault(x->d, v->at, NULL,
                   "a link is [id, node, output, node, input, type], or a map with `id`, `origin_id` and "
                   "`origin_slot`");
    return 0;
}

static int by_link_id(const void *a, const void *b)
{
    return strcmp(((const editor_link *)a)->id, ((const editor_link *)b)->id);
}

static void read_links(editor *x, const yaml_node *map, editor_graph *g)
{
    const yaml_node *v = yaml_get(map, "links");
    if (v && v->kind == YAML_SCALAR) v = list_at(x, map, "links");
    if (!v || !(g->link = room(x, v->n, sizeof *g->link))) return;
    for (size_t i = 0; i < v->n; i++)
        if (editor_text(v->item[i]) || v->item[i]->kind != YAML_SCALAR) /* null: what a link was */
            g->n_link += (size_t)read_link(x, v->item[i], &g->link[g->n_link]);
    if (g->n_link > 1) qsort(g->link, g->n_link, sizeof *g->link, by_link_id);
    for (size_t i = 1; i < g->n_link; i++) {
        const editor_link *a = &g->link[i - 1], *b = &g->link[i];
        if (strcmp(a->id, b->id) == 0 && (strcmp(a->from, b->from) != 0 || a->slot != b->slot))
            document_fault(x->d, b->at, NULL, "two links have the id %.60s and come from two places", b->id);
    }
}

const editor_link *editor_link_of(const editor_graph *g, const char *id)
{
    editor_link wanted = {.id = id};
    return g->n_link ? bsearch(&wanted, g->link, g->n_link, sizeof *g->link, by_link_id) : NULL;
}

/* ---- nodes ---- */

static void read_slot(editor *x, const yaml_node *v, editor_slot *s)
{
    const char *name = editor_text(yaml_get(v, "name")), *type = editor_text(yaml_get(v, "type"));
    const yaml_node *widget = yaml_get(v, "widget");
    *s = (editor_slot){.name = name ? name : "",
                       .type = type ? type : "*",
                       .link = editor_text(yaml_get(v, "link")),
                       .widget = widget && (editor_text(widget) || widget->kind == YAML_MAP),
                       .at = v->at};
    if (!name) document_fault(x->d, v->at, NULL, "an input or output must be a map with a `name`");
}

static size_t read_slots(editor *x, const yaml_node *map, const char *key, editor_slot **slot)
{
    const yaml_node *v = list_at(x, map, key);
    if (!v || !(*slot = room(x, v->n, sizeof **slot))) return 0;
    for (size_t i = 0; i < v->n; i++) read_slot(x, v->item[i], &(*slot)[i]);
    return v->n;
}

static editor_kind kind_of(const char *type)
{
    static const struct {
        const char *type;
        editor_kind kind;
    } rows[] = {{"Reroute", EDITOR_REROUTE}, {"PrimitiveNode", EDITOR_PRIMITIVE},
                {"SetNode", EDITOR_SET},     {"GetNode", EDITOR_GET},
                {"Note", EDITOR_NOTE},       {"MarkdownNote", EDITOR_NOTE}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].type, type) == 0) return rows[i].kind;
    return EDITOR_NODE;
}

static editor_mode mode_of(const yaml_node *v)
{
    const char *text = editor_text(v);
    if (text && strcmp(text, "2") == 0) return EDITOR_MUTED;
    return text && strcmp(text, "4") == 0 ? EDITOR_BYPASSED : EDITOR_ON;
}

static int read_node(editor *x, const yaml_node *v, editor_node *n)
{
    const char *id = editor_text(yaml_get(v, "id")), *type = editor_text(yaml_get(v, "type")),
               *title = editor_text(yaml_get(v, "title"));
    if (!id || !type) {
        document_fault(x->d, v->at, NULL, "a node must be a map with an `id` and a `type`");
        return 0;
    }
    *n = (editor_node){.id = id,
                       .type = type,
                       .title = title ? title : "",
                       .at = v->at,
                       .type_at = yaml_get(v, "type")->at,
                       .kind = kind_of(type),
                       .mode = mode_of(yaml_get(v, "mode")),
                       .values = yaml_get(v, "widgets_values"),
                       .properties = yaml_get(v, "properties")};
    n->n_in = read_slots(x, v, "inputs", &n->in);
    n->n_out = read_slots(x, v, "outputs", &n->out);
    return 1;
}

static _Thread_local const editor_node *sorting;

static int by_node_id(const void *a, const void *b)
{
    return strcmp(sorting[*(const uint32_t *)a].id, sorting[*(const uint32_t *)b].id);
}

static void sort_nodes(editor *x, editor_graph *g)
{
    if (!(g->node_by_id = room(x, g->n_node, sizeof *g->node_by_id))) return;
    for (uint32_t i = 0; i < g->n_node; i++) g->node_by_id[i] = i;
    sorting = g->node;
    if (g->n_node > 1) qsort(g->node_by_id, g->n_node, sizeof *g->node_by_id, by_node_id);
    for (size_t i = 1; i < g->n_node; i++) {
        const editor_node *n = &g->node[g->node_by_id[i]];
        if (strcmp(g->node[g->node_by_id[i - 1]].id, n->id) == 0)
            document_fault(x->d, n->at, NULL, "two nodes have the id %.60s", n->id);
    }
}

static void read_nodes(editor *x, const yaml_node *map, editor_graph *g)
{
    const yaml_node *v = list_at(x, map, "nodes");
    if (!v) return;
    if ((x->nodes += v->n) > DOCUMENT_NODES_MAX) {
        document_fault(x->d, v->at, NULL, "%zu nodes; at most %d are allowed", x->nodes, DOCUMENT_NODES_MAX);
        return;
    }
    if (!(g->node = room(x, v->n, sizeof *g->node))) return;
    for (size_t i = 0; i < v->n; i++) g->n_node += (size_t)read_node(x, v->item[i], &g->node[g->n_node]);
    sort_nodes(x, g);
}

const editor_node *editor_node_of(const editor_graph *g, const char *id)
{
    size_t low = 0, high = g->n_node;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const editor_node *n = &g->node[g->node_by_id[middle]];
        int order = strcmp(id, n->id);
        if (order == 0) return n;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const editor_slot *editor_input(const editor_node *n, const char *name)
{
    for (size_t i = 0; i < n->n_in; i++)
        if (strcmp(n->in[i].name, name) == 0) return &n->in[i];
    return NULL;
}

/* ---- graphs ---- */

static size_t read_ports(editor *x, const yaml_node *map, const char *key, editor_port **port)
{
    const yaml_node *v = list_at(x, map, key);
    if (!v || !(*port = room(x, v->n, sizeof **port))) return 0;
    for (size_t i = 0; i < v->n; i++) {
        const char *name = editor_text(yaml_get(v->item[i], "name")), *type = editor_text(yaml_get(v->item[i], "type"));
        const yaml_node *links = yaml_get(v->item[i], "linkIds");
        (*port)[i] = (editor_port){.name = name ? name : "",
                                   .type = type ? type : "*",
                                   .links = links && links->kind == YAML_SEQUENCE ? links : NULL};
        if (!name) document_fault(x->d, v->item[i]->at, NULL, "`%s`: each must be a map with a `name`", key);
    }
    return v->n;
}

static void find_users(editor_graph *g)
{
    for (size_t i = 0; i < g->n_node; i++)
        for (size_t k = 0; k < g->node[i].n_in; k++) {
            const char *id = g->node[i].in[k].link;
            editor_link *l = id ? (editor_link *)(uintptr_t)editor_link_of(g, id) : NULL;
            if (l && l->user == SOURCE_NONE) l->user = (int32_t)i, l->user_slot = (uint32_t)k;
        }
}

static void read_graph(editor *x, const yaml_node *map, editor_graph *g)
{
    const char *id = editor_text(yaml_get(map, "id")), *name = editor_text(yaml_get(map, "name"));
    *g = (editor_graph){.id = id ? id : "", .name = name ? name : ""};
    read_links(x, map, g);
    read_nodes(x, map, g);
    find_users(g);
}

/* Definitions stand in a list at the top, or in those of a definition. */
static const yaml_node *definitions(const yaml_node *map)
{
    const yaml_node *v = yaml_get(yaml_get(map, "definitions"), "subgraphs");
    return v && v->kind == YAML_SEQUENCE ? v : NULL;
}

static size_t count_definitions(const yaml_node *map)
{
    const yaml_node *v = definitions(map);
    size_t n = v ? v->n : 0;
    for (size_t i = 0; v && i < v->n; i++) n += count_definitions(v->item[i]); /* a tree has 64 levels */
    return n;
}

static void read_definitions(editor *x, const yaml_node *map)
{
    const yaml_node *v = definitions(map);
    for (size_t i = 0; v && i < v->n; i++) {
        const yaml_node *one = v->item[i];
        editor_graph *g = &x->graph[x->n_graph];
        if (!editor_text(yaml_get(one, "id"))) {
            document_fault(x->d, one->at, NULL, "a subgraph must be a map with an `id`");
            continue;
        }
        read_graph(x, one, g);
        g->n_in = read_ports(x, one, "inputs", &g->in);
        g->n_out = read_ports(x, one, "outputs", &g->out);
        x->n_graph++;
        read_definitions(x, one);
    }
}

static int by_graph_id(const void *a, const void *b)
{
    return strcmp((*(const editor_graph *const *)a)->id, (*(const editor_graph *const *)b)->id);
}

static const editor_graph *graph_of(const editor_graph **sorted, size_t n, const char *id)
{
    editor_graph wanted = {.id = id};
    const editor_graph *key = &wanted, **found = n ? bsearch(&key, sorted, n, sizeof *sorted, by_graph_id) : NULL;
    return found ? *found : NULL;
}

/* What each node's type is: a definition, or a row of the catalogue. */
static void find_types(editor *x)
{
    size_t n = x->n_graph - 1;
    const editor_graph **sorted = room(x, n, sizeof *sorted);
    digest unused;
    if (!sorted) return;
    for (size_t i = 0; i < n; i++) sorted[i] = &x->graph[i + 1];
    if (n > 1) qsort(sorted, n, sizeof *sorted, by_graph_id);
    for (size_t i = 1; i < n; i++)
        if (strcmp(sorted[i - 1]->id, sorted[i]->id) == 0)
            document_fault(x->d, (place){.line = 1, .column = 1}, NULL, "two subgraphs have the id %.60s",
                           sorted[i]->id);
    for (size_t i = 0; i < x->n_graph; i++)
        for (size_t k = 0; k < x->graph[i].n_node && !x->d->failed; k++) {
            editor_node *one = &x->graph[i].node[k];
            if (one->kind != EDITOR_NODE) continue;
            if ((one->inner = graph_of(sorted, n, one->type)))
                one->kind = EDITOR_INSTANCE;
            else if ((one->row = x->catalog->find(x->catalog->self, one->type, &unused)))
                editor_widgets_read(x, one);
        }
}

void editor_file_read(editor *x, const yaml_node *root)
{
    size_t n = count_definitions(root);
    if (!(x->graph = room(x, n + 1, sizeof *x->graph))) return;
    read_graph(x, root, &x->graph[x->n_graph++]);
    read_definitions(x, root);
    if (!x->d->failed) find_types(x);
}
