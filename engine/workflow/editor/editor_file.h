/* editor_file.h - a workflow as ComfyUI's editor saves it: graphs of nodes, slots and links, as the file has them.
 *
 * graph[0] is what stands at the top, the others are the definitions of subgraphs. A node of a graph names another one
 * as its type to be an instance of it. Ids are texts, since 12 and "12" are one id. What is joined to what is told by
 * an input's `link` and that link's origin alone: the target and the slots that the file names besides go stale.
 * Everything lives in the document's arena; faults are the document's.
 */
#ifndef KILN_WORKFLOW_EDITOR_FILE_H
#define KILN_WORKFLOW_EDITOR_FILE_H

#include "workflow/check.h"

typedef enum {
    EDITOR_NODE,     /* one that computes */
    EDITOR_INSTANCE, /* of a subgraph     */
    EDITOR_REROUTE,
    EDITOR_PRIMITIVE, /* a value, copied into the widgets it is linked to */
    EDITOR_SET,       /* gives a name to what is linked to it             */
    EDITOR_GET,
    EDITOR_NOTE
} editor_kind;

typedef enum { EDITOR_ON, EDITOR_MUTED, EDITOR_BYPASSED } editor_mode;

typedef struct {
    const char *name, *type;
    const char *link; /* of an input: the id of its link; NULL: none */
    int widget;       /* of an input: the socket of a widget         */
    place at;
} editor_slot;

typedef struct {
    const char *id;
    const char *from; /* id of the node it comes from */
    uint32_t slot;    /* and which of its outputs     */
    int32_t user;     /* the node of the graph that has it at input user_slot; SOURCE_NONE: none */
    uint32_t user_slot;
    place at;
} editor_link;

struct editor_graph;

typedef struct {
    const char *id, *type, *title; /* title: "" when the file has none */
    place at, type_at;
    editor_kind kind;
    editor_mode mode;
    editor_slot *in, *out;
    size_t n_in, n_out;
    const kiln_node *row;             /* of an EDITOR_NODE; NULL: there is no such type */
    const struct editor_graph *inner; /* of an EDITOR_INSTANCE                          */
    const yaml_node *values;          /* widgets_values, or NULL                        */
    const yaml_node *properties;      /* or NULL                                        */
    const yaml_node **value;          /* [row->n_param], see editor_widgets.h           */
} editor_node;

/* An input or output of a definition. */
typedef struct {
    const char *name, *type;
    const yaml_node *links; /* the list of ids, or NULL */
} editor_port;

typedef struct editor_graph {
    const char *id, *name;
    editor_node *node;
    size_t n_node;
    uint32_t *node_by_id; /* [n_node]: indices in the order of ids */
    editor_link *link;    /* in the order of ids                   */
    size_t n_link;
    editor_port *in, *out;
    size_t n_in, n_out;
} editor_graph;

typedef struct {
    document *d;
    const catalog_view *catalog;
    const set_option *set; /* [n_set]: --set */
    size_t n_set;
    editor_graph *graph;
    size_t n_graph;
    size_t nodes; /* of all graphs, and then of all instances */
    size_t steps; /* of searches; see editor_step             */
    int stopped;  /* a limit is exceeded, and nothing more is followed */
} editor;

/* Reads the file's tree. Look at the document's faults. */
void editor_file_read(editor *x, const yaml_node *root);

const editor_node *editor_node_of(const editor_graph *g, const char *id); /* NULL: none */
const editor_link *editor_link_of(const editor_graph *g, const char *id);
const editor_slot *editor_input(const editor_node *n, const char *name); /* the first of that name, or NULL */
/* The text of a scalar that is not null; NULL for anything else. */
const char *editor_text(const yaml_node *v);
/* Counts the steps of searches whose length a file decides. 0: there have been too many, and a fault says so. */
int editor_step(editor *x, size_t steps);

#endif
