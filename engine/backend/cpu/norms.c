/* norms.c - group and layer normalisation with f32 statistics; population variance (divide by the count).
 *
 * Group norm goes over the data twice: per-channel moments about the image's first pixel, in chunks of rows
 * whose number depends on the shape alone, merged in double; then (x - mean) * scale + beta and the activation. Taking
 * the first pixel as origin keeps the subtraction harmless when the mean is far from zero.
 */
#include "backend/cpu/cpu.h"

#include "base/memory_alloc.h"

#include <math.h>
#include <string.h>

enum { PIECES = 32, COLUMNS = 1024, TOGETHER = 4, PIXELS_TOGETHER = 8 };

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    int64_t images, pixels, channels, pieces; /* pieces: of an image's pixels */
    float *origin, *sums, *table;             /* in scratch: see group_norm_prepare */
} call;

static int64_t piece_start(const call *j, int64_t piece) { return piece * j->pixels / j->pieces; }

/* Moments of one piece of one image: sums[2][channels]. */
static kiln_status moments_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const operand_desc *x = &j->c->op.in[0];
    int64_t n = (int64_t)index / j->pieces, piece = (int64_t)index % j->pieces, C = j->channels;
    float *sums = j->sums + (size_t)index * 2 * (size_t)C;
    int64_t first = piece_start(j, piece), last = piece_start(j, piece + 1);
    (void)slot, (void)e;
    memset(sums, 0, 2 * (size_t)C * sizeof *sums);
    for (int64_t p = first, now; p < last; p += now) {
        const void *row[PIXELS_TOGETHER];
        now = min64(PIXELS_TOGETHER, last - p);
        for (int64_t i = 0; i < now; i++) row[i] = place_of(x, j->a->in[0], n * j->pixels + p + i, 0);
        j->c->k->moments(sums, sums + C, row, (size_t)now, type_of(x), j->origin + n * C, (size_t)C);
    }
    return KILN_OK;
}

/* Mean and 1/sigma of a group: the pieces' moments about the origin, merged. */
static void group_statistics(const call *j, int64_t n, int64_t first, int64_t last, double eps, double *mean,
                             double *rstd)
{
    double count = (double)j->pixels * (double)(last - first), total = 0, spread = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t c = first; c < last; c++) {
            double s = 0, q = 0, origin = (double)j->origin[n * j->channels + c];
            for (int64_t p = 0; p < j->pieces; p++) {
                const float *sums = j->sums + (size_t)((n * j->pieces + p) * 2 * j->channels);
                s += (double)sums[c];
                q += (double)sums[j->channels + c];
            }
            double own = origin + s / (double)j->pixels, d = own - total / count;
            if (pass == 0)
                total += own * (double)j->pixels;
            else
                spread += fmax(0, q - s * s / (double)j->pixels) + (double)j->pixels * d * d;
        }
    *mean = total / count;
    *rstd = 1 / sqrt(spread / count + eps);
}

/* One kernel makes the result, bf16 of bf16: x scale + shift. */
static int is_half(const op_desc *op)
{
    return type_of(&op->in[0]) == KILN_BF16 && op->out.dtype == KILN_BF16 && !op->epilogue.residual &&
           (!op->epilogue.act || op->epilogue.act == KILN_ACT_SILU);
}

/* table: per image mean, scale, shift of every channel */
static void group_tables(const call *j, const float *gamma, const float *beta)
{
    const norm_attr *t = &j->c->op.attr.norm;
    int64_t width = j->channels / t->groups, C = j->channels;
    int half = is_half(&j->c->op);
    for (int64_t n = 0; n < j->images; n++)
        for (int64_t g = 0; g < t->groups; g++) {
            double mean, rstd;
            float *table = j->table + n * 3 * C;
            group_statistics(j, n, g * width, (g + 1) * width, (double)t->eps, &mean, &rstd);
            for (int64_t c = g * width; c < (g + 1) * width; c++) {
                table[c] = (float)mean;
                table[C + c] = (float)(rstd * (double)(gamma ? gamma[c] : 1));
                table[2 * C + c] = beta ? beta[c] : 0;
                if (half) table[2 * C + c] = (float)((beta ? (double)beta[c] : 0) - mean * (double)table[C + c]);
            }
        }
}

static void finish(const call *j, float *row, int64_t r, int64_t c, size_t width)
{
    const op_desc *op = &j->c->op;
    const cpu_kernels *k = j->c->k;
    if (op->epilogue.act) k->act(row, op->epilogue.act, width);
    if (op->epilogue.residual) {
        const operand_desc *d = &op->in[op->n_in - 1];
        float other[COLUMNS];
        k->load(other, place_of(d, j->a->in[op->n_in - 1], r, c), type_of(d), width);
        k->add(row, other, width);
    }
    k->store((char *)j->a->out + (size_t)(r * op->out.ld + c) * size_of(op->out.dtype), op->out.dtype, row, width);
}

static kiln_status apply_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const operand_desc *x = &j->c->op.in[0];
    int64_t turned = j->images * j->pieces - 1 - (int64_t)index; /* what was read last is in the caches */
    int64_t n = turned / j->pieces, piece = turned % j->pieces, C = j->channels;
    const float *table = j->table + n * 3 * C;
    const op_desc *op = &j->c->op;
    float row[COLUMNS];
    int half = is_half(op);
    (void)slot, (void)e;
    for (int64_t p = piece_start(j, piece); p < piece_start(j, piece + 1); p++) {
        int64_t r = n * j->pixels + p;
        if (half) {
            j->c->k->normalise_half((uint16_t *)j->a->out + r * op->out.ld, place_of(x, j->a->in[0], r, 0), table + C,
                                    table + 2 * C, op->epilogue.act, (size_t)C, j->c->past);
            continue;
        }
        for (int64_t c = 0; c < C; c += COLUMNS) {
            size_t width = (size_t)min64(COLUMNS, C - c);
            j->c->k->load(row, place_of(x, j->a->in[0], r, c), type_of(x), width);
            j->c->k->normalise(row, table + c, table + C + c, table + 2 * C + c, width);
            finish(j, row, r, c, width);
        }
    }
    return KILN_OK;
}

static call group_call(const cpu_kernel *c, const kernel_args *a)
{
    const shape *s = &c->op.in[0].shape;
    call j = {.c = c, .a = a, .images = s->dim[0], .channels = s->dim[s->rank - 1]};
    j.pixels = j.images ? rows_of(&c->op.in[0]) / j.images : 0;
    j.pieces = j.pixels < PIECES ? (j.pixels ? j.pixels : 1) : PIECES;
    if (a) {
        j.origin = a->scratch;
        j.table = j.origin + j.images * j.channels;
        j.sums = j.table + 3 * j.images * j.channels;
    }
    return j;
}

static kiln_status group_norm_run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    call j = group_call(c, a);
    const operand_desc *x = &c->op.in[0];
    if (!j.pixels || !j.channels) return KILN_OK;
    for (int64_t n = 0; n < j.images; n++)
        c->k->load(j.origin + n * j.channels, place_of(x, a->in[0], n * j.pixels, 0), type_of(x), (size_t)j.channels);
    size_t tiles = (size_t)(j.images * j.pieces);
    TRY(tiles_run(a->pool, tiles, moments_tile, &j, e));
    group_tables(&j, a->in[1], a->in[2]);
    return tiles_run(a->pool, tiles, apply_tile, &j, e);
}

static kiln_status check_affine(const op_desc *op, error *e)
{
    for (uint32_t i = 1; i <= 2; i++)
        if (op->in[i].dtype && !op->in[i].weight)
            return error_set(e, KILN_ERR_UNSUPPORTED, "%s: gamma and beta must be weights or constants",
                             op_name(op->kind));
    return KILN_OK;
}

kiln_status cpu_prepare_group_norm(cpu_kernel *c, error *e)
{
    TRY(check_affine(&c->op, e));
    call j = group_call(c, NULL);
    c->body = group_norm_run;
    c->base.scratch_bytes = (size_t)(j.images * j.channels * (4 + 2 * j.pieces)) * sizeof(float);
    return KILN_OK;
}

/* ---- layer norm: rows are independent ---- */

enum { LAYER_ROWS = 32 };

/* Rows r.. of up to COLUMNS columns, side by side: their sums do not wait for each other. */
static void layer_rows(const call *j, int64_t r, int64_t rows)
{
    const op_desc *op = &j->c->op;
    const cpu_kernels *k = j->c->k;
    float row[TOGETHER][COLUMNS], sum[TOGETHER], mean[TOGETHER], square[TOGETHER];
    size_t C = (size_t)j->channels;
    for (int64_t i = 0; i < rows; i++)
        k->load(row[i], place_of(&op->in[0], j->a->in[0], r + i, 0), type_of(&op->in[0]), C);
    k->sum_rows(sum, row[0], COLUMNS, (size_t)rows, C);
    for (int64_t i = 0; i < rows; i++) mean[i] = (float)((double)sum[i] / (double)C);
    k->squares_rows(square, mean, row[0], COLUMNS, (size_t)rows, C);
    for (int64_t i = 0; i < rows; i++) {
        float factor = (float)(1 / sqrt((double)square[i] / (double)C + (double)op->attr.norm.eps));
        k->layer_row(row[i], mean[i], factor, j->a->in[1], j->a->in[2], C);
        finish(j, row[i], r + i, 0, C);
    }
}

static void layer_wide(const call *j, int64_t r)
{
    const op_desc *op = &j->c->op;
    const operand_desc *x = &op->in[0];
    const cpu_kernels *k = j->c->k;
    const float *gamma = j->a->in[1], *beta = j->a->in[2];
    float row[COLUMNS];
    int64_t C = j->channels;
    double total = 0, spread = 0;
    for (int pass = 0; pass < 3; pass++) {
        float mean = (float)(total / (double)C),
              rstd = (float)(1 / sqrt(spread / (double)C + (double)op->attr.norm.eps));
        for (int64_t c = 0; c < C; c += COLUMNS) {
            size_t width = (size_t)min64(COLUMNS, C - c);
            k->load(row, place_of(x, j->a->in[0], r, c), type_of(x), width);
            if (pass == 0) total += (double)k->sum(row, width);
            if (pass == 1) spread += (double)k->squares(row, mean, width);
            if (pass < 2) continue;
            k->layer_row(row, mean, rstd, gamma ? gamma + c : NULL, beta ? beta + c : NULL, width);
            finish(j, row, r, c, width);
        }
    }
}

/* bf16 of bf16, and nothing behind it. */
static int layer_is_half(const op_desc *op)
{
    return type_of(&op->in[0]) == KILN_BF16 && op->out.dtype == KILN_BF16 && !op->epilogue.act &&
           !op->epilogue.residual && columns_of(&op->in[0]);
}

static kiln_status layer_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const op_desc *op = &j->c->op;
    int64_t first = (int64_t)index * LAYER_ROWS, last = min64(j->pixels, first + LAYER_ROWS);
    (void)slot, (void)e;
    if (layer_is_half(op))
        for (int64_t r = first; r < last; r++)
            j->c->k->layer_stored((uint16_t *)j->a->out + r * op->out.ld, place_of(&op->in[0], j->a->in[0], r, 0),
                                  (double)op->attr.norm.eps, j->a->in[1], j->a->in[2], (size_t)j->channels, j->c->past);
    else if (j->channels > COLUMNS)
        for (int64_t r = first; r < last; r++) layer_wide(j, r);
    else
        for (int64_t r = first; r < last; r += TOGETHER) layer_rows(j, r, min64(TOGETHER, last - r));
    return KILN_OK;
}

static kiln_status layer_norm_run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    call j = {.c = c, .a = a, .pixels = rows_of(&c->op.in[0]), .channels = columns_of(&c->op.in[0])};
    return tiles_run(a->pool, (size_t)((j.pixels + LAYER_ROWS - 1) / LAYER_ROWS), layer_tile, &j, e);
}

kiln_status cpu_prepare_layer_norm(cpu_kernel *c, error *e)
{
    TRY(check_affine(&c->op, e));
    c->body = layer_norm_run;
    return KILN_OK;
}
