/* map_ops.h - the operations of map()'s expressions, once: the parser and the kernels of every backend are made from
 * it. C and C++, without other headers.
 */
#ifndef KILN_GRAPH_MAP_OPS_H
#define KILN_GRAPH_MAP_OPS_H

/* code, name of the function ("" : an operator), operands, 1: also of whole numbers */
#define MAP_OPS(X)                                                                                                     \
    X(LOAD, "", 0, 1)   /* operand a, broadcast                     */                                                 \
    X(NUMBER, "", 0, 1) /* number[a]                                */                                                 \
    X(ADD, "", 2, 1)                                                                                                   \
    X(SUB, "", 2, 1)                                                                                                   \
    X(MUL, "", 2, 1)                                                                                                   \
    X(DIV, "", 2, 1)                                                                                                   \
    X(NEGATE, "", 1, 1)                                                                                                \
    X(NOT, "", 1, 1)                                                                                                   \
    X(LESS, "", 2, 1)                                                                                                  \
    X(LESS_EQUAL, "", 2, 1)                                                                                            \
    X(EQUAL, "", 2, 1)                                                                                                 \
    X(NOT_EQUAL, "", 2, 1)                                                                                             \
    X(AND, "", 2, 1)                                                                                                   \
    X(OR, "", 2, 1)                                                                                                    \
    X(SELECT, "", 3, 1) /* a ? b : c                                */                                                 \
    X(ABS, "abs", 1, 1)                                                                                                \
    X(SIGN, "sign", 1, 1)                                                                                              \
    X(MIN, "min", 2, 1) /* NaN of either stays                      */                                                 \
    X(MAX, "max", 2, 1)                                                                                                \
    X(MOD, "mod", 2, 1) /* a - floor(a / b) b: torch.remainder      */                                                 \
    X(FLOOR, "floor", 1, 0)                                                                                            \
    X(CEIL, "ceil", 1, 0)                                                                                              \
    X(ROUND, "round", 1, 0) /* halves to even                       */                                                 \
    X(SQRT, "sqrt", 1, 0)                                                                                              \
    X(RSQRT, "rsqrt", 1, 0)                                                                                            \
    X(EXP, "exp", 1, 0)                                                                                                \
    X(EXP2, "exp2", 1, 0)                                                                                              \
    X(EXPM1, "expm1", 1, 0)                                                                                            \
    X(LOG, "log", 1, 0)                                                                                                \
    X(LOG2, "log2", 1, 0)                                                                                              \
    X(LOG1P, "log1p", 1, 0)                                                                                            \
    X(SIN, "sin", 1, 0)                                                                                                \
    X(COS, "cos", 1, 0)                                                                                                \
    X(TAN, "tan", 1, 0)                                                                                                \
    X(TANH, "tanh", 1, 0)                                                                                              \
    X(ATAN, "atan", 1, 0)                                                                                              \
    X(ATAN2, "atan2", 2, 0)                                                                                            \
    X(POW, "pow", 2, 0)                                                                                                \
    X(ERF, "erf", 1, 0)                                                                                                \
    X(SIGMOID, "sigmoid", 1, 0)                                                                                        \
    X(SILU, "silu", 1, 0)                                                                                              \
    X(GELU, "gelu", 1, 0)                                                                                              \
    X(GELU_TANH, "gelu_tanh", 1, 0)                                                                                    \
    X(QUICK_GELU, "quick_gelu", 1, 0)                                                                                  \
    X(RELU, "relu", 1, 0)                                                                                              \
    X(SOFTPLUS, "softplus", 1, 0) /* log(1 + e^x), x above 20       */                                                 \
    X(ISNAN, "isnan", 1, 0)

typedef enum {
#define X(code, name, n, whole) MAP_##code,
    MAP_OPS(X)
#undef X
        MAP_OP_COUNT
} map_op;

#endif
