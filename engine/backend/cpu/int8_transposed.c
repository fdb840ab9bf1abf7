/* int8_transposed.c - see int8_transposed.h. A task is 256 columns of the result, a band of its rows and a chunk of the
 * depth. It rounds 256 rows of the weight to 8 bits, with a scale for 16 columns or for each, and multiplies the band
 * by them; chunks' sums are joined in order.
 *
 * Rows of a table of embeddings are of many sizes, and 256 of them share a scale. So where a row is stored with scales,
 * their mean goes with the operand: x w = (x d) (w / d).
 */
#include "backend/cpu/int8_transposed.h"

#include "backend/cpu/gemm.h"
#include "backend/cpu/int8_kernels.h"
#include "backend/cpu/int8_product.h"
#include "backend/cpu/row_forms.h"

#include "base/memory_alloc.h"
#include "tensor/block_scales.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAIR = 2 * INT8_STRIP,
    WIDTH = 256,
    PAIRS = WIDTH / PAIR,
    STEP = 256,
    BAND = 258, /* or as much of it as what is multiplied together divides */
    LEAST = 2048,
    SIZED = 4096, /* rows of the weight whose sizes are found together */
    TASKS = 32
};

typedef struct {
    const int8_kernels *kernels;
    const int8_form *form; /* of columns once they are rounded */
    row_form b;
    int64_t I, J, K, parts;      /* rows, columns, depth of the result; parts of a row */
    int64_t columns, bands;      /* tasks beside each other */
    int64_t band, chunks, chunk; /* rows; how many chunks and their depth */
    int by_blocks;               /* round_blocks, but for tiles that are not WIDTH columns wide */
    size_t rows_bytes, sums_bytes, sizes_bytes, slot_bytes;
} transposed_plan;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
} call;

typedef struct {
    int8_strip strips[2 * PAIRS];
    float wide[][WIDTH]; /* [STEP], where some tile is not by_blocks */
} buffers;

int int8_transposed_fits(const op_desc *op)
{
    return op->precision == KILN_BF16 && cpu_blocks() != BLOCKS_WIDENED && op->in[1].weight &&
           int8_form_of(op->in[1].dtype, INT8_MANY) && !op->epilogue.geglu && (!op->in[2].dtype || op->in[2].weight);
}

/* ---- the operand ---- */

static void *parts_at(const call *j, int64_t row, int64_t k)
{
    const transposed_plan *p = j->c->plan;
    int64_t tile = row / (int64_t)p->kernels->rows;
    return int8_parts_at(p->kernels, p->form, j->a->scratch, (size_t)(tile * p->parts + k / INT8_PART));
}

/* Sizes of the weight's rows. NULL: they are all 1. */
static float *sizes(const call *j)
{
    const transposed_plan *p = j->c->plan;
    return p->by_blocks ? (float *)(void *)((char *)j->a->scratch + p->rows_bytes + p->sums_bytes) : NULL;
}

static float *one_over_sizes(const call *j)
{
    return sizes(j) + round_up((size_t)((transposed_plan *)j->c->plan)->K, STEP);
}

/* The mean of the scales of its first 256 numbers. */
static float row_size(const transposed_plan *p, const uint8_t *row)
{
    int64_t n = min64(WIDTH, p->J);
    float d = 0;
    int codes = 0;
    if (p->b.type == KILN_Q8_0) {
        for (int64_t i = 0; i < n; i += 32) d += fabsf(block_half(row + i / 32 * 34));
        return d * 32 / (float)n;
    }
    for (int i = 0; i < 16; i++) codes += abs((int8_t)row[192 + i]);
    return fabsf(block_half(row + 208)) * (float)codes / 16;
}

static kiln_status size_rows(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const transposed_plan *p = j->c->plan;
    const size_t first = index * SIZED, K = (size_t)p->K;
    float *size = sizes(j), *one_over = one_over_sizes(j);
    (void)slot, (void)e;
    for (size_t k = first; k < first + SIZED && k < round_up(K, STEP); k++) {
        const float d = k < K ? row_size(p, (const uint8_t *)j->a->in[1] + k * p->b.row_bytes) : 1;
        size[k] = d > 0x1p-60f && d <= 0x1p60f ? d : 1;
        one_over[k] = 1 / size[k];
    }
    return KILN_OK;
}

static kiln_status round_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const transposed_plan *p = j->c->plan;
    int64_t together = (int64_t)p->kernels->rows, row = (int64_t)index * together;
    (void)slot, (void)e;
    int8_round_rows(j->c, j->a, p->kernels, p->form, row, min64(together, p->I - row), p->K, sizes(j),
                    parts_at(j, row, 0));
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

static int is_by_blocks(const transposed_plan *p, int64_t width) { return p->by_blocks && width == WIDTH; }

/* n rows of the weight from k on, what is beyond the last one as 0. */
static void round_weight(const call *j, const task *t, int64_t k, size_t n, buffers *b)
{
    static const uint8_t zeros[WIDTH / 32 * 34];
    const transposed_plan *p = j->c->plan;
    const size_t there = (size_t)min64((int64_t)n, p->K - k);
    if (is_by_blocks(p, t->width)) {
        const uint8_t *row[STEP];
        for (size_t i = 0; i < n; i++) row[i] = i < there ? blocks_at(j, t, k + (int64_t)i) : zeros;
        p->kernels->round_blocks(p->b.type, b->strips, row, one_over_sizes(j) + k, n);
        return;
    }
    for (size_t i = 0; i < there; i++) {
        row_form_read(j->c->k, &p->b, j->a->in[1], k + (int64_t)i, t->column, b->wide[i], (size_t)t->width);
        for (int64_t x = 0; p->by_blocks && x < t->width; x++) b->wide[i][x] *= one_over_sizes(j)[k + (int64_t)i];
    }
    memset(b->wide[there], 0, (n - there) * sizeof *b->wide);
    for (int64_t i = 0; i < t->width / PAIR; i++)
        p->kernels->round_columns(b->strips + 2 * i, b->wide[0] + i * PAIR, WIDTH, n);
}

/* What will be rounded after this step, shared among its pairs. */
static void look_ahead(const call *j, const task *t, int64_t k, int64_t pair, int8_ahead *next)
{
    const transposed_plan *p = j->c->plan;
    int64_t row = k + STEP + pair * PAIR;
    next->bytes = row + PAIR <= t->last ? (size_t)t->width / p->b.block * p->b.block_bytes : 0;
    next->joined = 1;
    for (int64_t i = 0; i < PAIR && next->bytes; i++) next->row[i] = blocks_at(j, t, row + i);
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const transposed_plan *p = j->c->plan;
    task t = task_at(j, (int64_t)index);
    buffers *b = (buffers *)(void *)((char *)j->a->scratch + p->rows_bytes + p->sums_bytes + p->sizes_bytes +
                                     slot * p->slot_bytes);
    (void)e;
    if (p->kernels->begin) p->kernels->begin(p->form);
    for (int64_t k = t.first; k < t.last; k += STEP) {
        size_t quarters = (size_t)(min64(STEP, t.last - k) + INT8_QUARTER - 1) / INT8_QUARTER;
        round_weight(j, &t, k, quarters * INT8_QUARTER, b);
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

/* Columns from the order that round_blocks has them in. */
static void turn_back(float row[WIDTH])
{
    float turned[WIDTH];
    for (size_t s = 0; s < 2 * PAIRS; s++)
        for (size_t o = 0; o < INT8_STRIP; o += 4)
            memcpy(turned + int8_turned_column(s, o), row + s * INT8_STRIP + o, 4 * sizeof *row);
    memcpy(row, turned, sizeof turned);
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
        if (is_by_blocks(p, (int64_t)n)) turn_back(to);
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
    if (p->by_blocks) TRY(tiles_run(a->pool, (round_up((size_t)p->K, STEP) + SIZED - 1) / SIZED, size_rows, &j, e));
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
    *p = (transposed_plan){.kernels = cpu_int8_kernels(rows_of(&op->in[0]) >= INT8_MANY_ROWS),
                           .form = &int8_form_rounded,
                           .b = rows_form(op, 1),
                           .by_blocks = int8_rounds_blocks(op->in[1].dtype),
                           .I = rows_of(&op->in[0]),
                           .J = op->in[1].shape.dim[1],
                           .K = op->in[1].shape.dim[0]};
    if (!p->I || !p->J || !p->K)
        return error_set(e, KILN_ERR_UNSUPPORTED, "%s: an operand without elements", op_name(op->kind));
    rows_keep(c, 1);
    cut(p);
    size_t rounds = ((size_t)p->I + p->kernels->rows - 1) / p->kernels->rows;
    p->rows_bytes = round_up(rounds * (size_t)p->parts * int8_part_bytes(p->kernels, p->form), 64);
    p->sums_bytes = (size_t)(p->chunks * p->columns * p->I * WIDTH) * sizeof(float);
    p->sizes_bytes = p->by_blocks ? 2 * round_up((size_t)p->K, STEP) * sizeof(float) : 0;
    p->slot_bytes = sizeof(buffers) + (is_by_blocks(p, WIDTH) && p->J % WIDTH == 0 ? 0 : STEP * WIDTH * sizeof(float));
    c->base.scratch_bytes = p->rows_bytes + p->sums_bytes + p->sizes_bytes + cpu_slots() * p->slot_bytes;
    c->base.flops = 2u * (uint64_t)p->I * (uint64_t)p->J * (uint64_t)p->K;
    c->base.name = p->kernels->transposed;
    return KILN_OK;
}
