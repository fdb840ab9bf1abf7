/* executor.c - chooses a kernel for each op of a planned program; see executor.h. */
#include "backend/executor.h"

#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "tensor/dtype.h"
#include "weights/packed_rows.h"

#include <assert.h>
#include <string.h>

/* ---- kernels ---- */

/* The f8 type of all of a leaf, where its bytes are what it is; or 0. */
static uint32_t stored_f8(const recording *r, const op *leaf)
{
    uint32_t type = 0;
    for (uint32_t i = 0; i < (leaf->n_part ? leaf->n_part : 1) && leaf->kind == OP_WEIGHT; i++) {
        const op *part = leaf->n_part ? &r->op[leaf->part[i] - 1] : leaf;
        kiln_weight_info info = {.size = sizeof info};
        if (!weights_bytes(part->set, part->name, &info) || !dtype_is_f8(info.dtype)) return 0;
        if (type && info.dtype != type) return 0;
        type = info.dtype;
    }
    return type;
}

static int same_codes(const weights_rows *a, const weights_rows *b)
{
    int same = a->coding == b->coding && a->dtype == b->dtype && a->columns == b->columns &&
               a->scale_columns == b->scale_columns;
    for (size_t i = 0; same && i < sizeof a->codebook / sizeof a->codebook[0]; i++)
        same = a->codebook[i] == b->codebook[i];
    return same;
}

/* Rows of `columns`; 0: of the last dimension, or else of all but the first. */
static int rows_of_part(const op *part, size_t columns, weights_rows *r)
{
    return columns ? weights_rows_by(part->set, part->name, columns, r) : weights_rows_of(part->set, part->name, r);
}

/* How all of a leaf's parts lie as codes; .coding 0: they do not, or in several ways. */
static stored_rows rows_of_leaf(const recording *r, const op *leaf, size_t columns)
{
    stored_rows rows = {0};
    weights_rows first, own;
    for (uint32_t i = 0; i < (leaf->n_part ? leaf->n_part : 1); i++) {
        const op *part = leaf->n_part ? &r->op[leaf->part[i] - 1] : leaf;
        kiln_weight_info info = {.size = sizeof info};
        if (weights_bytes(part->set, part->name, &info) || !rows_of_part(part, columns, &own)) return (stored_rows){0};
        if (!i) first = own;
        if (!same_codes(&own, &first)) return (stored_rows){0};
        rows = (stored_rows){.coding = own.coding,
                             .dtype = own.dtype,
                             .rows = rows.rows + (int64_t)own.rows,
                             .columns = (int64_t)own.columns,
                             .row_bytes = (int64_t)own.row_bytes,
                             .scales = (int64_t)weights_scales_of(&own),
                             .scale_columns = (int64_t)own.scale_columns};
    }
    return rows;
}

/* columns: see rows_of_part(). */
static operand_desc describe_as(const recording *r, const op *o, uint32_t dtype, int64_t ld, int weight, size_t columns)
{
    uint32_t stored = weight && dtype == KILN_F16 ? stored_f8(r, o) : 0;
    operand_desc d = {.dtype = dtype, .shape = o->shape, .ld = ld, .weight = (uint32_t)weight, .stored = stored};
    if (weight && dtype == KILN_F32 && o->kind == OP_WEIGHT) d.rows = rows_of_leaf(r, o, columns);
    return d;
}

static operand_desc describe(const executor *x, uint32_t id, size_t columns)
{
    assert(id <= x->r->n);
    if (!id) return (operand_desc){0};
    const placement *p = &x->plan.place[id];
    return describe_as(x->r, &x->r->op[id - 1], p->dtype, p->ld, p->kind == PLACE_WEIGHT, columns);
}

/* Of a convolution's filter all but the first dimension; 0: it is none. */
static size_t filter_columns(const recording *r, const op *o)
{
    if ((o->kind != OP_CONV && o->kind != OP_CONV2D) || !o->in[1]) return 0;
    const shape *s = &r->op[o->in[1] - 1].shape;
    return s->dim[0] ? (size_t)(shape_count(s) / s->dim[0]) : 0;
}

static void describe_op(const executor *x, uint32_t i, op_desc *d)
{
    assert(i < x->r->n);
    const op *o = &x->r->op[i];
    *d = (op_desc){.kind = o->kind,
                   .attr = o->attr,
                   .epilogue = o->epilogue,
                   .n_in = o->n_in,
                   .out = describe(x, i + 1, 0),
                   .precision = o->precision,
                   .saturate = o->saturate,
                   .bounded = (uint32_t)x->bounded};
    for (uint32_t k = 0; k < o->n_in; k++) d->in[k] = describe(x, o->in[k], k == 1 ? filter_columns(x->r, o) : 0);
    for (uint32_t k = 0; k < OP_MAX_MORE; k++) {
        d->more[k] = describe(x, x->step[i].more[k], 0);
        if (x->step[i].more[k]) d->n_more = k + 1;
    }
}

/* Before there is a plan: dense. */
static operand_desc describe_recorded(const recording *r, const op *o, size_t columns)
{
    int weight = o->kind == OP_WEIGHT || o->kind == OP_CONSTANT;
    return describe_as(r, o, o->dtype, o->shape.dim[o->shape.rank - 1], weight, columns);
}

int executor_takes(const void *self, const recording *r, const op *o)
{
    const backend *b = self;
    op_desc d = {.kind = o->kind, .attr = o->attr, .n_in = o->n_in, .precision = o->precision};
    d.out = describe_recorded(r, o, 0);
    for (uint32_t k = 0; k < o->n_in; k++)
        if (o->in[k]) d.in[k] = describe_recorded(r, &r->op[o->in[k] - 1], k == 1 ? filter_columns(r, o) : 0);
    return b->takes && b->takes(&d);
}

/* The results that stand behind an op are its own. */
static void find_results(executor *x, uint32_t i)
{
    for (uint32_t k = i + 1; k < x->r->n && x->r->op[k].kind == OP_RESULT && x->r->op[k].in[0] == i + 1; k++)
        x->step[i].more[x->r->op[k].attr.result.index - 1] = k + 1;
}

/* A concatenation whose operands were all written into it has nothing left to do. */
static int is_in_place(const executor *x, uint32_t i)
{
    const op *o = &x->r->op[i];
    if (o->kind != OP_CONCAT) return 0;
    for (uint32_t k = 0; k < o->n_in; k++)
        if (x->plan.place[o->in[k]].base != x->plan.place[i + 1].base) return 0;
    return 1;
}

static size_t packed_bytes_of(const step *s, uint32_t k)
{
    const operand_desc *d = &s->desc.in[k];
    return s->kernel->packed_bytes[k] ? s->kernel->packed_bytes[k]
                                      : (size_t)shape_count(&d->shape) * dtype_size(d->dtype);
}

static int same_leaf(const op *a, const op *b)
{
    return a == b || (a->kind == OP_WEIGHT && b->kind == OP_WEIGHT && a->set == b->set && !a->n_part && !b->n_part &&
                      shape_equal(&a->shape, &b->shape) && strcmp(a->name, b->name) == 0);
}

/* 1: an op before this one has the same weight in the same form: there is one copy of it. */
static int is_counted(const executor *x, uint32_t i, uint32_t k)
{
    const step *s = &x->step[i];
    const op *leaf = &x->r->op[x->r->op[i].in[k] - 1];
    size_t bytes = packed_bytes_of(s, k);
    for (uint32_t j = 0; j <= i; j++) {
        const step *t = &x->step[j];
        for (uint32_t m = 0; t->kernel && m < (j == i ? k : t->desc.n_in); m++)
            if (t->desc.in[m].weight && packed_bytes_of(t, m) == bytes &&
                strcmp(t->kernel->pack_form[m], s->kernel->pack_form[k]) == 0 &&
                same_leaf(leaf, &x->r->op[x->r->op[j].in[m] - 1]))
                return 1;
    }
    return 0;
}

static kiln_status prepare(executor *x, uint32_t i, const backend *b, error *e)
{
    step *s = &x->step[i];
    error why = {0};
    find_results(x, i);
    describe_op(x, i, &s->desc);
    kiln_status status = b->prepare(&s->desc, &s->kernel, &why);
    if (status == KILN_ERR_UNSUPPORTED && b != &backend_reference && b->device == KILN_CPU) {
        if (!(x->warned >> s->desc.kind & 1))
            log_warn("program '%s'%s%s: no %s kernel (%s); the plain one is used, which is slow", x->r->name,
                     at_or_not(&x->r->op[i]), x->r->op[i].scope, b->name, why.message);
        x->warned |= UINT64_C(1) << s->desc.kind;
        why = (error){0};
        status = backend_reference.prepare(&s->desc, &s->kernel, &why);
    }
    if (status != KILN_OK)
        return error_set(e, status, "program '%s'%s%s: %s: %s", x->r->name, at_or_not(&x->r->op[i]), x->r->op[i].scope,
                         op_name(s->desc.kind), why.message);
    x->waits |= s->kernel->waits;
    if (s->kernel->scratch_bytes > x->scratch_bytes) x->scratch_bytes = s->kernel->scratch_bytes;
    for (uint32_t k = 0; k < s->desc.n_in; k++)
        if (s->desc.in[k].weight && !is_counted(x, i, k)) x->weight_bytes += packed_bytes_of(s, k);
    return KILN_OK;
}

/* Is the program told lengths: of keys, of rows, of what is written into a state? */
static int has_lengths(const recording *r)
{
    static const struct {
        op_kind kind;
        uint32_t operand;
    } lengths[] = {{OP_ATTENTION, 5}, {OP_SOFTMAX, 1}, {OP_STATE_WRITE, 3}};
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++)
            if (r->op[i].kind == lengths[k].kind && lengths[k].operand < r->op[i].n_in &&
                r->op[i].in[lengths[k].operand])
                return 1;
    return 0;
}

kiln_status executor_make(executor *x, recording *r, const backend *b, error *e)
{
    *x = (executor){.r = r, .bounded = has_lengths(r)};
    TRY(plan_make(&x->plan, r, e));
    x->step = mem_calloc(r->n + 1, sizeof *x->step);
    if (!x->step) return error_set(e, KILN_ERR_NOMEM, "out of memory for a program");
    for (uint32_t i = 0; i < r->n; i++)
        if (!x->plan.skip[i] && !is_in_place(x, i)) TRY(prepare(x, i, b, e));
    return KILN_OK;
}

void executor_free(executor *x)
{
    executor_forget_demand(x);
    for (size_t i = 0; x->step && x->r && i < x->r->n; i++)
        if (x->step[i].kernel) x->step[i].kernel->free(x->step[i].kernel);
    mem_free(x->step);
    plan_free(&x->plan);
    *x = (executor){0};
}
