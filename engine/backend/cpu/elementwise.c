/* elementwise.c - add, mul, activations, conversions: a chunk of a row is loaded as floats, computed on in
 * cache and stored. Rows are dealt out in tiles; when nothing is broadcast and all is dense, the whole tensor is one
 * long row.
 */
#include "backend/cpu/cpu.h"

#include "base/memory_alloc.h"
#include "graph/expression.h"

#include <string.h>

enum { CHUNK = 1024, SHORT = 256, TILE_ELEMENTS = 1 << 16 };

typedef struct {
    int64_t rows, columns, rows_per_tile;
    int64_t chunk; /* short where something is converted: its loads, sums and stores then overlap */
    int half;      /* a kernel of rows of bf16 makes it */
    int direct;    /* a function of one operand, of numbers as they are stored */
    int gated;     /* geglu() of f32 */
    int flat;      /* operands are taken as one dense row cut into `columns` */
} layout;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
} call;

/* Chunk (row, column .. column+n) of operand i as floats, element or row repeated as its shape says. */
static void fetch(const cpu_kernel *c, const kernel_args *a, uint32_t i, int64_t row, int64_t column, size_t n,
                  float *to)
{
    const operand_desc *d = &c->op.in[i];
    const layout *l = c->plan;
    if (l->flat) {
        c->k->load(to, place_of(d, a->in[i], 0, row * l->columns + column), type_of(d), n);
        return;
    }
    int64_t at = broadcast_row(&c->op.out.shape, &d->shape, row);
    if (columns_of(d) == 1 && columns_of(&c->op.out) != 1) {
        c->k->load(to, place_of(d, a->in[i], at, 0), type_of(d), 1);
        for (size_t k = 1; k < n; k++) to[k] = to[0];
    } else {
        c->k->load(to, place_of(d, a->in[i], at, column), type_of(d), n);
    }
}

static void compute(const cpu_kernel *c, const kernel_args *a, int64_t row, int64_t column, size_t n, float *x,
                    float *y)
{
    const cpu_kernels *k = c->k;
    const op_epilogue *ep = &c->op.epilogue;
    switch (c->op.kind) {
    case OP_ADD: fetch(c, a, 1, row, column, n, y), k->add(x, y, n); break;
    case OP_MUL: fetch(c, a, 1, row, column, n, y), k->mul(x, y, n); break;
    case OP_AFFINE: k->affine(x, c->op.attr.affine.scale, c->op.attr.affine.shift, n); break;
    case OP_ACT: k->act(x, c->op.attr.act.kind, n); break;
    case OP_GEGLU: fetch(c, a, 0, row, columns_of(&c->op.out) + column, n, y), k->geglu(x, y, n); break;
    default: break;
    }
    if (ep->act) k->act(x, ep->act, n);
    if (ep->residual) fetch(c, a, c->op.n_in - 1, row, column, n, y), k->add(x, y, n);
}

/* All of the result, and of what it is made of, is bf16, and one kernel makes it. */
static int is_half(const op_desc *op, const layout *l)
{
    if (op->epilogue.act || op->epilogue.residual || op->out.dtype != KILN_BF16) return 0;
    for (uint32_t i = 0; i < op->n_in; i++)
        if (type_of(&op->in[i]) != KILN_BF16) return 0;
    if (op->kind == OP_ADD || op->kind == OP_MUL) return l->flat || columns_of(&op->in[1]) == columns_of(&op->out);
    return op->kind == OP_ACT || op->kind == OP_AFFINE || op->kind == OP_GEGLU;
}

static void half_row(const cpu_kernel *c, void *to, const void *x, const void *y, size_t n)
{
    const op_desc *op = &c->op;
    if (op->kind == OP_ACT)
        c->k->act_half(to, x, op->attr.act.kind, n, c->past);
    else if (op->kind == OP_AFFINE)
        c->k->affine_half(to, x, op->attr.affine.scale, op->attr.affine.shift, n, c->past);
    else
        c->k->join_half(to, x, y,
                        op->kind == OP_ADD   ? HALF_ADD
                        : op->kind == OP_MUL ? HALF_MUL
                                             : HALF_GEGLU,
                        n, c->past);
}

/* Rows [first, last); of a flat one, elements. */
static void half_rows(const cpu_kernel *c, const kernel_args *a, int64_t first, int64_t last)
{
    const op_desc *op = &c->op;
    const layout *l = c->plan;
    int64_t width = columns_of(&op->out);
    if (l->flat) {
        int64_t begin = first * l->columns, end = min64(shape_count(&op->out.shape), last * l->columns);
        half_row(c, (uint16_t *)a->out + begin, (const uint16_t *)a->in[0] + begin,
                 op->n_in > 1 ? (const uint16_t *)a->in[1] + begin : NULL, (size_t)(end - begin));
        return;
    }
    for (int64_t r = first; r < last; r++) {
        const char *y = op->kind == OP_GEGLU ? place_of(&op->in[0], a->in[0], r, width)
                        : op->n_in > 1
                            ? place_of(&op->in[1], a->in[1], broadcast_row(&op->out.shape, &op->in[1].shape, r), 0)
                            : NULL;
        int64_t from = op->kind == OP_GEGLU ? r : broadcast_row(&op->out.shape, &op->in[0].shape, r);
        half_row(c, (uint16_t *)a->out + r * op->out.ld, place_of(&op->in[0], a->in[0], from, 0), y, (size_t)width);
    }
}

/* clang-format off: a row a line */
static const uint32_t functions[] = {
    [KILN_ACT_SILU] = MAP_SILU,           [KILN_ACT_GELU] = MAP_GELU,
    [KILN_ACT_GELU_TANH] = MAP_GELU_TANH, [KILN_ACT_QUICK_GELU] = MAP_QUICK_GELU,
    [KILN_ACT_RELU] = MAP_RELU,           [KILN_ACT_SIGMOID] = MAP_SIGMOID,
    [KILN_ACT_TANH] = MAP_TANH,
};
/* clang-format on */

/* f32 that nothing comes behind. */
static int is_direct(const op_desc *op)
{
    uint32_t kind = op->attr.act.kind;
    return op->kind == OP_ACT && kind < sizeof functions / sizeof functions[0] && functions[kind] &&
           !op->epilogue.act && !op->epilogue.residual && op->out.dtype == KILN_F32 && type_of(&op->in[0]) == KILN_F32;
}

static void direct_row(const cpu_kernel *c, const kernel_args *a, int64_t r)
{
    const layout *l = c->plan;
    const op_desc *op = &c->op;
    int64_t row = l->flat ? 0 : r, column = l->flat ? r * l->columns : 0,
            n = l->flat ? min64(l->columns, shape_count(&op->out.shape) - column) : l->columns;
    map_row m = {.x = {place_of(&op->in[0], a->in[0], row, column)},
                 .to = (float *)a->out + row * op->out.ld + column,
                 .type = {KILN_F32},
                 .to_type = KILN_F32,
                 .n = (size_t)n,
                 .past = c->past};
    c->k->map(functions[op->attr.act.kind], &m);
}

static int is_gated(const op_desc *op)
{
    return op->kind == OP_GEGLU && !op->epilogue.act && !op->epilogue.residual && op->out.dtype == KILN_F32 &&
           type_of(&op->in[0]) == KILN_F32;
}
static void gated_row(const cpu_kernel *c, const kernel_args *a, int64_t r)
{
    const op_desc *op = &c->op;
    int64_t width = columns_of(&op->out);
    c->k->geglu_whole((float *)a->out + r * op->out.ld,
                      (const float *)(const void *)place_of(&op->in[0], a->in[0], r, 0),
                      (const float *)(const void *)place_of(&op->in[0], a->in[0], r, width), (size_t)width, c->past);
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const cpu_kernel *c = ((call *)arg)->c;
    const kernel_args *a = ((call *)arg)->a;
    const layout *l = c->plan;
    const operand_desc *out = &c->op.out;
    float x[CHUNK], y[CHUNK];
    (void)slot, (void)e;
    int64_t first = (int64_t)index * l->rows_per_tile, last = min64(l->rows, first + l->rows_per_tile);
    int64_t count = shape_count(&out->shape);
    if (l->half) {
        half_rows(c, a, first, last);
        return KILN_OK;
    }
    for (int64_t r = first; r < last; r++) {
        if (l->direct || l->gated) {
            (l->direct ? direct_row : gated_row)(c, a, r);
            continue;
        }
        int64_t width = l->flat ? min64(l->columns, count - r * l->columns) : l->columns;
        for (int64_t col = 0; col < width; col += l->chunk) {
            size_t n = (size_t)min64(l->chunk, width - col);
            fetch(c, a, 0, r, col, n, x);
            compute(c, a, r, col, n, x, y);
            int64_t row = l->flat ? 0 : r, column = l->flat ? r * l->columns + col : col;
            c->k->store((char *)a->out + (size_t)(row * out->ld + column) * size_of(out->dtype), out->dtype, x, n);
        }
    }
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const layout *l = c->plan;
    call job = {c, a};
    return tiles_run(a->pool, (size_t)((l->rows + l->rows_per_tile - 1) / l->rows_per_tile), tile, &job, e);
}

static int is_dense(const operand_desc *d) { return d->weight || d->ld == columns_of(d) || rows_of(d) <= 1; }

kiln_status cpu_prepare_elementwise(cpu_kernel *c, error *e)
{
    const op_desc *op = &c->op;
    if (op->kind == OP_CONVERT && op->out.dtype == KILN_I32) return cpu_prepare_layout(c, e); /* i32 that only move */
    layout *l = mem_calloc(1, sizeof *l);
    if (!l) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = l, c->plan_free = mem_free, c->body = run;
    if (op->in[0].dtype == KILN_I32 || op->out.dtype == KILN_I32)
        return error_set(e, KILN_ERR_UNSUPPORTED, "%s: no kernel for integers", op_name(op->kind));
    l->flat = op->kind != OP_GEGLU && is_dense(&op->out);
    for (uint32_t i = 0; i < op->n_in; i++)
        if (op->in[i].dtype)
            l->flat = l->flat && is_dense(&op->in[i]) && shape_count(&op->in[i].shape) == shape_count(&op->out.shape);
    int64_t count = shape_count(&op->out.shape);
    l->chunk = op->out.dtype == KILN_F32 ? CHUNK : SHORT;
    l->columns = l->flat ? l->chunk : columns_of(&op->out);
    l->rows = l->columns ? (l->flat ? (count + l->chunk - 1) / l->chunk : rows_of(&op->out)) : 0;
    l->half = is_half(op, l) && columns_of(&op->in[0]) == columns_of(&op->out) * (op->kind == OP_GEGLU ? 2 : 1);
    l->direct = is_direct(op), l->gated = is_gated(op);
    l->rows_per_tile = l->columns >= TILE_ELEMENTS || !l->columns ? 1 : TILE_ELEMENTS / l->columns;
    return KILN_OK;
}
