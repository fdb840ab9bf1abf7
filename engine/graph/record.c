/* record.c - appending ops to a recording; see program.h. */
#include "base/array.h"
#include "base/memory_alloc.h"
#include "graph/expression.h"
#include "graph/program.h"
#include "graph/shape_rules.h"
#include "tensor/dtype.h"

#include <assert.h>
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
    o.saturate = r->saturate;
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
 * blocks stays so where its bytes are what it is, and is read as f32 elsewhere. 0: none. */
static uint32_t weight_type(uint32_t dtype, const kiln_weights *set, const char *name)
{
    kiln_weight_info info = {.size = sizeof info};
    if (dtype_is_block(dtype)) return weights_bytes(set, name, &info) ? dtype : (uint32_t)KILN_F32;
    if (dtype_is_f8(dtype)) return KILN_F16;
    return dtype == KILN_F32 || dtype == KILN_F16 || dtype == KILN_BF16 ? dtype : 0;
}

/* As it was asked for, which need be no shape. */
static const char *asked_text(uint32_t rank, const int64_t *dim, char text[80])
{
    shape s = {.rank = rank <= KILN_MAX_RANK ? rank : 0};
    if (dim) memcpy(s.dim, dim, s.rank * sizeof *dim);
    return shape_text(&s, text);
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
        return record_fail(r, KILN_ERR_INVALID,
                           "weight '%s': asked for as %s, which is no shape; the size of a handle of nothing, such as "
                           "of an input that was misspelt, is 0",
                           name, asked_text(rank, dim, want));
    if (!shape_make(&stored, info.rank, info.dim) || !shape_equal(&o.shape, &stored))
        return record_fail(
            r, KILN_ERR_INVALID, "%s: tensor '%s' is %s, this model wants %s", info.file ? info.file : "weights", name,
            shape_text(&(shape){.rank = info.rank,
                                .dim = {info.dim[0], info.dim[1], info.dim[2], info.dim[3], info.dim[4], info.dim[5]}},
                       have),
            shape_text(&o.shape, want));
    error why = {0};
    if (weights_supported(set, name, &why) != KILN_OK) return record_fail(r, why.status, "%s", why.message);
    o.dtype = weight_type(info.dtype, set, name);
    if (!o.dtype)
        return record_fail(r, KILN_ERR_UNSUPPORTED,
                           "%s: tensor '%s' is of type %s; f32, f16, bf16, f8 and block types are supported", info.file,
                           name, dtype_name(info.dtype));
    if (!keep_set(r, set) || !(o.name = arena_strdup(&r->memory, name))) return no_memory(r);
    weights_mark_used(set, name);
    return append(r, o);
}

kiln_t record_constant(recording *r, uint32_t dtype, const void *data, uint32_t rank, const int64_t *dim)
{
    op o = {.kind = OP_CONSTANT, .dtype = dtype};
    if (r->failure.status != KILN_OK) return none;
    if (!data || !has_elements(&o.shape, rank, dim))
        return record_fail(r, KILN_ERR_INVALID, "a constant without data or of impossible shape");
    size_t bytes = (size_t)shape_count(&o.shape) * dtype_size(dtype);
    void *copy = arena_alloc(&r->memory, bytes);
    if (!copy) return no_memory(r);
    memcpy(copy, data, bytes);
    o.constant = copy;
    return append(r, o);
}

/* ---- precision ---- */

uint32_t record_precision(const recording *r) { return r->n_region ? r->region[r->n_region - 1] : r->precision; }

void record_precision_push(recording *r, uint32_t dtype)
{
    if (r->failure.status != KILN_OK) return;
    if (dtype != KILN_F32 && dtype != KILN_BF16 && dtype != KILN_F16)
        record_fail(r, KILN_ERR_INVALID, "precision_push: %s; a precision is f32, bf16 or f16", dtype_name(dtype));
    else if (r->n_region == REGIONS_MAX)
        record_fail(r, KILN_ERR_INVALID, "precisions nested deeper than %d", REGIONS_MAX);
    else
        r->region[r->n_region++] = !r->precisions || r->precisions >> dtype & 1 ? dtype : (uint32_t)KILN_F32;
}

void record_precision_pop(recording *r)
{
    if (r->n_region)
        r->n_region--;
    else
        record_fail(r, KILN_ERR_INVALID, "precision_pop without a precision_push");
}

/* ---- operands ---- */

static int is_leaf_weight(const op *o) { return o->kind == OP_WEIGHT || o->kind == OP_CONSTANT; }
static int is_real(uint32_t dtype) { return dtype == KILN_F32 || dtype == KILN_BF16 || dtype == KILN_F16; }

/* The tensor in another type, made once. */
static uint32_t converted(recording *r, uint32_t id, uint32_t dtype)
{
    static const uint32_t types[] = {KILN_F32, KILN_F16, KILN_BF16, KILN_I32};
    uint32_t t = 0;
    while (types[t] != dtype) t++;
    const op *from = &r->op[id - 1];
    if (from->as_type[t]) return from->as_type[t];
    kiln_t made = append(r, (op){.kind = OP_CONVERT,
                                 .n_in = 1,
                                 .in = {id},
                                 .shape = from->shape,
                                 .dtype = dtype,
                                 .precision = record_precision(r)});
    if (made.id) r->op[id - 1].as_type[t] = made.id;
    return made.id;
}

kiln_t record_append(recording *r, const op *o) { return append(r, *o); }

kiln_t record_as(recording *r, kiln_t x, uint32_t dtype)
{
    const op *from = recorded(r, x);
    if (!from || r->failure.status != KILN_OK) return none;
    if (from->dtype == dtype && !is_leaf_weight(from)) return x;
    return (kiln_t){.id = converted(r, x.id, dtype)};
}

/* The type in which a slot takes this operand; 0: as it comes. */
static uint32_t wanted_type(const recording *r, op_kind kind, uint32_t i, const op *o)
{
    char slot = op_slot_at(kind, i).type;
    uint32_t precision = record_precision(r);
    if (is_leaf_weight(o) && op_reads_leaves(kind, i)) return 0;
    if (is_leaf_weight(o) && o->dtype == KILN_I32) return KILN_I32;
    if (is_leaf_weight(o)) return slot == 'f' || slot == 'a' ? (uint32_t)KILN_F32 : precision;
    if (!is_real(o->dtype) || o->dtype == precision) return 0;
    int by_input = slot == 'r' || slot == 'l';
    return slot == 'x' || (by_input && o->kind == OP_INPUT) ? precision : 0;
}

/* What a kernel packs must be a weight; what it computes with must not be ids. */
static int operand_fits(recording *r, op_kind kind, uint32_t i, const op *o)
{
    char slot = op_slot_at(kind, i).type;
    if (slot == 'w' && !is_leaf_weight(o))
        record_fail(r, KILN_ERR_UNSUPPORTED, "%s: operand %u must be a weight or a constant", op_name(kind), i);
    else if (slot == 's' && o->kind != OP_STATE && o->kind != OP_STATE_WRITE)
        record_fail(r, KILN_ERR_INVALID, "%s: operand %u must be a state", op_name(kind), i);
    else if (slot == 'f' && !is_leaf_weight(o) && o->dtype != KILN_F32) /* 999 has no bf16 */
        record_fail(r, KILN_ERR_INVALID, "%s: operand %u must be f32, not %s; cast() it", op_name(kind), i,
                    dtype_name(o->dtype));
    else if (slot == 'i' && o->dtype != KILN_I32)
        record_fail(r, KILN_ERR_INVALID, "%s: operand %u must be i32, not %s; cast() it", op_name(kind), i,
                    dtype_name(o->dtype));
    else if (slot == 'w' && o->dtype == KILN_I32) /* of which cast() makes no weight */
        record_fail(r, KILN_ERR_INVALID, "%s: operand %u must not be i32", op_name(kind), i);
    else if ((slot == 'x' || slot == 'r' || slot == 'f') && o->dtype == KILN_I32)
        record_fail(r, KILN_ERR_INVALID, "%s: operand %u must not be i32; cast() it", op_name(kind), i);
    return r->failure.status == KILN_OK;
}

/* The one type of all operands of a concatenation, of what is scattered or written into something; 0: each has its own.
 */
static uint32_t common_type(const recording *r, const op *o)
{
    uint32_t first = r->op[o->in[0] - 1].dtype;
    if (o->kind == OP_SCATTER || o->kind == OP_STATE_WRITE) return first;
    if (o->kind != OP_CONCAT) return 0;
    for (uint32_t i = 1; i < o->n_in; i++)
        if (r->op[o->in[i] - 1].dtype != first) return record_precision(r);
    return first;
}

static int same_types(recording *r, op *o)
{
    uint32_t to = common_type(r, o);
    for (uint32_t i = 0; to && i < o->n_in; i++) {
        uint32_t type = r->op[o->in[i] - 1].dtype;
        if (op_slot_at(o->kind, i).type == 'i' || type == to) continue;
        if (!is_real(type) || !is_real(to)) {
            record_fail(r, KILN_ERR_INVALID, "%s of %s and %s; cast() one of them", op_name(o->kind), dtype_name(type),
                        dtype_name(to));
            return 0;
        }
        if (!(o->in[i] = converted(r, o->in[i], to))) return 0;
    }
    return 1;
}

static uint32_t result_type(const recording *r, const op *o)
{
    uint32_t first = o->n_in && o->in[0] ? r->op[o->in[0] - 1].dtype : 0;
    switch (o->kind) {
    case OP_SLICE:
    case OP_RESHAPE:
    case OP_PERMUTE:
    case OP_UPSAMPLE:
    case OP_CONCAT:
    case OP_TAKE:
    case OP_TAKE_ALONG:
    case OP_SCATTER:
    case OP_CUMSUM:
    case OP_PAD:
    case OP_SORT:
    case OP_STATE_WRITE: return first;
    case OP_BINCOUNT: return KILN_I32;
    case OP_GROUP_NORM_STATS: return KILN_F32;
    case OP_REDUCE:
        if (o->attr.reduce.kind >= KILN_REDUCE_ARGMAX) return KILN_I32;
        return first == KILN_I32 && o->attr.reduce.kind != KILN_REDUCE_MEAN && o->attr.reduce.kind < KILN_REDUCE_L2
                   ? (uint32_t)KILN_I32
                   : record_precision(r);
    default: return record_precision(r);
    }
}

/* Operands in the types of their slots, and their shapes. */
static int take_operands(recording *r, op *o, const kiln_t *in)
{
    for (uint32_t i = 0; i < o->n_in; i++) {
        const op *from = recorded(r, in[i]);
        if (!from && in[i].id == 0 && op_slot_at(o->kind, i).optional) continue;
        if (!from) return record_fail(r, KILN_ERR_INVALID, "%s: operand %u is missing", op_name(o->kind), i), 0;
        if (!operand_fits(r, o->kind, i, from)) return 0;
        int leaf = op_slot_at(o->kind, i).type == 'w' || op_slot_at(o->kind, i).type == 's';
        uint32_t type = leaf ? 0 : wanted_type(r, o->kind, i, from);
        o->in[i] = type ? converted(r, in[i].id, type) : in[i].id;
        if (!o->in[i]) return 0;
    }
    return !o->n_in || same_types(r, o);
}

kiln_t record_op(recording *r, op_kind kind, const op_attr *attr, const kiln_t *in, uint32_t n_in)
{
    op o = {.kind = kind, .n_in = n_in, .precision = record_precision(r)};
    const shape *shapes[OP_MAX_IN] = {0};
    error e = {0};
    if (r->failure.status != KILN_OK) return none;
    if (n_in > OP_MAX_IN)
        return record_fail(r, KILN_ERR_INVALID, "%s of %u operands; at most %d", op_name(kind), n_in, OP_MAX_IN);
    if (attr) o.attr = *attr;
    if (kind == OP_ATTENTION && !o.attr.attention.kv_heads) o.attr.attention.kv_heads = o.attr.attention.heads;
    if (!take_operands(r, &o, in)) return none;
    for (uint32_t i = 0; i < n_in; i++) shapes[i] = o.in[i] ? &r->op[o.in[i] - 1].shape : NULL;
    kiln_status status = shape_of_op(kind, &o.attr, shapes, n_in, &o.shape, &e);
    size_t name = strlen(op_name(kind));
    if (status != KILN_OK && strncmp(e.message, op_name(kind), name) != 0) error_prefix(&e, "%s", op_name(kind));
    if (status != KILN_OK) return record_fail(r, status, "%s", e.message);
    o.dtype = result_type(r, &o);
    return append(r, o);
}

kiln_t record_result(recording *r, kiln_t of, uint32_t index, uint32_t dtype, const shape *s)
{
    op o = {.kind = OP_RESULT, .n_in = 1, .in = {of.id}, .dtype = dtype, .shape = *s, .precision = record_precision(r)};
    o.attr.result.index = index;
    if (r->failure.status != KILN_OK) return none;
    assert(of.id && of.id <= r->n && index >= 1 && index <= OP_MAX_MORE);
    return append(r, o);
}

kiln_t record_map(recording *r, const char *expression, const kiln_t *x, uint32_t n, const kiln_map *options,
                  const shape *least)
{
    op_attr a = {0};
    kiln_map m = {0};
    error e = {0};
    int whole = n > 0;
    if (r->failure.status != KILN_OK) return none;
    if (options && !KILN_READ(&m, options, number))
        return record_fail(r, KILN_ERR_INVALID, "map: a kiln_map that does not say its size");
    if (!expression || !x || n < 1 || n > KILN_MAP_OPERANDS)
        return record_fail(r, KILN_ERR_INVALID, "map takes an expression and 1 to %d operands", KILN_MAP_OPERANDS);
    for (uint32_t i = 0; i < n; i++) whole &= recorded(r, x[i]) != NULL && recorded(r, x[i])->dtype == KILN_I32;
    if (!m.dtype) m.dtype = whole ? (uint32_t)KILN_I32 : record_precision(r);
    if (!is_real(m.dtype) && m.dtype != KILN_I32)
        return record_fail(r, KILN_ERR_INVALID, "map: a result of type %s; f32, bf16, f16 or i32", dtype_name(m.dtype));
    if (least) a.map.least = *least;
    if (expression_compile(expression, n, whole && m.dtype == KILN_I32, options ? m.number : NULL, &a.map, &e) !=
        KILN_OK)
        return record_fail(r, KILN_ERR_INVALID, "map: %s", e.message);
    kiln_t made = record_op(r, OP_MAP, &a, x, n);
    if (made.id) r->op[made.id - 1].dtype = m.dtype;
    return made;
}

kiln_t record_state(recording *r, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    op o = {.kind = OP_STATE, .dtype = dtype};
    if (r->failure.status != KILN_OK || !has_name(r, "a state", name)) return none;
    if (!is_real(dtype) && dtype != KILN_I32)
        return record_fail(r, KILN_ERR_UNSUPPORTED, "state '%s': type %s; states are f32, bf16, f16 or i32", name,
                           dtype_name(dtype));
    if (!has_elements(&o.shape, rank, dim))
        return record_fail(r, KILN_ERR_INVALID, "state '%s': a shape takes %d dimensions at most, each 1 or more", name,
                           KILN_MAX_RANK);
    for (size_t i = 0; i < r->n; i++)
        if (r->op[i].kind == OP_STATE && strcmp(r->op[i].name, name) == 0)
            return record_fail(r, KILN_ERR_INVALID, "two states are called '%s'", name);
    if (!(o.name = arena_strdup(&r->memory, name))) return no_memory(r);
    return append(r, o);
}

kiln_t record_random(recording *r, kiln_t seed, uint32_t kind, uint32_t rank, const int64_t *dim)
{
    op o = {.kind = OP_RANDOM, .n_in = 1, .dtype = KILN_F32, .precision = record_precision(r)};
    o.attr.random.kind = kind;
    if (r->failure.status != KILN_OK || !take_operands(r, &o, &seed)) return none;
    if (kind > KILN_RANDOM_GUMBEL) return record_fail(r, KILN_ERR_INVALID, "random: no law has number %u", kind);
    if (shape_count(&recorded(r, seed)->shape) != 4)
        return record_fail(r, KILN_ERR_INVALID, "random: the seed is four numbers, i32 [4]");
    if (!has_elements(&o.shape, rank, dim)) return record_fail(r, KILN_ERR_INVALID, "random: an impossible shape");
    return append(r, o);
}

kiln_t record_reshape(recording *r, kiln_t x, uint32_t rank, const int64_t *dim)
{
    op o = {.kind = OP_RESHAPE, .n_in = 1, .precision = record_precision(r)};
    char have[80], want[80];
    if (r->failure.status != KILN_OK || !take_operands(r, &o, &x)) return none;
    const op *from = &r->op[o.in[0] - 1];
    if (!has_elements(&o.shape, rank, dim)) return record_fail(r, KILN_ERR_INVALID, "reshape to an impossible shape");
    if (shape_count(&o.shape) != shape_count(&from->shape))
        return record_fail(r, KILN_ERR_INVALID, "reshape of %s to %s, which has another number of elements",
                           shape_text(&from->shape, have), shape_text(&o.shape, want));
    o.dtype = from->dtype;
    return append(r, o);
}
