/* shape_rules.h - the shape each op makes, and how much it computes. */
#ifndef KILN_GRAPH_SHAPE_RULES_H
#define KILN_GRAPH_SHAPE_RULES_H

#include "base/status.h"
#include "graph/op.h"

/* in[i] NULL: operand absent. KILN_ERR_INVALID with a sentence that shows the shapes. */
kiln_status shape_of_op(op_kind kind, const op_attr *attr, const shape *const *in, uint32_t n_in, shape *out, error *e);
/* Of convolution, linear and attention; 1 MAC = 2. */
uint64_t flops_of_op(op_kind kind, const op_attr *attr, const shape *const *in, uint32_t n_in, const shape *out);

#endif
