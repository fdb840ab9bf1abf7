/* named_files.c - files that are named inside a text, like the embeddings of a prompt: kiln_node.names_files(). */
#include "base/array.h"
#include "base/memory_alloc.h"
#include "workflow/checker.h"

#include <string.h>

typedef struct {
    checker *k;
    const graph_node *g;
    named_file *file;
    size_t n, capacity;
} finding;

/* Where a parameter's value is written. */
static place place_of(const graph_node *g, const char *param)
{
    for (size_t i = 0; i < g->doc->n_input; i++)
        if (strcmp(g->doc->input[i].name, param) == 0) return g->doc->input[i].value_at;
    return g->doc->at;
}

static int is_known(const finding *f, const char *folder, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->file[i].folder, folder) == 0 && strcmp(f->file[i].name, name) == 0) return 1;
    return 0;
}

static void add(void *self, const char *param, const char *folder, const char *name)
{
    finding *f = self;
    document *d = f->k->doc;
    const catalog_view *c = f->k->catalog;
    error why = {0};
    if (d->failed || is_known(f, folder, name)) return;
    const char *path = c->file ? c->file(c->self, &d->memory, folder, name, &why) : NULL;
    if (!path) {
        if (why.status == KILN_ERR_NOMEM) d->failed = 1;
        document_fault(d, place_of(f->g, param), f->g->doc, "input '%s': %.400s", param,
                       why.message[0] ? why.message : "it names a file, and there are none");
        return;
    }
    named_file one = {arena_strdup(&d->memory, folder), arena_strdup(&d->memory, name), path};
    if (!one.folder || !one.name || !array_reserve(&f->file, &f->capacity, f->n + 1, sizeof *f->file))
        d->failed = 1;
    else
        f->file[f->n++] = one;
}

void named_files_find(checker *k, graph_node *g)
{
    finding f = {.k = k, .g = g};
    kiln_file_names to = {.size = sizeof to, .self = &f, .add = add};
    if (!g->type || !g->type->names_files || !g->known) return;
    g->type->names_files(g->known, &to);
    if (f.n && !k->doc->failed) {
        named_file *kept = arena_alloc(&k->doc->memory, f.n * sizeof *kept);
        if (kept) g->named = memcpy(kept, f.file, f.n * sizeof *kept), g->n_named = f.n;
        if (!kept) k->doc->failed = 1;
    }
    mem_free(f.file);
}
