/* norms.c - group and layer normalisation with f32 statistics; population variance (divide by the count).
 *
 * Group norm goes over the data twice. First each row of a picture [N,H,W,C], or one of up to 32 pieces of anything
 * else, has its moments taken: sums by channel about its first pixel, which keeps the subtraction harmless when the
 * mean is far from zero; in double a group's mean and the sum of squares off it come of them. Then rows' moments are
 * merged in double, in order, and (x - mean) * scale + beta and the activation follow. group_norm_stats stores the
 * former; with them given group_norm is the latter alone, so that a stripe of rows has the bits of the whole picture.
 */
#include "backend/cpu/cpu.h"

#include "base/memory_alloc.h"

#include <math.h>
#include <string.h>

enum { PIECES = 32, COLUMNS = 1024, TOGETHER = 4, PIXELS_TOGETHER = 8 };

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    int64_t images, pixels, channels, groups, pieces; /* pieces: of an image's pixels */
    float *table, *own;                               /* in scratch: group_scratch() says how */
    float *moments;                                   /* [images][all][groups], `apart` numbers from one to the next */
    int64_t all, apart;                               /* pieces of which moments are */
    int64_t row;                                      /* pixels of each; 0: not all have as many */
} call;

static int64_t piece_start(const call *j, int64_t piece) { return piece * j->pixels / j->pieces; }
static float *moments_at(const call *j, int64_t n, int64_t piece, int64_t group)
{
    return j->moments + ((n * j->all + piece) * j->groups + group) * j->apart;
}

/* What a channel adds to its group's: its mean, the square of that, and the sum of squares off it. */
typedef struct {
    double mean, square, spread;
} channel_parts;

static inline void add_channel(channel_parts *to, double origin, double sum, double square, double part)
{
    double own = origin + sum * part, spread = square - sum * sum * part;
    to->mean += own, to->square += own * own, to->spread += spread > 0 ? spread : 0;
}

/* A group's moments, of its channels' sums of x - origin and its square over so many pixels. Sums of even and odd
 * channels do not wait for each other. */
static void merge_channels(const float *origin, const float *sum, const float *square, int64_t width, int64_t pixels,
                           float *out)
{
    double part = 1 / (double)pixels;
    channel_parts even = {0}, odd = {0};
    for (int64_t c = 0; c < width; c += 2) {
        add_channel(&even, (double)origin[c], (double)sum[c], (double)square[c], part);
        if (c + 1 < width) add_channel(&odd, (double)origin[c + 1], (double)sum[c + 1], (double)square[c + 1], part);
    }
    double total = even.mean + odd.mean, mean = total / (double)width;
    double between = even.square + odd.square - total * mean;
    out[0] = (float)mean, out[1] = (float)(mean - (double)out[0]);
    out[2] = (float)(even.spread + odd.spread + (double)pixels * (between < 0 ? 0 : between)); /* NaN stays */
}

/* Moments of one piece of one image. */
static kiln_status moments_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const operand_desc *x = &j->c->op.in[0];
    int64_t n = (int64_t)index / j->pieces, piece = (int64_t)index % j->pieces, C = j->channels, width = C / j->groups;
    float *origin = j->own + slot * 3 * (size_t)C, *sum = origin + C, *square = sum + C;
    int64_t first = piece_start(j, piece), last = piece_start(j, piece + 1);
    (void)e;
    j->c->k->load(origin, place_of(x, j->a->in[0], n * j->pixels + first, 0), type_of(x), (size_t)C);
    memset(sum, 0, 2 * (size_t)C * sizeof *sum);
    for (int64_t p = first, now; p < last; p += now) {
        const void *row[PIXELS_TOGETHER];
        now = min64(PIXELS_TOGETHER, last - p);
        for (int64_t i = 0; i < now; i++) row[i] = place_of(x, j->a->in[0], n * j->pixels + p + i, 0);
        j->c->k->moments(sum, square, row, (size_t)now, type_of(x), origin, (size_t)C);
    }
    for (int64_t g = 0; g < j->groups; g++)
        merge_channels(origin + g * width, sum + g * width, square + g * width, width, last - first,
                       moments_at(j, n, piece, g));
    return KILN_OK;
}

static int64_t pixels_of(const call *j, int64_t piece)
{
    return j->row ? j->row : piece_start(j, piece + 1) - piece_start(j, piece);
}

/* Mean and 1/sigma of a group: the pieces' moments, merged. */
static void group_statistics(const call *j, int64_t n, int64_t g, double *mean, double *rstd)
{
    double width = (double)(j->channels / j->groups), count = 0, total = 0, spread = 0;
    for (int64_t p = 0; p < j->all; p++) {
        const float *m = moments_at(j, n, p, g);
        double numbers = width * (double)pixels_of(j, p);
        count += numbers, total += numbers * ((double)m[0] + (double)m[1]);
    }
    *mean = total / count;
    for (int64_t p = 0; p < j->all; p++) {
        const float *m = moments_at(j, n, p, g);
        double off = (double)m[0] + (double)m[1] - *mean;
        spread += (double)m[2] + width * (double)pixels_of(j, p) * off * off;
    }
    *rstd = 1 / sqrt(spread / count + (double)j->c->op.attr.norm.eps);
}

/* One kernel makes the result, bf16 of bf16: x scale + shift. */
static int is_half(const op_desc *op)
{
    return type_of(&op->in[0]) == KILN_BF16 && op->out.dtype == KILN_BF16 && !op->epilogue.residual &&
           (!op->epilogue.act || op->epilogue.act == KILN_ACT_SILU);
}

/* table: per image mean, scale, shift of every channel; here those of one group. */
static kiln_status table_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const float *gamma = j->a->in[1], *beta = j->a->in[2];
    int64_t n = (int64_t)index / j->groups, g = (int64_t)index % j->groups, C = j->channels, width = C / j->groups;
    float *table = j->table + n * 3 * C;
    int half = is_half(&j->c->op);
    double mean, rstd;
    (void)slot, (void)e;
    group_statistics(j, n, g, &mean, &rstd);
    for (int64_t c = g * width; c < (g + 1) * width; c++) {
        table[c] = (float)mean;
        table[C + c] = (float)(rstd * (double)(gamma ? gamma[c] : 1));
        table[2 * C + c] = beta ? beta[c] : 0;
        if (half) table[2 * C + c] = (float)((beta ? (double)beta[c] : 0) - mean * (double)table[C + c]);
    }
    return KILN_OK;
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

/* Rows of a picture; of anything else up to PIECES. */
static int64_t pieces_of(const shape *x, int64_t pixels) { return x->rank == 4 ? x->dim[1] : min64(PIECES, pixels); }

static call group_call(const cpu_kernel *c, const kernel_args *a)
{
    const shape *s = &c->op.in[0].shape;
    call j = {.c = c,
              .a = a,
              .images = s->dim[0],
              .channels = s->dim[s->rank - 1],
              .groups = c->op.attr.norm.groups,
              .apart = OP_NORM_STATS};
    j.pixels = j.images ? rows_of(&c->op.in[0]) / j.images : 0;
    j.all = j.pieces = pieces_of(s, j.pixels);
    j.row = j.pieces && j.pixels % j.pieces == 0 ? j.pixels / j.pieces : 0;
    if (!a) return j;
    j.own = a->scratch;
    j.table = j.own + (int64_t)cpu_slots() * 3 * j.channels;
    j.moments = j.table + 3 * j.images * j.channels;
    if (op_takes_stats(&c->op)) {
        j.moments = (float *)(uintptr_t)a->in[3];
        j.all = c->op.in[3].shape.dim[1], j.apart = c->op.in[3].ld;
    }
    return j;
}

/* Three lines of channels a thread; of a norm three an image, and the moments that are not given. */
static size_t group_scratch(const cpu_kernel *c)
{
    call j = group_call(c, NULL);
    int64_t lines = (int64_t)cpu_slots(), moments = 0;
    if (c->op.kind == OP_GROUP_NORM) {
        lines += j.images;
        moments = op_takes_stats(&c->op) ? 0 : j.images * j.pieces * j.groups;
    }
    return (size_t)(lines * 3 * j.channels + moments * OP_NORM_STATS) * sizeof(float);
}

static kiln_status group_norm_run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    call j = group_call(c, a);
    if (!j.pixels || !j.channels) return KILN_OK;
    size_t tiles = (size_t)(j.images * j.pieces);
    if (!op_takes_stats(&c->op)) TRY(tiles_run(a->pool, tiles, moments_tile, &j, e));
    TRY(tiles_run(a->pool, (size_t)(j.images * j.groups), table_tile, &j, e));
    return tiles_run(a->pool, tiles, apply_tile, &j, e);
}

static kiln_status group_norm_stats_run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    call j = group_call(c, a);
    if (!j.pixels || !j.channels) return KILN_OK;
    j.moments = a->out, j.apart = c->op.out.ld;
    return tiles_run(a->pool, (size_t)(j.images * j.pieces), moments_tile, &j, e);
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
    c->body = group_norm_run;
    c->base.scratch_bytes = group_scratch(c);
    return KILN_OK;
}

kiln_status cpu_prepare_group_norm_stats(cpu_kernel *c, error *e)
{
    (void)e;
    c->body = group_norm_stats_run;
    c->base.scratch_bytes = group_scratch(c);
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
