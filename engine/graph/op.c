/* op.c - names and operands of the op kinds, from the one list. */
#include "graph/op.h"

static const struct {
    const char *name, *slots;
} rows[OP_KIND_COUNT] = {
#define X(kind, name, slots) [OP_##kind] = {name, slots},
    OP_LIST(X)
#undef X
};

const char *op_name(op_kind kind) { return (unsigned)kind < OP_KIND_COUNT ? rows[kind].name : "?"; }

op_slot op_slot_at(op_kind kind, uint32_t i)
{
    const char *s = rows[kind].slots;
    for (uint32_t at = 0; *s; at++) {
        char type = *s++;
        int optional = *s == '?', repeats = *s == '*';
        if (at == i || repeats) return (op_slot){.type = type, .optional = optional};
        s += optional;
    }
    return (op_slot){0};
}

int op_reads_leaves(op_kind kind, uint32_t i)
{
    if (kind == OP_ADD || kind == OP_MUL) return i == 1;
    return kind == OP_MAP || kind == OP_CONVERT || (kind == OP_NORM && i >= 1);
}
