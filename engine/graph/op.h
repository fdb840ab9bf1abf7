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

enum { OP_MAX_IN = 12, OP_MAX_MORE = 2, OP_MAX_CODE = 64, OP_MAX_NUMBERS = 16, OP_MAX_REGISTERS = 16 };

/* kind, name, slots. One row per op; every table is made from this. A slot says what an operand may be:
 *   x  real numbers of the op's own precision (converted when they are of another)
 *   r  real numbers of any type; inputs of the program are converted to its precision
 *   l  any type; real inputs of the program are converted to its precision
 *   a  any type, as it comes
 *   f  f32, as it comes
 *   i  i32
 *   w  a weight or a constant
 *   s  a state
 * A `?` after it: may be left out. A `*`: any number of the last. A weight in a slot other than w is read by the op
 * itself where READS_LEAVES says so, else a CONVERT before it makes a tensor of it. */
#define OP_LIST(X)                                                                                                     \
    X(INPUT, "input", "")                                                                                              \
    X(WEIGHT, "weight", "")                                                                                            \
    X(CONSTANT, "constant", "")                                                                                        \
    X(STATE, "state", "")                                                                                              \
    X(RESULT, "result", "a")                           /* one more result of its operand                */             \
    X(CONVERT, "convert", "a")                         /* another type, or a weight as a tensor         */             \
    X(CONV2D, "conv2d", "xww?")                        /* x, w, bias                                    */             \
    X(LINEAR, "linear", "xww?")                        /* x, w, bias                                    */             \
    X(ATTENTION, "attention", "xxxa?i?i?i?i?i?a?a?i?") /* q, k, v, mask, offset, key_length, q_segment, k_segment,     \
                                                        key_position, bias_table, sinks, pages */                      \
    X(GROUP_NORM, "group_norm", "rw?w?f?")             /* x, gamma, beta, statistics of all rows    */                 \
    X(GROUP_NORM_STATS, "group_norm_stats", "r")                                                                       \
    X(LAYER_NORM, "layer_norm", "rw?w?") /* x, gamma, beta                            */                               \
    X(ADD, "add", "rr")                                                                                                \
    X(MUL, "mul", "rr")                                                                                                \
    X(AFFINE, "affine", "r")                                                                                           \
    X(ACT, "act", "r")                                                                                                 \
    X(GEGLU, "geglu", "r")                                                                                             \
    X(UPSAMPLE, "upsample_nearest", "l")                                                                               \
    X(CONCAT, "concat", "l*")                                                                                          \
    X(SLICE, "slice", "l")                                                                                             \
    X(RESHAPE, "reshape", "l")                                                                                         \
    X(PERMUTE, "permute", "l")                                                                                         \
    X(EMBEDDING, "embedding", "wi") /* table, ids                                    */                                \
    X(GATHER, "gather", "ri")       /* x, index                                      */                                \
    X(TIMESTEP, "timestep_embedding", "f")                                                                             \
    X(MAP, "map", "a*")                                                                                                \
    X(NORM, "norm", "ra?a?a?a?") /* x, gain, bias, scale, shift                   */                                   \
    X(ROPE, "rope", "rff")       /* x, cos, sin                                   */                                   \
    X(SOFTMAX, "softmax", "ri?") /* x, length                                     */                                   \
    X(REDUCE, "reduce", "a")                                                                                           \
    X(SORT, "sort", "a") /* 1: places                                     */                                           \
    X(CUMSUM, "cumsum", "a")                                                                                           \
    X(BINCOUNT, "bincount", "i")                                                                                       \
    X(TAKE, "take", "ai") /* x, index                                      */                                          \
    X(TAKE_ALONG, "take_along", "ai")                                                                                  \
    X(SCATTER, "scatter", "aia") /* x, index, source                              */                                   \
    X(RANDOM, "random", "i")     /* seed                                          */                                   \
    X(MATMUL, "matmul", "xx")                                                                                          \
    X(LINEAR_T, "linear_transposed", "xww?")                                                                           \
    X(GROUPED_LINEAR, "grouped_linear", "xww?ii?") /* x, w, bias, offsets, rows of x (fuse_taken())   */               \
    X(CONV, "conv", "xww?")                        /* x, w, bias                                    */                 \
    X(INTERPOLATE, "interpolate", "r")                                                                                 \
    X(POOL, "pool", "r")                                                                                               \
    X(PAD, "pad", "a")                                                                                                 \
    X(GRID_SAMPLE, "grid_sample", "rr")    /* x, grid                                   */                             \
    X(STATE_WRITE, "state_write", "siai?") /* state, offset, x, count                 */                               \
    X(CUSTOM, "custom", "a*")

typedef enum {
#define X(kind, name, slots) OP_##kind,
    OP_LIST(X)
#undef X
        OP_KIND_COUNT
} op_kind;

typedef struct {
    int32_t stride[2], pad[4], dilation[2]; /* h,w; top,left,bottom,right; all resolved (no 0 = 1) */
    int32_t groups;
    /* fuse_upsampled(): x is read as upsample_nearest would make it, with twice its rows and columns; of that, `rows`
     * rows from `first` on. rows 0: as it is. */
    struct {
        int64_t first, rows;
    } upsampled;
} conv2d_attr;

typedef struct {
    int32_t heads;
    float scale; /* resolved */
    uint32_t causal;
    int32_t kv_heads; /* resolved; head h of q reads head h / (heads / kv_heads) */
    uint32_t window, bidirectional;
    int64_t left, right, max_distance;
    float softcap; /* 0: none */
} attention_attr;

/* An expression's code, for registers of a number each: see expression.h. */
typedef struct {
    uint8_t op;          /* map_op */
    uint8_t to, a, b, c; /* registers; of LOAD a is the operand, of NUMBER the number */
} map_code;
typedef struct {
    uint32_t n, n_numbers, n_registers; /* the result is in code[n - 1].to */
    uint32_t integer;                   /* 1: arithmetic of i32 */
    float number[OP_MAX_NUMBERS];
    map_code code[OP_MAX_CODE];
    shape least; /* the result has at least this shape: expand(); rank 0: none */
} map_attr;

typedef struct {
    uint32_t kind; /* kiln_norm_kind */
    float eps;
    uint32_t one_plus, eps_inside;
    int64_t group; /* columns normalised together; resolved */
} any_norm_attr;

typedef struct {
    uint32_t rank, transposed, pad_mode;
    int32_t stride[3], before[3], after[3], dilation[3], output_pad[3], groups; /* all resolved */
} conv_attr;

typedef struct {
    uint32_t kind, rank, include_pad;
    int32_t size[3], stride[3], before[3], after[3];
} pool_attr;

/* A plugin's op: custom.h */
typedef struct custom_op custom_op;

enum { OP_NORM_STATS = 3 }; /* numbers of group_norm_stats for a row and group: mean, its rest, sum of squares off it */
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
    map_attr map;
    any_norm_attr any_norm;
    conv_attr conv;
    pool_attr pool;
    struct {
        int32_t heads;
        int64_t rotary; /* columns of a head that turn; resolved */
        uint32_t interleaved;
    } rope;
    struct {
        uint32_t log;
    } softmax;
    struct {
        uint32_t kind, axes, keep; /* axes: bits */
    } reduce;
    struct {
        int64_t k; /* how many of each row; resolved */
        uint32_t ascending;
    } sort;
    struct {
        uint32_t axis, exclusive, reverse;
    } cumsum;
    struct {
        int64_t bins;
    } bincount;
    struct {
        uint32_t axis;
    } take; /* take_along too */
    struct {
        uint32_t axis, add;
    } scatter;
    struct {
        uint32_t kind;
    } random;
    struct {
        float alpha;
        uint32_t transpose_b;
    } matmul;
    struct {
        uint32_t mode, align_corners, antialias;
        int64_t h, w;
    } interpolate;
    struct {
        uint32_t mode;
        float value;
        int64_t before[KILN_MAX_RANK], after[KILN_MAX_RANK];
    } pad;
    struct {
        uint32_t mode, padding, align_corners;
    } grid_sample;
    struct {
        uint32_t axis;
    } state_write;
    struct {
        uint32_t index; /* 1: the first one after the op's own result */
    } result;
    const custom_op *custom; /* the program's */
} op_attr;

/* What follows the op's own result, in this order: + bias (conv, linear: operand 2), activation,
 * geglu (linear: the result has half the columns), + residual. */
typedef struct {
    uint32_t act;      /* kiln_act                                        */
    uint32_t geglu;    /* 1: out[..., :C] * gelu(out[..., C:])             */
    uint32_t residual; /* 1: the operand after the listed ones is added    */
} op_epilogue;

const char *op_name(op_kind kind);

typedef struct {
    char type; /* of OP_LIST's slots; 0: there is no such operand */
    int optional;
} op_slot;
op_slot op_slot_at(op_kind kind, uint32_t i);
/* Reads weights and constants itself, in its slots other than w. */
int op_reads_leaves(op_kind kind, uint32_t i);

#endif
