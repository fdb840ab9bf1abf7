/* boxes.c - see boxes.h. */
#include "workflow/boxes.h"

#include <string.h>

static int has_parts(const kiln_node *t, const char *name)
{
    size_t n = strlen(name);
    for (uint32_t i = 0; t && i < t->n_param; i++)
        if (strncmp(node_param(t, i)->name, name, n) == 0 && node_param(t, i)->name[n] == '.') return 1;
    return 0;
}

static int is_said(const doc_node *n, const char *name)
{
    for (size_t i = 0; i < n->n_input; i++)
        if (strcmp(n->input[i].name, name) == 0) return 1;
    return 0;
}

/* A part that --set has said already counts as it says. */
static void expand(document *d, doc_node *n, size_t at)
{
    const doc_input box = n->input[at];
    doc_input *all = arena_alloc(&d->memory, (n->n_input + box.n_part) * sizeof *all);
    size_t to = 0;
    if (!all) {
        d->failed = 1;
        return;
    }
    for (size_t i = 0; i < n->n_input; i++) {
        if (i != at) all[to++] = n->input[i];
        for (size_t k = 0; i == at && k < box.n_part; k++)
            if (!is_said(n, box.part[k].name)) all[to++] = box.part[k];
    }
    n->input = all, n->n_input = to;
}

void boxes_expand(document *d, const catalog_view *catalog)
{
    for (size_t i = 0; i < d->n_node && !d->failed; i++) {
        digest ignored;
        doc_node *n = &d->node[i];
        const kiln_node *t = n->type ? catalog->find(catalog->self, n->type, &ignored) : NULL;
        for (size_t k = 0; k < n->n_input && !d->failed; k++)
            if (n->input[k].n_part && has_parts(t, n->input[k].name)) expand(d, n, k);
    }
}
