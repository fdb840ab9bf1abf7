/* editor.c - see editor.h: the order of the steps, and the tree that comes out. */
#include "workflow/editor/editor.h"

#include "workflow/editor/editor_made.h"

#include <stdio.h>
#include <string.h>

int editor_is_saved(const yaml_node *root)
{
    const yaml_node *nodes = yaml_get(root, "nodes");
    if (!nodes || nodes->kind != YAML_SEQUENCE) return 0;
    return yaml_get(root, "links") || (nodes->n && yaml_get(nodes->item[0], "id") && yaml_get(nodes->item[0], "type"));
}

/* ---- the tree ---- */

static yaml_node *new_node(document *d, yaml_kind kind, place at, size_t n)
{
    yaml_node *v = arena_alloc(&d->memory, sizeof *v);
    if (!v) return d->failed = 1, NULL;
    *v = (yaml_node){.kind = kind, .at = at};
    if (kind == YAML_SCALAR) return v;
    v->item = arena_alloc(&d->memory, (n + 1) * sizeof *v->item);
    v->key = arena_alloc(&d->memory, (n + 1) * sizeof *v->key);
    if (!v->item || !v->key) return d->failed = 1, NULL;
    return v;
}

static yaml_node *new_text(document *d, place at, const char *text, int quoted)
{
    yaml_node *v = new_node(d, YAML_SCALAR, at, 0);
    if (v) v->text = text, v->length = strlen(text), v->quoted = quoted;
    return v;
}

static void add(document *d, yaml_node *to, place at, const char *key, const yaml_node *value)
{
    yaml_node *name = key ? new_text(d, at, key, 1) : NULL;
    if (!to || !value || (key && !name)) return;
    to->key[to->n] = name;
    to->item[to->n++] = (yaml_node *)(uintptr_t)value;
}

static yaml_node *wire(document *d, const made_input *in, const made_node *from)
{
    const char *slot = arena_printf(&d->memory, "%u", in->slot);
    yaml_node *v = slot ? new_node(d, YAML_SEQUENCE, in->at, 2) : NULL;
    if (!slot) d->failed = 1;
    if (!v) return NULL;
    add(d, v, in->at, NULL, new_text(d, in->at, from->id, 1));
    add(d, v, in->at, NULL, new_text(d, in->at, slot, 0));
    return v;
}

/* A list that is a value, and no wire. */
static const yaml_node *literal(document *d, const yaml_node *value)
{
    if (value->kind != YAML_SEQUENCE) return value;
    yaml_node *v = new_node(d, YAML_MAP, value->at, 1);
    add(d, v, value->at, "__value__", value);
    return v;
}

static yaml_node *inputs(editor *x, const made_graph *m, const made_node *n)
{
    yaml_node *map = new_node(x->d, YAML_MAP, n->node->at, n->n_in);
    for (size_t i = 0; i < n->n_in && map; i++) {
        const made_input *in = &n->in[i];
        if (in->from != SOURCE_NONE)
            add(x->d, map, in->at, in->name, wire(x->d, in, &m->node[in->from]));
        else if (in->value)
            add(x->d, map, in->value->at, in->name, literal(x->d, in->value));
    }
    return map;
}

static yaml_node *node(editor *x, const made_graph *m, const made_node *n)
{
    const editor_node *own = n->node;
    const char *title = own->title[0] ? own->title : own->row->title;
    yaml_node *v = new_node(x->d, YAML_MAP, own->at, 3), *meta = new_node(x->d, YAML_MAP, own->at, 1);
    if (title) add(x->d, meta, own->at, "title", new_text(x->d, own->at, title, 1));
    add(x->d, v, own->type_at, "class_type", new_text(x->d, own->type_at, own->type, 1));
    add(x->d, v, own->at, "inputs", inputs(x, m, n));
    if (title) add(x->d, v, own->at, "_meta", meta);
    return v;
}

static const yaml_node *tree(editor *x, const made_graph *m, place at, const editor_note **notes)
{
    yaml_node *map = new_node(x->d, YAML_MAP, at, m->n);
    editor_note *note = arena_alloc(&x->d->memory, (m->n + 1) * sizeof *note);
    if (!note) x->d->failed = 1;
    for (size_t i = 0; i < m->n && map && note && !x->d->failed; i++) {
        const made_node *n = &m->node[i];
        if (n->left_out) continue;
        note[map->n] = (editor_note){.where = editor_where(x, n->scope, n->node),
                                     .models = yaml_get(n->node->properties, "models")};
        add(x->d, map, n->node->at, n->id, node(x, m, n));
    }
    *notes = note;
    return map;
}

const yaml_node *editor_to_api(document *d, const yaml_node *root, const document_source *from,
                               const editor_note **notes)
{
    editor x = {.d = d, .catalog = from->catalog, .set = from->set, .n_set = from->n_set};
    made_graph m = {.x = &x};
    size_t before = d->n_fault;
    editor_file_read(&x, root);
    if (d->n_fault == before && !d->failed) editor_make(&m);
    if (d->n_fault == before && !d->failed) editor_make_inputs(&m);
    if (!d->failed && (d->n_fault > before || editor_unknown(&m))) return NULL;
    if (!d->failed) editor_leave_out(&m);
    const yaml_node *made = d->failed ? NULL : tree(&x, &m, root->at, notes);
    return d->failed ? NULL : made;
}
