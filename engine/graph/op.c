/* op.c - names of the op kinds, from the one list. */
#include "graph/op.h"

static const char *const names[OP_KIND_COUNT] = {
#define X(kind, name, n) [OP_##kind] = name,
    OP_LIST(X)
#undef X
};

const char *op_name(op_kind kind) { return (unsigned)kind < OP_KIND_COUNT ? names[kind] : "?"; }
