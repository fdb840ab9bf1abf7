/* ability_ops.c - "kiln.ops/1": the recorder, planner and runner behind the public table. */
#include "backend/states.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "plugin/ops_record.h"
#include "plugin/ops_states.h"

#include <string.h>

static const kiln_t none = {0};

/* The runtime, if it computes on the device that was asked for; else NULL, with a message. */
static runtime *runtime_for(kiln_ctx *c, const kiln_program_options *o)
{
    runtime *rt = ctx_runtime(c);
    if (!rt) return error_set(ctx_error(c), KILN_ERR_UNSUPPORTED, "nothing computes here: there is no device"), NULL;
    if (!o || !o->device || o->device == runtime_backend(rt)->device) return rt;
    return error_set(ctx_error(c), KILN_ERR_UNSUPPORTED, "a program for device %u: this run computes on '%s' alone",
                     o->device, runtime_backend(rt)->name),
           NULL;
}

static uint32_t precision_of(const runtime *rt, const kiln_program_options *o)
{
    if (o && o->precision) return o->precision;
    return runtime_wide_enough(rt, o && KILN_HAS(kiln_program_options, o, precisions) ? o->precisions : 0);
}

static kiln_program *new_program(kiln_ctx *c, const kiln_program_options *o)
{
    runtime *rt = runtime_for(c, o);
    return rt ? program_new(rt, o ? o->name : NULL, precision_of(rt, o), ctx_error(c)) : NULL;
}

static kiln_program *keep_program(kiln_ctx *c, const char *key, const kiln_program_options *o, int *fresh)
{
    runtime *rt = runtime_for(c, o);
    return rt ? program_keep(rt, key, o ? o->name : NULL, precision_of(rt, o), fresh, ctx_error(c)) : NULL;
}

static kiln_t op1(kiln_program *p, op_kind kind, const op_attr *a, kiln_t x)
{
    return record_op(program_recording(p), kind, a, (const kiln_t[]){x}, 1);
}

static kiln_t input(kiln_program *p, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    return record_input(program_recording(p), name, dtype, rank, dim);
}
static void output(kiln_program *p, const char *name, kiln_t t) { record_output(program_recording(p), name, t); }
static void step_invariant(kiln_program *p, kiln_t t) { record_step_invariant(program_recording(p), t); }
static kiln_t weight(kiln_program *p, kiln_weights *set, const char *name, uint32_t rank, const int64_t *dim)
{
    return record_weight(program_recording(p), set, name, rank, dim, 0);
}
static kiln_t weight_optional(kiln_program *p, kiln_weights *set, const char *name, uint32_t rank, const int64_t *dim)
{
    return record_weight(program_recording(p), set, name, rank, dim, 1);
}
static kiln_t constant(kiln_program *p, const float *data, uint32_t rank, const int64_t *dim)
{
    return record_constant(program_recording(p), KILN_F32, data, rank, dim);
}

static uint32_t shape_of(const kiln_program *p, kiln_t t, int64_t *dim, uint32_t capacity)
{
    const op *o = recorded(program_recording((kiln_program *)(uintptr_t)p), t);
    uint32_t rank = o ? o->shape.rank : 0;
    for (uint32_t i = 0; i < capacity; i++) dim[i] = i < rank ? o->shape.dim[i] : 0;
    return rank;
}

static void scope_push(kiln_program *p, const char *name) { record_scope_push(program_recording(p), name); }
static void scope_pop(kiln_program *p) { record_scope_pop(program_recording(p)); }

__attribute__((format(printf, 2, 3))) static kiln_t fail(kiln_program *p, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    record_failv(program_recording(p), KILN_ERR_INVALID, fmt, args);
    va_end(args);
    return none;
}

static kiln_status sticky(const kiln_program *p, const char **message)
{
    const recording *r = program_recording((kiln_program *)(uintptr_t)p);
    if (message) *message = r->failure.message;
    return r->failure.status;
}

static int32_t one_if_zero(int32_t v) { return v == 0 ? 1 : v; }

/* Groups are the general convolution's. */
static kiln_t conv2d(kiln_program *p, kiln_t x, kiln_t w, kiln_t b, const kiln_conv2d *o)
{
    static const kiln_conv2d plain = {.size = sizeof plain};
    op_attr a = {0};
    if (!o) o = &plain;
    if (one_if_zero(o->groups) != 1) {
        kiln_conv c = {.size = sizeof c, .rank = 2, .groups = o->groups};
        memcpy(c.stride, o->stride, sizeof o->stride);
        memcpy(c.dilation, o->dilation, sizeof o->dilation);
        memcpy(c.before, o->pad, sizeof o->stride);
        memcpy(c.after, o->pad + 2, sizeof o->stride);
        return ops_record_conv(p, x, w, b, &c);
    }
    for (int i = 0; i < 2; i++) {
        a.conv2d.stride[i] = one_if_zero(o->stride[i]);
        a.conv2d.dilation[i] = one_if_zero(o->dilation[i]);
    }
    memcpy(a.conv2d.pad, o->pad, sizeof a.conv2d.pad);
    a.conv2d.groups = 1;
    return record_op(program_recording(p), OP_CONV2D, &a, (const kiln_t[]){x, w, b}, 3);
}

static kiln_t linear(kiln_program *p, kiln_t x, kiln_t w, kiln_t b)
{
    return record_op(program_recording(p), OP_LINEAR, NULL, (const kiln_t[]){x, w, b}, 3);
}

static kiln_t group_norm(kiln_program *p, kiln_t x, int32_t groups, float eps, kiln_t gamma, kiln_t beta)
{
    op_attr a = {.norm = {.groups = groups, .eps = eps}};
    return record_op(program_recording(p), OP_GROUP_NORM, &a, (const kiln_t[]){x, gamma, beta}, 3);
}
static kiln_t group_norm_stats(kiln_program *p, kiln_t x, int32_t groups)
{
    return record_op(program_recording(p), OP_GROUP_NORM_STATS, &(op_attr){.norm = {.groups = groups}}, &x, 1);
}
static kiln_t group_norm_apply(kiln_program *p, kiln_t x, kiln_t stats, float eps, kiln_t gamma, kiln_t beta)
{
    int64_t dim[4] = {0};
    if (!shape_of(p, stats, dim, 4))
        return record_fail(program_recording(p), KILN_ERR_INVALID, "group_norm_apply: its statistics are missing");
    op_attr a = {.norm = {.groups = (int32_t)dim[2], .eps = eps}};
    return record_op(program_recording(p), OP_GROUP_NORM, &a, (const kiln_t[]){x, gamma, beta, stats}, 4);
}
static kiln_t layer_norm(kiln_program *p, kiln_t x, float eps, kiln_t gamma, kiln_t beta)
{
    op_attr a = {.norm = {.eps = eps}};
    return record_op(program_recording(p), OP_LAYER_NORM, &a, (const kiln_t[]){x, gamma, beta}, 3);
}
static kiln_t add(kiln_program *p, kiln_t a, kiln_t b)
{
    return record_op(program_recording(p), OP_ADD, NULL, (const kiln_t[]){a, b}, 2);
}
static kiln_t mul(kiln_program *p, kiln_t a, kiln_t b)
{
    return record_op(program_recording(p), OP_MUL, NULL, (const kiln_t[]){a, b}, 2);
}
static kiln_t affine(kiln_program *p, kiln_t x, float scale, float shift)
{
    return op1(p, OP_AFFINE, &(op_attr){.affine = {.scale = scale, .shift = shift}}, x);
}
static kiln_t act(kiln_program *p, kiln_t x, uint32_t kind)
{
    return op1(p, OP_ACT, &(op_attr){.act = {.kind = kind}}, x);
}
static kiln_t geglu(kiln_program *p, kiln_t x) { return op1(p, OP_GEGLU, NULL, x); }
static kiln_t upsample_nearest(kiln_program *p, kiln_t x, int64_t h, int64_t w)
{
    return op1(p, OP_UPSAMPLE, &(op_attr){.upsample = {.h = h, .w = w}}, x);
}
static kiln_t concat(kiln_program *p, const kiln_t *x, uint32_t n, uint32_t axis)
{
    if (!x && n) return record_fail(program_recording(p), KILN_ERR_INVALID, "concat of nothing");
    return record_op(program_recording(p), OP_CONCAT, &(op_attr){.concat = {.axis = axis}}, x, n);
}
static kiln_t slice(kiln_program *p, kiln_t x, uint32_t axis, int64_t start, int64_t length)
{
    return op1(p, OP_SLICE, &(op_attr){.slice = {.axis = axis, .start = start, .length = length}}, x);
}
static kiln_t reshape(kiln_program *p, kiln_t x, uint32_t rank, const int64_t *dim)
{
    return record_reshape(program_recording(p), x, rank, dim);
}
static kiln_t permute(kiln_program *p, kiln_t x, const uint32_t *axis)
{
    const op *from = recorded(program_recording(p), x);
    op_attr a = {0};
    if (!axis) return record_fail(program_recording(p), KILN_ERR_INVALID, "permute without its axes");
    memcpy(a.permute.axis, axis, (from ? from->shape.rank : 0) * sizeof *axis);
    return op1(p, OP_PERMUTE, &a, x);
}
static kiln_t embedding(kiln_program *p, kiln_t table, kiln_t ids)
{
    return record_op(program_recording(p), OP_EMBEDDING, NULL, (const kiln_t[]){table, ids}, 2);
}
static kiln_t gather(kiln_program *p, kiln_t x, kiln_t index)
{
    return record_op(program_recording(p), OP_GATHER, NULL, (const kiln_t[]){x, index}, 2);
}
static kiln_t timestep_embedding(kiln_program *p, kiln_t t, int64_t dim, const kiln_timestep_embedding *o)
{
    if (!o) return record_fail(program_recording(p), KILN_ERR_INVALID, "timestep_embedding without its options");
    op_attr a = {.timestep = {.dim = dim,
                              .cos_first = o->cos_first != 0,
                              .shift = o->shift,
                              .max_period = o->max_period == 0 ? 10000 : o->max_period}};
    return op1(p, OP_TIMESTEP, &a, t);
}

static kiln_status sizeless(kiln_ctx *c, const char *function, const char *type)
{
    return error_set(ctx_error(c), KILN_ERR_BUG, "%s: a %s that does not say its size; set .size = sizeof(%s) first",
                     function, type, type);
}

static kiln_status plan_program(kiln_ctx *c, kiln_program *p, kiln_program_info *info)
{
    TRY(program_plan(p, ctx_error(c)));
    return info ? program_info(p, info) : KILN_OK;
}

static int call_cancelled(void *arg) { return ctx_cancelled(arg); }

static kiln_status run_program(kiln_ctx *c, kiln_program *p, const kiln_bind *in, size_t n_in, const kiln_bind *out,
                               size_t n_out)
{
    if (ctx_estimating(c)) return program_estimate(p, in, n_in, out, n_out, ctx_error(c));
    return program_run(p, in, n_in, out, n_out, call_cancelled, c, ctx_error(c));
}

static kiln_status run_with(kiln_ctx *c, kiln_program *p, const kiln_run *given)
{
    kiln_run r;
    if (!KILN_READ(&r, given, n_out)) return sizeless(c, "run_with", "kiln_run");
    program_binds binds = {.states = r.states, .in = r.in, .out = r.out, .n_in = r.n_in, .n_out = r.n_out};
    if (ctx_estimating(c)) return program_estimate_with(p, &binds, ctx_error(c));
    return program_run_with(p, &binds, call_cancelled, c, ctx_error(c));
}

static int fits(kiln_ctx *c, const kiln_program *p)
{
    (void)c;
    return program_fits((kiln_program *)(uintptr_t)p, NULL);
}

static int parts_are_exact(kiln_ctx *c)
{
    return ctx_runtime(c) ? runtime_backend(ctx_runtime(c))->parts_are_exact : backend_cpu.parts_are_exact;
}

/* ---- vector ops: arguments are checked here, the work is the runtime's ---- */

static uint32_t vector_device(kiln_ctx *c) { return ctx_runtime(c) ? runtime_vector_device(ctx_runtime(c)) : KILN_CPU; }

static kiln_status bad_vector(kiln_ctx *c, const char *name)
{
    return error_set(ctx_error(c), KILN_ERR_INVALID, "%s: a vector is missing, or an area lies outside its picture",
                     name);
}

static kiln_status too_many(kiln_ctx *c, uint32_t terms)
{
    return error_set(ctx_error(c), KILN_ERR_INVALID, "a sum of %u terms; up to %d are possible", terms, KILN_MAX_TERMS);
}

/* What vector ops run on. NULL: there is nothing to run, and *status says whether that is a failure or an estimate. */
static runtime *vector_runtime(kiln_ctx *c, kiln_status *status)
{
    runtime *rt = runtime_for(c, NULL);
    *status = rt ? KILN_OK : KILN_ERR_UNSUPPORTED;
    return ctx_estimating(c) ? NULL : rt;
}

static kiln_status upload(kiln_ctx *c, float *device, const float *host, size_t n)
{
    kiln_status status;
    runtime *rt = vector_runtime(c, &status);
    return rt ? runtime_upload(rt, device, host, n, ctx_error(c)) : status;
}

static kiln_status download(kiln_ctx *c, float *host, const float *device, size_t n)
{
    kiln_status status;
    runtime *rt = vector_runtime(c, &status);
    if (ctx_estimating(c) && host) memset(host, 0, n * sizeof *host);
    return rt ? runtime_download(rt, host, device, n, ctx_error(c)) : status;
}

static kiln_status combine(kiln_ctx *c, float *out, size_t n, uint32_t terms, const double *coefficient,
                           const float *const *x)
{
    kiln_status status;
    runtime *rt = vector_runtime(c, &status);
    if (terms > KILN_MAX_TERMS) return too_many(c, terms);
    return rt ? runtime_combine(rt, out, n, terms, coefficient, x, ctx_error(c)) : status;
}

static kiln_status norm(kiln_ctx *c, const float *x, size_t n, double *out)
{
    kiln_status status;
    runtime *rt = vector_runtime(c, &status);
    *out = 1;
    return rt ? runtime_norm(rt, x, n, out, ctx_error(c)) : status;
}

static kiln_status add_difference(kiln_ctx *c, const kiln_difference *given, float *out)
{
    kiln_status status;
    runtime *rt = vector_runtime(c, &status);
    kiln_difference d;
    if (!KILN_READ(&d, given, t)) return sizeless(c, "add_difference", "kiln_difference");
    if (!d.x || !d.a || !d.b || !out) return bad_vector(c, "add_difference");
    return rt ? runtime_add_difference(rt, &d, out, ctx_error(c)) : status;
}

static kiln_status dot(kiln_ctx *c, const kiln_dot *given, double *out)
{
    kiln_status status;
    runtime *rt = vector_runtime(c, &status);
    kiln_dot d;
    *out = 0;
    if (!KILN_READ(&d, given, x)) return sizeless(c, "dot", "kiln_dot");
    if (d.terms > KILN_MAX_TERMS) return too_many(c, d.terms);
    if (!d.terms || !d.a || !d.x) return bad_vector(c, "dot");
    return rt ? runtime_dot(rt, &d, out, ctx_error(c)) : status;
}

static kiln_status blend(kiln_ctx *c, const kiln_blend *given, float *out)
{
    kiln_status status;
    runtime *rt = vector_runtime(c, &status);
    kiln_blend b;
    if (!KILN_READ(&b, given, mask)) return sizeless(c, "blend", "kiln_blend");
    if (!b.a || !b.b || !b.mask || !b.masks || !out) return bad_vector(c, "blend");
    return rt ? runtime_blend(rt, &b, out, ctx_error(c)) : status;
}

static int area_is_inside(const kiln_area *a)
{
    return a->pictures >= 0 && a->channels >= 0 && a->height >= 0 && a->width >= 0 && a->y >= 0 && a->x >= 0 &&
           a->h >= 0 && a->w >= 0 && a->y <= a->height - a->h && a->x <= a->width - a->w;
}

static kiln_status crop(kiln_ctx *c, const kiln_area *given, const float *x, float *out)
{
    kiln_status status;
    runtime *rt = vector_runtime(c, &status);
    kiln_area a;
    if (!KILN_READ(&a, given, w)) return sizeless(c, "crop", "kiln_area");
    if (!area_is_inside(&a) || !x || !out) return bad_vector(c, "crop");
    return rt ? runtime_crop(rt, &a, x, out, ctx_error(c)) : status;
}

static kiln_status accumulate(kiln_ctx *c, const kiln_area *given, const kiln_part *given_part, float *sum,
                              float *total)
{
    kiln_status status;
    runtime *rt = vector_runtime(c, &status);
    kiln_area a;
    kiln_part part;
    if (!KILN_READ(&a, given, w)) return sizeless(c, "accumulate", "kiln_area");
    if (!KILN_READ(&part, given_part, weights)) return sizeless(c, "accumulate", "kiln_part");
    if (!area_is_inside(&a) || !part.data || (part.weight && part.weights < 1) || !sum || !total)
        return bad_vector(c, "accumulate");
    return rt ? runtime_accumulate(rt, &a, &part, sum, total, ctx_error(c)) : status;
}

static kiln_status divide(kiln_ctx *c, float *x, const float *total, size_t cells, size_t channels)
{
    kiln_status status;
    runtime *rt = vector_runtime(c, &status);
    if (!x || !total) return bad_vector(c, "divide");
    return rt ? runtime_divide(rt, x, total, cells, channels, ctx_error(c)) : status;
}

const kiln_ops ops_api = {
    .size = sizeof(kiln_ops),
    .program_new = new_program,
    .program_keep = keep_program,
    .program_free = program_free,
    .input = input,
    .output = output,
    .weight = weight,
    .weight_optional = weight_optional,
    .constant = constant,
    .shape = shape_of,
    .scope_push = scope_push,
    .scope_pop = scope_pop,
    .fail = fail,
    .error = sticky,
    .conv2d = conv2d,
    .linear = linear,
    .attention = ops_record_attention,
    .group_norm = group_norm,
    .layer_norm = layer_norm,
    .add = add,
    .mul = mul,
    .affine = affine,
    .act = act,
    .geglu = geglu,
    .upsample_nearest = upsample_nearest,
    .concat = concat,
    .slice = slice,
    .reshape = reshape,
    .permute = permute,
    .embedding = embedding,
    .gather = gather,
    .timestep_embedding = timestep_embedding,
    .plan = plan_program,
    .run = run_program,
    .info = program_info,
    .step_invariant = step_invariant,
    .device = vector_device,
    .upload = upload,
    .download = download,
    .combine = combine,
    .add_difference = add_difference,
    .norm = norm,
    .dot = dot,
    .blend = blend,
    .crop = crop,
    .accumulate = accumulate,
    .divide = divide,
    .fits = fits,
    .map = ops_record_map,
    .cast = ops_record_cast,
    .expand = ops_record_expand,
    .constant_i32 = ops_record_constant_i32,
    .precision_push = ops_record_precision_push,
    .precision_pop = ops_record_precision_pop,
    .dtype = ops_recorded_dtype,
    .normalize = ops_record_norm,
    .rope = ops_record_rope,
    .softmax = ops_record_softmax,
    .reduce = ops_record_reduce,
    .topk = ops_record_topk,
    .cumsum = ops_record_cumsum,
    .bincount = ops_record_bincount,
    .take = ops_record_take,
    .take_along = ops_record_take_along,
    .scatter = ops_record_scatter,
    .random = ops_record_random,
    .matmul = ops_record_matmul,
    .linear_transposed = ops_record_linear_transposed,
    .grouped_linear = ops_record_grouped_linear,
    .conv = ops_record_conv,
    .interpolate = ops_record_interpolate,
    .pool = ops_record_pool,
    .pad = ops_record_pad,
    .grid_sample = ops_record_grid_sample,
    .state = ops_record_state,
    .state_write = ops_record_state_write,
    .states_new = ops_states_new,
    .states_fork = ops_states_fork,
    .states_free = states_unref,
    .states_clear = states_clear,
    .states_bytes = states_bytes,
    .states_save = ops_states_save,
    .states_load = ops_states_load,
    .run_with = run_with,
    .register_op = op_kind_register,
    .custom = ops_record_custom,
    .precision = ops_record_precision,
    .arange = ops_record_arange,
    .state_write_part = ops_record_state_write_part,
    .saturate = ops_record_saturate,
    .find = weights_find,
    .group_norm_stats = group_norm_stats,
    .group_norm_apply = group_norm_apply,
    .parts_are_exact = parts_are_exact,
};
