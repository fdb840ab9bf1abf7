/* vae_trace.h - what an autoencoder records, as a list that can be recorded again in parts.
 *
 * The autoencoder gets a copy of the ops table: every function passes its call on to the real one and notes it. What
 * the copy does not know (a newer table has more functions) goes to the real one unnoted, and what is computed from it
 * makes the trace incomplete.
 */
#ifndef KILN_NODES_VAE_TRACE_H
#define KILN_NODES_VAE_TRACE_H

#include "vae_convert.h"

typedef enum {
    VAE_INPUT = 1,
    VAE_WEIGHT,
    VAE_CONSTANT,
    VAE_CONV2D,
    VAE_LINEAR,
    VAE_ATTENTION,
    VAE_GROUP_NORM,
    VAE_LAYER_NORM,
    VAE_ADD,
    VAE_MUL,
    VAE_AFFINE,
    VAE_ACT,
    VAE_GEGLU,
    VAE_UPSAMPLE,
    VAE_CONCAT,
    VAE_SLICE,
    VAE_RESHAPE,
    VAE_PERMUTE,
    VAE_EMBEDDING,
    VAE_GATHER,
    VAE_TIMESTEP
} vae_op_kind;

/* One call of the ops table. Operands are numbers of ops; 0: left out. */
typedef struct {
    vae_op_kind kind;
    uint32_t handle; /* of the traced program */
    uint32_t n_in;
    const uint32_t *in;
    uint32_t rank;
    int64_t dim[KILN_MAX_RANK]; /* of the result */
    const char *scope, *name;   /* name: of an input or a weight */
    union {
        uint32_t dtype;    /* input    */
        kiln_weights *set; /* weight   */
        const float *data; /* constant */
        kiln_conv2d conv2d;
        kiln_attention attention;
        struct {
            int32_t groups;
            float eps;
        } norm;
        struct {
            float scale, shift;
        } affine;
        uint32_t act;
        struct {
            uint32_t axis;
            int64_t start, length;
        } part; /* slice; of concat the axis */
        uint32_t permute[KILN_MAX_RANK];
        kiln_timestep_embedding timestep;
    };
} vae_op;

enum { VAE_OPERANDS_MAX = 64 };
enum { VAE_OUT_MEAN, VAE_OUT_VARIANCE, VAE_OUTS };

/* Lives as long as the call. */
typedef struct {
    const kiln_call *call;
    const kiln_ops *ops;
    kiln_program *program; /* the traced one: recorded, never planned */
    vae_op *op;            /* [n + 1], number 0 is none, number 1 the input x; operands come before who reads them */
    uint32_t n, capacity;
    uint32_t out[VAE_OUTS]; /* the picture, or the latent's mean and log-variance; 0: not asked for */
    int incomplete;         /* something of it was not noted: it is of no use */
} vae_trace;

/* Records the autoencoder for `in` without planning it. */
kiln_status vae_trace_make(vae_converter *v, const vae_shape *in, vae_trace *out);
/* Records the op with these operands, [n_in]. */
kiln_t vae_op_record(const kiln_ops *ops, kiln_program *p, const vae_op *o, const kiln_t *in);

#endif
