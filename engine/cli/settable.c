/* settable.c - see settable.h. */
#include "cli/settable.h"

#include "workflow/check.h"

#include <stdio.h>
#include <string.h>

static const kiln_param *row_of(const graph_node *g, const char *input)
{
    for (uint32_t i = 0; g->type && i < g->type->n_param; i++)
        if (strcmp(node_param(g->type, i)->name, input) == 0) return node_param(g->type, i);
    return NULL;
}

/* The row of the first input that is this parameter alone; else NULL, and then it is part of a text. */
static const kiln_param *row_of_param(const workflow *w, const char *name)
{
    char whole[140];
    snprintf(whole, sizeof whole, "${%.130s}", name);
    for (size_t i = 0; i < w->n; i++)
        for (size_t k = 0; k < w->node[i].doc->n_input; k++) {
            const doc_input *in = &w->node[i].doc->input[k];
            if (in->source && strcmp(in->source, whole) == 0 && row_of(&w->node[i], in->name))
                return row_of(&w->node[i], in->name);
        }
    return NULL;
}

void settable_params(const workflow *w, settable_fn fn, void *arg)
{
    for (size_t i = 0; i < w->doc->n_param; i++) {
        const workflow_param *p = &w->doc->param[i];
        fn(arg, &(settable){p->name, p->text, row_of_param(w, p->name), p->help});
    }
}

void settable_inputs(const workflow *w, settable_fn fn, void *arg)
{
    for (size_t i = 0; i < w->n; i++) {
        const graph_node *g = &w->node[i];
        for (size_t k = 0; k < g->doc->n_input; k++) {
            const doc_input *in = &g->doc->input[k];
            char name[300];
            if (in->is_wire || in->not_scalar || in->source) continue;
            snprintf(name, sizeof name, "%.140s.%.140s", g->doc->name, in->name);
            fn(arg, &(settable){name, in->text, row_of(g, in->name), g->doc->title});
        }
    }
}
