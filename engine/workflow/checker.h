/* checker.h - a check while it goes on: what check.c, expand.c and wiring.c share. */
#ifndef KILN_WORKFLOW_CHECKER_H
#define KILN_WORKFLOW_CHECKER_H

#include "param/param.h"
#include "workflow/check.h"

typedef struct {
    document *doc;
    const catalog_view *catalog;
    workflow *w;
    uint32_t *by_name; /* node indices sorted by name */
} checker;

static inline param_names checker_names(const checker *k)
{
    const catalog_view *c = k->catalog;
    return (param_names){.self = c->self, .name_at = c->name_at, .file = c->file};
}

/* ---- check.c ---- */

int32_t checker_find(const checker *k, const char *name); /* SOURCE_NONE: there is no such node */
/* Makes room for the node's parameters and wires; 0: no memory. */
int checker_allocate(checker *k, graph_node *g);
/* Checks and fills one node's inputs and parameters; types of wires are wiring.c's. */
void checker_node(checker *k, graph_node *g);
/* The output of a row that a wire names by name or number; 0: it has none. have: names of all, for a message. */
int output_named(const kiln_node *t, const char *output, uint32_t *out, char have[300]);

/* ---- wiring.c ---- */

int types_fit(const char *a, const char *b);
/* What is wired to g's inputs and parameters has the types they take. Of sources that have been through it, outputs of
 * type *NAME have the type they got; others pass for anything. */
void wiring_types(checker *k, graph_node *g);
/* g's parameters, as far as they are known before a run, those wired to a constant (KILN_NODE_CONSTANT) filled in: in a
 * new struct. *open: the first parameter that only a run will know, and that has none of the flags `skip`; SOURCE_NONE:
 * all are known. NULL: no memory, or after a fault. */
void *wiring_params(checker *k, graph_node *g, uint32_t skip, int32_t *open);
/* Types of all wires, wires that lazy inputs do not want, lists: of a workflow in order. */
void wiring_check(checker *k);

/* ---- named_files.c ---- */

/* Looks for the files that the texts of g's parameters name: g->named. One that is not there is a fault. */
void named_files_find(checker *k, graph_node *g);

/* ---- expand.c ---- */

/* Puts what they expand into in the place of the document's expanding nodes, one level. 1: there were some, and the
 * document is another one. What cannot be expanded has a fault, and doc_node.stuck. */
int expand_level(checker *k);

#endif
