/* editor_scope.h - one use of a graph: the top of the file, or an instance of a subgraph, inside the one it stands in.
 *
 * A definition is expanded for each of its instances, and an instance may have values of its own: for the inputs of the
 * subgraph that feed a widget (they are promoted), and for a widget of an inner node. The latest of the sources wins:
 * the inner widget's value; the instance's widgets_values, in the order of the promoted inputs; or, where the instance
 * has properties.proxyWidgets, the value at the same place of that list, which names an inner node and a widget of it.
 */
#ifndef KILN_WORKFLOW_EDITOR_SCOPE_H
#define KILN_WORKFLOW_EDITOR_SCOPE_H

#include "workflow/editor/editor_file.h"

enum { EDITOR_DEPTH_MAX = 16 };

/* A value for a widget of one inner node, in one instance. */
typedef struct {
    const char *node, *widget;
    const char *inner; /* of a widget that the node, an instance itself, has promoted: the node inside it; or NULL */
    const yaml_node *value;
} editor_override;

typedef struct editor_scope {
    struct editor_scope *up;     /* NULL: the top */
    const editor_node *instance; /* of up->graph  */
    const editor_graph *graph;
    const char *prefix; /* of the ids of its nodes: "12:" */
    unsigned depth;
    const yaml_node **host;    /* [graph->n_in]: the instance's own value, NULL: none */
    const yaml_node **set;     /* [graph->n_in]: the value of a --set, which comes before a link; NULL: none */
    editor_override *override; /* [n_override] */
    size_t n_override;
    struct editor_scope **child; /* [graph->n_node] */
    int32_t *made;               /* [graph->n_node]: what editor_api.c made of the node; SOURCE_NONE: nothing */
} editor_scope;

editor_scope *editor_scope_top(editor *x);
/* The inside of an instance; NULL after a fault: too deep, or too many nodes. */
editor_scope *editor_scope_of(editor *x, editor_scope *up, const editor_node *instance);
/* The value of a widget; NULL: there is none. Of an instance, the widget is a promoted input. */
const yaml_node *editor_value(editor *x, editor_scope *s, const editor_node *n, const char *widget);
/* The value of a PrimitiveNode. */
const yaml_node *editor_primitive(const editor_scope *s, const editor_node *n);
/* 1: the input of the definition feeds a widget: *value is what it is in this instance when nothing is linked to it. */
int editor_promoted(editor *x, editor_scope *s, size_t input, const yaml_node **value);
/* " "Title" in subgraph "Name"", for messages; "" at the top without a title. */
const char *editor_where(editor *x, const editor_scope *s, const editor_node *n);

#endif
