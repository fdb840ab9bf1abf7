/* check.h - checks a document against the node types. It finds every fault at once; without faults the result is a
 * graph that can run.
 *
 * The node types come through `catalog`, so this layer depends on no plugin and no folder. Rows are read through their
 * own strides. Nothing is coerced: a scalar is read by the type its parameter declares (param/param.h), an input that
 * is left out takes its declared default, and everything else is a fault, with the nearest right name if one is near.
 */
#ifndef KILN_WORKFLOW_CHECK_H
#define KILN_WORKFLOW_CHECK_H

#include "base/file_list.h"
#include "base/hash.h"
#include "kiln/plugin.h"
#include "workflow/document.h"

struct kiln_graph;

typedef struct catalog_view {
    void *self;
    /* The row of a type, or NULL. *identity: digest of the code it may run, its plugin's first of all. */
    const kiln_node *(*find)(void *self, const char *type, digest *identity);
    size_t n_type;
    const char *(*type_at)(void *self, size_t i);
    /* The i-th name in registry `from`, for KILN_P_NAME parameters; NULL past the end. */
    const char *(*name_at)(void *self, const char *from, size_t i);
    /* The path of `name` among the files of kind `from`, allocated in `a`; NULL with a message that says where it
     * looked and what it found. */
    const char *(*file)(void *self, arena *a, const char *from, const char *name, error *e);
    /* Asks a node's wants() before anything is computed, and lets a node's expand() fill a graph; messages name the
     * node. NULL: no node of this catalog has them. */
    kiln_status (*wants)(void *self, const char *node, const kiln_node *type, const void *params, uint64_t *inputs,
                         error *e);
    kiln_status (*expand)(void *self, const char *node, const kiln_node *type, const void *params, struct kiln_graph *g,
                          error *e);
    /* Where a type that is none of these is, and what brings it: "it is in ./x.so: add --plugins .", in `a`; NULL:
     * nobody knows. The member may be NULL. */
    const char *(*elsewhere)(void *self, arena *a, const char *type);
} catalog_view;

enum { SOURCE_NONE = -1 };

typedef struct {
    int32_t node; /* index in workflow.node, or SOURCE_NONE */
    uint32_t output;
    const doc_wire *wire; /* where it is written */
} source;

typedef struct {
    uint32_t n;
    source *from; /* [n]; n > 1 only for a list port */
} port_sources;

/* What kiln_node.names_files() said, and the path. */
typedef struct {
    const char *folder, *name, *path;
} named_file;

typedef struct {
    const doc_node *doc;
    const kiln_node *type;
    digest plugin;
    void *params;       /* the node's struct, filled with literals and defaults */
    void *known;        /* the same, what is wired to a constant filled in; NULL: what has been found ended before */
    int open;           /* only a run will know some parameter, which has its default in `known` */
    port_sources *in;   /* [type->n_in]                                          */
    source *param_in;   /* [type->n_param]: wired parameters                      */
    const char **file;  /* [type->n_param]: resolved path of FILE parameters      */
    const char **made;  /* [type->n_out]: type of each output; where the row has *NAME, what the wires say */
    port_sources *left; /* [type->n_in]: wires of lazy inputs that the parameters do not want; NULL: none are left */
    int mapped;         /* a list comes in over an ordinary input or parameter: it runs once for each item */
    const named_file *named; /* [n_named]: files that texts of its parameters name */
    size_t n_named;
    const file_seen *seen; /* [n_seen]: the files all those consist of, and their state when the key was made (key.h) */
    size_t n_seen;
    digest key;    /* see key.h                                                   */
    digest self;   /* of a mapped node: the part of its key that is not what is wired in */
    int cacheable; /* the key covers everything the result depends on: it can be kept (key.h) */
    int needed;    /* an output node depends on it                                */
    uint64_t used; /* bit i: a needed node takes output i                         */
} graph_node;

typedef struct {
    document *doc;
    graph_node *node;
    size_t n;
    uint32_t *order; /* all nodes, sources before users */
    size_t n_order;  /* n, but for nodes of a cycle     */
} workflow;

/* KILN_OK: *w can be run unless doc->n_fault > 0. The workflow is allocated in the document's arena. */
kiln_status workflow_check(document *doc, const catalog_view *catalog, workflow *w, error *e);

/* The i-th row of a node type, found by the strides of its plugin's structs. */
const kiln_port *node_in(const kiln_node *n, uint32_t i);
const kiln_port *node_out(const kiln_node *n, uint32_t i);
const kiln_param *node_param(const kiln_node *n, uint32_t i);

/* 1: the output's value is a list, of which whoever takes it over an ordinary input gets one item after the other. */
int makes_list(const graph_node *g, uint32_t output);

#endif
