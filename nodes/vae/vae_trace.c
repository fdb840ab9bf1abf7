/* vae_trace.c - see vae_trace.h. */
#include "vae_trace.h"

#include "kiln/kit.h"

#include <assert.h>
#include <stdio.h>

enum { SCOPE_MAX = 240, SCOPE_DEPTH = 32 };

/* What is being traced on this thread: functions of the ops table get nothing that could say it. */
static _Thread_local struct {
    vae_trace *trace;
    char scope[SCOPE_MAX];
    size_t end[SCOPE_DEPTH], depth;
} now;

static void *scratch(const kiln_call *c, size_t bytes) { return c->host->scratch(c->ctx, bytes, KILN_CPU); }

static const char *copy_of(const kiln_call *c, const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = scratch(c, n);
    return copy ? memcpy(copy, text, n) : NULL;
}

/* ---- noting ---- */

static int grow(vae_trace *t)
{
    uint32_t capacity = t->capacity ? 2 * t->capacity : 256;
    vae_op *more = scratch(t->call, capacity * sizeof *more);
    if (!more) return 0;
    if (t->op) memcpy(more, t->op, (t->n + 1) * sizeof *more);
    t->op = more, t->capacity = capacity;
    return 1;
}

/* 0: nothing that was noted. */
static uint32_t number_of(const vae_trace *t, kiln_t handle)
{
    for (uint32_t i = t->n; i > 0; i--)
        if (t->op[i].handle == handle.id) return i;
    return 0;
}

static int note_operands(vae_trace *t, vae_op *o, const kiln_t *in, uint32_t n)
{
    uint32_t *numbers = scratch(t->call, (n + 1) * sizeof *numbers);
    if (!numbers || n > VAE_OPERANDS_MAX) return 0;
    for (uint32_t i = 0; i < n; i++)
        if (!(numbers[i] = in[i].id ? number_of(t, in[i]) : 0) && in[i].id) return 0;
    o->in = numbers, o->n_in = n;
    return 1;
}

static int note_op(vae_trace *t, kiln_t made, vae_op o, const kiln_t *in, uint32_t n)
{
    if (t->n + 2 > t->capacity && !grow(t)) return 0;
    if (!note_operands(t, &o, in, n)) return 0;
    o.handle = made.id;
    o.rank = t->ops->shape(t->program, made, o.dim, KILN_MAX_RANK);
    const char *before = t->n ? t->op[t->n].scope : "";
    o.scope = strcmp(before, now.scope) == 0 ? before : copy_of(t->call, now.scope);
    if (!o.scope || o.rank > KILN_MAX_RANK) return 0;
    t->op[++t->n] = o;
    return 1;
}

static kiln_t note(const kiln_program *p, kiln_t made, vae_op o, const kiln_t *in, uint32_t n)
{
    vae_trace *t = now.trace;
    if (made.id && p == t->program && !t->incomplete && !number_of(t, made) && !note_op(t, made, o, in, n))
        t->incomplete = 1;
    return made;
}

static kiln_t note_named(const kiln_program *p, kiln_t made, vae_op o, const char *name)
{
    if (made.id && !(o.name = copy_of(now.trace->call, name))) now.trace->incomplete = 1;
    return note(p, made, o, NULL, 0);
}

/* ---- the copy of the table ---- */

static const kiln_ops *real(void) { return now.trace->ops; }

static kiln_t input(kiln_program *p, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    return note_named(p, real()->input(p, name, dtype, rank, dim), (vae_op){.kind = VAE_INPUT, .dtype = dtype}, name);
}

/* The node says what comes out. */
static void output(kiln_program *p, const char *name, kiln_t t)
{
    real()->output(p, name, t);
    now.trace->incomplete = 1;
}

static kiln_t weight(kiln_program *p, kiln_weights *set, const char *name, uint32_t rank, const int64_t *dim)
{
    return note_named(p, real()->weight(p, set, name, rank, dim), (vae_op){.kind = VAE_WEIGHT, .set = set}, name);
}

static kiln_t weight_optional(kiln_program *p, kiln_weights *set, const char *name, uint32_t rank, const int64_t *dim)
{
    return note_named(p, real()->weight_optional(p, set, name, rank, dim), (vae_op){.kind = VAE_WEIGHT, .set = set},
                      name);
}

static kiln_t constant(kiln_program *p, const float *data, uint32_t rank, const int64_t *dim)
{
    vae_op o = {.kind = VAE_CONSTANT};
    kiln_t made = real()->constant(p, data, rank, dim);
    size_t n = made.id ? sizeof *data : 0;
    for (uint32_t i = 0; i < rank && n; i++) n *= (size_t)dim[i];
    float *copy = n ? scratch(now.trace->call, n) : NULL;
    if (copy)
        o.data = memcpy(copy, data, n);
    else if (n)
        now.trace->incomplete = 1;
    return note(p, made, o, NULL, 0);
}

static void scope_push(kiln_program *p, const char *name)
{
    size_t end = strlen(now.scope);
    real()->scope_push(p, name);
    if (now.depth < SCOPE_DEPTH) now.end[now.depth] = end;
    if (now.depth++ < SCOPE_DEPTH)
        snprintf(now.scope + end, sizeof now.scope - end, "%s%s", end ? "/" : "", name ? name : "?");
}

static void scope_pop(kiln_program *p)
{
    real()->scope_pop(p);
    if (now.depth && --now.depth < SCOPE_DEPTH) now.scope[now.end[now.depth]] = '\0';
}

static kiln_t conv2d(kiln_program *p, kiln_t x, kiln_t w, kiln_t b, const kiln_conv2d *how)
{
    vae_op o = {.kind = VAE_CONV2D};
    if (how) o.conv2d = *how;
    o.conv2d.size = sizeof o.conv2d;
    return note(p, real()->conv2d(p, x, w, b, how), o, (const kiln_t[]){x, w, b}, 3);
}

static kiln_t linear(kiln_program *p, kiln_t x, kiln_t w, kiln_t b)
{
    return note(p, real()->linear(p, x, w, b), (vae_op){.kind = VAE_LINEAR}, (const kiln_t[]){x, w, b}, 3);
}

static kiln_t attention(kiln_program *p, kiln_t q, kiln_t k, kiln_t v, const kiln_attention *how)
{
    vae_op o = {.kind = VAE_ATTENTION};
    if (how) o.attention = *how;
    return note(p, real()->attention(p, q, k, v, how), o, (const kiln_t[]){q, k, v, o.attention.mask}, 4);
}

static kiln_t group_norm(kiln_program *p, kiln_t x, int32_t groups, float eps, kiln_t gamma, kiln_t beta)
{
    vae_op o = {.kind = VAE_GROUP_NORM, .norm = {groups, eps}};
    return note(p, real()->group_norm(p, x, groups, eps, gamma, beta), o, (const kiln_t[]){x, gamma, beta}, 3);
}

static kiln_t layer_norm(kiln_program *p, kiln_t x, float eps, kiln_t gamma, kiln_t beta)
{
    vae_op o = {.kind = VAE_LAYER_NORM, .norm = {.eps = eps}};
    return note(p, real()->layer_norm(p, x, eps, gamma, beta), o, (const kiln_t[]){x, gamma, beta}, 3);
}

static kiln_t add(kiln_program *p, kiln_t a, kiln_t b)
{
    return note(p, real()->add(p, a, b), (vae_op){.kind = VAE_ADD}, (const kiln_t[]){a, b}, 2);
}

static kiln_t mul(kiln_program *p, kiln_t a, kiln_t b)
{
    return note(p, real()->mul(p, a, b), (vae_op){.kind = VAE_MUL}, (const kiln_t[]){a, b}, 2);
}

static kiln_t affine(kiln_program *p, kiln_t x, float scale, float shift)
{
    return note(p, real()->affine(p, x, scale, shift), (vae_op){.kind = VAE_AFFINE, .affine = {scale, shift}}, &x, 1);
}

static kiln_t act(kiln_program *p, kiln_t x, uint32_t kind)
{
    return note(p, real()->act(p, x, kind), (vae_op){.kind = VAE_ACT, .act = kind}, &x, 1);
}

static kiln_t geglu(kiln_program *p, kiln_t x)
{
    return note(p, real()->geglu(p, x), (vae_op){.kind = VAE_GEGLU}, &x, 1);
}

static kiln_t upsample_nearest(kiln_program *p, kiln_t x, int64_t h, int64_t w)
{
    return note(p, real()->upsample_nearest(p, x, h, w), (vae_op){.kind = VAE_UPSAMPLE}, &x, 1);
}

static kiln_t concat(kiln_program *p, const kiln_t *x, uint32_t n, uint32_t axis)
{
    return note(p, real()->concat(p, x, n, axis), (vae_op){.kind = VAE_CONCAT, .part = {.axis = axis}}, x, n);
}

static kiln_t slice(kiln_program *p, kiln_t x, uint32_t axis, int64_t start, int64_t length)
{
    vae_op o = {.kind = VAE_SLICE, .part = {axis, start, length}};
    return note(p, real()->slice(p, x, axis, start, length), o, &x, 1);
}

static kiln_t reshape(kiln_program *p, kiln_t x, uint32_t rank, const int64_t *dim)
{
    return note(p, real()->reshape(p, x, rank, dim), (vae_op){.kind = VAE_RESHAPE}, &x, 1);
}

static kiln_t permute(kiln_program *p, kiln_t x, const uint32_t *axis)
{
    vae_op o = {.kind = VAE_PERMUTE};
    kiln_t made = real()->permute(p, x, axis);
    int64_t dim[KILN_MAX_RANK];
    uint32_t rank = made.id ? real()->shape(p, made, dim, KILN_MAX_RANK) : 0;
    for (uint32_t i = 0; i < rank && i < KILN_MAX_RANK; i++) o.permute[i] = axis[i];
    return note(p, made, o, &x, 1);
}

static kiln_t embedding(kiln_program *p, kiln_t table, kiln_t ids)
{
    return note(p, real()->embedding(p, table, ids), (vae_op){.kind = VAE_EMBEDDING}, (const kiln_t[]){table, ids}, 2);
}

static kiln_t gather(kiln_program *p, kiln_t x, kiln_t index)
{
    return note(p, real()->gather(p, x, index), (vae_op){.kind = VAE_GATHER}, (const kiln_t[]){x, index}, 2);
}

static kiln_t timestep_embedding(kiln_program *p, kiln_t t, int64_t dim, const kiln_timestep_embedding *how)
{
    vae_op o = {.kind = VAE_TIMESTEP};
    if (how) o.timestep = *how;
    return note(p, real()->timestep_embedding(p, t, dim, how), o, &t, 1);
}

/* As large as the real one, so that what we do not know of is in it too. */
static kiln_ops *copy_of_table(const kiln_call *c, const kiln_ops *ops)
{
    kiln_ops *t = scratch(c, ops->size > sizeof *t ? ops->size : sizeof *t);
    if (!t) return NULL;
    memcpy(t, ops, ops->size);
    t->input = input, t->output = output, t->weight = weight, t->weight_optional = weight_optional;
    t->constant = constant, t->scope_push = scope_push, t->scope_pop = scope_pop, t->conv2d = conv2d;
    t->linear = linear, t->attention = attention, t->group_norm = group_norm, t->layer_norm = layer_norm;
    t->add = add, t->mul = mul, t->affine = affine, t->act = act, t->geglu = geglu;
    t->upsample_nearest = upsample_nearest, t->concat = concat, t->slice = slice, t->reshape = reshape;
    t->permute = permute, t->embedding = embedding, t->gather = gather, t->timestep_embedding = timestep_embedding;
    return t;
}

/* ---- a trace ---- */

kiln_status vae_trace_make(vae_converter *v, const vae_shape *in, vae_trace *out)
{
    const kiln_program_options options = vae_program_options(v);
    kiln_latent_distribution made;
    int64_t dim[5];
    *out = (vae_trace){.call = v->call, .ops = v->ops};
    kiln_ops *table = copy_of_table(v->call, v->ops);
    if (v->traced) v->ops->program_free(v->traced);
    out->program = v->traced = v->ops->program_new(v->call->ctx, &options);
    if (!table || !out->program) return KILN_ERR_NOMEM;
    vae_dims(v, in, dim);
    assert(!now.trace);
    now.trace = out, now.scope[0] = '\0', now.depth = 0;
    made = vae_record(v, table, out->program, table->input(out->program, "x", KILN_F32, v->rank, dim));
    now.trace = NULL;
    out->out[VAE_OUT_MEAN] = number_of(out, made.mean);
    if (v->variance) out->out[VAE_OUT_VARIANCE] = number_of(out, made.log_variance);
    if (!out->out[VAE_OUT_MEAN] || (v->variance && !out->out[VAE_OUT_VARIANCE]) ||
        v->ops->error(out->program, NULL) != KILN_OK)
        out->incomplete = 1;
    return KILN_OK;
}

/* ---- recording again ---- */

static kiln_t record_leaf(const kiln_ops *ops, kiln_program *p, const vae_op *o)
{
    if (o->kind == VAE_INPUT) return ops->input(p, o->name, o->dtype, o->rank, o->dim);
    if (o->kind == VAE_WEIGHT) return ops->weight(p, o->set, o->name, o->rank, o->dim);
    return ops->constant(p, o->data, o->rank, o->dim);
}

static kiln_t record_attention(const kiln_ops *ops, kiln_program *p, const vae_op *o, const kiln_t *in)
{
    kiln_attention how = o->attention;
    how.mask = in[3];
    return ops->attention(p, in[0], in[1], in[2], &how);
}

static kiln_t record_layout(const kiln_ops *ops, kiln_program *p, const vae_op *o, const kiln_t *in)
{
    switch (o->kind) {
    case VAE_UPSAMPLE: return ops->upsample_nearest(p, in[0], o->dim[1], o->dim[2]);
    case VAE_CONCAT: return ops->concat(p, in, o->n_in, o->part.axis);
    case VAE_SLICE: return ops->slice(p, in[0], o->part.axis, o->part.start, o->part.length);
    case VAE_RESHAPE: return ops->reshape(p, in[0], o->rank, o->dim);
    case VAE_PERMUTE: return ops->permute(p, in[0], o->permute);
    case VAE_EMBEDDING: return ops->embedding(p, in[0], in[1]);
    case VAE_GATHER: return ops->gather(p, in[0], in[1]);
    default: return ops->timestep_embedding(p, in[0], o->dim[o->rank - 1], &o->timestep);
    }
}

static kiln_t record_one(const kiln_ops *ops, kiln_program *p, const vae_op *o, const kiln_t *in)
{
    switch (o->kind) {
    case VAE_INPUT:
    case VAE_WEIGHT:
    case VAE_CONSTANT: return record_leaf(ops, p, o);
    case VAE_CONV2D: return ops->conv2d(p, in[0], in[1], in[2], &o->conv2d);
    case VAE_LINEAR: return ops->linear(p, in[0], in[1], in[2]);
    case VAE_ATTENTION: return record_attention(ops, p, o, in);
    case VAE_GROUP_NORM: return ops->group_norm(p, in[0], o->norm.groups, o->norm.eps, in[1], in[2]);
    case VAE_LAYER_NORM: return ops->layer_norm(p, in[0], o->norm.eps, in[1], in[2]);
    case VAE_ADD: return ops->add(p, in[0], in[1]);
    case VAE_MUL: return ops->mul(p, in[0], in[1]);
    case VAE_AFFINE: return ops->affine(p, in[0], o->affine.scale, o->affine.shift);
    case VAE_ACT: return ops->act(p, in[0], o->act);
    case VAE_GEGLU: return ops->geglu(p, in[0]);
    default: return record_layout(ops, p, o, in);
    }
}

kiln_t vae_op_record(const kiln_ops *ops, kiln_program *p, const vae_op *o, const kiln_t *in)
{
    if (o->scope[0]) ops->scope_push(p, o->scope);
    kiln_t made = record_one(ops, p, o, in);
    if (o->scope[0]) ops->scope_pop(p);
    return made;
}
