/* int8_product.c - see int8_product.h. Rows of the operand are rounded once, by all threads; a task is some columns of
 * the result and a band of its rows. It unpacks 32 outputs by up to 768 inputs of its weight, which stay in the nearest
 * cache while all rows of the band are multiplied by them, goes through the outputs before it goes deeper (a group,
 * which has few rows, the other way round), and finishes the rows when all is through. Weights that no other op reads
 * are interleaved when they are packed.
 *
 * Beside AMX three ways are there. GFLOP/s of a processor, Xeon of the 5th generation, medians of three turns
 * (tests/bench/block_products):
 *                                                          AMX's tiles   VNNI   widened, bf16 by AMX
 *     256 rows, a scale for 256 inputs (Q4_K, Q6_K)           1,110       400          498
 *     256 and 512 rows, one for 32 inputs (Q8_0)               255        324          490
 *     16 rows of each of 128 experts (Q4_K)                    250        316           57
 *     32 rows of each                                          485        346           80
 *     64 rows of each                                          500        318
 *     16 rows, Q4_K                                            157        168           57
 *     8, 4, 1 rows, Q8_0                                    87, 43, 10  95, 51, 14   47, 42, 18
 * So tiles take many rows where scales are few, and experts then, too; VNNI takes few rows and experts of few or with a
 * scale for each 32 inputs, and many rows of a linear that has such scales are widened.
 *
 * AVX2 without byte products, EPYC (Zen 3), the best of 20 turns six times, beside widened weights multiplied in f32:
 * 512 rows by 1280 x 1280 in Q8_0 104 and 69, in Q4_K 189 and 71; 2048 by 640 x 640 in Q8_0 96 and 76, 8192 by 320 x
 * 320 80 and 80; 16 rows of each of 128 experts in Q4_K 137 and 8.
 */
#include "backend/cpu/int8_product.h"

#include "backend/cpu/gemm.h"
#include "backend/cpu/int8_alone.h"
#include "backend/cpu/int8_kernels.h"
#include "backend/cpu/linear.h"
#include "backend/cpu/row_forms.h"

#include "base/memory_alloc.h"
#include "tensor/dtype.h"
#include "weights/packed_rows.h"

#include <stdio.h>
#include <string.h>

/* On average, from which a scale for 256 inputs is worth its unpacking: by AMX (see above), and by VNNI, where Q4_K's
 * experts take 1.0 to 1.03 of the time for 32 rows and 0.93 to 0.95 for 63. */
enum { GROUP_ROWS = 32, VNNI_GROUP_ROWS = 48 };
enum { WIDE_INPUTS = 512 }; /* by AVX2: see below */
enum { PAIR = 2 * INT8_STRIP, WIDTH = 128, BAND = 256, GROUP_WIDTH = 256, GROUP_BAND = 96, CHUNK = 1024, DEEP = 512 };

typedef struct {
    const int8_kernels *kernels;
    const int8_form *form;
    row_form b;
    int64_t groups, I, J, K; /* weights; rows, columns, depth of the result */
    int64_t width, band;     /* of a task: columns, rows */
    int64_t deep;            /* inputs that are unpacked at once */
    int depth_first;         /* or through the columns first */
    int64_t parts;           /* of a row */
    int64_t column_tiles, bands;
    size_t part_bytes, alone_bytes; /* of a part, and of one of its rows by itself */
    size_t parts_bytes, alone_at, c_bytes, slot_bytes;
} int8_plan;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
} call;

typedef struct {
    int64_t row, rows, first, width; /* of the result: rows, columns */
    int64_t n, group, base;          /* columns with a geglu's gates; where the group's rows of w begin */
} task;

/* Groups have few rows each, but not always so few that codes had better be kept. */
static int groups_are_rounded(const op_desc *op)
{
    const int8_form *f = int8_form_of(op->in[1].dtype, INT8_MANY);
    return op->kind == OP_GROUPED_LINEAR && f && f->scales == 1 &&
           rows_of(&op->out) >= (cpu_has_int8_tiles() ? GROUP_ROWS : VNNI_GROUP_ROWS) * op->in[1].shape.dim[0];
}
static int8_use use_of(const op_desc *op)
{
    if (cpu_int8_kernels(0)->keep_codes) return INT8_KEPT;
    return op->kind == OP_GROUPED_LINEAR && !groups_are_rounded(op) ? INT8_FEW : INT8_MANY;
}

/* Of the weight; NULL: it is in none. Of int8, rows of whole pieces that have one scale each. */
static const int8_form *form_of(const op_desc *op)
{
    const operand_desc *w = &op->in[1];
    const int8_form *own = int8_form_of(w->dtype, use_of(op));
    if (own) return own;
    int by_row = w->rows.coding == WEIGHTS_INT8 && w->rows.scales == 1 && w->rows.columns % 32 == 0;
    return by_row && rows_are_coded(op, 1) ? &int8_form_rows : NULL;
}

static int has_many_rows(const op_desc *op)
{
    return op->kind != OP_GROUPED_LINEAR && rows_of(&op->in[0]) >= INT8_MANY_ROWS;
}

/* By AVX2, of codes that are multiplied as 16 bits, few inputs wait for the rounding of their rows and for what
 * finishes the result: as quick as widened with a core alone, and less so beside another thread on it. */
static int is_better_widened(const op_desc *op)
{
    return op->kind != OP_GROUPED_LINEAR && has_many_rows(op) && columns_of(&op->in[0]) < WIDE_INPUTS;
}

int int8_product_fits(const op_desc *op)
{
    if (op->precision != KILN_BF16 || cpu_blocks() == BLOCKS_WIDENED || !op->in[1].weight) return 0;
    const int8_form *f = form_of(op);
    if (!f || (cpu_blocks() == BLOCKS_BY_SHAPE && f->scales > 1 && has_many_rows(op))) return 0;
    if (cpu_int8_kernels(0)->keep_codes && int8_is_wide(f) && is_better_widened(op)) return 0;
    return !op->in[2].dtype || op->in[2].weight;
}

/* ---- the operand ---- */

void int8_round_rows(const cpu_kernel *c, const kernel_args *a, const int8_kernels *to, const int8_form *f, int64_t row,
                     int64_t rows, int64_t K, const float *by, void *parts)
{
    const operand_desc *x = &c->op.in[0];
    float piece[CHUNK];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < K; k += CHUNK) {
            size_t there = (size_t)min64(CHUNK, K - k), n = round_up(there, INT8_QUARTER);
            c->k->load(piece, place_of(x, a->in[0], row + r, k), type_of(x), there);
            if (by) c->k->mul(piece, by + k, there);
            memset(piece + there, 0, (n - there) * sizeof *piece);
            to->round_row(f, int8_parts_at(to, f, parts, (size_t)k / INT8_PART), (size_t)r, piece, n);
        }
}

/* Tiles of rows, each of one group; where each group's begin is behind them. */
static void *parts_of(const call *j, int64_t tile, int64_t k)
{
    const int8_plan *p = j->c->plan;
    return int8_parts_at(p->kernels, p->form, j->a->scratch, (size_t)(tile * p->parts + k / INT8_PART));
}
static int32_t *first_tiles(const call *j)
{
    const int8_plan *p = j->c->plan;
    return (int32_t *)(void *)((char *)j->a->scratch + p->parts_bytes);
}

static int64_t begin_of(const call *j, int64_t g)
{
    const int8_plan *p = j->c->plan;
    return j->c->op.kind == OP_GROUPED_LINEAR ? ((const int32_t *)j->a->in[3])[g] : g * p->I;
}

/* Rows of a group that stand side by side: of those that one band holds, as many in each tile; 13 are 5, 5 and 3. */
static int64_t together_in(const call *j, int64_t g)
{
    const int8_plan *p = j->c->plan;
    int64_t most = (int64_t)p->kernels->rows, rows = begin_of(j, g + 1) - begin_of(j, g);
    if (!p->kernels->spread || !rows || rows > p->band) return most;
    int64_t tiles = (rows + most - 1) / most;
    return (rows + tiles - 1) / tiles;
}

static size_t count_tiles(const call *j)
{
    const int8_plan *p = j->c->plan;
    int32_t *first = first_tiles(j);
    int64_t most = (int64_t)p->kernels->rows;
    first[0] = 0;
    for (int64_t g = 0; g < p->groups; g++)
        first[g + 1] = first[g] + (int32_t)((begin_of(j, g + 1) - begin_of(j, g) + most - 1) / most);
    return (size_t)first[p->groups];
}

static void *alone(const call *j, int64_t row, int64_t part)
{
    const int8_plan *p = j->c->plan;
    return (char *)j->a->scratch + p->alone_at + (size_t)(row * p->parts + part) * p->alone_bytes;
}

/* A row that groups take, for all of them. */
static kiln_status round_alone(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const int8_plan *p = j->c->plan;
    const operand_desc *x = &j->c->op.in[0];
    _Alignas(64) char part[sizeof(int8_tile_part)];
    float piece[INT8_PART];
    (void)slot, (void)e;
    for (int64_t i = 0; i < p->parts; i++) {
        size_t there = (size_t)min64(INT8_PART, p->K - i * INT8_PART), n = round_up(there, INT8_QUARTER);
        j->c->k->load(piece, place_of(x, j->a->in[0], (int64_t)index, i * INT8_PART), type_of(x), there);
        memset(piece + there, 0, (n - there) * sizeof *piece);
        p->kernels->round_row(p->form, part, 0, piece, n);
        int8_take_out(part, p->part_bytes, 0, alone(j, (int64_t)index, i));
    }
    return KILN_OK;
}

static void put_in(const call *j, const int32_t *taken, int64_t rows, void *parts)
{
    const int8_plan *p = j->c->plan;
    for (int64_t i = 0; i < p->parts; i++)
        for (int64_t r = 0; r < rows; r++)
            int8_put_in((char *)parts + (size_t)i * p->part_bytes, p->part_bytes, (size_t)r, alone(j, taken[r], i));
}

static kiln_status round_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const int8_plan *p = j->c->plan;
    const int32_t *first = first_tiles(j), *taken = product_taken(&j->c->op, j->a);
    int64_t g = 0, after = p->groups, at = (int64_t)index;
    while (after - g > 1) { /* the last group that begins at this tile or before */
        int64_t middle = (g + after) / 2;
        *(first[middle] <= at ? &g : &after) = middle;
    }
    int64_t together = together_in(j, g), row = begin_of(j, g) + (at - first[g]) * together,
            rows = min64(together, begin_of(j, g + 1) - row);
    (void)slot, (void)e;
    if (taken)
        put_in(j, taken + row, rows, parts_of(j, at, 0));
    else
        int8_round_rows(j->c, j->a, p->kernels, p->form, row, rows, p->K, NULL, parts_of(j, at, 0));
    return KILN_OK;
}

/* ---- products ---- */

/* The row of w that a column of a task is: geglu's gates follow its values. What is beyond the last column is read
 * again, and not looked at. */
static int64_t row_of_column(const int8_plan *p, const task *t, int64_t column)
{
    column = min64(column, t->n - 1);
    return t->base + t->first + (column < t->width ? column : p->J + column - t->width);
}

/* A piece of 16 interleaved rows, in 16 equal lengths. */
static void interleaved_pair(const call *j, const task *t, int64_t column, int64_t k, const uint8_t *row[PAIR])
{
    const int8_plan *p = j->c->plan;
    const size_t bytes = (size_t)min64(p->deep, p->K - k) / p->b.block * p->b.block_bytes,
                 before = (size_t)k / p->b.block * p->b.block_bytes * INT8_STRIP;
    for (int64_t s = 0; s < PAIR; s += INT8_STRIP) {
        int64_t first = row_of_column(p, t, min64(column + s, t->n - INT8_STRIP));
        const uint8_t *at = (const uint8_t *)j->a->in[1] + (size_t)first * p->b.row_bytes + before;
        for (int64_t i = 0; i < INT8_STRIP; i++, at += bytes) row[s + i] = at;
    }
}

/* Rows of w that 32 columns are, from input k on. */
static void pair_rows(const call *j, const task *t, int64_t column, int64_t k, const uint8_t *row[PAIR])
{
    const int8_plan *p = j->c->plan;
    const uint8_t *w = (const uint8_t *)j->a->in[1] + (size_t)k / p->b.block * p->b.block_bytes;
    if (p->form->interleaved) {
        interleaved_pair(j, t, column, k, row);
        return;
    }
    for (int64_t s = 0; s < PAIR; s += INT8_STRIP) {
        int64_t first = row_of_column(p, t, column + s);
        const uint8_t *at = w + (size_t)first * p->b.row_bytes;
        if (row_of_column(p, t, column + s + INT8_STRIP - 1) == first + INT8_STRIP - 1) /* side by side */
            for (int64_t i = 0; i < INT8_STRIP; i++, at += p->b.row_bytes) row[s + i] = at;
        else
            for (int64_t i = 0; i < INT8_STRIP; i++)
                row[s + i] = w + (size_t)row_of_column(p, t, column + s + i) * p->b.row_bytes;
    }
}

/* To a task's next piece; 0: that was the last. */
static int advance(const int8_plan *p, const task *t, int64_t *column, int64_t *k)
{
    if (p->depth_first) { /* what 32 columns sum up to stays in the nearest cache */
        *k += p->deep;
        if (*k < p->K) return 1;
        *k = 0, *column += PAIR;
        return *column < t->n;
    }
    *column += PAIR; /* a piece of the rows serves all columns */
    if (*column < t->n) return 1;
    *column = 0, *k += p->deep;
    return *k < p->K;
}

/* Rows and bytes of what follows the piece at (column, k), in this task or its neighbour. */
static void look_ahead(const call *j, const task *t, int64_t column, int64_t k, int8_ahead *next)
{
    const int8_plan *p = j->c->plan;
    task after = *t;
    if (!advance(p, t, &column, &k)) column = k = 0, after.first += t->width;
    next->bytes = 0;
    if (after.first + after.width > p->J) return;
    next->bytes = (size_t)min64(p->deep, p->K - k) / p->b.block * p->b.block_bytes;
    next->joined = p->form->interleaved ? INT8_STRIP : 1;
    pair_rows(j, &after, column, k, next->row);
}

/* Where a task's rows begin. */
static int8_operand rows_of_task(const call *j, const task *t)
{
    const int8_plan *p = j->c->plan;
    int64_t together = together_in(j, t->group), tile = (t->row - begin_of(j, t->group)) / together;
    return (int8_operand){.parts = parts_of(j, first_tiles(j)[t->group] + tile, 0),
                          .stride = (size_t)p->parts,
                          .m = (size_t)t->rows,
                          .together = (size_t)together};
}

/* 32 columns and a piece of the depth, whose rows are in `now`; `next` becomes what follows. */
static void multiply_pair(const call *j, const task *t, int64_t column, int64_t k, const int8_ahead *now,
                          int8_ahead *next, int8_operand a, int8_strip *strips, float *c, int64_t ldc)
{
    const int8_plan *p = j->c->plan;
    size_t inputs = (size_t)min64(p->deep, p->K - k);
    a.parts = (const char *)a.parts + (size_t)k / INT8_PART * int8_part_bytes(p->kernels, p->form);
    a.quarters = (inputs + INT8_QUARTER - 1) / INT8_QUARTER;
    look_ahead(j, t, column, k, next);
    p->kernels->unpack(p->form, strips, now->row, inputs);
    p->kernels->unpack(p->form, strips + 1, now->row + INT8_STRIP, inputs);
    p->kernels->multiply(p->form, strips, &a, c + column, (size_t)ldc, k > 0, next);
}

/* What rows of int8 were summed without. */
static void scale_columns(const call *j, const task *t, float *row)
{
    const int8_plan *p = j->c->plan;
    const float *scale = (const float *)(const void *)((const char *)j->a->in[1] + p->b.scales_at) + t->base + t->first;
    j->c->k->mul(row, scale, (size_t)t->width);
    if (j->c->op.epilogue.geglu) j->c->k->mul(row + t->width, scale + p->J, (size_t)t->width);
}

static void finish(const call *j, const task *t, float *row, int64_t r)
{
    const op_desc *op = &j->c->op;
    if (!((const int8_plan *)j->c->plan)->form->scales) scale_columns(j, t, row);
    const float *bias = op->in[2].dtype ? (const float *)j->a->in[2] + t->group * columns_of(&op->out) : NULL;
    if (bias) j->c->k->add(row, bias + t->first, (size_t)t->width);
    if (bias && op->epilogue.geglu)
        j->c->k->add(row + t->width, bias + columns_of(&op->out) + t->first, (size_t)t->width);
    gemm_finish_row(j->c, j->a, row, t->first, t->width, r);
}

static void run_task(const call *j, const task *t, unsigned slot)
{
    const int8_plan *p = j->c->plan;
    size_t shared = j->c->base.scratch_bytes - cpu_slots() * p->slot_bytes;
    char *own = (char *)j->a->scratch + shared + slot * p->slot_bytes;
    float *c = (float *)(void *)own;
    int64_t ldc = (int64_t)round_up((size_t)t->n, PAIR);
    int8_strip *strips = (int8_strip *)(void *)(own + p->c_bytes);
    if (p->kernels->begin) p->kernels->begin(p->form);
    const int8_operand a = rows_of_task(j, t);
    int8_ahead ahead[2];
    pair_rows(j, t, 0, 0, ahead[0].row);
    int64_t i = 0, k = 0, n = 0;
    do {
        multiply_pair(j, t, i, k, ahead + n % 2, ahead + (n + 1) % 2, a, strips, c, ldc);
        n++;
    } while (advance(p, t, &i, &k));
    if (p->kernels->end) p->kernels->end();
    for (int64_t r = 0; r < t->rows; r++) finish(j, t, c + r * ldc, t->row + r);
}

static task columns_at(const call *j, int64_t tile, int64_t group)
{
    const int8_plan *p = j->c->plan;
    int64_t gates = j->c->op.epilogue.geglu ? 2 : 1;
    task t = {.first = tile * p->width, .width = min64(p->width, p->J - tile * p->width)};
    t.n = t.width * gates, t.group = group, t.base = group * p->J;
    return t;
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const int8_plan *p = j->c->plan;
    int64_t band = (int64_t)index % p->bands;
    task t = columns_at(j, (int64_t)index / p->bands, 0);
    t.row = band * p->band, t.rows = min64(p->band, p->I - t.row);
    (void)e;
    run_task(j, &t, slot);
    return KILN_OK;
}

static kiln_status group_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const int8_plan *p = j->c->plan;
    const int32_t *offset = j->a->in[3];
    int64_t g = (int64_t)index / p->column_tiles;
    (void)e;
    if (g == p->groups) {
        product_clear_others(j->c, j->a);
        return KILN_OK;
    }
    task t = columns_at(j, (int64_t)index % p->column_tiles, g);
    for (t.row = offset[g]; t.row < offset[g + 1]; t.row += p->band) {
        t.rows = min64(p->band, offset[g + 1] - t.row);
        run_task(j, &t, slot);
    }
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const int8_plan *p = c->plan;
    call j = {c, a};
    int grouped = c->op.kind == OP_GROUPED_LINEAR;
    if (grouped) TRY(product_check_groups(c, a, e));
    if (product_taken(&c->op, a)) TRY(tiles_run(a->pool, (size_t)rows_of(&c->op.in[0]), round_alone, &j, e));
    TRY(tiles_run(a->pool, count_tiles(&j), round_tile, &j, e));
    if (grouped) return tiles_run(a->pool, (size_t)(p->groups * p->column_tiles) + 1, group_tile, &j, e);
    return tiles_run(a->pool, (size_t)(p->column_tiles * p->bands), tile, &j, e);
}

/* ---- interleaved rows ---- */

typedef struct {
    const int8_plan *plan;
    const uint8_t *src;
    uint8_t *dst;
} interleaving;

static kiln_status interleave_strip(void *arg, size_t index, unsigned slot, error *e)
{
    const interleaving *j = arg;
    const int8_plan *p = j->plan;
    const size_t before = index * INT8_STRIP * p->b.row_bytes;
    const uint8_t *row[INT8_STRIP];
    (void)slot, (void)e;
    for (size_t i = 0; i < INT8_STRIP; i++) row[i] = j->src + before + i * p->b.row_bytes;
    p->kernels->interleave(p->form, j->dst + before, row, (size_t)p->K);
    return KILN_OK;
}

static kiln_status pack_interleaved(const kernel *k, uint32_t operand, const void *src, uint32_t src_dtype, void *dst,
                                    pool *threads, error *e)
{
    const cpu_kernel *c = (const cpu_kernel *)k;
    const int8_plan *p = c->plan;
    interleaving j = {p, src, dst};
    if (operand != 1 || src_dtype != p->b.type) return rows_pack(k, operand, src, src_dtype, dst, threads, e);
    return tiles_run(threads, (size_t)(shape_count(&c->op.in[1].shape) / p->K / INT8_STRIP), interleave_strip, &j, e);
}

/* Tables stay rows, which other ops read as well; and so do linears beside AMX, of which those of many rows read the
 * same weight as others of few. */
static const int8_form *interleaved_form(const int8_plan *p, const op_desc *op)
{
    const operand_desc *w = &op->in[1];
    const int may = p->kernels->interleave && !w->rows.coding && dtype_is_block(w->dtype) && !rows_is_table(w) &&
                    (op->kind == OP_GROUPED_LINEAR || !cpu_has_int8_tiles()) && p->J % INT8_STRIP == 0 &&
                    p->K % INT8_QUARTER == 0;
    const int8_form *f = may ? int8_form_interleaved(w->dtype, use_of(op)) : NULL;
    return f && (f->scales == 1 || p->kernels->interleaves_all) ? f : NULL;
}

static void keep_interleaved(cpu_kernel *c, const int8_form *f)
{
    int8_plan *p = c->plan;
    p->form = f;
    c->base.pack = pack_interleaved;
    snprintf(c->base.pack_form[1], sizeof c->base.pack_form[1], "interleaved:%s", dtype_name(p->b.type));
}

/* ---- preparing ---- */

/* By shape alone; some tasks for every thread, and bands that divide into what is multiplied together: of 528 rows two,
 * not three, since each unpacks the weight (by AVX2, whose rows take twice as much, three as before). */
static void cut(int8_plan *p, const op_desc *op)
{
    int grouped = op->kind == OP_GROUPED_LINEAR; /* whose groups have few rows each */
    p->width = min64(grouped ? GROUP_WIDTH : op->epilogue.geglu ? WIDTH / 2 : WIDTH, p->J);
    p->column_tiles = (p->J + p->width - 1) / p->width;
    /* What is unpacked and a group's rows should fit the nearest cache together: 256 inputs, and more of blocks of 256
     * that are interleaved and not unpacked. With AVX-512 704 inputs of blocks of 32 take 0.96 to 0.99 of the time so,
     * beside all at once. By AVX2, where nothing else is quicker than the cache, 256 of any (0.93 to 0.98 of the time
     * of 512, 0.87 to 0.93 of 768's), and 512 of a linear's: rows of 16 bits take twice as much.
     */
    p->deep = grouped ? INT8_PART : DEEP;
    if (grouped && p->b.block == 256 && p->form->interleaved && !p->kernels->wide) p->deep = DEEP;
    p->depth_first = grouped;
    int64_t bands = p->I > BAND ? (p->I + (p->kernels->wide ? BAND - 1 : BAND / 2)) / BAND : 1;
    if (grouped)
        bands = (p->I + GROUP_BAND - 1) / GROUP_BAND;
    else
        while (bands * p->column_tiles < 8 && p->I / bands > BAND / 4) bands++;
    p->band = min64(p->I, (int64_t)round_up((size_t)((p->I + bands - 1) / bands), p->kernels->rows));
    p->bands = (p->I + p->band - 1) / p->band;
}

static void measure(cpu_kernel *c)
{
    int8_plan *p = c->plan;
    int64_t gates = c->op.epilogue.geglu ? 2 : 1;
    int64_t tiles = min64(p->I, p->I / (int64_t)p->kernels->rows + p->groups);
    size_t rows_alone = c->op.kind == OP_GROUPED_LINEAR && c->op.n_in > 4 ? (size_t)rows_of(&c->op.in[0]) : 0;
    p->parts = (p->K + INT8_PART - 1) / INT8_PART;
    p->part_bytes = int8_part_bytes(p->kernels, p->form), p->alone_bytes = int8_alone_bytes(p->part_bytes);
    p->parts_bytes = round_up((size_t)(tiles * p->parts) * p->part_bytes, 64);
    p->alone_at = p->parts_bytes + round_up((size_t)(p->groups + 1) * sizeof(int32_t), 64);
    p->c_bytes = (size_t)p->band * round_up((size_t)(p->width * gates), PAIR) * sizeof(float);
    p->slot_bytes = p->c_bytes + 2 * sizeof(int8_strip);
    c->base.scratch_bytes =
        p->alone_at + round_up(rows_alone * (size_t)p->parts * p->alone_bytes, 64) + cpu_slots() * p->slot_bytes;
    c->base.flops = 2u * (uint64_t)p->I * (uint64_t)p->J * (uint64_t)(p->K * gates);
    c->base.name = p->kernels->linear;
}

kiln_status int8_product_prepare(cpu_kernel *c, error *e)
{
    const op_desc *op = &c->op;
    const int64_t *w = op->in[1].shape.dim;
    int grouped = op->kind == OP_GROUPED_LINEAR;
    int8_plan *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = p, c->plan_free = mem_free, c->body = run;
    const int8_form *form = form_of(op);
    *p = (int8_plan){.kernels = cpu_int8_kernels(form->scales <= 1 && (has_many_rows(op) || groups_are_rounded(op))),
                     .form = form,
                     .b = rows_form(op, 1),
                     .groups = grouped ? w[0] : 1,
                     .I = rows_of(&op->out),
                     .J = columns_of(&op->out),
                     .K = columns_of(&op->in[0])};
    if (!p->I || !p->J || !p->K || !p->groups)
        return error_set(e, KILN_ERR_UNSUPPORTED, "%s: an operand without elements", op_name(op->kind));
    rows_keep(c, 1);
    const int8_form *other = interleaved_form(p, op);
    if (other) keep_interleaved(c, other);
    cut(p, op);
    measure(c);
    return KILN_OK;
}
