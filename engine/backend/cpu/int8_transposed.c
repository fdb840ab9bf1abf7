/* int8_transposed.c - see int8_transposed.h. A task is 256 columns of the result, a band of its rows and a chunk of the
 * depth. It widens 256 rows of the weight, rounds each 64 of them to 8 bits with a scale a column, and multiplies the
 * band by them; chunks' sums are joined in order.
 */
#include "backend/cpu/int8_transposed.h"

#include "backend/cpu/gemm.h"
#include "backend/cpu/int8_kernels.h"
#include "backend/cpu/int8_product.h"
#include "backend/cpu/row_forms.h"

#include "base/memory_alloc.h"

#include <string.h>

enum {
    PAIR = 2 * INT8_STRIP,
    WIDTH = 256,
    PAIRS = WIDTH / PAIR,
    STEP = 256,
    BAND = 258, /* or as much of it as what is multiplied together divides */
    LEAST = 2048,
    TASKS = 32
};

typedef struct {
    const int8_kernels *kernels;
    const int8_form *form; /* of columns once they are rounded */
    row_form b;
    int64_t I, J, K, parts;      /* rows, columns, depth of the result; parts of a row */
    int64_t columns, bands;      /* tasks beside each other */
    int64_t band, chunks, chunk; /* rows; how many chunks and their depth */
    size_t rows_bytes, sums_bytes, slot_bytes;
} transposed_plan;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
} call;

typedef struct {
    float wide[INT8_QUARTER][WIDTH];
    int8_strip strips[2 * PAIRS];
} buffers;

int int8_transposed_fits(const op_desc *op)
{
    return op->precision == KILN_BF16 && cpu_blocks() != BLOCKS_WIDENED && op->in[1].weight &&
           int8_form_of(op->in[1].dtype, 0) && !op->epilogue.geglu && (!op->in[2].dtype || op->in[2].weight);
}

/* ---- the operand ---- */

static void *parts_at(const call *j, int64_t row, int64_t k)
{
    const transposed_plan *p = j->c->plan;
    int64_t tile = row / (int64_t)p->kernels->rows;
    return int8_parts_at(p->kernels, j->a->scratch, (size_t)(tile * p->parts + k / INT8_PART));
}

static kiln_status round_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const transposed_plan *p = j->c->plan;
    int64_t together = (int64_t)p->kernels->rows, row = (int64_t)index * together;
    (void)slot, (void)e;
    int8_round_rows(j->c, j->a, p->kernels, p->form, row, min64(together, p->I - row), p->K, parts_at(j, row, 0));
    return KILN_OK;
}

/* ---- products ---- */

typedef struct {
    int64_t column, width, row, rows, first, last; /* of the depth */
    float *sums;                                   /* [rows][WIDTH] */
} task;

static task task_at(const call *j, int64_t index)
{
    const transposed_plan *p = j->c->plan;
    int64_t band = index % p->bands, column = index / p->bands % p->columns, chunk = index / p->bands / p->columns;
    task t = {.column = column * WIDTH, .row = band * p->band, .first = chunk * p->chunk};
    t.width = min64(WIDTH, p->J - t.column), t.rows = min64(p->band, p->I - t.row);
    t.last = min64(p->K, t.first + p->chunk);
    t.sums = (float *)(void *)((char *)j->a->scratch + p->rows_bytes) +
             ((chunk * p->columns + column) * p->I + t.row) * WIDTH;
    return t;
}

static const uint8_t *blocks_at(const call *j, const task *t, int64_t row)
{
    const row_form *b = &((const transposed_plan *)j->c->plan)->b;
    return (const uint8_t *)j->a->in[1] + (size_t)row * b->row_bytes + (size_t)t->column / b->block * b->block_bytes;
}

/* A quarter's rows of the weight, from row k on. */
static void round_quarter(const call *j, const task *t, int64_t k, size_t quarter, buffers *b)
{
    const transposed_plan *p = j->c->plan;
    if (t->width == WIDTH && k + INT8_QUARTER <= p->K) {
        const uint8_t *row[INT8_QUARTER];
        for (int64_t i = 0; i < INT8_QUARTER; i++) row[i] = blocks_at(j, t, k + i);
        if (p->kernels->round_blocks(p->b.type, b->strips, quarter, row)) return;
    }
    for (int64_t i = 0; i < INT8_QUARTER; i++) {
        if (k + i < p->K)
            row_form_read(j->c->k, &p->b, j->a->in[1], k + i, t->column, b->wide[i], (size_t)t->width);
        else
            memset(b->wide[i], 0, sizeof b->wide[i]);
    }
    for (int64_t i = 0; i < t->width / PAIR; i++)
        p->kernels->round_columns(b->strips + 2 * i, quarter, b->wide[0] + i * PAIR, WIDTH);
}

/* What will be widened after this step, shared among its pairs. */
static void look_ahead(const call *j, const task *t, int64_t k, int64_t pair, int8_ahead *next)
{
    const transposed_plan *p = j->c->plan;
    int64_t row = k + STEP + pair * PAIR;
    next->bytes = row + PAIR <= t->last ? (size_t)t->width / p->b.block * p->b.block_bytes : 0;
    for (int64_t i = 0; i < PAIR && next->bytes; i++) next->row[i] = blocks_at(j, t, row + i);
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const transposed_plan *p = j->c->plan;
    task t = task_at(j, (int64_t)index);
    buffers *b = (buffers *)(void *)((char *)j->a->scratch + p->rows_bytes + p->sums_bytes + slot * p->slot_bytes);
    (void)e;
    if (p->kernels->begin) p->kernels->begin(p->form);
    for (int64_t k = t.first; k < t.last; k += STEP) {
        size_t quarters = (size_t)(min64(STEP, t.last - k) + INT8_QUARTER - 1) / INT8_QUARTER;
        for (size_t i = 0; i < quarters; i++) round_quarter(j, &t, k + (int64_t)i * INT8_QUARTER, i, b);
        const int8_operand a = {.parts = parts_at(j, t.row, k),
                                .stride = (size_t)p->parts,
                                .m = (size_t)t.rows,
                                .together = p->kernels->rows,
                                .quarters = quarters};
        for (int64_t i = 0; i < t.width / PAIR; i++) {
            int8_ahead next;
            look_ahead(j, &t, k, i, &next);
            p->kernels->multiply(p->form, b->strips + 2 * i, &a, t.sums + i * PAIR, WIDTH, k > t.first, &next);
        }
    }
    if (p->kernels->end) p->kernels->end();
    return KILN_OK;
}

/* Some rows of a column tile. */
static kiln_status join_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const transposed_plan *p = j->c->plan;
    int64_t together = (int64_t)p->kernels->rows;
    int64_t column = (int64_t)index % p->columns, first = (int64_t)index / p->columns * together;
    size_t n = (size_t)min64(WIDTH, p->J - column * WIDTH);
    const float *bias = j->c->op.in[2].dtype ? (const float *)j->a->in[2] + column * WIDTH : NULL;
    float *sums = (float *)(void *)((char *)j->a->scratch + p->rows_bytes);
    (void)slot, (void)e;
    for (int64_t r = first; r < min64(first + together, p->I); r++) {
        float *to = sums + (column * p->I + r) * WIDTH;
        for (int64_t i = 1; i < p->chunks; i++) j->c->k->add(to, to + i * p->columns * p->I * WIDTH, n);
        if (bias) j->c->k->add(to, bias, n);
        gemm_finish_row(j->c, j->a, to, column * WIDTH, (int64_t)n, r);
    }
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const transposed_plan *p = c->plan;
    call j = {c, a};
    size_t rounds = ((size_t)p->I + p->kernels->rows - 1) / p->kernels->rows;
    TRY(tiles_run(a->pool, rounds, round_tile, &j, e));
    TRY(tiles_run(a->pool, (size_t)(p->columns * p->bands * p->chunks), tile, &j, e));
    return tiles_run(a->pool, rounds * (size_t)p->columns, join_tile, &j, e);
}

/* ---- preparing ---- */

/* By shape alone: enough tasks for every thread. */
static void cut(transposed_plan *p)
{
    p->parts = (p->K + INT8_PART - 1) / INT8_PART;
    p->columns = (p->J + WIDTH - 1) / WIDTH;
    int64_t band = BAND - BAND % (int64_t)p->kernels->rows;
    p->band = min64(band, p->I), p->bands = (p->I + band - 1) / band;
    p->chunks = 1;
    while (p->columns * p->bands * p->chunks < TASKS && p->K / (p->chunks + 1) >= LEAST) p->chunks++;
    p->chunk = (int64_t)round_up((size_t)((p->K + p->chunks - 1) / p->chunks), STEP);
    p->chunks = (p->K + p->chunk - 1) / p->chunk;
}

kiln_status int8_transposed_prepare(cpu_kernel *c, error *e)
{
    const op_desc *op = &c->op;
    transposed_plan *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = p, c->plan_free = mem_free, c->body = run;
    *p = (transposed_plan){.kernels = cpu_int8_kernels(0),
                           .form = &int8_form_rounded,
                           .b = rows_form(op, 1),
                           .I = rows_of(&op->in[0]),
                           .J = op->in[1].shape.dim[1],
                           .K = op->in[1].shape.dim[0]};
    if (!p->I || !p->J || !p->K)
        return error_set(e, KILN_ERR_UNSUPPORTED, "%s: an operand without elements", op_name(op->kind));
    rows_keep(c, 1);
    cut(p);
    size_t rounds = ((size_t)p->I + p->kernels->rows - 1) / p->kernels->rows;
    p->rows_bytes = round_up(rounds * (size_t)p->parts * p->kernels->part_bytes, 64);
    p->sums_bytes = (size_t)(p->chunks * p->columns * p->I * WIDTH) * sizeof(float);
    p->slot_bytes = sizeof(buffers);
    c->base.scratch_bytes = p->rows_bytes + p->sums_bytes + cpu_slots() * p->slot_bytes;
    c->base.flops = 2u * (uint64_t)p->I * (uint64_t)p->J * (uint64_t)p->K;
    c->base.name = p->kernels->transposed;
    return KILN_OK;
}
