/* subgraph.h - the nodes that one node expands into, as its expand() names them: behind "kiln.graph/1" (kiln/graph.h).
 *
 * A record and no more: it checks names and the order of wires against itself and against the expanding node's own row.
 * Types, inputs and values of the nodes are checked when they stand in the workflow (workflow/expand.c).
 */
#ifndef KILN_PARAM_SUBGRAPH_H
#define KILN_PARAM_SUBGRAPH_H

#include "base/arena.h"
#include "base/status.h"
#include "kiln/graph.h"

enum { SUBGRAPH_NODES_MAX = 10000, SUBGRAPH_INPUTS_MAX = 100000 };

typedef enum { SUBGRAPH_VALUE, SUBGRAPH_WIRE, SUBGRAPH_PASS } subgraph_kind;

typedef struct subgraph_input {
    struct subgraph_input *next; /* in the order of the calls */
    const char *name;
    subgraph_kind kind;
    const char *text;          /* VALUE: as it would be written; quoted: it is text          */
    const char *from, *output; /* WIRE: a node of this graph; PASS: from is the own input's name */
    int quoted;
} subgraph_input;

typedef struct subgraph_node {
    struct subgraph_node *next;  /* in the order of the calls */
    struct subgraph_node *older; /* the one added before      */
    const char *name, *type;
    subgraph_input *input, *last_input;
} subgraph_node;

typedef struct {
    const char *node, *output; /* node NULL: `output` is the name of an own input; both NULL: not given */
} subgraph_output;

struct kiln_graph {
    const kiln_node *type; /* the expanding node's row */
    const uint32_t *wires; /* [type->n_in]             */
    subgraph_node *node, *newest;
    size_t n_node, n_input;
    subgraph_output *output; /* [type->n_out] */
    arena *memory;           /* of everything that is recorded */
    error *e;                /* the first mistake              */
};

/* Everything is allocated in `memory`. */
kiln_status subgraph_init(kiln_graph *g, const kiln_node *type, const uint32_t *wires, arena *memory, error *e);
/* 1: the row has an input or a parameter of that name. */
int subgraph_own(const kiln_node *type, const char *name);

extern const kiln_graph_api graph_api;

#endif
