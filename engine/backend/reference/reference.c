/* reference.c - the backend table of the plain C kernels, and what they share; see reference.h. */
#include "backend/reference/reference.h"

#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int64_t operand_columns(const operand_desc *d) { return d->shape.rank ? d->shape.dim[d->shape.rank - 1] : 1; }

int64_t operand_rows(const operand_desc *d)
{
    int64_t n = 1;
    for (uint32_t i = 0; i + 1 < d->shape.rank; i++) n *= d->shape.dim[i];
    return n;
}

void operand_set(const operand_desc *d, void *data, int64_t row, int64_t column, float v)
{
    int64_t at = row * d->ld + column;
    if (d->dtype == KILN_BF16)
        ((uint16_t *)data)[at] = bf16_from_f32(v);
    else if (d->dtype == KILN_F16)
        ((uint16_t *)data)[at] = f16_from_f32(v);
    else if (d->dtype == KILN_I32)
        ((int32_t *)data)[at] = v >= 2147483648.0f    ? INT32_MAX
                                : v <= -2147483648.0f ? INT32_MIN
                                : isnan(v)            ? 0
                                                      : (int32_t)v;
    else
        ((float *)data)[at] = v;
}

int32_t operand_get_i32(const operand_desc *d, const void *data, int64_t index)
{
    int64_t columns = operand_columns(d);
    return ((const int32_t *)data)[columns ? index / columns * d->ld + index % columns : 0];
}

/* kiln_act's formulas; see include/kiln/ops.h. */
float act_apply(uint32_t act, float x)
{
    double v = (double)x;
    switch (act) {
    case KILN_ACT_SILU: return (float)(v / (1 + exp(-v)));
    case KILN_ACT_GELU: return (float)(v / 2 * (1 + erf(v / sqrt(2))));
    case KILN_ACT_GELU_TANH:
        return (float)(v / 2 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v))));
    case KILN_ACT_QUICK_GELU: return (float)(v / (1 + exp(-1.702 * v)));
    case KILN_ACT_RELU: return x > 0 || isnan(x) ? x : 0;
    case KILN_ACT_SIGMOID: return (float)(1 / (1 + exp(-v)));
    case KILN_ACT_TANH: return (float)tanh(v);
    default: return x;
    }
}

void epilogue_store(const op_desc *op, const kernel_args *a, int64_t row, int64_t column, double value, double gate)
{
    double v = (double)act_apply(op->epilogue.act, (float)value);
    if (op->epilogue.geglu) v *= (double)act_apply(KILN_ACT_GELU, (float)gate);
    if (op->epilogue.residual) v += (double)operand_get(&op->in[op->n_in - 1], a->in[op->n_in - 1], row, column);
    operand_set(&op->out, a->out, row, column, (float)v);
}

static kiln_status reference_pack(const kernel *k, uint32_t operand, const void *src, uint32_t src_dtype, void *dst,
                                  pool *p, error *e)
{
    const reference_kernel *r = (const reference_kernel *)k;
    uint32_t type = r->op.in[operand].dtype == KILN_I32 ? KILN_I32 : KILN_F32;
    (void)p;
    kiln_status status = dtype_convert(dst, type, src, src_dtype, (size_t)shape_count(&r->op.in[operand].shape));
    return status == KILN_OK ? status
                             : error_set(e, status, "weights of type %s are not supported", dtype_name(src_dtype));
}

/* The op in f32, then its numbers brought into f16's range. */
static kiln_status run_saturated(const reference_kernel *r, const kernel_args *a, error *e)
{
    op_desc op = r->op;
    kernel_args own = *a;
    int64_t rows = operand_rows(&op.out), columns = operand_columns(&op.out);
    float *made = mem_calloc((size_t)(rows * op.out.ld + 1), sizeof *made);
    if (!made) return error_set(e, KILN_ERR_NOMEM, "out of memory for a result");
    op.out.dtype = KILN_F32, own.out = made;
    kiln_status status = r->body(&op, &own, e);
    for (int64_t i = 0; i < rows * columns && status == KILN_OK; i++) {
        float v = made[i / columns * op.out.ld + i % columns];
        operand_set(&r->op.out, a->out, i / columns, i % columns, v > 65504 ? 65504 : v < -65504 ? -65504 : v);
    }
    mem_free(made);
    return status;
}

static kiln_status reference_run(const kernel *k, const kernel_args *a, error *e)
{
    const reference_kernel *r = (const reference_kernel *)k;
    return op_saturates(&r->op) ? run_saturated(r, a, e) : r->body(&r->op, a, e);
}

static void reference_free(kernel *k) { mem_free(k); }

static const struct {
    reference_body *body;
    const char *name;
} bodies[OP_KIND_COUNT] = {
    [OP_CONVERT] = {reference_convert, "reference:convert"},
    [OP_CONV2D] = {reference_conv2d, "reference:conv2d"},
    [OP_LINEAR] = {reference_linear, "reference:linear"},
    [OP_ATTENTION] = {reference_attention, "reference:attention"},
    [OP_GROUP_NORM] = {reference_group_norm, "reference:group_norm"},
    [OP_GROUP_NORM_STATS] = {reference_group_norm_stats, "reference:group_norm_stats"},
    [OP_LAYER_NORM] = {reference_layer_norm, "reference:layer_norm"},
    [OP_ADD] = {reference_add, "reference:add"},
    [OP_MUL] = {reference_mul, "reference:mul"},
    [OP_AFFINE] = {reference_affine, "reference:affine"},
    [OP_ACT] = {reference_act, "reference:act"},
    [OP_GEGLU] = {reference_geglu, "reference:geglu"},
    [OP_UPSAMPLE] = {reference_upsample, "reference:upsample"},
    [OP_CONCAT] = {reference_concat, "reference:concat"},
    [OP_SLICE] = {reference_slice, "reference:slice"},
    [OP_RESHAPE] = {reference_reshape, "reference:reshape"},
    [OP_PERMUTE] = {reference_permute, "reference:permute"},
    [OP_EMBEDDING] = {reference_embedding, "reference:embedding"},
    [OP_GATHER] = {reference_gather, "reference:gather"},
    [OP_TIMESTEP] = {reference_timestep, "reference:timestep"},
    [OP_MAP] = {reference_map, "reference:map"},
    [OP_MATMUL] = {reference_matmul, "reference:matmul"},
    [OP_LINEAR_T] = {reference_linear_transposed, "reference:linear_transposed"},
    [OP_GROUPED_LINEAR] = {reference_grouped_linear, "reference:grouped_linear"},
    [OP_CUSTOM] = {reference_custom, "reference:custom"},
    [OP_STATE_WRITE] = {reference_state_write, "reference:state_write"},
    [OP_GRID_SAMPLE] = {reference_grid_sample, "reference:grid_sample"},
    [OP_PAD] = {reference_pad, "reference:pad"},
    [OP_POOL] = {reference_pool, "reference:pool"},
    [OP_INTERPOLATE] = {reference_interpolate, "reference:interpolate"},
    [OP_CONV] = {reference_conv, "reference:conv"},
    [OP_RANDOM] = {reference_random, "reference:random"},
    [OP_SCATTER] = {reference_scatter, "reference:scatter"},
    [OP_TAKE_ALONG] = {reference_take_along, "reference:take_along"},
    [OP_TAKE] = {reference_take, "reference:take"},
    [OP_BINCOUNT] = {reference_bincount, "reference:bincount"},
    [OP_SORT] = {reference_sort, "reference:sort"},
    [OP_CUMSUM] = {reference_cumsum, "reference:cumsum"},
    [OP_REDUCE] = {reference_reduce, "reference:reduce"},
    [OP_SOFTMAX] = {reference_softmax, "reference:softmax"},
    [OP_ROPE] = {reference_rope, "reference:rope"},
    [OP_NORM] = {reference_norm, "reference:norm"},
};

static kiln_status reference_prepare(const op_desc *op, kernel **out, error *e)
{
    if (op->kind >= OP_KIND_COUNT || !bodies[op->kind].body)
        return error_set(e, KILN_ERR_UNSUPPORTED, "op '%s' does not run on a device", op_name(op->kind));
    reference_kernel *k = mem_calloc(1, sizeof *k);
    if (!k) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    k->op = *op;
    for (uint32_t i = 0; i < op->n_in; i++) /* what is stored by blocks is packed from f32 */
        if (op->in[i].weight && dtype_is_block(op->in[i].dtype)) k->op.in[i].dtype = KILN_F32;
    k->body = bodies[op->kind].body;
    k->base =
        (kernel){.name = bodies[op->kind].name, .pack = reference_pack, .run = reference_run, .free = reference_free};
    for (uint32_t i = 0; i < op->n_in; i++) {
        if (!op->in[i].dtype || !op->in[i].weight) continue;
        k->base.packed_bytes[i] = (size_t)shape_count(&op->in[i].shape) * sizeof(float);
        k->base.pack_copies[i] = op->in[i].dtype == KILN_I32 ? KILN_I32 : KILN_F32;
        snprintf(k->base.pack_form[i], sizeof k->base.pack_form[i], "%s", dtype_name(k->base.pack_copies[i]));
    }
    *out = &k->base;
    return KILN_OK;
}

static const char *reference_features(void) { return "plain C"; }
static uint32_t reference_precision(void) { return KILN_F32; }

static kiln_status open_host(unsigned index, memory_device **out, error *e)
{
    if (index)
        return error_set(e, KILN_ERR_UNSUPPORTED, "there is one processor to compute on, number 0; not number %u",
                         index);
    *out = device_host();
    return KILN_OK;
}

static int has_body(op_kind kind) { return (unsigned)kind < OP_KIND_COUNT && bodies[kind].body != NULL; }

const backend backend_reference = {.name = "reference",
                                   .device = KILN_CPU,
                                   .open = open_host,
                                   .features = reference_features,
                                   .numerics = reference_features,
                                   .best_precision = reference_precision,
                                   .precisions = 1u << KILN_F32 | 1u << KILN_BF16 | 1u << KILN_F16,
                                   .prepare = reference_prepare,
                                   .has = has_body};
