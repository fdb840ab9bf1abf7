/* shape_rule.h - what the files of shape rules share: a rule's type, its refusal, and the rules by file. */
#ifndef KILN_GRAPH_SHAPE_RULE_H
#define KILN_GRAPH_SHAPE_RULE_H

#include "base/status.h"
#include "graph/op.h"

/* in[i] NULL: absent. `out` is zeroed. */
typedef kiln_status shape_rule(const op_attr *a, const shape *const *in, uint32_t n, shape *out, error *e);

/* "what, got [..] and [..]" */
kiln_status wrong_shapes(error *e, const char *what, const shape *a, const shape *b);

static inline int64_t last_dimension(const shape *s) { return s->rank ? s->dim[s->rank - 1] : 1; }
/* Absent, or n numbers. */
static inline int is_vector(const shape *s, int64_t n) { return !s || (s->rank == 1 && s->dim[0] == n); }
/* Absent, or of a shape that repeats to `to`: aligned at the end, 1 repeats. */
int repeats_to(const shape *s, const shape *to);

shape_rule map_rule, norm_rule, rope_rule, softmax_rule, reduce_rule, sort_rule, cumsum_rule, bincount_rule, take_rule,
    take_along_rule, scatter_rule, state_write_rule;                                 /* shape_rules_sequence.c */
shape_rule attention_rule, matmul_rule, linear_transposed_rule, grouped_linear_rule; /* shape_rules_product.c */
shape_rule conv_rule, interpolate_rule, pool_rule, pad_rule, grid_sample_rule;       /* shape_rules_picture.c */

#endif
