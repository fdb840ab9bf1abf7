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
    int32_t groups;      /* 0 = 1; others: KILN_ERR_UNSUPPORTED today */
} kiln_conv2d;

typedef struct {
    uint32_t size;
    int32_t heads;   /* q is [N,Tq,heads*D], k and v are [N,Tk,heads*D] */
    float scale;     /* 0 = 1/sqrt(D)                                   */
    uint32_t causal; /* 1: position i sees keys 0..i                    */
    kiln_t mask;     /* optional f32, added to the scores: [1 or N, 1 or heads, Tq, Tk] */
} kiln_attention;

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
    /* softmax(q k^T * scale + mask) v, head by head; scores are never stored. -> [N,Tq,heads*D] */
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
    /* x [N,T,D], index i32 [N] -> [N,D] */
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
     * tensors that are there now, when everything else is evicted. The same in an estimate. What depends on the answer
     * depends on the machine: see kiln_host.not_kept. */
    int (*fits)(kiln_ctx *, const kiln_program *);
} kiln_ops;

#ifdef __cplusplus
}
#endif
#endif
