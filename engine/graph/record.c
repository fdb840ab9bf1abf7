/* record.c - appending ops to a recording; see program.h. */
#include "base/array.h"
#include "base/memory_alloc.h"
#include "graph/program.h"
#include "graph/shape_rules.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>

static const kiln_t none = {0};

kiln_status recording_init(recording *r, const char *name, uint32_t precision, error *e)
{
    *r = (recording){.precision = precision};
    r->name = arena_strdup(&r->memory, name ? name : "program");
    return r->name ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory for a program");
}

void recording_free(recording *r)
{
    for (size_t i = 0; i < r->n_set; i++) weights_unref(r->set[i]);
    mem_free(r->set);
    mem_free(r->op);
    mem_free(r->output);
    arena_free(&r->memory);
    *r = (recording){0};
}

/* ---- the sticky error ---- */

kiln_t record_failv(recording *r, kiln_status status, const char *fmt, va_list args)
{
    if (r->failure.status != KILN_OK) return none;
    error_setv(&r->failure, status, fmt, args);
    error_prefix(&r->failure, "program '%s'%s%s", r->name, r->scope[0] ? ", at " : "", r->scope);
    return none;
}

kiln_t record_fail(recording *r, kiln_status status, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    record_failv(r, status, fmt, args);
    va_end(args);
    return none;
}

/* The name of a leaf or an output; NULL and "" are errors of whoever records. */
static int has_name(recording *r, const char *what, const char *name)
{
    if (name && name[0]) return 1;
    record_fail(r, KILN_ERR_INVALID, "%s without a name", what);
    return 0;
}

/* Every dimension is 1 or more: no op works on nothing. */
static int has_elements(shape *s, uint32_t rank, const int64_t *dim)
{
    return (dim || rank == 0) && shape_make(s, rank, dim) && shape_count(s) > 0;
}

static kiln_t no_memory(recording *r) { return record_fail(r, KILN_ERR_NOMEM, "out of memory"); }

void record_scope_push(recording *r, const char *name)
{
    if (r->scope_depth >= SCOPE_DEPTH_MAX) {
        record_fail(r, KILN_ERR_INVALID, "scopes nested deeper than %d", SCOPE_DEPTH_MAX);
        return;
    }
    size_t end = strlen(r->scope);
    r->scope_end[r->scope_depth++] = end;
    snprintf(r->scope + end, sizeof r->scope - end, "%s%s", end ? "/" : "", name ? name : "?");
}

void record_scope_pop(recording *r)
{
    if (r->scope_depth == 0)
        record_fail(r, KILN_ERR_INVALID, "scope_pop without a scope_push");
    else
        r->scope[r->scope_end[--r->scope_depth]] = '\0';
}

/* ---- appending ---- */

static kiln_t append(recording *r, op o)
{
    if (r->failure.status != KILN_OK) return none;
    if (r->n >= OPS_MAX) return record_fail(r, KILN_ERR_INVALID, "more than %d ops", OPS_MAX);
    if (!array_reserve(&r->op, &r->capacity, r->n + 1, sizeof *r->op)) return no_memory(r);
    o.scope = r->n && strcmp(r->op[r->n - 1].scope, r->scope) == 0 ? r->op[r->n - 1].scope
                                                                   : arena_strdup(&r->memory, r->scope);
    if (!o.scope) return no_memory(r);
    r->op[r->n++] = o;
    return (kiln_t){.id = (uint32_t)r->n};
}

const op *recorded(const recording *r, kiln_t t) { return t.id >= 1 && t.id <= r->n ? &r->op[t.id - 1] : NULL; }

kiln_t record_input(recording *r, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    op o = {.kind = OP_INPUT, .dtype = dtype};
    if (r->failure.status != KILN_OK || !has_name(r, "an input", name)) return none;
    if (dtype != KILN_F32 && dtype != KILN_BF16 && dtype != KILN_F16 && dtype != KILN_I32)
        return record_fail(r, KILN_ERR_UNSUPPORTED, "input '%s': type %s; inputs are f32, bf16, f16 or i32", name,
                           dtype_name(dtype));
    if (!has_elements(&o.shape, rank, dim))
        return record_fail(r, KILN_ERR_INVALID, "input '%s': a shape takes %d dimensions at most, each 1 or more", name,
                           KILN_MAX_RANK);
    for (size_t i = 0; i < r->n; i++)
        if (r->op[i].kind == OP_INPUT && strcmp(r->op[i].name, name) == 0)
            return record_fail(r, KILN_ERR_INVALID, "two inputs are called '%s'", name);
    if (!(o.name = arena_strdup(&r->memory, name))) return no_memory(r);
    return append(r, o);
}

void record_output(recording *r, const char *name, kiln_t t)
{
    const op *o = recorded(r, t);
    if (r->failure.status != KILN_OK || !has_name(r, "an output", name)) return;
    for (size_t i = 0; i < r->n_output; i++)
        if (strcmp(r->output[i].name, name) == 0) {
            record_fail(r, KILN_ERR_INVALID, "two outputs are called '%s'", name);
            return;
        }
    if (!o || o->kind == OP_WEIGHT || o->kind == OP_CONSTANT) {
        record_fail(r, KILN_ERR_INVALID, "output '%s' is not something that was computed", name);
        return;
    }
    if (!array_reserve(&r->output, &r->output_capacity, r->n_output + 1, sizeof *r->output)) {
        no_memory(r);
        return;
    }
    program_output out = {.name = arena_strdup(&r->memory, name), .id = t.id};
    if (!out.name)
        no_memory(r);
    else
        r->output[r->n_output++] = out;
}

void record_step_invariant(recording *r, kiln_t input)
{
    const op *o = recorded(r, input);
    if (r->failure.status != KILN_OK) return;
    if (!o || o->kind != OP_INPUT)
        record_fail(r, KILN_ERR_INVALID, "step_invariant() of something that is no input");
    else
        r->op[input.id - 1].invariant = 1;
}

static int keep_set(recording *r, kiln_weights *set)
{
    for (size_t i = 0; i < r->n_set; i++)
        if (r->set[i] == set) return 1;
    if (!array_reserve(&r->set, &r->set_capacity, r->n_set + 1, sizeof *r->set)) return 0;
    r->set[r->n_set++] = weights_ref(set);
    return 1;
}

/* The type that kernels take a weight in: fp8 becomes f16, which has every number of both kinds; what is stored by
 * blocks is read as f32. 0: none. */
static uint32_t weight_type(uint32_t dtype)
{
    if (dtype_is_block(dtype)) return KILN_F32;
    if (dtype_is_f8(dtype)) return KILN_F16;
    return dtype == KILN_F32 || dtype == KILN_F16 || dtype == KILN_BF16 ? dtype : 0;
}

kiln_t record_weight(recording *r, kiln_weights *set, const char *name, uint32_t rank, const int64_t *dim, int optional)
{
    op o = {.kind = OP_WEIGHT, .set = set};
    kiln_weight_info info = {.size = sizeof info};
    char have[80], want[80];
    shape stored;
    if (r->failure.status != KILN_OK || !has_name(r, "a weight", name)) return none;
    if (!set) return record_fail(r, KILN_ERR_INVALID, "weight '%s' of no set", name);
    if (weights_find(set, name, &info) != KILN_OK) {
        if (optional) return none;
        error e = {0};
        weights_missing(set, name, &e);
        return record_fail(r, KILN_ERR_INVALID, "%s", e.message);
    }
    if (!has_elements(&o.shape, rank, dim))
        return record_fail(r, KILN_ERR_INVALID, "weight '%s': asked for in an impossible shape", name);
    if (!shape_make(&stored, info.rank, info.dim) || !shape_equal(&o.shape, &stored))
        return record_fail(
            r, KILN_ERR_INVALID, "%s: tensor '%s' is %s, this model wants %s", info.file ? info.file : "weights", name,
            shape_text(&(shape){.rank = info.rank,
                                .dim = {info.dim[0], info.dim[1], info.dim[2], info.dim[3], info.dim[4], info.dim[5]}},
                       have),
            shape_text(&o.shape, want));
    error why = {0};
    if (weights_supported(set, name, &why) != KILN_OK) return record_fail(r, why.status, "%s", why.message);
    if (!weight_type(info.dtype))
        return record_fail(r, KILN_ERR_UNSUPPORTED,
                           "%s: tensor '%s' is of type %s; f32, f16, bf16, f8 and block types are supported", info.file,
                           name, dtype_name(info.dtype));
    o.dtype = weight_type(info.dtype);
    if (!keep_set(r, set) || !(o.name = arena_strdup(&r->memory, name))) return no_memory(r);
    weights_mark_used(set, name);
    return append(r, o);
}

kiln_t record_constant(recording *r, const float *data, uint32_t rank, const int64_t *dim)
{
    op o = {.kind = OP_CONSTANT, .dtype = KILN_F32};
    if (r->failure.status != KILN_OK) return none;
    if (!data || !has_elements(&o.shape, rank, dim))
        return record_fail(r, KILN_ERR_INVALID, "a constant without data or of impossible shape");
    size_t bytes = (size_t)shape_count(&o.shape) * sizeof(float);
    float *copy = arena_alloc(&r->memory, bytes);
    if (!copy) return no_memory(r);
    memcpy(copy, data, bytes);
    o.constant = copy;
    return append(r, o);
}

/* Which operands an op may leave out: biases, gammas and betas, the mask. */
static int may_be_absent(op_kind kind, uint32_t i)
{
    if (kind == OP_CONV2D || kind == OP_LINEAR) return i == 2;
    if (kind == OP_GROUP_NORM || kind == OP_LAYER_NORM) return i >= 1;
    return kind == OP_ATTENTION && i == 3;
}

static int wants_ids(op_kind kind, uint32_t i) { return (kind == OP_EMBEDDING || kind == OP_GATHER) && i == 1; }

static int is_leaf_weight(const op *o) { return o->kind == OP_WEIGHT || o->kind == OP_CONSTANT; }

/* What a kernel packs must be a weight; what it computes with must not be ids. */
static int operand_fits(recording *r, op_kind kind, uint32_t i, const op *o)
{
    int must_be_weight = ((kind == OP_CONV2D || kind == OP_LINEAR) && i >= 1) ||
                         ((kind == OP_GROUP_NORM || kind == OP_LAYER_NORM) && i >= 1) ||
                         (kind == OP_EMBEDDING && i == 0);
    if (must_be_weight && !is_leaf_weight(o))
        record_fail(r, KILN_ERR_UNSUPPORTED, "%s: operand %u must be a weight or a constant", op_name(kind), i);
    else if (!must_be_weight && is_leaf_weight(o) && kind != OP_ADD && kind != OP_MUL && kind != OP_CONCAT &&
             kind != OP_SLICE && kind != OP_RESHAPE && kind != OP_PERMUTE)
        record_fail(r, KILN_ERR_UNSUPPORTED, "%s: operand %u must be computed, not a weight", op_name(kind), i);
    else if (is_leaf_weight(o) &&
             (kind == OP_CONCAT || kind == OP_SLICE || kind == OP_RESHAPE || kind == OP_PERMUTE || i == 0) &&
             !must_be_weight)
        record_fail(r, KILN_ERR_UNSUPPORTED, "%s of a weight; use a view of the weights (kiln.weights/1) instead",
                    op_name(kind));
    else if (kind == OP_TIMESTEP && (o->kind != OP_INPUT || o->dtype != KILN_F32)) /* 999 has no bf16 */
        record_fail(r, KILN_ERR_INVALID, "%s: the times must be an f32 input", op_name(kind));
    else if (wants_ids(kind, i) != (o->dtype == KILN_I32 && o->kind == OP_INPUT))
        record_fail(r, KILN_ERR_INVALID, "%s: operand %u %s", op_name(kind), i,
                    wants_ids(kind, i) ? "must be an i32 input" : "must not be i32");
    return r->failure.status == KILN_OK;
}

kiln_t record_op(recording *r, op_kind kind, const op_attr *attr, const kiln_t *in, uint32_t n_in)
{
    op o = {.kind = kind, .n_in = n_in};
    const shape *shapes[OP_MAX_IN] = {0};
    error e = {0};
    if (r->failure.status != KILN_OK) return none;
    if (n_in > OP_MAX_IN)
        return record_fail(r, KILN_ERR_INVALID, "%s of %u operands; at most %d", op_name(kind), n_in, OP_MAX_IN);
    if (attr) o.attr = *attr;
    for (uint32_t i = 0; i < n_in; i++) {
        const op *from = recorded(r, in[i]);
        if (!from && in[i].id == 0 && may_be_absent(kind, i)) continue;
        if (!from) return record_fail(r, KILN_ERR_INVALID, "%s: operand %u is missing", op_name(kind), i);
        if (!operand_fits(r, kind, i, from)) return none;
        shapes[i] = &from->shape;
        o.in[i] = in[i].id;
    }
    kiln_status status = shape_of_op(kind, &o.attr, shapes, n_in, &o.shape, &e);
    size_t name = strlen(op_name(kind));
    if (status != KILN_OK && strncmp(e.message, op_name(kind), name) != 0) error_prefix(&e, "%s", op_name(kind));
    if (status != KILN_OK) return record_fail(r, status, "%s", e.message);
    return append(r, o);
}

kiln_t record_reshape(recording *r, kiln_t x, uint32_t rank, const int64_t *dim)
{
    const op *from = recorded(r, x);
    op o = {.kind = OP_RESHAPE, .n_in = 1, .in = {x.id}};
    char have[80], want[80];
    if (r->failure.status != KILN_OK) return none;
    if (!from) return record_fail(r, KILN_ERR_INVALID, "reshape: the operand is missing");
    if (!operand_fits(r, OP_RESHAPE, 0, from)) return none;
    if (!has_elements(&o.shape, rank, dim)) return record_fail(r, KILN_ERR_INVALID, "reshape to an impossible shape");
    if (shape_count(&o.shape) != shape_count(&from->shape))
        return record_fail(r, KILN_ERR_INVALID, "reshape of %s to %s, which has another number of elements",
                           shape_text(&from->shape, have), shape_text(&o.shape, want));
    return append(r, o);
}
