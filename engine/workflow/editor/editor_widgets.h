/* editor_widgets.h - the values a saved node has for its parameters.
 *
 * `widgets_values` has no names. Its entries are the parameters of the node's own row, in their order: one entry each,
 * but none for a parameter that is kiln's alone (KILN_PARAM_OWN) or that the choices before it do not have
 * (workflow/dependent.h), and two for a seed or KILN_PARAM_CONTROL, of which
 * the second says what the editor does with the value afterwards. A parameter that is linked keeps its entry. What the
 * list is too short for has its default; what is left over at the end belongs to buttons. A map has names.
 */
#ifndef KILN_WORKFLOW_EDITOR_WIDGETS_H
#define KILN_WORKFLOW_EDITOR_WIDGETS_H

#include "workflow/editor/editor_file.h"

/* Fills n->value for a node with a row: what the file has for each parameter, NULL where it has nothing. */
void editor_widgets_read(editor *x, editor_node *n);
/* The entry behind the parameter's is not a parameter's. */
int editor_has_control(const kiln_param *p);
/* The parameter of that name; -1: none. */
int editor_param(const kiln_node *row, const char *name);
/* A value that a PrimitiveNode gives, as a widget takes it over: an INT to the next step from the lowest value, a FLOAT
 * to the decimals of its step, both within their range. */
const yaml_node *editor_copied(editor *x, const kiln_param *p, const yaml_node *value);
/* What a socket has to be to feed the parameter. */
const char *editor_param_type(const kiln_param *p);

#endif
