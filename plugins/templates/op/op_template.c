/* my_plugin.c - an op of tensor programs, and a node that uses it.
 *
 * To begin with it is a running maximum, y[t] = max(x[0], .., x[t]), which no op of kiln's is: each number needs the
 * one before. As a node: what is bright in a picture stays so to its right. */
#include "kiln/ops.h"

static const kiln_host *host;
static const kiln_ops *ops;

/* ---- the op: x [N,T,C] -> y [N,T,C] ---- */

static kiln_status shape(const kiln_op_call *c, kiln_op_result *out)
{
    const kiln_tensor *x = &c->in[0];
    if (x->rank != 3) return c->fail(c->engine, "x must be [N,T,C]; it has %u dimensions", x->rank);
    out[0].rank = 3;
    memcpy(out[0].dim, x->dim, 3 * sizeof x->dim[0]);
    return KILN_OK;
}

/* What the op is, plainly: what runs faster is held against it. */
static kiln_status reference(const kiln_op_call *c)
{
    const int64_t *d = c->in[0].dim;
    const float *x = (const float *)c->in[0].data;
    float *y = (float *)c->out[0].data;
    for (int64_t n = 0; n < d[0]; n++)
        for (int64_t t = 0; t < d[1]; t++)
            for (int64_t k = 0; k < d[2]; k++) {
                int64_t at = (n * d[1] + t) * d[2] + k;
                y[at] = t > 0 && y[at - d[2]] > x[at] ? y[at - d[2]] : x[at];
            }
    return KILN_OK;
}

/* One tile is one n, on any thread. */
static uint64_t tiles(const kiln_op_call *c) { return (uint64_t)c->in[0].dim[0]; }

static void tile(const kiln_op_call *c, uint64_t n, void *workspace)
{
    const int64_t row = c->in[0].dim[2], numbers = c->in[0].dim[1] * row;
    const float *x = (const float *)c->in[0].data + (int64_t)n * numbers;
    float *y = (float *)c->out[0].data + (int64_t)n * numbers;
    (void)workspace;
    if (numbers > 0) memcpy(y, x, (size_t)row * sizeof *y);
    for (int64_t i = row; i < numbers; i++) y[i] = y[i - row] > x[i] ? y[i - row] : x[i];
}

/* What kiln plugin check tries it on; odd sizes find most. */
static const int64_t odd[] = {3, 37, 5}, one[] = {1, 1, 1};
static const kiln_op_example examples[] = {
    {.size = sizeof examples[0],
     .n_in = 1,
     .name = "odd sizes",
     .in = {{.dtype = KILN_F32, .rank = 3, .dim = odd, .low = -1, .high = 1}}},
    {.size = sizeof examples[0],
     .n_in = 1,
     .name = "one number",
     .in = {{.dtype = KILN_F32, .rank = 3, .dim = one, .low = -1, .high = 1}}},
};

static const kiln_op_kind kind = {
    .size = sizeof kind,
    .version = 1, /* raise it when its results change */
    .name = "org.example.my-plugin",
    .doc = "The largest number so far along T.",
    .n_in = 1,
    .n_out = 1,
    .types = 1u << KILN_F32,
    .shape = shape,
    .reference = reference,
    .tiles = tiles,
    .tile = tile,
    .relative = 0, /* it chooses among numbers: not a bit may differ */
    KILN_ARRAY(example, examples),
};

/* ---- the node ---- */

/* *out is the caller's also when it fails. */
static kiln_status record(kiln_ctx *ctx, const int64_t dim[4], kiln_program **out)
{
    kiln_program_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options, options.name = "my-plugin", options.precision = KILN_F32;
    kiln_program *p = *out = ops->program_new(ctx, &options);
    if (!p) return KILN_ERR_NOMEM;
    const int64_t rows[] = {dim[0] * dim[1], dim[2], dim[3]}; /* each row of pixels by itself */
    kiln_t x = ops->reshape(p, ops->input(p, "x", KILN_F32, 4, dim), 3, rows);
    kiln_t y = ops->custom(p, &kind, &x, 1, NULL, 0, NULL);
    ops->output(p, "y", ops->reshape(p, y, 4, dim));
    return ops->plan(ctx, p, NULL);
}

static kiln_status run(const kiln_call *c)
{
    kiln_tensor from, to;
    from.size = to.size = sizeof from;
    kiln_program *program = NULL;
    kiln_status status = host->view(c->ctx, c->in[0], &from);
    if (status) return status;
    c->out[0] = host->tensor_new(c->ctx, KILN_F32, KILN_CPU, 4, from.dim);
    if (!c->out[0]) return KILN_ERR_NOMEM;
    if ((status = host->view(c->ctx, c->out[0], &to)) != KILN_OK) return status;
    status = record(c->ctx, from.dim, &program);
    kiln_bind in, out;
    in.size = out.size = sizeof in;
    in.name = "x", in.tensor = from, out.name = "y", out.tensor = to;
    if (status == KILN_OK) status = ops->run(c->ctx, program, &in, 1, &out, 1);
    if (program) ops->program_free(program);
    return status;
}

static const kiln_port in_ports[] = {{.name = "image", .doc = "The picture.", .type = "IMAGE"}};
static const kiln_port out_ports[] = {{.name = "IMAGE", .doc = "Its running maximum.", .type = "IMAGE"}};

static const kiln_node node = {
    .size = sizeof node,
    .flags = KILN_NODE_PURE | KILN_NODE_ESTIMATES,
    .devices = KILN_CPU,
    .revision = 1,
    .type = "MyPlugin",
    .title = "My Plugin",
    .category = "image",
    .doc = "What is bright in a picture stays so to its right.",
    KILN_ARRAY(in, in_ports),
    KILN_ARRAY(out, out_ports),
    .run = run,
};

static kiln_status open_plugin(const kiln_host *h)
{
    host = h;
    ops = (const kiln_ops *)h->ability(KILN_OPS_ABILITY);
    return ops && KILN_HAS(kiln_ops, ops, custom) ? ops->register_op(&kind) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_OPEN("org.example.my-plugin", "0.1.0", "MIT", open_plugin, &node);
