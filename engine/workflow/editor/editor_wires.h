/* editor_wires.h - what an input is joined to once everything that only the editor has is followed: reroutes, Set and
 * Get nodes, bypassed nodes, and the edges of subgraphs.
 *
 * A bypassed node passes on one of its inputs for each output. Of its inputs in the order of its row, sockets first and
 * widgets behind them, that is the one at the output's own place if its type fits both sides, else the first whose type
 * equals the one that is wanted, else the first that fits both sides.
 */
#ifndef KILN_WORKFLOW_EDITOR_WIRES_H
#define KILN_WORKFLOW_EDITOR_WIRES_H

#include "workflow/editor/editor_scope.h"

typedef enum {
    WIRE_NONE,  /* nothing: the input is as if it had no link    */
    WIRE_NODE,  /* output `slot` of `node`                       */
    WIRE_VALUE, /* a value: of a PrimitiveNode or of an instance */
} editor_wire_kind;

typedef struct {
    editor_wire_kind kind;
    editor_scope *scope; /* WIRE_NODE: where the node is */
    const editor_node *node;
    uint32_t slot;
    const yaml_node *value;        /* WIRE_VALUE; NULL: the input's own one stays */
    int copied;                    /* the value is a PrimitiveNode's              */
    const editor_scope *cut_scope; /* WIRE_NONE: the muted or bypassed node that the wire ends at, or NULL */
    const editor_node *cut;
} editor_wire;

/* Follows the link of an input of node n in scope s; `type` is what the input takes. */
editor_wire editor_follow(editor *x, editor_scope *s, const editor_node *n, const editor_slot *in, const char *type);

#endif
