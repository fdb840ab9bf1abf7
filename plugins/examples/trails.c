/* trails.c - an op of a plugin's own, and a node that uses it: bright things of a picture leave trails to the right,
 *     y[t] = x[t] + decay y[t - 1]
 * which no op of kiln's computes, since each number needs the one before. Shows: a reference, tiles for all cores, a
 * CUDA kernel (trails_kernel.cu), an op by an expression, and examples for `kiln check-plugin`. docs/writing-an-op.md
 * goes through it.
 */
#include "kiln/kit.h"
#include "kiln/ops.h"

#include <string.h>
#ifdef TRAILS_CUDA
#include "trails_kernel.h"
#endif

static const kiln_host *host;
static const kiln_ops *ops;

/* ---- the op: x [N,T,C] -> y [N,T,C] and its last row [N,C] ---- */

typedef struct {
    float decay;
} decay_attributes;

static kiln_status decay_shape(const kiln_op_call *c, kiln_op_result *out)
{
    const kiln_tensor *x = &c->in[0];
    if (x->rank != 3) return c->fail(c->engine, "x must be [N,T,C]; it has %u dimensions", x->rank);
    if (c->attribute_bytes != sizeof(decay_attributes)) return c->fail(c->engine, "the attributes are one decay");
    out[0].rank = 3, memcpy(out[0].dim, x->dim, 3 * sizeof *x->dim);
    out[1].rank = 2, out[1].dim[0] = x->dim[0], out[1].dim[1] = x->dim[2];
    return KILN_OK;
}

static uint64_t decay_flops(const kiln_op_call *c)
{
    return 2 * (uint64_t)(c->in[0].dim[0] * c->in[0].dim[1] * c->in[0].dim[2]);
}

/* What the op is: one sum in double for each column. */
static kiln_status decay_reference(const kiln_op_call *c)
{
    const int64_t *d = c->in[0].dim;
    const float *x = c->in[0].data;
    float *y = c->out[0].data, *last = c->out[1].data;
    for (int64_t n = 0; n < d[0]; n++)
        for (int64_t k = 0; k < d[2]; k++) {
            double sum = 0;
            for (int64_t t = 0; t < d[1]; t++) {
                int64_t at = (n * d[1] + t) * d[2] + k;
                sum = (double)((const decay_attributes *)c->attributes)->decay * sum + (double)x[at];
                y[at] = (float)sum;
            }
            if (last) last[n * d[2] + k] = (float)sum;
        }
    return KILN_OK;
}

/* One tile is one n: its rows are gone through once, a row of C sums at a time. */
static uint64_t decay_tiles(const kiln_op_call *c) { return (uint64_t)c->in[0].dim[0]; }
static size_t decay_workspace(const kiln_op_call *c) { return (size_t)c->in[0].dim[2] * sizeof(float); }
static void decay_tile(const kiln_op_call *c, uint64_t tile, void *workspace)
{
    const int64_t *d = c->in[0].dim, n = (int64_t)tile;
    const float *x = (const float *)c->in[0].data + n * d[1] * d[2];
    float *y = (float *)c->out[0].data + n * d[1] * d[2], *sum = workspace, *last = c->out[1].data;
    float decay = ((const decay_attributes *)c->attributes)->decay;
    memset(sum, 0, (size_t)d[2] * sizeof *sum);
    for (int64_t t = 0; t < d[1]; t++)
        for (int64_t k = 0; k < d[2]; k++) y[t * d[2] + k] = sum[k] = decay * sum[k] + x[t * d[2] + k];
    if (last) memcpy(last + n * d[2], sum, (size_t)d[2] * sizeof *sum);
}

/* On a CUDA device, where the plugin was built with its kernel (make cuda). */
#ifdef TRAILS_CUDA
static kiln_status decay_cuda(const kiln_op_call *c, void *stream, void *workspace)
{
    const int64_t *d = c->in[0].dim;
    const decay_cuda_call call = {.x = c->in[0].data,
                                  .y = c->out[0].data,
                                  .last = c->out[1].data,
                                  .n = d[0],
                                  .t = d[1],
                                  .width = d[2],
                                  .decay = ((const decay_attributes *)c->attributes)->decay};
    (void)workspace;
    return decay_cuda_launch(&call, stream) == 0 ? KILN_OK : KILN_ERR_DEVICE;
}
#endif

static const decay_attributes half = {.decay = 0.5f};
static const kiln_op_example decay_examples[] = {
    {.size = sizeof *decay_examples,
     .n_in = 1,
     .name = "odd sizes",
     .attributes = &half,
     .attribute_bytes = sizeof half,
     .in = {{.dtype = KILN_F32, .rank = 3, .dim = KILN_DIMS(3, 37, 5), .low = -1, .high = 1}}},
    {.size = sizeof *decay_examples,
     .n_in = 1,
     .name = "one step",
     .attributes = &half,
     .attribute_bytes = sizeof half,
     .in = {{.dtype = KILN_F32, .rank = 3, .dim = KILN_DIMS(1, 1, 1), .low = -1, .high = 1}}},
};
static const kiln_op_kind decay = {
    .size = sizeof decay,
    .version = 1,
    .name = "org.example.decay",
    .doc = "A decaying sum along T.",
    .n_in = 1,
    .n_out = 2,
    .types = 1u << KILN_F32, /* of bf16 it would add up roundings */
    .shape = decay_shape,
    .flops = decay_flops,
    .reference = decay_reference,
    .tiles = decay_tiles,
    .workspace = decay_workspace,
    .tile = decay_tile,
#ifdef TRAILS_CUDA
    .cuda = decay_cuda,
#endif
    .relative = 1e-6,
    KILN_ARRAY(example, decay_examples),
};

/* ---- an op by an expression: it runs wherever map() does ---- */

static kiln_status same_shape(const kiln_op_call *c, kiln_op_result *out)
{
    out[0].rank = c->in[0].rank;
    memcpy(out[0].dim, c->in[0].dim, c->in[0].rank * sizeof *out[0].dim);
    return KILN_OK;
}
static kiln_status shoulder_reference(const kiln_op_call *c)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < c->in[0].rank; i++) n *= c->in[0].dim[i];
    for (int64_t i = 0; i < n; i++) {
        double x = (double)((const float *)c->in[0].data)[i];
        ((float *)c->out[0].data)[i] = (float)(x < 0.5 ? x : 1 - 0.25 / x);
    }
    return KILN_OK;
}
static const kiln_op_example shoulder_examples[] = {
    {.size = sizeof *shoulder_examples,
     .n_in = 1,
     .name = "both arms",
     .in = {{.dtype = KILN_F32, .rank = 2, .dim = KILN_DIMS(7, 33), .low = 0, .high = 4}}},
};
static const kiln_op_kind shoulder = {
    .size = sizeof shoulder,
    .version = 1,
    .name = "org.example.shoulder",
    .doc = "Numbers above a half approach 1 instead of passing it.",
    .n_in = 1,
    .n_out = 1,
    .expression = "a < 0.5 ? a : 1 - 0.25 / a",
    .shape = same_shape,
    .reference = shoulder_reference,
    .relative = 1e-6,
    KILN_ARRAY(example, shoulder_examples),
};

/* ---- the node ---- */

typedef struct {
    double decay;
} trails_params;

/* *out is the caller's also when it fails. */
static kiln_status record(kiln_ctx *ctx, const int64_t dim[4], float how_much, kiln_program **out)
{
    kiln_program *p = *out = ops->program_new(
        ctx, &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "trails", .precision = KILN_F32});
    if (!p) return KILN_ERR_NOMEM;
    kiln_t x = ops->input(p, "x", KILN_F32, 4, dim);
    kiln_t rows = ops->reshape(p, x, 3, KILN_DIMS(dim[0] * dim[1], dim[2], dim[3])); /* [rows, W, C] */
    kiln_t y = ops->custom(p, &decay, &rows, 1, &(decay_attributes){.decay = how_much}, sizeof(decay_attributes), NULL);
    y = ops->custom(p, &shoulder, &y, 1, NULL, 0, NULL);
    ops->output(p, "y", ops->reshape(p, y, 4, dim));
    return ops->plan(ctx, p, NULL);
}

static kiln_status run(const kiln_call *c)
{
    const trails_params *p = c->params;
    kiln_tensor from = {.size = sizeof from}, to = {.size = sizeof to};
    kiln_program *program = NULL;
    TRY(host->view(c->ctx, c->in[0], &from));
    if (!(c->out[0] = host->tensor_new(c->ctx, KILN_F32, KILN_CPU, 4, from.dim))) return KILN_ERR_NOMEM;
    TRY(host->view(c->ctx, c->out[0], &to));
    kiln_status status = record(c->ctx, from.dim, (float)p->decay, &program);
    kiln_bind in = KILN_BIND("x", from), out = KILN_BIND("y", to);
    if (status == KILN_OK) status = ops->run(c->ctx, program, &in, 1, &out, 1);
    if (program) ops->program_free(program);
    return status;
}

static const kiln_port trails_in[] = {{.name = "image", .type = "IMAGE", .doc = "The picture."}};
static const kiln_port trails_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "With its trails."}};
static const kiln_param trails_param[] = {
    KIT_FLOAT(trails_params, decay, 0.9, 0, 0.99, 0.01, "How much of a trail is left one pixel on."),
};
static const kiln_node trails = {
    .size = sizeof trails,
    .flags = KILN_NODE_PURE,
    .devices = KILN_CPU,
    .revision = 1,
    .type = "ExampleTrails",
    .doc = "Bright things leave trails to the right.",
    KILN_ARRAY(in, trails_in),
    KILN_ARRAY(out, trails_out),
    KILN_ARRAY(param, trails_param),
    .params_size = sizeof(trails_params),
    .run = run,
};

static kiln_status open_plugin(const kiln_host *h)
{
    host = h;
    ops = h->ability(KILN_OPS_ABILITY);
    if (!ops || !KILN_HAS(kiln_ops, ops, custom)) return KILN_ERR_UNSUPPORTED;
    TRY(ops->register_op(&decay));
    return ops->register_op(&shoulder);
}

KILN_PLUGIN_OPEN("org.example.trails", "1.0.0", "MIT", open_plugin, &trails);
