/* ops.h - "kiln.ops/1": record a tensor program, plan it once, run it many times.
 *
 *     kiln_program *p = ops->program_new(ctx, &(kiln_program_options){.size = sizeof o, .name = "unet"});
 *     kiln_t x = ops->input(p, "x", KILN_F32, 4, KILN_DIMS(2, 64, 64, 4));
 *     kiln_t h = ops->conv2d(p, x, ops->weight(p, w, "conv_in.weight", 4, KILN_DIMS(320, 4, 3, 3)),
 *                            ops->weight(p, w, "conv_in.bias", 1, KILN_DIMS(320)), &same3x3);
 *     ops->output(p, "eps", h);
 *     ops->plan(ctx, p, NULL);      // checks, fuses, lays out memory; reports the first error
 *     ops->run(ctx, p, in, 1, out, 1);
 *
 * A kiln_t is a small handle into the program being recorded. Errors are sticky: the
 * first wrong shape poisons what follows, and the program remembers the op, the scope and
 * both shapes, so model code needs no check on every line; plan() returns that error.
 *
 * Dimensions are in memory order and known when recorded: pictures are N,H,W,C, token
 * sequences N,T,C. Weights keep the order of their file (torch: O,I,kh,kw and O,I); the
 * backend packs them as it likes. Storage of activations is the program's precision
 * (f32, bf16 or f16); sums, statistics and softmax are f32 in every case.
 *
 * Recording is single-threaded per program; run() of one program must not overlap itself.
 * Every function is [run] unless said. Handles of one program mean nothing in another.
 */
#ifndef KILN_OPS_H
#define KILN_OPS_H

#include "plugin.h"
#include "weights.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_OPS_ABILITY "kiln.ops/1"

typedef struct kiln_program kiln_program;
typedef struct kiln_states kiln_states; /* memory of programs that outlives their runs */
/* Goes by value and does not grow. */
typedef struct {
    uint32_t id;
} kiln_t; /* id 0: nothing ("no bias") */

#define KILN_DIMS(...) ((const int64_t[]){__VA_ARGS__})

typedef struct {
    uint32_t size;
    uint32_t device;    /* 0 = where the run computes; another is refused              */
    uint32_t precision; /* KILN_F32, KILN_BF16 or, where the device has it, KILN_F16; 0 = the run's --precision */
    const char *name;   /* for messages, traces and --explain; copied                  */
    /* With precision 0: bits of types wide enough for what is recorded, as kiln_denoiser.precisions says; 0: all. When
     * the run's is not among them, the program has the next wider one that the device has (bf16 or f32 for f16). */
    uint32_t precisions;
} kiln_program_options;

typedef enum {
    KILN_ACT_NONE = 0,
    KILN_ACT_SILU,       /* x * sigmoid(x)                                              */
    KILN_ACT_GELU,       /* exact: x/2 * (1 + erf(x / sqrt 2))                          */
    KILN_ACT_GELU_TANH,  /* x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))           */
    KILN_ACT_QUICK_GELU, /* x * sigmoid(1.702 x), CLIP-L's                              */
    KILN_ACT_RELU,
    KILN_ACT_SIGMOID,
    KILN_ACT_TANH
} kiln_act;

typedef struct {
    uint32_t size;
    int32_t stride[2];   /* h, w; 0 = 1                              */
    int32_t pad[4];      /* top, left, bottom, right                 */
    int32_t dilation[2]; /* 0 = 1                                    */
    int32_t groups;      /* 0 = 1                                    */
} kiln_conv2d;

/* softmax(softcap(q k^T scale) + mask + bias) v, head by head, over the keys that a query may see:
 *   q [N,Tq,heads*D], k [N,Tk,kv_heads*D], v [N,Tk,kv_heads*Dv] -> [N,Tq,heads*Dv]
 * Query i is at position offset + i, key j at key_position[j], or j. A query that sees no key gives 0, and
 * one with a score that is NaN gives NaN. */
typedef struct {
    uint32_t size;
    int32_t heads;
    float scale;     /* 0 = 1/sqrt(D)                                                      */
    uint32_t causal; /* 1: a query sees keys of its own position and before                */
    kiln_t mask;     /* optional, added to the scores: [1 or N, 1 or heads, Tq, Tk]        */

    /* ---- newer: zero is what was before ---- */
    int32_t kv_heads;            /* 0 = heads; else heads is a multiple of it: grouped queries (GQA)           */
    float softcap;               /* c: c tanh(score / c), before mask and bias (Gemma 2); 0 = none             */
    uint32_t window;             /* 1: only keys from position - left to position + right                      */
    int64_t left, right;         /* of the window, 0 or more                                                   */
    kiln_t offset;               /* i32 [1] or [N]: position of the first query; none: 0                       */
    kiln_t key_length;           /* i32 [1] or [N]: keys in use, 0..Tk; the others are not read                */
    kiln_t q_segment, k_segment; /* i32 [1 or N,Tq] and [1 or N,Tk]: only keys of an equal number      */
    kiln_t key_position;         /* i32 [1 or N,Tk]: of a ring buffer; negative: nothing there yet             */
    /* T5's relative bias, [buckets,heads]: bias_table[bucket(key position - query position)][head] is added. Raffel et
     * al. 2020; transformers' T5Attention._relative_position_bucket with these two numbers. */
    kiln_t bias_table;
    uint32_t bidirectional;
    int64_t max_distance;
    kiln_t sinks; /* [heads]: a logit of no key, in the softmax's sum alone (gpt-oss)                  */
    kiln_t pages; /* i32 [N,P]: k and v are [pages,page,...], sequence n's keys p*page.. in page pages[n][p] */
    kiln_t *lse;  /* takes the logarithm of each softmax's sum, f32 [N,heads,Tq]; NULL: not wanted. -inf: no key */
} kiln_attention;

/* ---- element by element ---- */

#define KILN_MAP_OPERANDS 6
#define KILN_MAP_NUMBERS 4

/* What map() takes beside its operands. */
typedef struct {
    uint32_t size;
    uint32_t dtype; /* of the result: 0 = the program's precision; KILN_F32, KILN_BF16, KILN_F16, KILN_I32 */
    float number[KILN_MAP_NUMBERS]; /* what p, q, r and s stand for */
} kiln_map;

/* ---- norms, rope ---- */

typedef enum {
    KILN_NORM_RMS = 0, /* x / sqrt(mean(x^2) + eps)                                                */
    KILN_NORM_LAYER,   /* (x - mean) / sqrt(variance + eps), population variance                   */
    KILN_NORM_L2       /* x / max(|x|, eps); with eps_inside x / sqrt(sum(x^2) + eps)              */
} kiln_norm_kind;

/* Each row of the last dimension, or each group of its columns: normalised * gain + bias, then * (1 + scale) + shift.
 * Statistics are f32. */
typedef struct {
    uint32_t size;
    uint32_t kind; /* kiln_norm_kind                                                       */
    float eps;
    uint32_t one_plus;   /* 1: * (1 + gain) (Gemma)                                              */
    uint32_t eps_inside; /* of KILN_NORM_L2                                                      */
    int64_t group;       /* columns normalised together (a head's); 0 = all                      */
    kiln_t gain, bias;   /* [C] or [group]; optional                                             */
    kiln_t scale, shift; /* [N,1,C], or anything that broadcasts to x: adaLN; optional           */
} kiln_norm;

/* Pairs of columns are turned: (a,b) -> (a cos - b sin, b cos + a sin), in f32 (Su et al. 2021, "RoFormer"). All
 * variety is in the tables, which the host makes. x [N,T,heads*D]; cos, sin f32 [1 or N,T,1 or heads,rotary/2]. */
typedef struct {
    uint32_t size;
    int32_t heads;
    int64_t rotary;       /* the first columns of each head that turn; 0 = D               */
    uint32_t interleaved; /* 1: pairs (2i,2i+1); 0: (i, i + rotary/2)                      */
    kiln_t cos, sin;
} kiln_rope;

/* ---- sequences, choices ---- */

typedef enum {
    KILN_REDUCE_SUM,
    KILN_REDUCE_MEAN,
    KILN_REDUCE_MAX,
    KILN_REDUCE_MIN,
    KILN_REDUCE_PROD,
    KILN_REDUCE_L2, /* sqrt of the sum of squares */
    KILN_REDUCE_LOGSUMEXP,
    KILN_REDUCE_ARGMAX, /* i32; of equal ones the first */
    KILN_REDUCE_ARGMIN
} kiln_reduce;

typedef struct {
    uint32_t size;
    kiln_t length; /* i32 [1], or one a row: columns in use; the others become 0 (log: -inf) and are not read */
    uint32_t log;  /* 1: the logarithm of the softmax                                                         */
} kiln_softmax;

typedef enum {
    KILN_RANDOM_UNIFORM, /* [0,1) */
    KILN_RANDOM_NORMAL,
    KILN_RANDOM_GUMBEL /* -log(-log u), u in (0,1) */
} kiln_random;

/* ---- products ---- */

/* a [..,I,K], b [..,K,J] -> [..,I,J]; dimensions before the last two broadcast. */
typedef struct {
    uint32_t size;
    float alpha;          /* 0 = 1                 */
    uint32_t transpose_b; /* 1: b is [..,J,K]      */
} kiln_matmul;

/* ---- convolutions and pictures ---- */

typedef enum {
    KILN_PAD_ZERO = 0, /* pad(): `value` */
    KILN_PAD_REFLECT,  /* without the edge: 2 1 | 0 1 2 */
    KILN_PAD_REPLICATE,
    KILN_PAD_CIRCULAR
} kiln_pad_mode;

/* torch's ConvNd and ConvTransposeNd on x [N,...,I], `rank` dimensions between. w [O,I/groups,k...]; transposed:
 * [I,O/groups,k...]. Zero is torch's default. */
typedef struct {
    uint32_t size;
    uint32_t rank;       /* 1 to 3                                                                 */
    int32_t stride[3];   /* 0 = 1                                                                  */
    int32_t before[3];   /* padding before each dimension, 0 or more                               */
    int32_t after[3];    /* causal: before = dilation * (k - 1), after = 0                         */
    int32_t dilation[3]; /* 0 = 1                                                                  */
    int32_t groups;      /* 0 = 1                                                                  */
    uint32_t pad_mode;   /* kiln_pad_mode                                                          */
    uint32_t transposed;
    int32_t output_pad[3]; /* of transposed ones */
} kiln_conv;

typedef enum {
    KILN_INTERPOLATE_NEAREST, /* torch's "nearest" */
    KILN_INTERPOLATE_NEAREST_EXACT,
    KILN_INTERPOLATE_BILINEAR,
    KILN_INTERPOLATE_BICUBIC, /* a = -0.75; with antialias -0.5 */
    KILN_INTERPOLATE_AREA
} kiln_interpolate_mode;

/* torch's interpolate of x [N,H,W,C] to h x w. */
typedef struct {
    uint32_t size;
    uint32_t mode;
    uint32_t align_corners, antialias; /* of bilinear and bicubic */
    int64_t h, w;
} kiln_interpolate;

typedef enum { KILN_POOL_AVERAGE, KILN_POOL_MAX } kiln_pool_kind;

/* torch's AvgPoolNd and MaxPoolNd on x [N,...,C]. */
typedef struct {
    uint32_t size;
    uint32_t kind, rank; /* rank 1 to 3                                            */
    int32_t window[3];
    int32_t stride[3]; /* 0 = the window's                                  */
    int32_t before[3], after[3];
    uint32_t count_include_pad; /* an average divides by the window's size everywhere */
} kiln_pool;

typedef enum { KILN_SAMPLE_BILINEAR, KILN_SAMPLE_NEAREST, KILN_SAMPLE_BICUBIC } kiln_sample_mode;
typedef enum { KILN_SAMPLE_ZEROS, KILN_SAMPLE_BORDER, KILN_SAMPLE_REFLECTION } kiln_sample_padding;

/* torch's grid_sample of x [N,H,W,C] at grid [N,h,w,2]: (x,y) in -1..1. */
typedef struct {
    uint32_t size;
    uint32_t mode, padding, align_corners;
} kiln_grid_sample;

/* diffusers' get_timestep_embedding: f_i = exp(-ln(max_period) * i / (half - shift)), half = dim/2,
 * row = [sin(t f), cos(t f)], halves swapped with cos_first (SD: cos_first 1, shift 0). */
typedef struct {
    uint32_t size;
    uint32_t cos_first;
    double shift, max_period; /* max_period 0 = 10000 */
} kiln_timestep_embedding;

#define KILN_MAX_TERMS 64 /* of a linear combination */

/* x + (a - b) * t, n numbers each. */
typedef struct {
    uint32_t size;
    size_t n;
    const float *x, *a, *b;
    double t;
} kiln_difference;

/* The inner product of two linear combinations of the same vectors:
 * sum over i of (sum over k of a[k] x[k][i] + shift) (sum over k of b[k] x[k][i] + shift), in f64. */
typedef struct {
    uint32_t size;
    uint32_t terms; /* 1 to KILN_MAX_TERMS */
    size_t n;
    const double *a, *b; /* [terms]; b NULL: the second factor is 1 */
    double shift;
    const float *const *x; /* [terms][n] */
} kiln_dot;

/* a and b [pictures, cells, channels], mask [masks, cells]; picture p has the mask p % masks. */
typedef struct {
    uint32_t size;
    size_t pictures, cells, channels, masks;
    const float *a, *b, *mask;
} kiln_blend;

/* Pictures of one size and a part of each: h rows of w cells from row y, column x on. */
typedef struct {
    uint32_t size;
    int64_t pictures, height, width, channels;
    int64_t y, x, h, w;
} kiln_area;

/* What is added to an area: data [pictures, h, w, channels], weight [weights, h, w] or NULL for 1 everywhere. Picture p
 * has the weights p % weights. */
typedef struct {
    uint32_t size;
    const float *data, *weight;
    int64_t weights;
} kiln_part;

/* Where x goes in a state, and how much of it: the first places of x's axis, as in a batch of unequal lengths. */
typedef struct {
    uint32_t size, axis;
    kiln_t offset; /* i32 [1], or, for axis 1, [dim 0]: one a sequence                                */
    kiln_t count;  /* likewise: places of x that are written, 0 to all of them; {0}: all. Another number
                      fails the run; on a device it writes nothing                                    */
} kiln_state_write;

/* ---- ops of a plugin's own ---- */

#define KILN_OP_OPERANDS 8
#define KILN_OP_RESULTS 3

/* A call of such an op: what it is about and, where it computes, the data. Tensors are dense. */
typedef struct {
    uint32_t size;
    uint32_t n_in, n_out, device; /* device: one bit, where `data` is                                           */
    const kiln_tensor *in;        /* [n_in]; dtype 0: an operand that was left out. Never written to           */
    const kiln_tensor *out;       /* [n_out], not for shape(). data NULL: nobody wants that one (never out[0]) */
    const void *attributes;       /* a copy of what custom() was given                                          */
    size_t attribute_bytes;
    /* Returns KILN_ERR_INVALID and keeps the sentence for the user. Not in tile(). */
    kiln_status (*fail)(void *engine, const char *format, ...) __attribute__((format(printf, 2, 3)));
    void *engine;
} kiln_op_call;

/* What shape() says of a result. */
typedef struct {
    uint32_t rank, dtype; /* dtype 0: the program's precision, or f32 where the op does not take that */
    int64_t *dim;         /* room for KILN_MAX_RANK */
} kiln_op_result;

typedef struct {
    uint32_t dtype; /* KILN_F32 (tried in the op's other types too) or KILN_I32; 0: left out */
    uint32_t rank;
    const int64_t *dim; /* KILN_DIMS(..) */
    double low, high;   /* what its numbers are between */
} kiln_op_operand;

/* Operands for which `kiln check-plugin` tries the op. Odd sizes find most. */
typedef struct {
    uint32_t size;
    uint32_t n_in;
    const char *name;
    const void *attributes;
    size_t attribute_bytes;
    kiln_op_operand in[KILN_OP_OPERANDS];
} kiln_op_example;

/* A row, static. The engine plans, counts, traces and runs it like its own ops. Functions are pure: the same bytes for
 * the same operands, on any thread, whatever else runs. Sums are f32 at least, in an order that shapes decide.
 *
 * An op that works element by element gives an `expression` (as map() takes it, over its operands) and needs neither
 * tile() nor cuda(): it runs wherever map() does, and is fused like it. */
typedef struct {
    uint32_t size;
    uint32_t version; /* raise it when results change                                        */
    const char *name; /* "org.example.wkv7"                                                  */
    const char *doc;  /* one line                                                            */
    uint32_t n_in;    /* operands at most                                                    */
    uint32_t n_out;   /* 1 to KILN_OP_RESULTS                                                */
    uint32_t types;   /* bits (1 << KILN_F32 ..): what operands of real numbers may be; others are converted to the
                         program's precision if that is one, else to f32. i32 come as they are */
    const char *expression; /* or NULL */
    /* Fills out[0..n_out) and checks operands and attributes; no data. [any] NULL with an expression. */
    kiln_status (*shape)(const kiln_op_call *, kiln_op_result *out);
    uint64_t (*flops)(const kiln_op_call *); /* 1 MAC = 2; NULL: 0 */
    /* The definition, plain and slow, in double where it can: what the others are judged by, and what runs, with a
     * warning, where there are no others. */
    kiln_status (*reference)(const kiln_op_call *);
    /* On a processor: tiles(call) independent pieces, a number that depends on shapes alone. Each is one call of
     * tile(), on any thread, with workspace(call) bytes of its own, 64-byte aligned (NULL: none). tile NULL: the
     * reference. */
    uint64_t (*tiles)(const kiln_op_call *);
    size_t (*workspace)(const kiln_op_call *);
    void (*tile)(const kiln_op_call *, uint64_t tile, void *workspace);
    /* On a CUDA device: enqueues on `stream` (a cudaStream_t) and returns: no waiting, no allocation, so that it can be
     * captured. Data are device pointers, `workspace` is cuda_workspace(call) bytes. cuda NULL: the reference runs on
     * the host. */
    size_t (*cuda_workspace)(const kiln_op_call *);
    kiln_status (*cuda)(const kiln_op_call *, void *stream, void *workspace);
    /* How far tile(), cuda() and the expression may be from the reference, in f32: |x - y| <= absolute + relative *
     * max(|y|, the root of the mean square of all); in 16-bit types 2^-7 of that more. */
    double relative, absolute;
    const kiln_op_example *example;
    uint32_t n_example, example_stride;
} kiln_op_kind;

/* A tensor bound to a program's input or output by name. Dense, shape as recorded. dtype may be f32
 * whatever the program's precision is (converted on the way); i32 inputs must be bound as i32. */
typedef struct {
    uint32_t size;
    const char *name;
    kiln_tensor tensor;
} kiln_bind;

#define KILN_BIND(name_, ...)                                                                                          \
    {                                                                                                                  \
        .size = sizeof(kiln_bind), .name = (name_), .tensor = __VA_ARGS__                                              \
    }

/* All that a run is given. */
typedef struct {
    uint32_t size;
    kiln_states *states; /* NULL: the program records none */
    const kiln_bind *in, *out;
    size_t n_in, n_out;
} kiln_run;

typedef struct {
    uint32_t size;
    uint32_t n_recorded, n_planned; /* ops before and after fusing                    */
    uint64_t arena_bytes;           /* activations, all of them, at their peak        */
    uint64_t scratch_bytes;         /* working memory of the kernels                  */
    uint64_t weight_bytes;          /* packed weights this program needs              */
    uint64_t flops;                 /* of one run: conv, linear and attention products, 1 MAC = 2 */
    uint32_t precision;             /* KILN_F32, KILN_BF16 or KILN_F16: what activations are stored in */
} kiln_program_info;

typedef struct {
    uint32_t size;

    /* ---- life ---- */
    kiln_program *(*program_new)(kiln_ctx *, const kiln_program_options *); /* NULL: no memory */
    /* A program kept by the engine under `key` (model identity, shapes, hooks: all that decides what is recorded) and
     * the precision that it has. *fresh 1: new and empty, the caller records and plans it; 0: planned already, ready to
     * run. Either way the caller holds a reference and ends with program_free. */
    kiln_program *(*program_keep)(kiln_ctx *, const char *key, const kiln_program_options *, int *fresh);
    void (*program_free)(kiln_program *); /* [any] drops the reference */

    /* ---- leaves ---- */
    kiln_t (*input)(kiln_program *, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dim);
    void (*output)(kiln_program *, const char *name, kiln_t);
    /* The tensor `name` of `set`, which must have exactly this shape. Missing: sticky error that
     * names the set's file and the nearest name. The set is kept alive by the program. */
    kiln_t (*weight)(kiln_program *, kiln_weights *set, const char *name, uint32_t rank, const int64_t *dim);
    /* The same, but {0} and no error when the set has none of that name. */
    kiln_t (*weight_optional)(kiln_program *, kiln_weights *set, const char *name, uint32_t rank, const int64_t *dim);
    /* A constant, copied. */
    kiln_t (*constant)(kiln_program *, const float *data, uint32_t rank, const int64_t *dim);

    /* ---- shape and place ---- */
    /* Returns the rank and writes up to `capacity` dimensions, 0 past the rank. */
    uint32_t (*shape)(const kiln_program *, kiln_t, int64_t *dim, uint32_t capacity);
    void (*scope_push)(kiln_program *, const char *name); /* "down.0", "attn1": for messages, trace */
    void (*scope_pop)(kiln_program *);
    /* Poisons the program with a message of the recorder's own. */
    kiln_t (*fail)(kiln_program *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
    kiln_status (*error)(const kiln_program *, const char **message); /* sticky error so far */

    /* ---- gemm, convolution, attention ---- */
    /* x [N,H,W,I], w [O,I,kh,kw], b [O] or {0} -> [N,H',W',O] */
    kiln_t (*conv2d)(kiln_program *, kiln_t x, kiln_t w, kiln_t b, const kiln_conv2d *);
    /* x [...,I], w [O,I], b [O] or {0} -> [...,O] */
    kiln_t (*linear)(kiln_program *, kiln_t x, kiln_t w, kiln_t b);
    /* See kiln_attention; scores are never stored. */
    kiln_t (*attention)(kiln_program *, kiln_t q, kiln_t k, kiln_t v, const kiln_attention *);

    /* ---- norms ---- */
    /* Over H,W and C/groups of each n; population variance. gamma, beta [C]. x [N,...,C] */
    kiln_t (*group_norm)(kiln_program *, kiln_t x, int32_t groups, float eps, kiln_t gamma, kiln_t beta);
    kiln_t (*layer_norm)(kiln_program *, kiln_t x, float eps, kiln_t gamma, kiln_t beta);

    /* ---- elementwise ---- */
    /* a op b; b's shape is a's, or broadcasts to it (dimensions aligned at the end, 1 repeats). */
    kiln_t (*add)(kiln_program *, kiln_t a, kiln_t b);
    kiln_t (*mul)(kiln_program *, kiln_t a, kiln_t b);
    kiln_t (*affine)(kiln_program *, kiln_t x, float scale, float shift); /* scale*x + shift */
    kiln_t (*act)(kiln_program *, kiln_t x, uint32_t kiln_act_kind);
    /* x [...,2C] -> x[...,:C] * gelu(x[...,C:]), gelu exact */
    kiln_t (*geglu)(kiln_program *, kiln_t x);

    /* ---- layout, gather ---- */
    kiln_t (*upsample_nearest)(kiln_program *, kiln_t x, int64_t h, int64_t w); /* x[n, y*H/h, ..] */
    kiln_t (*concat)(kiln_program *, const kiln_t *x, uint32_t n, uint32_t axis);
    kiln_t (*slice)(kiln_program *, kiln_t x, uint32_t axis, int64_t start, int64_t length);
    kiln_t (*reshape)(kiln_program *, kiln_t x, uint32_t rank, const int64_t *dim); /* free */
    kiln_t (*permute)(kiln_program *, kiln_t x, const uint32_t *axis);              /* out.dim[i] = x.dim[axis[i]] */
    /* table [V,D], ids i32 [...] -> [...,D]. An id outside 0..V-1 fails the run with its value. */
    kiln_t (*embedding)(kiln_program *, kiln_t table, kiln_t ids);
    /* x [N,T,D], index i32 [N] -> [N,D], or [N,K] -> [N,K,D]: rows of each sequence by its own numbers. A number
     * outside 0..T-1 fails the run; on a device it gives NaN. */
    kiln_t (*gather)(kiln_program *, kiln_t x, kiln_t index);
    /* t f32 [...], an input -> [...,dim] */
    kiln_t (*timestep_embedding)(kiln_program *, kiln_t t, int64_t dim, const kiln_timestep_embedding *);

    /* ---- plan and run ---- */
    /* Once, after the last op. Fails with the sticky error's message, or when it cannot fit. */
    kiln_status (*plan)(kiln_ctx *, kiln_program *, kiln_program_info *);
    /* Every input bound once, every wanted output bound; `in` and `out` are structs of one size each (the first's).
     * Returns KILN_CANCELLED between ops when the call is cancelled. Weights are packed on the first run. */
    kiln_status (*run)(kiln_ctx *, kiln_program *, const kiln_bind *in, size_t n_in, const kiln_bind *out,
                       size_t n_out);
    kiln_status (*info)(const kiln_program *, kiln_program_info *); /* [any] after plan() */

    /* ---- newer than the first kiln.ops/1: ask with KILN_HAS ---- */
    /* Says of an input, while recording, that it seldom changes from run to run (a prompt). What depends on such inputs
     * and on weights alone, as keys and values of cross-attention do, is computed again only when their bytes have
     * changed or another program has run in between. It costs the memory of what is kept. */
    void (*step_invariant)(kiln_program *, kiln_t input);

    /* ---- vector ops: arithmetic on f32 vectors that stay where programs run ----
     *
     * A sampler's latents, for example. Such memory comes from kiln_host.scratch(ctx, bytes, ops->device(ctx)); run()
     * takes it as the bind of an f32 input or output (tensor.device says so), and nothing crosses the link then. Where
     * programs run on the host it is host memory, and every function does the same on it: the same formula, the same
     * order, the same rounding. Only dot() and norm() add up in another order on a device. All are [run], in order
     * with runs. In a run that only estimates they compute nothing: download() gives zeros, dot() 0 and norm() 1. A
     * struct without its size is KILN_ERR_BUG. */
    uint32_t (*device)(kiln_ctx *); /* one bit: KILN_CPU, or the device that programs run on */
    kiln_status (*upload)(kiln_ctx *, float *device, const float *host, size_t n);
    kiln_status (*download)(kiln_ctx *, float *host, const float *device, size_t n);
    /* out = sum coefficient[i] * x[i], summed in f64 in this order, rounded once; out may be one of x. terms 0 to
     * KILN_MAX_TERMS; 0: zeros. One term with coefficient 1 is a copy. */
    kiln_status (*combine)(kiln_ctx *, float *out, size_t n, uint32_t terms, const double *coefficient,
                           const float *const *x);
    /* out = x + (a - b) * t in f64, rounded once; out may be one of them. */
    kiln_status (*add_difference)(kiln_ctx *, const kiln_difference *, float *out);
    /* sqrt(mean(x^2)) in f64; not finite when one of them is not. */
    kiln_status (*norm)(kiln_ctx *, const float *x, size_t n, double *out);
    kiln_status (*dot)(kiln_ctx *, const kiln_dot *, double *out);
    /* out = a * mask + b * (1 - mask) in f32; out may be a or b. */
    kiln_status (*blend)(kiln_ctx *, const kiln_blend *, float *out);
    /* out [pictures, h, w, channels] = that part of x [pictures, height, width, channels]. */
    kiln_status (*crop)(kiln_ctx *, const kiln_area *, const float *x, float *out);
    /* Adds a part to a sum and its weights to the totals, in f32: sum += weight * part, total += weight. */
    kiln_status (*accumulate)(kiln_ctx *, const kiln_area *, const kiln_part *, float *sum, float *total);
    /* x [cells, channels] /= total [cells], in f32; cells whose total is 0 or 1 stay as they are. */
    kiln_status (*divide)(kiln_ctx *, float *x, const float *total, size_t cells, size_t channels);

    /* 1: the planned program can run in the memory that this run may use (--memory, or what the device has), beside the
     * tensors that are there now and the states it records, when everything else is evicted. The same in an estimate.
     * What depends on the answer depends on the machine: see kiln_host.not_kept. */
    int (*fits)(kiln_ctx *, const kiln_program *);

    /* ---- more ops. Weights and constants may stand wherever an operand does. ---- */

    /* An expression of up to KILN_MAP_OPERANDS operands, which are a, b, c, .. in it, element by element; dimensions
     * are aligned at the end and 1 repeats, on all sides. C's operators + - * / < <= > >= == != && || ! ?: and
     * brackets, numbers, p q r s (kiln_map.number), pi, inf, nan, and abs sign floor ceil round sqrt rsqrt exp exp2
     * expm1 log log2 log1p sin cos tan tanh atan sigmoid erf silu gelu gelu_tanh quick_gelu relu softplus isnan (one
     * argument), min max pow mod atan2 (two) as torch has them; comparisons give 1 or 0; what ?: does not choose leaves
     * no NaN behind. Arithmetic is f32; when every operand and the result are i32, it is that of 32-bit integers, where
     * / and mod round down. map(p, "a + tanh(c) * b", (kiln_t[]){x, y, gate}, 3, NULL) */
    kiln_t (*map)(kiln_program *, const char *expression, const kiln_t *x, uint32_t n, const kiln_map *);
    /* The same numbers in another type; to i32 towards zero. */
    kiln_t (*cast)(kiln_program *, kiln_t x, uint32_t dtype);
    /* x repeated to that shape: dimensions are aligned at the end, 1 repeats. */
    kiln_t (*expand)(kiln_program *, kiln_t x, uint32_t rank, const int64_t *dim);
    /* A constant of whole numbers, copied. */
    kiln_t (*constant_i32)(kiln_program *, const int32_t *data, uint32_t rank, const int64_t *dim);
    /* What is recorded from here to the pop has this precision, KILN_F32, KILN_BF16 or KILN_F16. Operands of another
     * are converted where a product takes them; the others read them as they are. A precision that the device does not
     * have becomes the next wider one that it has. */
    void (*precision_push)(kiln_program *, uint32_t dtype);
    void (*precision_pop)(kiln_program *);
    /* KILN_F32, KILN_I32, ... of what was recorded; 0 of no handle. */
    uint32_t (*dtype)(const kiln_program *, kiln_t);

    kiln_t (*normalize)(kiln_program *, kiln_t x, const kiln_norm *);
    kiln_t (*rope)(kiln_program *, kiln_t x, const kiln_rope *);

    /* Over the last dimension, in f32. A row of nothing but -inf gives 0. options NULL: plain. */
    kiln_t (*softmax)(kiln_program *, kiln_t x, const kiln_softmax *options);
    /* Over `axes` (bits); they stay as 1 with `keep`, else they go. Sums are f32, of i32 exact. ARGMAX and ARGMIN over
     * one axis. */
    kiln_t (*reduce)(kiln_program *, kiln_t x, uint32_t kind, uint32_t axes, uint32_t keep);
    /* The k largest (smallest) of each row of the last dimension, in their order, of equal ones the first first; k 0:
     * all of them, a stable sort. *places (or NULL): where they stood, i32. NaN counts as largest. */
    kiln_t (*topk)(kiln_program *, kiln_t x, int64_t k, uint32_t ascending, kiln_t *places);
    /* Along the axis; exclusive: without the element itself; reverse: from the end. */
    kiln_t (*cumsum)(kiln_program *, kiln_t x, uint32_t axis, uint32_t exclusive, uint32_t reverse);
    /* How often each of 0..bins-1 stands in x (i32, any shape), i32 [bins]; other numbers are not counted. */
    kiln_t (*bincount)(kiln_program *, kiln_t x, int64_t bins);
    /* x with the axis replaced by index's dimensions: out[.., i, ..] = x[.., index[i], ..]. A place outside fails the
     * run with its value; on a device it gives NaN, of i32 INT32_MIN. */
    kiln_t (*take)(kiln_program *, kiln_t x, kiln_t index, uint32_t axis);
    /* torch.gather over the last dimension: out[.., i] = x[.., index[.., i]]; index has x's other dimensions. */
    kiln_t (*take_along)(kiln_program *, kiln_t x, kiln_t index);
    /* x where place index[i] of the axis is source's i-th (add 0), or has it added, in the order of i, sums in f32.
     * index i32 [n], source as x with n places on the axis. A place outside is left out. */
    kiln_t (*scatter)(kiln_program *, kiln_t x, kiln_t index, kiln_t source, uint32_t axis, uint32_t add);
    /* f32 numbers of Philox 4x32-10 (Salmon et al. 2011). seed i32 [4]: the seed's low and high half, the offset's.
     * Equal seeds give equal numbers on every device; element i has subsequence i, as torch's CUDA generator for what
     * fits its threads. */
    kiln_t (*random)(kiln_program *, kiln_t seed, uint32_t kind, uint32_t rank, const int64_t *dim);

    kiln_t (*matmul)(kiln_program *, kiln_t a, kiln_t b, const kiln_matmul *); /* options NULL: plain */
    /* x [...,O], w [O,I], b [I] or {0} -> [...,I]: linear() with the weight transposed. */
    kiln_t (*linear_transposed)(kiln_program *, kiln_t x, kiln_t w, kiln_t b);
    /* Rows of x [R,I] in groups: those from offsets[e] to offsets[e+1] times w[e]. w [E,O,I], b [E,O] or {0}, offsets
     * i32 [E+1] rising from 0 to R at most -> [R,O]; rows of no group are 0. What no row needs is not read. */
    kiln_t (*grouped_linear)(kiln_program *, kiln_t x, kiln_t w, kiln_t b, kiln_t offsets);

    kiln_t (*conv)(kiln_program *, kiln_t x, kiln_t w, kiln_t b, const kiln_conv *);
    kiln_t (*interpolate)(kiln_program *, kiln_t x, const kiln_interpolate *);
    kiln_t (*pool)(kiln_program *, kiln_t x, const kiln_pool *);
    /* before[i] and after[i] places round dimension i; mode a kiln_pad_mode. */
    kiln_t (*pad)(kiln_program *, kiln_t x, const int64_t *before, const int64_t *after, uint32_t mode, float value);
    kiln_t (*grid_sample)(kiln_program *, kiln_t x, kiln_t grid, const kiln_grid_sample *);

    /* ---- state: caches of keys and values, tails of convolutions, rows of a recurrence ----
     *
     *     kiln_states *s = ops->states_new(ctx, "the prompt");
     *     kiln_t keys = ops->state(p, "3.keys", KILN_BF16, 3, KILN_DIMS(1, 4096, 1024));     // in any number of
     * programs keys = ops->state_write(p, keys, 1, offset, k);                // rows offset.. of axis 1 become k's
     *     ops->run_with(ctx, p, &(kiln_run){.size = sizeof(kiln_run), .states = s, .in = in, .n_in = 2, ..});
     *
     * A states object holds buffers by name, in the memory of the device and on its account; what a program records
     * and the object has not yet begins with zeros. A buffer's length is the model's to keep, as an i32 input that
     * offset and kiln_attention.key_length take: so one program, and one captured graph, serves every step. */
    kiln_t (*state)(kiln_program *, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dim);
    /* The state with x written from place `offset` of the axis on; what is recorded later reads it through the result,
     * what was recorded before reads it as it was. offset i32 [1], or, for axis 1, [dim 0]: one a sequence. What
     * reaches beyond the end goes round to the beginning (a ring). A negative one fails the run; on a device it writes
     * nothing. x is converted to the state's type. As an output a state is what it is when the run ends. */
    kiln_t (*state_write)(kiln_program *, kiln_t state, uint32_t axis, kiln_t offset, kiln_t x);

    /* [run] NULL with a message. `label` is for messages. The object ends with states_free, before the call that made
     * it does unless a value of type object keeps it (its release function is the place). Where nothing computes (a
     * stored type's from_plain()) it is made all the same: its buffers go to the device with the first fork or run. */
    kiln_states *(*states_new)(kiln_ctx *, const char *label);
    /* Another object with the same contents; buffers are shared until one of the two writes. */
    kiln_states *(*states_fork)(kiln_ctx *, kiln_states *);
    void (*states_free)(kiln_states *); /* [any] */
    /* The buffer (all with NULL) begins with zeros again. */
    void (*states_clear)(kiln_states *, const char *name);
    size_t (*states_bytes)(const kiln_states *);
    /* A map of tensors by name, of their own types: what kiln.store/1 keeps, so that a killed generation goes on. The
     * caller owns it. And back: into an object, whose buffers of those names it replaces. */
    kiln_value *(*states_save)(kiln_ctx *, kiln_states *);
    kiln_status (*states_load)(kiln_ctx *, kiln_states *, const kiln_value *);
    kiln_status (*run_with)(kiln_ctx *, kiln_program *, const kiln_run *);

    /* ---- ops of a plugin's own ---- */

    /* [open] So that `kiln check-plugin` finds the op and tries it. A name that is taken is an error. */
    kiln_status (*register_op)(const kiln_op_kind *);
    /* The op of x[0..n); attributes are copied. more: takes the results after the first, [n_out - 1], or NULL. */
    kiln_t (*custom)(kiln_program *, const kiln_op_kind *, const kiln_t *x, uint32_t n, const void *attributes,
                     size_t attribute_bytes, kiln_t *more);

    /* ---- more to record ---- */

    /* KILN_F32, KILN_BF16 or KILN_F16: what is recorded now is stored so, within precision_push() its region's. */
    uint32_t (*precision)(const kiln_program *);
    /* torch.arange: a constant i32 of start, start + step, .. below end; step > 0. */
    kiln_t (*arange)(kiln_program *, int64_t start, int64_t end, int64_t step);
    /* state_write() of some of x's places, as many as the numbers of the run say. */
    kiln_t (*state_write_part)(kiln_program *, kiln_t state, kiln_t x, const kiln_state_write *);
    /* 1: what is recorded from here on stores numbers beyond 65504 in f16 as 65504, and below -65504 as -65504, not as
     * infinities: products, norms, elementwise ops, activations and expressions, in other types as ever. NaN stays. 0:
     * as before. */
    void (*saturate)(kiln_program *, uint32_t on);
    /* What a set has under that name, for a function that records by what there is: kiln_weights_api.find. The program
     * does not count it as used. */
    kiln_status (*find)(const kiln_weights *, const char *name, kiln_weight_info *out);
    /* 1.1: group_norm() in two parts, for a picture that is made in stripes of rows. x [N,H,W,C] -> f32 [N,H,groups,3]:
     * of each row's numbers of a group their mean, what rounding left of that, and the sum of squares of what they are
     * off it. */
    kiln_t (*group_norm_stats)(kiln_program *, kiln_t x, int32_t groups);
    /* 1.1: what group_norm() of a whole picture makes of some of its rows, x [N,h,W,C], given the statistics of all,
     * [N,H,groups,3]; on a processor the same bits. */
    kiln_t (*group_norm_apply)(kiln_program *, kiln_t x, kiln_t stats, float eps, kiln_t gamma, kiln_t beta);
    /* 1.1: 1: where programs run, a picture, and each band of 4 of its rows, has the same bits whatever is computed
     * beside it (batch invariance), as on a processor. So what is made in parts for want of memory is what a machine
     * with more makes, and may be kept (kiln_host.not_kept). 0: parts may have other last bits. The same in an
     * estimate. */
    int (*parts_are_exact)(kiln_ctx *);
} kiln_ops;

#ifdef __cplusplus
}
#endif
#endif
