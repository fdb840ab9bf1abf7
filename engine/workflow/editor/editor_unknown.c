/* editor_unknown.c - what a file wants and is not here: each node type that no plugin has, once, with the pack that
 * the file says it comes from, and each model or picture that no folder has. Without its row nothing can be said about
 * a node's values, so a file with one such type is refused by these two lists and nothing else.
 */
#include "base/memory_alloc.h"
#include "workflow/editor/editor_made.h"
#include "workflow/editor/editor_widgets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---- */

static int by_type(const void *a, const void *b)
{
    const made_node *x = *(const made_node *const *)a, *y = *(const made_node *const *)b;
    int order = strcmp(x->node->type, y->node->type);
    return order ? order : (x > y) - (x < y);
}

/* "; it comes from PACK VERSION" */
static void pack_of(const editor_node *n, char text[200])
{
    const char *pack = editor_text(yaml_get(n->properties, "cnr_id")), *version = NULL;
    if (!pack) pack = editor_text(yaml_get(n->properties, "aux_id"));
    if (pack) version = editor_text(yaml_get(n->properties, "ver"));
    snprintf(text, 200, "%s%.100s%s%.60s", pack ? "; the file says it is of " : "", pack ? pack : "",
             version ? " " : "", version ? version : "");
}

static void fault_type(made_graph *m, const made_node *first, size_t n)
{
    char pack[200], more[60] = "";
    doc_node d = editor_doc_node(m->x, first);
    const char *type = first->node->type;
    int group = strncmp(type, "workflow/", 9) == 0 || strncmp(type, "workflow>", 9) == 0;
    pack_of(first->node, pack);
    if (n > 1) snprintf(more, sizeof more, " (there are %zu of them)", n);
    document_fault(m->x->d, first->node->type_at, &d, "kiln has no node of this type%s%s%s", more, pack,
                   group ? "; group nodes are of old: convert them to subgraphs in the editor" : "");
}

static void fault_types(made_graph *m, const made_node **unknown, size_t n)
{
    qsort(unknown, n, sizeof *unknown, by_type);
    for (size_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && strcmp(unknown[next]->node->type, unknown[i]->node->type) == 0;) next++;
        fault_type(m, unknown[i], next - i);
    }
}

/* ---- files ---- */

typedef struct {
    const made_node *node;
    const char *folder, *name, *url;
    place at;
} wanted_file;

typedef struct {
    made_graph *m;
    wanted_file *file;
    size_t n, capacity;
} wanted_files;

static void want(wanted_files *w, const made_node *n, const yaml_node *model, const char *folder, const yaml_node *name)
{
    const char *text = editor_text(name), *url = editor_text(yaml_get(model, "url"));
    error e = {0};
    catalog_view c = *w->m->x->catalog;
    if (!text || w->n == w->capacity || !editor_step(w->m->x, 100)) return;
    if (c.file(c.self, &w->m->x->d->memory, folder, text, &e)) return;
    w->file[w->n++] = (wanted_file){.node = n, .folder = folder, .name = text, .url = url, .at = name->at};
}

static int has_value(const editor_node *n, const char *name)
{
    for (size_t i = 0; n->values && n->values->kind != YAML_SCALAR && i < n->values->n; i++)
        if (n->values->item[i]->kind == YAML_SCALAR && strcmp(n->values->item[i]->text, name) == 0) return 1;
    return 0;
}

static const yaml_node *models_of(const editor_node *n)
{
    const yaml_node *v = yaml_get(n->properties, "models");
    return v && v->kind == YAML_SEQUENCE ? v : NULL;
}

/* Of a type that is not known: what properties.models says, as far as it is what the node has chosen. */
static void want_listed(wanted_files *w, const made_node *n)
{
    const yaml_node *models = models_of(n->node);
    for (size_t i = 0; models && i < models->n && editor_step(w->m->x, n->node->values ? n->node->values->n + 1 : 1);
         i++) {
        const yaml_node *name = yaml_get(models->item[i], "name");
        const char *folder = editor_text(yaml_get(models->item[i], "directory"));
        if (editor_text(name) && folder && has_value(n->node, name->text)) want(w, n, models->item[i], folder, name);
    }
}

static void want_params(wanted_files *w, const made_node *n)
{
    const yaml_node *models = models_of(n->node);
    for (size_t k = 0; k < n->n_in; k++) {
        int p = n->in[k].port < 0 ? editor_param(n->node->row, n->in[k].name) : -1;
        const kiln_param *row = p < 0 ? NULL : node_param(n->node->row, (uint32_t)p);
        const yaml_node *model = NULL;
        if (!row || row->type != KILN_P_FILE || !n->in[k].value) continue;
        for (size_t i = 0; models && i < models->n && !model && editor_step(w->m->x, 1); i++) {
            const char *name = editor_text(yaml_get(models->item[i], "name"));
            if (name && editor_text(n->in[k].value) && strcmp(name, n->in[k].value->text) == 0) model = models->item[i];
        }
        want(w, n, model, row->from, n->in[k].value);
    }
}

static int by_file(const void *a, const void *b)
{
    const wanted_file *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->node > y->node) - (x->node < y->node);
}

static void fault_files(made_graph *m)
{
    wanted_files w = {.m = m, .capacity = 10000};
    if (!(w.file = mem_alloc(w.capacity * sizeof *w.file))) {
        m->x->d->failed = 1;
        return;
    }
    for (size_t i = 0; i < m->n; i++)
        m->node[i].node->row ? want_params(&w, &m->node[i]) : want_listed(&w, &m->node[i]);
    qsort(w.file, w.n, sizeof *w.file, by_file);
    for (size_t i = 0; i < w.n; i++) {
        const wanted_file *f = &w.file[i];
        doc_node d = editor_doc_node(m->x, f->node);
        if (i && strcmp(w.file[i - 1].name, f->name) == 0) continue;
        document_fault(m->x->d, f->at, &d, "no file '%.200s' for %.100s%s%.300s", f->name, f->folder,
                       f->url ? "; the workflow has it from " : "", f->url ? f->url : "");
    }
    mem_free(w.file);
}

int editor_unknown(made_graph *m)
{
    size_t n = 0;
    const made_node **unknown = mem_alloc((m->n + 1) * sizeof *unknown);
    if (!unknown) return m->x->d->failed = 1;
    for (size_t i = 0; i < m->n; i++)
        if (!m->node[i].node->row) unknown[n++] = &m->node[i];
    if (n) fault_types(m, unknown, n), fault_files(m);
    mem_free(unknown);
    return n > 0;
}
