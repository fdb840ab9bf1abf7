/* editor_made.h - the nodes of the API form on their way from the editor's: with values and wires, and without what
 * only the editor has.
 */
#ifndef KILN_WORKFLOW_EDITOR_MADE_H
#define KILN_WORKFLOW_EDITOR_MADE_H

#include "workflow/editor/editor_wires.h"

typedef struct {
    const char *name;
    place at;
    int32_t port;           /* of the row; -1: a parameter, or nothing it has   */
    int32_t from;           /* index of the node that is wired to it, or SOURCE_NONE */
    uint32_t slot;          /* and its output                                   */
    const yaml_node *value; /* where nothing is wired; NULL: the default        */
} made_input;

typedef struct {
    editor_scope *scope;
    const editor_node *node;
    const char *id;
    made_input *in;
    size_t n_in;
    const editor_scope *cut_scope; /* a required input is cut off: by this muted or bypassed node */
    const editor_node *cut;
    const char *cut_input;
    int left_out; /* goes with that one, or nothing that is written depends on it */
} made_node;

typedef struct {
    editor *x;
    made_node *node;
    size_t n;
} made_graph;

/* The nodes that are neither muted nor bypassed, in the order of the file, those of an instance in its place. Those
 * whose type is not known have no inputs. */
void editor_make(made_graph *m);
/* Wires and values. */
void editor_make_inputs(made_graph *m);
/* Leaves out what lacks an input that a muted node would feed, what needs that in turn, and what no output needs. */
void editor_leave_out(made_graph *m);
/* Faults for each type that is not known, and each file that is not there. 0: every type is known, and nothing is said
 * of files, of which the check says more. editor_unknown.c. */
int editor_unknown(made_graph *m);
/* For faults: the node as the document would have it. */
doc_node editor_doc_node(editor *x, const made_node *n);

#endif
