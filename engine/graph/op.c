/* op.c - names and operand counts of the op kinds, from the one list. */
#include "graph/op.h"

static const struct {
    const char *name;
    int operands;
} rows[OP_KIND_COUNT] = {
#define X(kind, name, n) [OP_##kind] = {name, n},
    OP_LIST(X)
#undef X
};

const char *op_name(op_kind kind) { return (unsigned)kind < OP_KIND_COUNT ? rows[kind].name : "?"; }
int op_operands(op_kind kind) { return (unsigned)kind < OP_KIND_COUNT ? rows[kind].operands : 0; }
