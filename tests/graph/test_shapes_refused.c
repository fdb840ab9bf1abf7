/* test_shapes_refused.c - operands and numbers that each op refuses, with the sentence that says what it takes. */
#include "graph/op.h"
#include "graph/shape_rules.h"
#include "harness.h"
#include "kiln/ops.h"

#include <string.h>

enum { ABSENT = 99 };
#define S(...)                                                                                                         \
    {                                                                                                                  \
        .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .dim = { __VA_ARGS__ }                             \
    }
#define SCALAR                                                                                                         \
    {                                                                                                                  \
        .rank = 0                                                                                                      \
    }
#define NO                                                                                                             \
    {                                                                                                                  \
        .rank = ABSENT                                                                                                 \
    }

typedef struct {
    op_kind kind;
    const char *says;
    op_attr attr;
    shape in[12];
    uint32_t n;
} refused;

#define CONV2D .attr.conv2d = {{1, 1}, {0, 0, 0, 0}, {1, 1}, 1}
#define ATTEND(...) .attr.attention = {.heads = 2, .kv_heads = 2, .scale = 1, __VA_ARGS__}
#define QKV S(1, 4, 8), S(1, 6, 8), S(1, 6, 8)
#define CONV(r, ...) .attr.conv = {.rank = r, .groups = 1, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, __VA_ARGS__}
#define POOL(...) .attr.pool = {.kind = KILN_POOL_MAX, .rank = 2, .size = {2, 2}, .stride = {1, 1}, __VA_ARGS__}

static const refused table[] = {
    {OP_CONV2D, "conv2d takes x [N,H,W,I]", CONV2D, .in = {S(4, 4, 3), S(8, 3, 1, 1), NO}, .n = 3},
    {OP_CONV2D, "conv2d takes x [N,H,W,I]", CONV2D, .in = {S(1, 4, 4, 3), S(8, 3, 1), NO}, .n = 3},
    {OP_CONV2D, "must be 1 or more (64 at most), padding 0 or more", .attr.conv2d = {{1, 0}, {0, 0, 0, 0}, {1, 1}, 1},
     .in = {S(1, 4, 4, 3), S(8, 3, 1, 1), NO}, .n = 3},
    {OP_CONV2D, "must be 1 or more (64 at most), padding 0 or more", .attr.conv2d = {{1, 1}, {0, 0, 0, 0}, {0, 1}, 1},
     .in = {S(1, 4, 4, 3), S(8, 3, 1, 1), NO}, .n = 3},
    {OP_CONV2D, "must be 1 or more (64 at most), padding 0 or more", .attr.conv2d = {{1, 1}, {0, 0, 0, 0}, {1, 0}, 1},
     .in = {S(1, 4, 4, 3), S(8, 3, 1, 1), NO}, .n = 3},
    {OP_CONV2D, "must be 1 or more (64 at most), padding 0 or more", .attr.conv2d = {{1, 1}, {0, 0, 0, 0}, {1, 1}, 0},
     .in = {S(1, 4, 4, 3), S(8, 3, 1, 1), NO}, .n = 3},
    {OP_CONV2D, "must be 1 or more (64 at most), padding 0 or more", .attr.conv2d = {{1, 1}, {0, -1, 0, 0}, {1, 1}, 1},
     .in = {S(1, 4, 4, 3), S(8, 3, 1, 1), NO}, .n = 3},
    {OP_CONV2D, "must be 1 or more (64 at most), padding 0 or more", .attr.conv2d = {{1, 1}, {0, 0, -1, 0}, {1, 1}, 1},
     .in = {S(1, 4, 4, 3), S(8, 3, 1, 1), NO}, .n = 3},
    {OP_CONV2D, "must be 1 or more (64 at most), padding 0 or more", .attr.conv2d = {{1, 1}, {0, 0, 0, -1}, {1, 1}, 1},
     .in = {S(1, 4, 4, 3), S(8, 3, 1, 1), NO}, .n = 3},
    {OP_CONV2D, "must be 1 or more (64 at most), padding 0 or more", .attr.conv2d = {{65, 1}, {0, 0, 0, 0}, {1, 1}, 1},
     .in = {S(1, 4, 4, 3), S(8, 3, 1, 1), NO}, .n = 3},
    {OP_CONV2D, "must be 1 or more (64 at most), padding 0 or more", .attr.conv2d = {{1, 65}, {0, 0, 0, 0}, {1, 1}, 1},
     .in = {S(1, 4, 4, 3), S(8, 3, 1, 1), NO}, .n = 3},
    {OP_CONV2D, "must be 1 or more (64 at most), padding 0 or more", .attr.conv2d = {{1, 1}, {0, 0, 0, 0}, {65, 1}, 1},
     .in = {S(1, 4, 4, 3), S(8, 3, 1, 1), NO}, .n = 3},
    {OP_CONV2D, "must be 1 or more (64 at most), padding 0 or more", .attr.conv2d = {{1, 1}, {0, 0, 0, 0}, {1, 65}, 1},
     .in = {S(1, 4, 4, 3), S(8, 3, 1, 1), NO}, .n = 3},
    {OP_CONV2D, "several groups", .attr.conv2d = {{1, 1}, {0, 0, 0, 0}, {1, 1}, 2},
     .in = {S(1, 4, 4, 4), S(8, 2, 1, 1), NO}, .n = 3},
    {OP_CONV2D, "input channels differ", CONV2D, .in = {S(1, 4, 4, 3), S(8, 4, 1, 1), NO}, .n = 3},
    {OP_CONV2D, "one number an output channel", CONV2D, .in = {S(1, 4, 4, 3), S(8, 3, 1, 1), S(7)}, .n = 3},
    {OP_CONV2D, "smaller than the kernel", CONV2D, .in = {S(1, 4, 2, 3), S(8, 3, 3, 3), NO}, .n = 3},
    {OP_LINEAR, "linear takes x [...,I] and w [O,I]", .in = {SCALAR, S(8, 3), NO}, .n = 3},
    {OP_LINEAR, "linear takes x [...,I] and w [O,I]", .in = {S(2, 3), S(8, 3, 1), NO}, .n = 3},
    {OP_LINEAR, "linear takes x [...,I] and w [O,I]", .in = {S(2, 4), S(8, 3), NO}, .n = 3},
    {OP_LINEAR, "one number an output", .in = {S(2, 3), S(8, 3), S(8, 1)}, .n = 3},
    {OP_LINEAR_T, "linear_transposed takes", .in = {SCALAR, S(8, 3), NO}, .n = 3},
    {OP_LINEAR_T, "linear_transposed takes", .in = {S(2, 8), S(8, 3, 1), NO}, .n = 3},
    {OP_LINEAR_T, "one number a column", .in = {S(2, 8), S(8, 3), S(8)}, .n = 3},
    {OP_GROUPED_LINEAR, "grouped_linear takes x [R,I]", .in = {S(1, 6, 4), S(2, 5, 4), NO, S(3)}, .n = 4},
    {OP_GROUPED_LINEAR, "grouped_linear takes x [R,I]", .in = {S(6, 4), S(5, 4), NO, S(3)}, .n = 4},
    {OP_GROUPED_LINEAR, "bias must be [E,O]", .in = {S(6, 4), S(2, 5, 4), S(5), S(3)}, .n = 4},
    {OP_GROUPED_LINEAR, "bias must be [E,O]", .in = {S(6, 4), S(2, 5, 4), S(3, 5), S(3)}, .n = 4},
    {OP_GROUPED_LINEAR, "bias must be [E,O]", .in = {S(6, 4), S(2, 5, 4), S(2, 4), S(3)}, .n = 4},
    {OP_GROUPED_LINEAR, "a number more than there are groups", .in = {S(6, 4), S(2, 5, 4), NO, S(2)}, .n = 4},
    {OP_MATMUL, "matmul takes a", .in = {S(4), S(4, 2)}, .n = 2},
    {OP_MATMUL, "matmul takes a", .in = {S(4, 4), S(4)}, .n = 2},
    {OP_MATMUL, "b [..,K,J]", .in = {S(3, 4), S(5, 2)}, .n = 2},
    {OP_MATMUL, "b [..,J,K]", .attr.matmul = {1, 1}, .in = {S(3, 4), S(2, 5)}, .n = 2},
    {OP_MATMUL, "matmul takes a", .in = {S(2, 3, 4), S(3, 4, 5)}, .n = 2},
    {OP_ATTENTION, "attention takes q [N,T,heads*D]", ATTEND(0), .in = {S(4, 8), S(1, 6, 8), S(1, 6, 8)}, .n = 3},
    {OP_ATTENTION, "attention takes q [N,T,heads*D]", ATTEND(0), .in = {S(1, 4, 8), S(6, 8), S(1, 6, 8)}, .n = 3},
    {OP_ATTENTION, "attention takes q [N,T,heads*D]", ATTEND(0), .in = {S(1, 4, 8), S(1, 6, 8), S(6, 8)}, .n = 3},
    {OP_ATTENTION, "does not divide into 3 heads", .attr.attention = {.heads = 3, .kv_heads = 3}, .in = {QKV}, .n = 3},
    {OP_ATTENTION, "do not fit together", .attr.attention = {.heads = 4, .kv_heads = 3}, .in = {QKV}, .n = 3},
    {OP_ATTENTION, "do not fit together", .attr.attention = {.heads = 4, .kv_heads = 0}, .in = {QKV}, .n = 3},
    {OP_ATTENTION, "k and v differ in shape", ATTEND(0), .in = {S(1, 4, 8), S(1, 6, 8), S(1, 5, 8)}, .n = 3},
    {OP_ATTENTION, "q and k differ in batch or width", ATTEND(0), .in = {S(1, 4, 8), S(1, 6, 4), S(1, 6, 8)}, .n = 3},
    {OP_ATTENTION, "q and k differ in batch or width", ATTEND(0), .in = {S(2, 4, 8), S(1, 6, 8), S(1, 6, 8)}, .n = 3},
    {OP_ATTENTION, "mask must be [1 or N, 1 or heads, Tq, Tk]", ATTEND(0), .in = {QKV, S(4, 6)}, .n = 4},
    {OP_ATTENTION, "mask must be [1 or N, 1 or heads, Tq, Tk]", ATTEND(0), .in = {QKV, S(2, 1, 4, 6)}, .n = 4},
    {OP_ATTENTION, "mask must be [1 or N, 1 or heads, Tq, Tk]", ATTEND(0), .in = {QKV, S(1, 3, 4, 6)}, .n = 4},
    {OP_ATTENTION, "mask must be [1 or N, 1 or heads, Tq, Tk]", ATTEND(0), .in = {QKV, S(1, 1, 3, 6)}, .n = 4},
    {OP_ATTENTION, "mask must be [1 or N, 1 or heads, Tq, Tk]", ATTEND(0), .in = {QKV, S(1, 1, 4, 5)}, .n = 4},
    {OP_ATTENTION, "pages must be [N,P]", ATTEND(0), .in = {QKV, NO, NO, NO, NO, NO, NO, NO, NO, S(3)}, .n = 12},
    {OP_ATTENTION, "pages must be [N,P]", ATTEND(0), .in = {QKV, NO, NO, NO, NO, NO, NO, NO, NO, S(2, 3)}, .n = 12},
    {OP_ATTENTION, "q_segment and k_segment go together", ATTEND(0), .in = {QKV, NO, NO, NO, S(1, 4), NO}, .n = 8},
    {OP_ATTENTION, "segments must be", ATTEND(0), .in = {QKV, NO, NO, NO, S(4), S(1, 6)}, .n = 8},
    {OP_ATTENTION, "segments must be", ATTEND(0), .in = {QKV, NO, NO, NO, S(1, 4), S(1, 5)}, .n = 8},
    {OP_ATTENTION, "segments must be", ATTEND(0), .in = {QKV, NO, NO, NO, S(1, 4), S(3, 6)}, .n = 8},
    {OP_ATTENTION, "key_position must be [1 or N,Tk]", ATTEND(0), .in = {QKV, NO, NO, NO, NO, NO, S(6)}, .n = 9},
    {OP_ATTENTION, "bias_table must be [buckets,heads]", ATTEND(0), .in = {QKV, NO, NO, NO, NO, NO, NO, S(32)},
     .n = 10},
    {OP_ATTENTION, "bias_table must be [buckets,heads]", ATTEND(0), .in = {QKV, NO, NO, NO, NO, NO, NO, S(32, 3)},
     .n = 10},
    {OP_ATTENTION, "make no table of biases", ATTEND(.max_distance = 128), .in = {QKV, NO, NO, NO, NO, NO, NO, S(3, 2)},
     .n = 10},
    {OP_ATTENTION, "a window reaches 0 or more", ATTEND(.window = 1, .left = -1), .in = {QKV}, .n = 3},
    {OP_ATTENTION, "a window reaches 0 or more", ATTEND(.window = 1, .right = -1), .in = {QKV}, .n = 3},
    {OP_GROUP_NORM, "group_norm takes x", .attr.norm = {2, 1e-5f}, .in = {S(4), NO, NO}, .n = 3},
    {OP_GROUP_NORM, "eps must be in 0..1", .attr.norm = {2, -1}, .in = {S(2, 4), NO, NO}, .n = 3},
    {OP_GROUP_NORM, "eps must be in 0..1", .attr.norm = {2, 1}, .in = {S(2, 4), NO, NO}, .n = 3},
    {OP_GROUP_NORM, "do not divide into 3 groups", .attr.norm = {3, 1e-5f}, .in = {S(2, 4), NO, NO}, .n = 3},
    {OP_GROUP_NORM, "one number a channel", .attr.norm = {2, 1e-5f}, .in = {S(2, 4), S(3), NO}, .n = 3},
    {OP_GROUP_NORM, "one number a channel", .attr.norm = {2, 1e-5f}, .in = {S(2, 4), NO, S(3)}, .n = 3},
    {OP_GROUP_NORM, "stats [N,H,groups,3]", .attr.norm = {2, 0}, .in = {S(1, 2, 2, 4), NO, NO, S(1, 2, 1, 3)}, .n = 4},
    {OP_GROUP_NORM, "stats [N,H,groups,3]", .attr.norm = {2, 0}, .in = {S(2, 2, 2, 4), NO, NO, S(1, 2, 2, 3)}, .n = 4},
    {OP_GROUP_NORM, "stats [N,H,groups,3]", .attr.norm = {2, 0}, .in = {S(1, 4, 4), NO, NO, S(1, 2, 2, 3)}, .n = 4},
    {OP_GROUP_NORM, "stats [N,H,groups,3]", .attr.norm = {2, 0}, .in = {S(1, 2, 2, 4), NO, NO, S(1, 2, 2, 2)}, .n = 4},
    {OP_GROUP_NORM_STATS, "group_norm_stats takes x", .attr.norm = {2, 0}, .in = {S(2, 4, 4)}, .n = 1},
    {OP_GROUP_NORM_STATS, "do not divide into 3 groups", .attr.norm = {3, 0}, .in = {S(1, 2, 2, 4)}, .n = 1},
    {OP_LAYER_NORM, "layer_norm takes x", .attr.norm = {0, 1e-5f}, .in = {SCALAR, NO, NO}, .n = 3},
    {OP_LAYER_NORM, "eps must be in 0..1", .attr.norm = {0, 2}, .in = {S(2, 4), NO, NO}, .n = 3},
    {OP_LAYER_NORM, "one number a channel", .attr.norm = {0, 1e-5f}, .in = {S(2, 4), S(3), NO}, .n = 3},
    {OP_NORM, "norm takes x", .in = {SCALAR, NO, NO, NO, NO}, .n = 5},
    {OP_NORM, "eps must be in 0..1", .attr.any_norm = {.eps = 2, .group = 4}, .in = {S(2, 4), NO, NO, NO, NO}, .n = 5},
    {OP_GEGLU, "an even number of columns", .in = {SCALAR}, .n = 1},
    {OP_GEGLU, "an even number of columns", .in = {S(2, 3)}, .n = 1},
    {OP_EMBEDDING, "takes a table [V,D] and ids", .in = {S(4), S(2)}, .n = 2},
    {OP_EMBEDDING, "takes a table [V,D] and ids", .in = {S(4, 2), S(1, 1, 1, 1, 1, 1, 1, 1)}, .n = 2},
    {OP_GATHER, "index [N] or [N,K]", .in = {S(2, 4), S(2)}, .n = 2},
    {OP_GATHER, "index [N] or [N,K]", .in = {S(2, 4, 3), SCALAR}, .n = 2},
    {OP_GATHER, "index [N] or [N,K]", .in = {S(2, 4, 3), S(2, 1, 1)}, .n = 2},
    {OP_GATHER, "index [N] or [N,K]", .in = {S(2, 4, 3), S(3)}, .n = 2},
    {OP_TIMESTEP, "2 columns or more", .attr.timestep = {.dim = 6, .max_period = 1e4}, .in = {SCALAR}, .n = 1},
    {OP_TIMESTEP, "2 columns or more", .attr.timestep = {.dim = 1, .max_period = 1e4}, .in = {S(2)}, .n = 1},
    {OP_TIMESTEP, "2 columns or more", .attr.timestep = {.dim = 6, .max_period = 1e4},
     .in = {S(1, 1, 1, 1, 1, 1, 1, 1)}, .n = 1},
    {OP_ROPE, "rope takes x", .attr.rope = {2, 4, 0}, .in = {S(4, 8), S(1, 4, 1, 2), S(1, 4, 1, 2)}, .n = 3},
    {OP_ROPE, "does not divide into 3 heads", .attr.rope = {3, 2, 0}, .in = {S(1, 4, 8), S(1, 4, 1, 2), S(1, 4, 1, 2)},
     .n = 3},
    {OP_ROPE, "cannot turn in pairs", .attr.rope = {2, 3, 0}, .in = {S(1, 4, 8), S(1, 4, 1, 2), S(1, 4, 1, 2)}, .n = 3},
    {OP_ROPE, "cannot turn in pairs", .attr.rope = {2, 6, 0}, .in = {S(1, 4, 8), S(1, 4, 1, 2), S(1, 4, 1, 2)}, .n = 3},
    {OP_ROPE, "cos and sin must be", .attr.rope = {2, 4, 0}, .in = {S(1, 4, 8), S(4, 1, 2), S(1, 4, 1, 2)}, .n = 3},
    {OP_ROPE, "cos and sin must be", .attr.rope = {2, 4, 0}, .in = {S(1, 4, 8), S(2, 4, 1, 2), S(1, 4, 1, 2)}, .n = 3},
    {OP_ROPE, "cos and sin must be", .attr.rope = {2, 4, 0}, .in = {S(1, 4, 8), S(1, 4, 1, 2), S(1, 5, 1, 2)}, .n = 3},
    {OP_ROPE, "cos and sin must be", .attr.rope = {2, 4, 0}, .in = {S(1, 4, 8), S(1, 4, 3, 2), S(1, 4, 1, 2)}, .n = 3},
    {OP_ROPE, "differ in shape", .attr.rope = {2, 4, 0}, .in = {S(1, 4, 8), S(1, 4, 2, 2), S(1, 4, 1, 2)}, .n = 3},
    {OP_SOFTMAX, "softmax takes x", .in = {SCALAR, NO}, .n = 2},
    {OP_SOFTMAX, "one number, or one a row", .in = {S(2, 3), S(3)}, .n = 2},
    {OP_REDUCE, "no reduction has number 99", .attr.reduce = {99, 1, 0}, .in = {S(2)}, .n = 1},
    {OP_REDUCE, "reduce takes axes", .attr.reduce = {0, 0, 0}, .in = {S(2)}, .n = 1},
    {OP_REDUCE, "reduce takes axes", .attr.reduce = {0, 2, 0}, .in = {S(2)}, .n = 1},
    {OP_REDUCE, "over one axis", .attr.reduce = {KILN_REDUCE_ARGMIN, 3, 0}, .in = {S(2, 2)}, .n = 1},
    {OP_SORT, "topk takes x", .attr.sort = {1, 0}, .in = {SCALAR}, .n = 1},
    {OP_SORT, "k must be 1 to the 4 columns", .attr.sort = {0, 0}, .in = {S(2, 4)}, .n = 1},
    {OP_SORT, "k must be 1 to the 4 columns", .attr.sort = {5, 0}, .in = {S(2, 4)}, .n = 1},
    {OP_CUMSUM, "cumsum takes an axis", .attr.cumsum = {1, 0, 0}, .in = {S(2)}, .n = 1},
    {OP_BINCOUNT, "1 bin or more", .attr.bincount = {0}, .in = {S(2)}, .n = 1},
    {OP_TAKE, "no such axis", .attr.take = {2}, .in = {S(2, 3), S(1)}, .n = 2},
    {OP_TAKE, "too many dimensions", .attr.take = {0}, .in = {S(2, 3), S(1, 1, 1, 1, 1, 1, 1, 1)}, .n = 2},
    {OP_TAKE_ALONG, "differ before the last dimension", .in = {SCALAR, SCALAR}, .n = 2},
    {OP_TAKE_ALONG, "differ before the last dimension", .in = {S(2, 3), S(3)}, .n = 2},
    {OP_TAKE_ALONG, "differ before the last dimension", .in = {S(2, 3), S(3, 3)}, .n = 2},
    {OP_SCATTER, "scatter takes x", .attr.scatter = {2, 0}, .in = {S(2, 3), S(1), S(1, 3)}, .n = 3},
    {OP_SCATTER, "scatter takes x", .attr.scatter = {0, 0}, .in = {S(2, 3), S(1), S(2, 3)}, .n = 3},
    {OP_STATE_WRITE, "state_write takes a tensor like", .attr.state_write = {3},
     .in = {S(2, 8, 4), S(1), S(2, 1, 4), NO}, .n = 3},
    {OP_STATE_WRITE, "state_write takes a tensor like", .attr.state_write = {1}, .in = {S(2, 8, 4), S(1), S(1, 4), NO},
     .n = 3},
    {OP_STATE_WRITE, "state_write takes a tensor like", .attr.state_write = {1},
     .in = {S(2, 8, 4), S(1), S(2, 9, 4), NO}, .n = 3},
    {OP_STATE_WRITE, "state_write takes a tensor like", .attr.state_write = {1},
     .in = {S(2, 8, 4), S(1), S(2, 1, 5), NO}, .n = 3},
    {OP_STATE_WRITE, "offset must be one number", .attr.state_write = {1}, .in = {S(2, 8, 4), S(3), S(2, 1, 4), NO},
     .n = 3},
    {OP_STATE_WRITE, "offset must be one number", .attr.state_write = {0}, .in = {S(2, 8, 4), S(2), S(1, 8, 4), NO},
     .n = 3},
    {OP_STATE_WRITE, "count must be one number", .attr.state_write = {1}, .in = {S(2, 8, 4), S(1), S(2, 1, 4), S(3)},
     .n = 4},
    {OP_CONV, "a rank of 4; 1 to 3", CONV(4, .transposed = 0), .in = {S(1, 4, 3), S(8, 3, 1), NO}, .n = 3},
    {OP_CONV, "all 4096 at most", CONV(1, .stride = {0}), .in = {S(1, 4, 3), S(8, 3, 1), NO}, .n = 3},
    {OP_CONV, "all 4096 at most", CONV(1, .before = {-1}), .in = {S(1, 4, 3), S(8, 3, 1), NO}, .n = 3},
    {OP_CONV, "all 4096 at most", CONV(1, .stride = {1 << 30}), .in = {S(1, 4, 3), S(8, 3, 1), NO}, .n = 3},
    {OP_CONV, "no padding has number 9", CONV(1, .pad_mode = 9), .in = {S(1, 4, 3), S(8, 3, 1), NO}, .n = 3},
    {OP_CONV, "a transposed one pads with zeros", CONV(1, .transposed = 1, .pad_mode = KILN_PAD_CIRCULAR),
     .in = {S(1, 4, 3), S(3, 8, 1), NO}, .n = 3},
    {OP_CONV, "output_pad is of transposed ones", CONV(1, .output_pad = {1}), .in = {S(1, 4, 3), S(8, 3, 1), NO},
     .n = 3},
    {OP_CONV, "output_pad is of transposed ones", CONV(1, .transposed = 1, .output_pad = {1}),
     .in = {S(1, 4, 3), S(3, 8, 1), NO}, .n = 3},
    {OP_CONV, "conv takes x [N,...,I]", CONV(1, .transposed = 0), .in = {S(4, 3), S(8, 3, 1), NO}, .n = 3},
    {OP_CONV, "conv takes x [N,...,I]", CONV(1, .transposed = 0), .in = {S(1, 4, 3), S(8, 3), NO}, .n = 3},
    {OP_CONV, "do not fit together", CONV(1, .transposed = 0), .in = {S(1, 4, 3), S(8, 4, 1), NO}, .n = 3},
    {OP_CONV, "do not fit together", CONV(1, .groups = 2), .in = {S(1, 4, 4), S(7, 2, 1), NO}, .n = 3},
    {OP_CONV, "one number an output channel", CONV(1, .transposed = 0), .in = {S(1, 4, 3), S(8, 3, 1), S(7)}, .n = 3},
    {OP_CONV, "smaller than its padding", CONV(1, .pad_mode = KILN_PAD_REFLECT, .before = {4}),
     .in = {S(1, 4, 3), S(8, 3, 1), NO}, .n = 3},
    {OP_CONV, "smaller than the kernel", CONV(1, .transposed = 0), .in = {S(1, 2, 3), S(8, 3, 3), NO}, .n = 3},
    {OP_INTERPOLATE, "interpolate takes x", .attr.interpolate = {.h = 2, .w = 2}, .in = {S(4, 4, 3)}, .n = 1},
    {OP_INTERPOLATE, "interpolate takes x", .attr.interpolate = {.h = 0, .w = 2}, .in = {S(1, 4, 4, 3)}, .n = 1},
    {OP_INTERPOLATE, "no mode has number 99", .attr.interpolate = {.mode = 99, .h = 2, .w = 2}, .in = {S(1, 4, 4, 3)},
     .n = 1},
    {OP_INTERPOLATE, "are of bilinear and bicubic", .attr.interpolate = {.align_corners = 1, .h = 2, .w = 2},
     .in = {S(1, 4, 4, 3)}, .n = 1},
    {OP_POOL, "pool takes x", POOL(.kind = 9), .in = {S(1, 4, 4, 3)}, .n = 1},
    {OP_POOL, "pool takes x", POOL(.rank = 0), .in = {S(1, 4, 4, 3)}, .n = 1},
    {OP_POOL, "pool takes x", POOL(.rank = 4), .in = {S(1, 4, 4, 3)}, .n = 1},
    {OP_POOL, "pool takes x", POOL(.rank = 2), .in = {S(1, 4, 3)}, .n = 1},
    {OP_POOL, "window and stride must be 1 or more", POOL(.size = {0, 1}), .in = {S(1, 4, 4, 3)}, .n = 1},
    {OP_POOL, "at most half of the window", POOL(.before = {2, 0}), .in = {S(1, 4, 4, 3)}, .n = 1},
    {OP_POOL, "smaller than the window", POOL(.size = {5, 1}), .in = {S(1, 4, 4, 3)}, .n = 1},
    {OP_PAD, "no padding has number 9", .attr.pad = {.mode = 9}, .in = {S(2)}, .n = 1},
    {OP_PAD, "padding is 0 or more", .attr.pad = {.before = {-1}}, .in = {S(2)}, .n = 1},
    {OP_PAD, "padding is 0 or more", .attr.pad = {.after = {-1}}, .in = {S(2)}, .n = 1},
    {OP_PAD, "padding is 0 or more", .attr.pad = {.before = {(int64_t)INT32_MAX + 1}}, .in = {S(2)}, .n = 1},
    {OP_PAD, "padding is 0 or more", .attr.pad = {.after = {(int64_t)INT32_MAX + 1}}, .in = {S(2)}, .n = 1},
    {OP_PAD, "smaller than what is repeated", .attr.pad = {.mode = KILN_PAD_REFLECT, .before = {2}}, .in = {S(2)},
     .n = 1},
    {OP_GRID_SAMPLE, "grid_sample takes x", .in = {S(4, 4, 3), S(1, 2, 2, 2)}, .n = 2},
    {OP_GRID_SAMPLE, "grid_sample takes x", .in = {S(1, 4, 4, 3), S(2, 2, 2)}, .n = 2},
    {OP_GRID_SAMPLE, "grid_sample takes x", .in = {S(1, 4, 4, 3), S(1, 2, 2, 3)}, .n = 2},
    {OP_GRID_SAMPLE, "grid_sample takes x", .in = {S(1, 4, 4, 3), S(2, 2, 2, 2)}, .n = 2},
    {OP_GRID_SAMPLE, "no such mode or padding", .attr.grid_sample = {.mode = 9}, .in = {S(1, 4, 4, 3), S(1, 2, 2, 2)},
     .n = 2},
    {OP_GRID_SAMPLE, "no such mode or padding", .attr.grid_sample = {.padding = 9},
     .in = {S(1, 4, 4, 3), S(1, 2, 2, 2)}, .n = 2},
    {OP_MAP, "do not broadcast to one shape", .in = {S(2, 3), S(2, 4)}, .n = 2},
    {OP_ADD, "does not broadcast to the first", .in = {S(3), S(2, 3)}, .n = 2},
    {OP_PERMUTE, "permute takes each axis once", .attr.permute = {{0, 0}}, .in = {S(2, 3)}, .n = 1},
    {OP_CONCAT, "operands differ outside the axis", .attr.concat = {1}, .in = {S(2, 3), S(3, 3)}, .n = 2},
    {OP_SLICE, "reaches outside its operand", .attr.slice = {1, 2, 2}, .in = {S(2, 3)}, .n = 1},
};

static void test_what_is_refused(void)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const refused *r = &table[i];
        const shape *in[12] = {NULL};
        shape out = {0};
        error e = {0};
        for (uint32_t k = 0; k < r->n; k++) in[k] = r->in[k].rank == ABSENT ? NULL : &r->in[k];
        kiln_status status = shape_of_op(r->kind, &r->attr, in, r->n, &out, &e);
        CHECK_MSG(status == KILN_ERR_INVALID && strstr(e.message, r->says),
                  "row %zu (%s): %s: \"%s\" does not say \"%s\"", i, op_name(r->kind), status_name(status), e.message,
                  r->says);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_what_is_refused)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
