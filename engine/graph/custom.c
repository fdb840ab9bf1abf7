/* custom.c - see custom.h. */
#include "graph/custom.h"

#include "tensor/dtype.h"

#include <stdarg.h>
#include <string.h>

enum { ATTRIBUTES_MAX = 1 << 16 };
static const kiln_t none = {0};

__attribute__((format(printf, 2, 3))) static kiln_status fail(void *engine, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    error_setv(engine, KILN_ERR_INVALID, format, args);
    va_end(args);
    return KILN_ERR_INVALID;
}

void custom_call_make(custom_call *c, const custom_op *o, uint32_t device, error *e)
{
    memset(c, 0, sizeof *c);
    c->call = (kiln_op_call){.size = sizeof c->call,
                             .device = device,
                             .in = c->in,
                             .out = c->out,
                             .attributes = o->attributes,
                             .attribute_bytes = o->attribute_bytes,
                             .fail = fail,
                             .engine = e};
}

static kiln_tensor tensor(uint32_t dtype, const shape *s, void *data)
{
    return (kiln_tensor){.size = sizeof(kiln_tensor),
                         .dtype = dtype,
                         .rank = dtype ? s->rank : 0,
                         .dim = dtype ? s->dim : NULL,
                         .data = data};
}

void custom_call_in(custom_call *c, uint32_t i, uint32_t dtype, const shape *s, const void *data)
{
    c->in[i] = tensor(dtype, s, (void *)(uintptr_t)data);
    c->in[i].device = c->call.device;
    if (c->call.n_in <= i) c->call.n_in = i + 1;
}

void custom_call_out(custom_call *c, uint32_t i, uint32_t dtype, const shape *s, void *data)
{
    c->out[i] = tensor(dtype, s, data);
    c->out[i].device = c->call.device;
    if (c->call.n_out <= i) c->call.n_out = i + 1;
}

uint64_t custom_flops(const custom_op *o, const shape *const *in, uint32_t n_in, const shape *out)
{
    custom_call c;
    if (!o->kind.flops) return 0;
    custom_call_make(&c, o, KILN_CPU, NULL);
    for (uint32_t i = 0; i < n_in && i < KILN_OP_OPERANDS; i++)
        custom_call_in(&c, i, in[i] ? KILN_F32 : 0, in[i], NULL);
    custom_call_out(&c, 0, KILN_F32, out, NULL);
    return o->kind.flops(&c.call);
}

kiln_status custom_kind_check(const kiln_op_kind *given, error *e)
{
    kiln_op_kind k;
    const uint32_t real = 1u << KILN_F32 | 1u << KILN_BF16 | 1u << KILN_F16;
    if (!KILN_READ(&k, given, absolute)) return error_set(e, KILN_ERR_BUG, "an op's row that does not say its size");
    if (!k.name || !k.name[0] || strlen(k.name) > 100)
        return error_set(e, KILN_ERR_INVALID, "an op without a usable name");
    if (k.n_in < 1 || k.n_in > KILN_OP_OPERANDS || k.n_out < 1 || k.n_out > KILN_OP_RESULTS)
        return error_set(e, KILN_ERR_INVALID, "op '%s': %u operands and %u results; 1 to %d and 1 to %d", k.name,
                         k.n_in, k.n_out, KILN_OP_OPERANDS, KILN_OP_RESULTS);
    if (!k.reference) return error_set(e, KILN_ERR_INVALID, "op '%s': it has no reference()", k.name);
    if (!k.shape) return error_set(e, KILN_ERR_INVALID, "op '%s': it has no shape()", k.name);
    if (k.expression && k.n_out != 1)
        return error_set(e, KILN_ERR_INVALID, "op '%s': an expression has one result", k.name);
    if (!k.expression && !(k.types & 1u << KILN_F32))
        return error_set(e, KILN_ERR_INVALID, "op '%s': its types leave out f32", k.name);
    if (k.types & ~real) return error_set(e, KILN_ERR_INVALID, "op '%s': its types are f32, bf16 and f16", k.name);
    if (!k.tile != !k.tiles) return error_set(e, KILN_ERR_INVALID, "op '%s': tiles() and tile() go together", k.name);
    if (k.relative < 0 || k.absolute < 0) return error_set(e, KILN_ERR_INVALID, "op '%s': a negative bound", k.name);
    return KILN_OK;
}

/* ---- recording ---- */

/* What the operand becomes: its own type, the program's precision, or f32. */
static uint32_t operand_type(const recording *r, const kiln_op_kind *k, const op *o)
{
    uint32_t precision = record_precision(r);
    int leaf = o->kind == OP_WEIGHT || o->kind == OP_CONSTANT;
    if (o->dtype == KILN_I32) return KILN_I32;
    if (!leaf && k->types >> o->dtype & 1) return o->dtype;
    return k->types >> precision & 1 ? precision : (uint32_t)KILN_F32;
}

static int is_result(const kiln_op_result *r, uint32_t dtype, shape *s)
{
    return (dtype == KILN_F32 || dtype == KILN_BF16 || dtype == KILN_F16 || dtype == KILN_I32) && r->dim &&
           r->rank <= KILN_MAX_RANK && shape_make(s, r->rank, r->dim) && shape_count(s) > 0;
}

/* The op's results as shape() says them. */
static int ask_shape(recording *r, const custom_op *c, const op *o, shape out[KILN_OP_RESULTS],
                     uint32_t dtype[KILN_OP_RESULTS])
{
    error e = {0};
    custom_call call;
    int64_t dims[KILN_OP_RESULTS][KILN_MAX_RANK] = {{0}};
    kiln_op_result result[KILN_OP_RESULTS] = {{0}};
    uint32_t precision = record_precision(r);
    custom_call_make(&call, c, KILN_CPU, &e);
    for (uint32_t i = 0; i < o->n_in; i++) {
        const op *from = o->in[i] ? &r->op[o->in[i] - 1] : NULL;
        custom_call_in(&call, i, from ? from->dtype : 0, from ? &from->shape : NULL, NULL);
    }
    call.call.n_out = c->kind.n_out;
    for (uint32_t i = 0; i < KILN_OP_RESULTS; i++) result[i].dim = dims[i];
    if (c->kind.shape(&call.call, result) != KILN_OK)
        return record_fail(r, KILN_ERR_INVALID, "%s: %s", c->kind.name,
                           e.message[0] ? e.message : "its shape() failed without a word"),
               0;
    for (uint32_t i = 0; i < c->kind.n_out; i++) {
        dtype[i] = result[i].dtype ? result[i].dtype : c->kind.types >> precision & 1 ? precision : (uint32_t)KILN_F32;
        if (!is_result(&result[i], dtype[i], &out[i]))
            return record_fail(r, KILN_ERR_INVALID, "%s: its shape() gives result %u an impossible shape or type",
                               c->kind.name, i),
                   0;
    }
    return 1;
}

static const custom_op *keep_op(recording *r, const custom_what *what)
{
    custom_op *c = arena_alloc(&r->memory, sizeof *c);
    void *copy = arena_alloc(&r->memory, what->attribute_bytes + 1);
    if (!c || !copy) return NULL;
    KILN_READ(&c->kind, what->kind, absolute);
    if (what->attribute_bytes) memcpy(copy, what->attributes, what->attribute_bytes);
    c->attributes = copy, c->attribute_bytes = what->attribute_bytes;
    return c;
}

static int take_custom_operands(recording *r, const custom_op *c, op *o, const kiln_t *x)
{
    for (uint32_t i = 0; i < o->n_in; i++) {
        const op *from = recorded(r, x[i]);
        if (!from && x[i].id == 0) continue;
        if (!from) return record_fail(r, KILN_ERR_INVALID, "%s: operand %u is missing", c->kind.name, i), 0;
        if (!(o->in[i] = record_as(r, x[i], operand_type(r, &c->kind, from)).id)) return 0;
    }
    return 1;
}

kiln_t record_custom(recording *r, const custom_what *what, const kiln_t *x, uint32_t n, kiln_t *more)
{
    op o = {.kind = OP_CUSTOM, .n_in = n, .precision = record_precision(r)};
    shape out[KILN_OP_RESULTS];
    uint32_t dtype[KILN_OP_RESULTS];
    error e = {0};
    for (uint32_t i = 0; more && what->kind && i + 1 < what->kind->n_out && i < OP_MAX_MORE; i++) more[i] = none;
    if (r->failure.status != KILN_OK) return none;
    if (custom_kind_check(what->kind, &e) != KILN_OK) return record_fail(r, e.status, "%s", e.message);
    if (!x || n < 1 || n > what->kind->n_in || what->attribute_bytes > ATTRIBUTES_MAX ||
        (what->attribute_bytes && !what->attributes))
        return record_fail(r, KILN_ERR_INVALID, "%s takes 1 to %u operands, and attributes of up to %d bytes",
                           what->kind->name, what->kind->n_in, ATTRIBUTES_MAX);
    if (what->kind->expression) return record_map(r, what->kind->expression, x, n, NULL, NULL);
    const custom_op *c = keep_op(r, what);
    if (!c) return record_fail(r, KILN_ERR_NOMEM, "out of memory");
    o.attr.custom = c;
    if (!take_custom_operands(r, c, &o, x) || !ask_shape(r, c, &o, out, dtype)) return none;
    o.shape = out[0], o.dtype = dtype[0];
    kiln_t made = record_append(r, &o);
    for (uint32_t i = 1; more && made.id && i < c->kind.n_out; i++)
        more[i - 1] = record_result(r, made, i, dtype[i], &out[i]);
    return made;
}
