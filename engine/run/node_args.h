/* node_args.h - what a node is called with: values from its wires, wired parameters in its struct, and where a list
 * comes in over an ordinary input, which items belong to which call.
 *
 * Call number i takes item i of each list; a list that is shorter gives its last item again; an empty one means no
 * call. A list input takes everything as one list. Each call of a mapped node has a key of its own, made of the node's
 * own part, the keys of its plain sources and the identities of its items (tensor/value.h): so a list with one item
 * more costs one call more.
 */
#ifndef KILN_RUN_NODE_ARGS_H
#define KILN_RUN_NODE_ARGS_H

#include "tensor/value.h"
#include "workflow/check.h"

typedef struct {
    const workflow *w;
    kiln_value *(*value)(const void *of, source from);
    const void *of;
    uint64_t absent; /* bits of the node's lazy inputs that it has not asked for: as if they had no wires */
} arg_values;

typedef struct {
    void *params;
    kiln_value **in; /* [n_in]: borrowed, but for the lists made here */
    kiln_value **list;
    size_t n_list;
    arena memory; /* of texts in params */
} node_args;

/* How often the node is called: once; a mapped one as often as its longest list has items. */
size_t args_calls(const arg_values *v, uint32_t node);
/* For call number `item`, from 0. args_free also on failure. */
kiln_status args_make(const arg_values *v, uint32_t node, size_t item, node_args *a, error *e);
void args_free(node_args *a);
/* The key of call number `item` of a mapped node. */
kiln_status args_key(const arg_values *v, uint32_t node, size_t item, digest *out, error *e);

/* ---- what a node gives ---- */

/* Says of published outputs where they came from (value_set_origin): of a call with that key. */
void outputs_set_origin(const kiln_node *t, digest key, kiln_value *const *out);
/* lists[n_out]: new empty lists; on failure none. */
kiln_status outputs_lists(const kiln_node *t, kiln_value **lists, error *e);
/* Puts what one call of a mapped node gave behind what earlier calls gave: an output's value, or all items where it is
 * a list itself. */
kiln_status outputs_append(const kiln_node *t, kiln_value *const *lists, kiln_value *const *out, error *e);

#endif
