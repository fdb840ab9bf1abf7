/* dependent.h - parameters that only some choices of another parameter have: ComfyUI's dynamic combos.
 *
 * Of a row called "resize_type.width", where `resize_type` is an ENUM of the same node, `from` names the choices that
 * have it, with | between them. A file of the editor has values of such parameters for the chosen one alone, right
 * behind it.
 */
#ifndef KILN_WORKFLOW_DEPENDENT_H
#define KILN_WORKFLOW_DEPENDENT_H

#include "kiln/plugin.h"

/* The index of the parameter that decides whether `p` counts; -1: it always does. */
int dependent_on(const kiln_node *n, const kiln_param *p);
/* Whether that one's choice has the parameter. */
int dependent_has(const kiln_param *p, const char *choice);

#endif
