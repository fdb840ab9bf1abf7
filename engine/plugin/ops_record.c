/* ops_record.c - see ops_record.h. */
#include "plugin/ops_record.h"

#include "backend/runtime.h"
#include "base/memory_alloc.h"
#include "graph/custom.h"
#include "plugin/abilities.h"

#include <math.h>
#include <string.h>

enum { RANGE_MAX = 1 << 24 };

static recording *of(kiln_program *p) { return program_recording(p); }

static kiln_t sizeless(kiln_program *p, const char *name, const char *type)
{
    return record_fail(of(p), KILN_ERR_INVALID, "%s without its options: a %s that says its size", name, type);
}

static int32_t one_if_zero(int32_t v) { return v == 0 ? 1 : v; }

static kiln_t op1(kiln_program *p, op_kind kind, const op_attr *a, kiln_t x)
{
    return record_op(of(p), kind, a, &x, 1);
}

/* ---- attention ---- */

static uint32_t last_given(const kiln_t *in, uint32_t n)
{
    while (n > 0 && !in[n - 1].id) n--;
    return n;
}

/* What the scale is when nobody says. */
static float plain_scale(const op *q, int32_t heads)
{
    int64_t width = q && q->shape.rank == 3 && heads > 0 ? q->shape.dim[2] / heads : 0;
    return width > 0 ? (float)(1.0 / sqrt((double)width)) : 1;
}

/* The second result: one number a sequence, head and query. */
static void record_lse(kiln_program *p, kiln_t attention, kiln_t q, int32_t heads, kiln_t *lse)
{
    const op *from = recorded(of(p), q);
    if (!from || !attention.id) return;
    shape s = {.rank = 3, .dim = {from->shape.dim[0], heads, from->shape.dim[1]}};
    *lse = record_result(of(p), attention, 1, KILN_F32, &s);
}

kiln_t ops_record_attention(kiln_program *p, kiln_t q, kiln_t k, kiln_t v, const kiln_attention *given)
{
    kiln_attention o;
    if (!KILN_READ(&o, given, mask))
        return record_fail(of(p), KILN_ERR_INVALID,
                           "attention without its options (heads): a kiln_attention that says its size");
    op_attr a = {.attention = {.heads = o.heads,
                               .scale = o.scale == 0 ? plain_scale(recorded(of(p), q), o.heads) : o.scale,
                               .causal = o.causal != 0,
                               .kv_heads = o.kv_heads ? o.kv_heads : o.heads,
                               .window = o.window != 0,
                               .bidirectional = o.bidirectional != 0,
                               .left = o.left,
                               .right = o.right,
                               .max_distance = o.max_distance,
                               .softcap = o.softcap}};
    kiln_t in[] = {
        q,       k,      v, o.mask, o.offset, o.key_length, o.q_segment, o.k_segment, o.key_position, o.bias_table,
        o.sinks, o.pages};
    uint32_t n = last_given(in, sizeof in / sizeof in[0]);
    if (o.lse) *o.lse = (kiln_t){0};
    kiln_t made = record_op(of(p), OP_ATTENTION, &a, in, n < 4 ? 4 : n);
    if (o.lse) record_lse(p, made, q, o.heads, o.lse);
    return made;
}

/* ---- element by element ---- */

kiln_t ops_record_map(kiln_program *p, const char *expression, const kiln_t *x, uint32_t n, const kiln_map *o)
{
    return record_map(of(p), expression, x, n, o, NULL);
}

kiln_t ops_record_cast(kiln_program *p, kiln_t x, uint32_t dtype)
{
    const op *from = recorded(of(p), x);
    if (from && from->dtype == dtype && from->kind != OP_WEIGHT && from->kind != OP_CONSTANT) return x;
    if (!dtype) return record_fail(of(p), KILN_ERR_INVALID, "cast to no type");
    return record_map(of(p), "a", &x, 1, &(kiln_map){.size = sizeof(kiln_map), .dtype = dtype}, NULL);
}

kiln_t ops_record_expand(kiln_program *p, kiln_t x, uint32_t rank, const int64_t *dim)
{
    const op *from = recorded(of(p), x);
    shape s = {.rank = 0};
    if (!from) return record_fail(of(p), KILN_ERR_INVALID, "expand: the operand is missing");
    if (!dim || !rank || !shape_make(&s, rank, dim) || !shape_count(&s) || from->shape.rank > rank)
        return record_fail(of(p), KILN_ERR_INVALID, "expand to an impossible shape");
    if (shape_equal(&s, &from->shape) && from->kind != OP_WEIGHT && from->kind != OP_CONSTANT) return x;
    uint32_t dtype = from->kind == OP_WEIGHT ? record_precision(of(p)) : from->dtype;
    return record_map(of(p), "a", &x, 1, &(kiln_map){.size = sizeof(kiln_map), .dtype = dtype}, &s);
}

kiln_t ops_record_constant_i32(kiln_program *p, const int32_t *data, uint32_t rank, const int64_t *dim)
{
    return record_constant(of(p), KILN_I32, data, rank, dim);
}

uint32_t ops_record_precision(const kiln_program *p)
{
    return record_precision(program_recording((kiln_program *)(uintptr_t)p));
}

kiln_t ops_record_arange(kiln_program *p, int64_t start, int64_t end, int64_t step)
{
    int64_t n = step > 0 && end > start ? (end - start + step - 1) / step : 0;
    if (n <= 0 || n > RANGE_MAX || start < INT32_MIN || end - 1 > INT32_MAX)
        return record_fail(of(p), KILN_ERR_INVALID,
                           "arange from %lld to %lld by %lld: it rises, and has 1 to %d whole numbers of 32 bits",
                           (long long)start, (long long)end, (long long)step, RANGE_MAX);
    int32_t *number = mem_alloc((size_t)n * sizeof *number);
    if (!number) return record_fail(of(p), KILN_ERR_NOMEM, "out of memory for arange");
    for (int64_t i = 0; i < n; i++) number[i] = (int32_t)(start + i * step);
    kiln_t made = record_constant(of(p), KILN_I32, number, 1, &n);
    mem_free(number);
    return made;
}

void ops_record_precision_push(kiln_program *p, uint32_t dtype) { record_precision_push(of(p), dtype); }
void ops_record_precision_pop(kiln_program *p) { record_precision_pop(of(p)); }
void ops_record_saturate(kiln_program *p, uint32_t on) { of(p)->saturate = on != 0; }

uint32_t ops_recorded_dtype(const kiln_program *p, kiln_t t)
{
    const op *o = recorded(program_recording((kiln_program *)(uintptr_t)p), t);
    return o ? o->dtype : 0;
}

/* ---- norm, rope ---- */

kiln_t ops_record_norm(kiln_program *p, kiln_t x, const kiln_norm *given)
{
    kiln_norm o;
    const op *from = recorded(of(p), x);
    if (!KILN_READ(&o, given, shift)) return sizeless(p, "norm", "kiln_norm");
    int64_t columns = from && from->shape.rank ? from->shape.dim[from->shape.rank - 1] : 1;
    op_attr a = {.any_norm = {.kind = o.kind,
                              .eps = o.eps,
                              .one_plus = o.one_plus != 0,
                              .eps_inside = o.eps_inside != 0,
                              .group = o.group ? o.group : columns}};
    return record_op(of(p), OP_NORM, &a, (const kiln_t[]){x, o.gain, o.bias, o.scale, o.shift}, 5);
}

kiln_t ops_record_rope(kiln_program *p, kiln_t x, const kiln_rope *given)
{
    kiln_rope o;
    const op *from = recorded(of(p), x);
    if (!KILN_READ(&o, given, sin)) return sizeless(p, "rope", "kiln_rope");
    int64_t width = from && from->shape.rank == 3 && o.heads > 0 ? from->shape.dim[2] / o.heads : 0;
    op_attr a = {.rope = {.heads = o.heads, .rotary = o.rotary ? o.rotary : width, .interleaved = o.interleaved != 0}};
    return record_op(of(p), OP_ROPE, &a, (const kiln_t[]){x, o.cos, o.sin}, 3);
}

/* ---- rows, places, choices ---- */

kiln_t ops_record_softmax(kiln_program *p, kiln_t x, const kiln_softmax *given)
{
    kiln_softmax o = {0};
    if (given && !KILN_READ(&o, given, log)) return sizeless(p, "softmax", "kiln_softmax");
    return record_op(of(p), OP_SOFTMAX, &(op_attr){.softmax = {.log = o.log != 0}}, (const kiln_t[]){x, o.length}, 2);
}

kiln_t ops_record_reduce(kiln_program *p, kiln_t x, uint32_t kind, uint32_t axes, uint32_t keep)
{
    return op1(p, OP_REDUCE, &(op_attr){.reduce = {.kind = kind, .axes = axes, .keep = keep != 0}}, x);
}

kiln_t ops_record_topk(kiln_program *p, kiln_t x, int64_t k, uint32_t ascending, kiln_t *places)
{
    const op *from = recorded(of(p), x);
    int64_t columns = from && from->shape.rank ? from->shape.dim[from->shape.rank - 1] : 1;
    op_attr a = {.sort = {.k = k ? k : columns, .ascending = ascending != 0}};
    kiln_t made = op1(p, OP_SORT, &a, x);
    if (places) *places = (kiln_t){0};
    if (places && made.id) {
        shape s = recorded(of(p), made)->shape;
        *places = record_result(of(p), made, 1, KILN_I32, &s);
    }
    return made;
}

kiln_t ops_record_cumsum(kiln_program *p, kiln_t x, uint32_t axis, uint32_t exclusive, uint32_t reverse)
{
    op_attr a = {.cumsum = {.axis = axis, .exclusive = exclusive != 0, .reverse = reverse != 0}};
    return op1(p, OP_CUMSUM, &a, x);
}

kiln_t ops_record_bincount(kiln_program *p, kiln_t x, int64_t bins)
{
    return op1(p, OP_BINCOUNT, &(op_attr){.bincount = {.bins = bins}}, x);
}

kiln_t ops_record_take(kiln_program *p, kiln_t x, kiln_t index, uint32_t axis)
{
    return record_op(of(p), OP_TAKE, &(op_attr){.take = {.axis = axis}}, (const kiln_t[]){x, index}, 2);
}

kiln_t ops_record_take_along(kiln_program *p, kiln_t x, kiln_t index)
{
    return record_op(of(p), OP_TAKE_ALONG, NULL, (const kiln_t[]){x, index}, 2);
}

kiln_t ops_record_scatter(kiln_program *p, kiln_t x, kiln_t index, kiln_t source, uint32_t axis, uint32_t add)
{
    return record_op(of(p), OP_SCATTER, &(op_attr){.scatter = {.axis = axis, .add = add != 0}},
                     (const kiln_t[]){x, index, source}, 3);
}

kiln_t ops_record_random(kiln_program *p, kiln_t seed, uint32_t kind, uint32_t rank, const int64_t *dim)
{
    return record_random(of(p), seed, kind, rank, dim);
}

/* ---- products ---- */

kiln_t ops_record_matmul(kiln_program *p, kiln_t a, kiln_t b, const kiln_matmul *given)
{
    kiln_matmul o = {0};
    if (given && !KILN_READ(&o, given, transpose_b)) return sizeless(p, "matmul", "kiln_matmul");
    op_attr attr = {.matmul = {.alpha = o.alpha == 0 ? 1 : o.alpha, .transpose_b = o.transpose_b != 0}};
    return record_op(of(p), OP_MATMUL, &attr, (const kiln_t[]){a, b}, 2);
}

kiln_t ops_record_linear_transposed(kiln_program *p, kiln_t x, kiln_t w, kiln_t b)
{
    return record_op(of(p), OP_LINEAR_T, NULL, (const kiln_t[]){x, w, b}, 3);
}

kiln_t ops_record_grouped_linear(kiln_program *p, kiln_t x, kiln_t w, kiln_t b, kiln_t offsets)
{
    return record_op(of(p), OP_GROUPED_LINEAR, NULL, (const kiln_t[]){x, w, b, offsets}, 4);
}

/* ---- pictures ---- */

/* Two dimensions, no padding but zeros, no groups: the op that has been there from the first. */
static int is_conv2d(const conv_attr *c)
{
    return c->rank == 2 && c->groups == 1 && !c->transposed && c->pad_mode == KILN_PAD_ZERO;
}

kiln_t ops_record_conv(kiln_program *p, kiln_t x, kiln_t w, kiln_t b, const kiln_conv *given)
{
    kiln_conv o;
    op_attr a = {0};
    conv_attr *c = &a.conv;
    if (!KILN_READ(&o, given, output_pad)) return sizeless(p, "conv", "kiln_conv");
    c->rank = o.rank, c->transposed = o.transposed != 0, c->pad_mode = o.pad_mode, c->groups = one_if_zero(o.groups);
    for (int i = 0; i < 3; i++) {
        c->stride[i] = one_if_zero(o.stride[i]), c->dilation[i] = one_if_zero(o.dilation[i]);
        c->before[i] = o.before[i], c->after[i] = o.after[i], c->output_pad[i] = o.output_pad[i];
    }
    if (is_conv2d(c)) {
        op_attr plain = {.conv2d = {.stride = {c->stride[0], c->stride[1]},
                                    .pad = {c->before[0], c->before[1], c->after[0], c->after[1]},
                                    .dilation = {c->dilation[0], c->dilation[1]},
                                    .groups = 1}};
        return record_op(of(p), OP_CONV2D, &plain, (const kiln_t[]){x, w, b}, 3);
    }
    return record_op(of(p), OP_CONV, &a, (const kiln_t[]){x, w, b}, 3);
}

kiln_t ops_record_interpolate(kiln_program *p, kiln_t x, const kiln_interpolate *given)
{
    kiln_interpolate o;
    if (!KILN_READ(&o, given, w)) return sizeless(p, "interpolate", "kiln_interpolate");
    op_attr a = {
        .interpolate = {
            .mode = o.mode, .align_corners = o.align_corners != 0, .antialias = o.antialias != 0, .h = o.h, .w = o.w}};
    return op1(p, OP_INTERPOLATE, &a, x);
}

kiln_t ops_record_pool(kiln_program *p, kiln_t x, const kiln_pool *given)
{
    kiln_pool o;
    if (!KILN_READ(&o, given, count_include_pad)) return sizeless(p, "pool", "kiln_pool");
    op_attr a = {.pool = {.kind = o.kind, .rank = o.rank, .include_pad = o.count_include_pad != 0}};
    for (int i = 0; i < 3; i++) {
        a.pool.size[i] = o.window[i], a.pool.stride[i] = o.stride[i] ? o.stride[i] : o.window[i];
        a.pool.before[i] = o.before[i], a.pool.after[i] = o.after[i];
    }
    return op1(p, OP_POOL, &a, x);
}

kiln_t ops_record_pad(kiln_program *p, kiln_t x, const int64_t *before, const int64_t *after, uint32_t mode,
                      float value)
{
    const op *from = recorded(of(p), x);
    op_attr a = {.pad = {.mode = mode, .value = value}};
    if (!before || !after) return record_fail(of(p), KILN_ERR_INVALID, "pad without its sizes");
    for (uint32_t i = 0; from && i < from->shape.rank; i++) a.pad.before[i] = before[i], a.pad.after[i] = after[i];
    return op1(p, OP_PAD, &a, x);
}

kiln_t ops_record_grid_sample(kiln_program *p, kiln_t x, kiln_t grid, const kiln_grid_sample *given)
{
    kiln_grid_sample o;
    if (!KILN_READ(&o, given, align_corners)) return sizeless(p, "grid_sample", "kiln_grid_sample");
    op_attr a = {.grid_sample = {.mode = o.mode, .padding = o.padding, .align_corners = o.align_corners != 0}};
    return record_op(of(p), OP_GRID_SAMPLE, &a, (const kiln_t[]){x, grid}, 2);
}

kiln_t ops_record_custom(kiln_program *p, const kiln_op_kind *kind, const kiln_t *x, uint32_t n, const void *attributes,
                         size_t attribute_bytes, kiln_t *more)
{
    op_kind_used(kind);
    return record_custom(
        of(p), &(custom_what){.kind = kind, .attributes = attributes, .attribute_bytes = attribute_bytes}, x, n, more);
}

/* ---- state ---- */

kiln_t ops_record_state_write_part(kiln_program *p, kiln_t state, kiln_t x, const kiln_state_write *given)
{
    kiln_state_write o;
    if (!KILN_READ(&o, given, count)) return sizeless(p, "state_write_part", "kiln_state_write");
    return record_op(of(p), OP_STATE_WRITE, &(op_attr){.state_write = {.axis = o.axis}},
                     (const kiln_t[]){state, o.offset, x, o.count}, o.count.id ? 4 : 3);
}

kiln_t ops_record_state(kiln_program *p, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    return record_state(of(p), name, dtype, rank, dim);
}

kiln_t ops_record_state_write(kiln_program *p, kiln_t state, uint32_t axis, kiln_t offset, kiln_t x)
{
    return record_op(of(p), OP_STATE_WRITE, &(op_attr){.state_write = {.axis = axis}},
                     (const kiln_t[]){state, offset, x}, 3);
}
