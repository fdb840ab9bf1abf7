/* custom_call.h - an op of a plugin in a program, and the call that its functions get. Layer: graph. */
#ifndef KILN_GRAPH_CUSTOM_CALL_H
#define KILN_GRAPH_CUSTOM_CALL_H

#include "base/status.h"
#include "graph/op.h"

struct custom_op {
    kiln_op_kind kind; /* as far as this engine knows it; functions of one that is older are NULL */
    const void *attributes;
    size_t attribute_bytes;
};

/* A call with room for its tensors; it points into itself. */
typedef struct {
    kiln_op_call call;
    kiln_tensor in[KILN_OP_OPERANDS], out[KILN_OP_RESULTS];
} custom_call;
void custom_call_make(custom_call *c, const custom_op *o, uint32_t device, error *e);
/* Tensor i of the call: shape and type now, data where it runs. dtype 0: absent. */
void custom_call_in(custom_call *c, uint32_t i, uint32_t dtype, const shape *s, const void *data);
void custom_call_out(custom_call *c, uint32_t i, uint32_t dtype, const shape *s, void *data);
uint64_t custom_flops(const custom_op *o, const shape *const *in, uint32_t n_in, const shape *out);

/* KILN_OK, or the sentence that says what the row lacks. */
kiln_status custom_kind_check(const kiln_op_kind *kind, error *e);
#endif
