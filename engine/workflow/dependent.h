/* dependent.h - parameters that only some choices of another parameter have: ComfyUI's dynamic combos.
 *
 * Of a row called "resize_type.width", where `resize_type` is an ENUM of the same node, `from` names the choices that
 * have it, with | between them. A file of the editor has values of such parameters for the chosen one alone, right
 * behind it.
 */
#ifndef KILN_WORKFLOW_DEPENDENT_H
#define KILN_WORKFLOW_DEPENDENT_H

#include "workflow/check.h"

/* The index of the parameter that decides whether `p` counts; -1: it always does. */
int dependent_on(const kiln_node *n, const kiln_param *p);
/* Whether that one's choice has the parameter. */
int dependent_has(const kiln_param *p, const char *choice);
/* Parameter i of a node of a workflow belongs to another choice than the one that was made; *choice: that one. */
int dependent_is_away(const graph_node *g, uint32_t i, const char **choice);
/* The same by the name of the choice that is written in a file; NULL: it is the default. */
int dependent_was_left(const kiln_node *n, const kiln_param *p, const char *(*written)(void *arg, const char *name),
                       void *arg);

#endif
