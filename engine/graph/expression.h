/* expression.h - the expressions of map(): from text to code for a few registers. Layer: graph.
 *
 * The grammar is C's, without assignment; operands are a, b, c, .., numbers of the recorder p, q, r, s. The
 * operations stand in map_ops.h.
 */
#ifndef KILN_GRAPH_EXPRESSION_H
#define KILN_GRAPH_EXPRESSION_H

#include "base/status.h"
#include "graph/map_ops.h"
#include "graph/op.h"

/* The text's code into `out` (its least shape stays). `integer`: every operand and the result are i32. number: p, q, r,
 * s. KILN_ERR_INVALID with the place in the text and what is wrong there. */
kiln_status expression_compile(const char *text, uint32_t n_operands, int integer, const float *number, map_attr *out,
                               error *e);
/* Puts the code of `inner` in the place of operand k of `outer`: `operand[i]` is the operand of the whole that inner's
 * operand i is, `outer_operand[i]` the same of outer's (k's is not looked at). 0, and outer as it was: it would be too
 * long, or one computes with whole numbers and the other does not. */
int expression_inline(map_attr *outer, uint32_t k, const map_attr *inner, const uint8_t *outer_operand,
                      const uint8_t *operand);
/* How many operands an operation has, and its name for people: "min", "+". */
uint32_t map_op_operands(map_op op);
const char *map_op_name(map_op op);

#endif
