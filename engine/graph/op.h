/* op.h - one recorded operation: its kind, operands, attributes. Layer: graph.
 *
 * A program is an array of ops; each makes one tensor, known by its op's index + 1 (which is
 * what a kiln_t has). Fusing turns several ops into one with an epilogue; nothing else ever
 * changes an op. What a backend sees of an op is in backend/backend.h.
 */
#ifndef KILN_GRAPH_OP_H
#define KILN_GRAPH_OP_H

#include "kiln/ops.h"
#include "tensor/shape.h"

#define OP_MAX_IN 8

/* kind, name, number of operands (-1: varies). One row per op; every table is made from this. */
#define OP_LIST(X)                                                                                                     \
    X(INPUT, "input", 0)                                                                                               \
    X(WEIGHT, "weight", 0)                                                                                             \
    X(CONSTANT, "constant", 0)                                                                                         \
    X(CONVERT, "convert", 1)       /* dtype change, put in by the planner           */                                 \
    X(CONV2D, "conv2d", 3)         /* x, w, bias or 0                               */                                 \
    X(LINEAR, "linear", 3)         /* x, w, bias or 0                               */                                 \
    X(ATTENTION, "attention", 4)   /* q, k, v, mask or 0                            */                                 \
    X(GROUP_NORM, "group_norm", 3) /* x, gamma, beta                                */                                 \
    X(LAYER_NORM, "layer_norm", 3) /* x, gamma, beta                                */                                 \
    X(ADD, "add", 2)                                                                                                   \
    X(MUL, "mul", 2)                                                                                                   \
    X(AFFINE, "affine", 1)                                                                                             \
    X(ACT, "act", 1)                                                                                                   \
    X(GEGLU, "geglu", 1)                                                                                               \
    X(UPSAMPLE, "upsample_nearest", 1)                                                                                 \
    X(CONCAT, "concat", -1)                                                                                            \
    X(SLICE, "slice", 1)                                                                                               \
    X(RESHAPE, "reshape", 1)                                                                                           \
    X(PERMUTE, "permute", 1)                                                                                           \
    X(EMBEDDING, "embedding", 2) /* table, ids                                    */                                   \
    X(GATHER, "gather", 2)       /* x, index                                      */                                   \
    X(TIMESTEP, "timestep_embedding", 1)

typedef enum {
#define X(kind, name, n) OP_##kind,
    OP_LIST(X)
#undef X
        OP_KIND_COUNT
} op_kind;

typedef struct {
    int32_t stride[2], pad[4], dilation[2]; /* h,w; top,left,bottom,right; all resolved (no 0 = 1) */
    int32_t groups;
} conv2d_attr;

typedef struct {
    int32_t heads;
    float scale; /* resolved */
    uint32_t causal;
} attention_attr;

typedef struct {
    int32_t groups; /* layer_norm: 0 */
    float eps;
} norm_attr;

typedef union {
    conv2d_attr conv2d;
    attention_attr attention;
    norm_attr norm;
    struct {
        float scale, shift;
    } affine;
    struct {
        uint32_t kind;
    } act;
    struct {
        int64_t h, w;
    } upsample;
    struct {
        uint32_t axis;
    } concat;
    struct {
        uint32_t axis;
        int64_t start, length;
    } slice;
    struct {
        uint32_t axis[KILN_MAX_RANK];
    } permute;
    struct {
        int64_t dim;
        uint32_t cos_first;
        double shift, max_period;
    } timestep;
} op_attr;

/* What follows the op's own result, in this order: + bias (conv, linear: operand 2), activation,
 * geglu (linear: the result has half the columns), + residual. */
typedef struct {
    uint32_t act;      /* kiln_act                                        */
    uint32_t geglu;    /* 1: out[..., :C] * gelu(out[..., C:])             */
    uint32_t residual; /* 1: the operand after the listed ones is added    */
} op_epilogue;

const char *op_name(op_kind kind);

#endif
