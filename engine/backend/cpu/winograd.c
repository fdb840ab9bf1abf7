/* winograd.c - 3x3 convolution with a quarter of the multiplications: F(4x4,3x3) of Lavin and Gray, "Fast
 * Algorithms for Convolutional Neural Networks", 2015, in f32.
 *
 * A tile of work is some squares of 4x4 pixels by some blocks of 64 output channels. For 64 input channels at a time
 * the squares are transformed, and for each block the filters are transformed and multiplied with them, 36 small GEMMs,
 * into sums that stay in the caches; then the sums are transformed back and finished. So squares are transformed once
 * for several blocks, and filters once for many squares. Filters are stored as they are (bf16 or f32, or rows of codes,
 * which are widened then), since transformed they would take four times the memory.
 *
 * What a square gives depends on its pixels alone, so tiles are cut as suits the number of threads.
 */
#include "backend/cpu/winograd.h"

#include "backend/cpu/row_forms.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* SQUARES, BLOCKS: of a tile at most; LEAST_SQUARES: however small the picture. */
enum { SQUARES = 66, LEAST_SQUARES = 24, BLOCKS = 5, OUT = WINOGRAD_BLOCK, IN = WINOGRAD_BLOCK, POINTS = 36, TAPS = 9 };

typedef struct {
    int64_t wide, high, per_image, squares, blocks; /* squares; blocks of OUT output channels */
    int64_t most_squares, most_blocks;              /* of a tile */
    uint32_t stored;
    row_form coded;     /* of filters that stay rows of codes; block 0: not so */
    int64_t piece;      /* of such a row, for IN channels: with what blocks begin before and end behind them */
    size_t code_floats; /* that those take in a slot */
} winograd_plan;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    int64_t squares, blocks, groups; /* of a tile; tiles of squares */
} call;

typedef struct {
    float *v, *u, *m;        /* [36][squares][IN], [36][IN][OUT], [blocks][36][squares][OUT] */
    size_t ldv, ldu, ldm;    /* from point to point */
    float *rows, *turned;    /* of coded filters: [OUT][piece], [IN][TAPS][OUT] */
    int64_t square, squares; /* the tile's */
    int64_t block, blocks;
} buffers;

static const float zeros[IN];

static size_t points_floats(int64_t rows, size_t columns) { return (size_t)rows * columns + WINOGRAD_APART; }

/* The 6x6 pixels of a square from channel `first` on; outside the picture is 0. */
static void pixels_of(const call *j, int64_t square, int64_t first, const void *pixel[POINTS])
{
    const winograd_plan *p = j->c->plan;
    const operand_desc *x = &j->c->op.in[0];
    const conv2d_attr *t = &j->c->op.attr.conv2d;
    int64_t H = x->shape.dim[1], W = x->shape.dim[2], n = square / p->per_image, within = square % p->per_image;
    int64_t top = within / p->wide * 4 - t->pad[0], left = within % p->wide * 4 - t->pad[1];
    for (int64_t y = 0; y < 6; y++)
        for (int64_t i = 0; i < 6; i++) {
            int inside = top + y >= 0 && top + y < H && left + i >= 0 && left + i < W;
            pixel[6 * y + i] =
                inside ? (const void *)place_of(x, j->a->in[0], (n * H + top + y) * W + left + i, first) : zeros;
        }
}

static void transform_squares(const call *j, const buffers *b, int64_t first, size_t n)
{
    const operand_desc *x = &j->c->op.in[0];
    size_t ahead = 4 * (size_t)x->ld * size_of(type_of(x));
    for (int64_t s = 0; s < b->squares; s++) {
        const void *pixel[POINTS];
        pixels_of(j, b->square + s, first, pixel);
        j->c->k->winograd_input(b->v + (size_t)s * IN, b->ldv, pixel, type_of(x), ahead, n);
    }
}

/* Filters of input channels [first, first+width) as numbers, [width][TAPS][OUT]. */
static const char *widen_filters(const call *j, const buffers *b, int64_t block, int64_t first, int64_t width)
{
    const winograd_plan *p = j->c->plan;
    const row_form *f = &p->coded;
    int64_t O = j->c->op.in[1].shape.dim[0], size = (int64_t)f->block, n = width * TAPS;
    int64_t start = first * TAPS / size * size, end = (int64_t)round_up((size_t)(first * TAPS + n), f->block);
    for (int64_t o = 0; o < OUT; o++) {
        if (block * OUT + o < O)
            row_form_codes(j->c->k, f, j->a->in[1], block * OUT + o, start, b->rows + o * p->piece, KILN_F32,
                           (size_t)(end - start));
        else
            memset(b->rows + o * p->piece, 0, (size_t)(end - start) * sizeof(float));
    }
    for (int64_t o = 0; o < OUT; o += 16)
        j->c->k->turn_words((uint32_t *)(void *)(b->turned + o), OUT,
                            (const uint32_t *)(const void *)(b->rows + o * p->piece + first * TAPS - start),
                            (size_t)p->piece, (size_t)n);
    return (const char *)b->turned;
}

static void transform_filters(const call *j, const buffers *b, int64_t block, int64_t first, int64_t width)
{
    const winograd_plan *p = j->c->plan;
    int64_t channels = j->c->op.in[0].shape.dim[3];
    size_t each = TAPS * OUT * size_of(p->stored);
    const char *w = p->coded.block ? widen_filters(j, b, block, first, width)
                                   : (const char *)j->a->in[1] + (size_t)(block * channels + first) * each;
    j->c->k->winograd_weight(b->u, w, p->stored, (size_t)width);
}

/* The GEMMs over input channels [first, first+width). */
static void multiply(const call *j, const buffers *b, int64_t first, int64_t width)
{
    size_t n = (size_t)width;
    transform_squares(j, b, first, n);
    for (int64_t o = 0; o < b->blocks; o++) {
        float *m = b->m + (size_t)o * POINTS * b->ldm;
        transform_filters(j, b, b->block + o, first, width);
        for (size_t i = 0; i < POINTS; i++)
            j->c->k->gemm((size_t)b->squares, OUT, n, b->v + i * b->ldv, IN, 1, b->u + i * b->ldu, OUT, m + i * b->ldm,
                          OUT, first > 0);
    }
}

/* ---- results ---- */

/* One with an activation, or of channels that are no whole vectors. */
static void finish_pixel(const call *j, float *row, int64_t r, int64_t first, size_t n)
{
    const op_desc *op = &j->c->op;
    const cpu_kernels *k = j->c->k;
    if (op->in[2].dtype) k->add(row, (const float *)j->a->in[2] + first, n);
    if (op->epilogue.act) k->act(row, op->epilogue.act, n);
    if (op->epilogue.residual) {
        const operand_desc *d = &op->in[op->n_in - 1];
        float other[OUT];
        k->load(other, place_of(d, j->a->in[op->n_in - 1], r, first), type_of(d), n);
        k->add(row, other, n);
    }
    k->store((char *)j->a->out + (size_t)(r * op->out.ld + first) * size_of(op->out.dtype), op->out.dtype, row, n);
}

/* The kernel makes results as they are stored. */
static int is_finished_at_once(const op_desc *op, size_t n)
{
    uint32_t added = op->epilogue.residual ? type_of(&op->in[op->n_in - 1]) : KILN_F32;
    return !op->epilogue.act && n % 16 == 0 && (op->out.dtype == KILN_F32 || op->out.dtype == KILN_BF16) &&
           (added == KILN_F32 || added == KILN_BF16);
}

/* Where pixel `i` of the square lies, as a row of the result; -1: outside. */
static int64_t row_of(const call *j, int64_t square, int i)
{
    const winograd_plan *p = j->c->plan;
    const int64_t *o = j->c->op.out.shape.dim;
    int64_t n = square / p->per_image, within = square % p->per_image;
    int64_t y = within / p->wide * 4 + i / 4, x = within % p->wide * 4 + i % 4;
    return y < o[1] && x < o[2] ? (n * o[1] + y) * o[2] + x : -1;
}

static void finish_square(const call *j, const buffers *b, int64_t s, int64_t o)
{
    const op_desc *op = &j->c->op;
    const operand_desc *d = &op->in[op->n_in - 1];
    int64_t first = (b->block + o) * OUT;
    size_t n = (size_t)min64(OUT, op->out.shape.dim[3] - first), size = size_of(op->out.dtype);
    int at_once = is_finished_at_once(op, n);
    float rows[16 * OUT];
    winograd_square w = {.m = b->m + (size_t)o * POINTS * b->ldm + (size_t)s * OUT, .ldm = b->ldm, .type = KILN_F32};
    if (at_once) {
        w.type = op->out.dtype, w.ahead = 4 * (size_t)op->out.ld * size;
        w.bias = op->in[2].dtype ? (const float *)j->a->in[2] + first : NULL;
        w.added_type = op->epilogue.residual ? type_of(d) : 0;
    }
    for (int i = 0; i < 16; i++) {
        int64_t r = row_of(j, b->square + s, i);
        if (r < 0) continue;
        w.to[i] = at_once ? (char *)j->a->out + (size_t)(r * op->out.ld + first) * size : (char *)(rows + i * OUT);
        if (w.added_type) w.added[i] = place_of(d, j->a->in[op->n_in - 1], r, first);
    }
    j->c->k->winograd_output(&w, at_once ? n : OUT);
    for (int i = 0; i < 16 && !at_once; i++)
        if (w.to[i]) finish_pixel(j, rows + i * OUT, row_of(j, b->square + s, i), first, n);
}

/* ---- tiles ---- */

static size_t slot_floats(const winograd_plan *p, int64_t squares, int64_t blocks)
{
    return POINTS *
               (points_floats(squares, IN) + points_floats(IN, OUT) + (size_t)blocks * points_floats(squares, OUT)) +
           p->code_floats;
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const winograd_plan *p = j->c->plan;
    int64_t channels = j->c->op.in[0].shape.dim[3];
    buffers b = {.v = (float *)j->a->scratch + slot * slot_floats(p, j->squares, j->blocks),
                 .ldv = points_floats(j->squares, IN),
                 .ldu = points_floats(IN, OUT),
                 .ldm = points_floats(j->squares, OUT),
                 .square = (int64_t)index % j->groups * j->squares,
                 .block = (int64_t)index / j->groups * j->blocks};
    (void)e;
    b.squares = min64(j->squares, p->squares - b.square), b.blocks = min64(j->blocks, p->blocks - b.block);
    b.u = b.v + POINTS * b.ldv, b.m = b.u + POINTS * b.ldu;
    b.rows = b.m + (size_t)j->blocks * POINTS * b.ldm, b.turned = b.rows + OUT * p->piece;
    for (int64_t i = 0; i < channels; i += IN) multiply(j, &b, i, min64(IN, channels - i));
    for (int64_t s = 0; s < b.squares; s++)
        for (int64_t o = 0; o < b.blocks; o++) finish_square(j, &b, s, o);
    return KILN_OK;
}

static int64_t parts_of(int64_t n, int64_t each) { return (n + each - 1) / each; }

/* Squares of a tile where there are so many of them, in sets of the GEMM's rows. */
static int64_t squares_of(const winograd_plan *p, int64_t groups)
{
    return min64((int64_t)round_up((size_t)parts_of(p->squares, groups), 6), p->most_squares);
}

/* Cuts the work into tiles that take least time, in units of one square by one block: filters take as long as FILTERS
 * squares, squares as long as a SHARE-th of a block. What it returns is what any cut takes at most, floats for all
 * slots.
 */
static size_t cut(const winograd_plan *p, int64_t threads, call *j)
{
    enum { FILTERS = 3, SHARE = 12, FINER = 64 };
    int64_t least = parts_of(p->squares, p->most_squares), best = INT64_MAX;
    size_t most = 0;
    for (int64_t blocks = p->most_blocks; blocks > 0; blocks--)
        for (int64_t groups = least; groups < least + FINER && groups <= p->squares; groups++) {
            int64_t squares = squares_of(p, groups),
                    tiles = parts_of(p->squares, squares) * parts_of(p->blocks, blocks);
            int64_t takes = parts_of(tiles, threads) * (SHARE * (squares + FILTERS) * blocks + squares);
            size_t floats = (size_t)min64(tiles, cpu_slots()) * slot_floats(p, squares, blocks);
            if (floats > most) most = floats;
            if (takes >= best) continue;
            best = takes, j->squares = squares, j->blocks = blocks, j->groups = parts_of(p->squares, squares);
        }
    return most;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const winograd_plan *p = c->plan;
    call j = {.c = c, .a = a};
    cut(p, a->pool ? (int64_t)pool_threads(a->pool) : 1, &j);
    return tiles_run(a->pool, (size_t)(j.groups * parts_of(p->blocks, j.blocks)), tile, &j, e);
}

/* ---- packing: [O][I][3][3] -> [O/64][I][9][64], the last block filled up with zeros ---- */

typedef struct {
    const cpu_kernel *c;
    const row_source *rows; /* or NULL: */
    const char *src;
    uint32_t dtype;
    char *dst, *scratch; /* scratch: pack_scratch bytes a slot, or NULL */
} packing;

/* A strip of input channels at a time, so that what is turned stays in cache. */
enum { STRIP = 32 * TAPS };

static size_t filter_numbers(const cpu_kernel *c) { return (size_t)c->op.in[1].shape.dim[1] * TAPS; }
static size_t strip_bytes(const winograd_plan *p) { return STRIP * OUT * size_of(p->stored); }

/* n filters at src, by way of a strip: the rest of its OUT rows is 0. */
static kiln_status pack_strips(const packing *j, const char *src, uint32_t dtype, size_t n, char *strip, char *dst,
                               error *e)
{
    const winograd_plan *p = j->c->plan;
    size_t row = filter_numbers(j->c), from = dtype_size(dtype), to = size_of(p->stored);
    memset(strip, 0, strip_bytes(p));
    for (size_t first = 0; first < row; first += STRIP) {
        size_t count = row - first < STRIP ? row - first : STRIP;
        for (size_t o = 0; o < n; o++) {
            kiln_status st =
                dtype_convert(strip + o * STRIP * to, p->stored, src + (o * row + first) * from, dtype, count);
            if (st != KILN_OK) return error_set(e, st, "weights of type %s are not supported", dtype_name(dtype));
        }
        if (p->stored == KILN_BF16)
            j->c->k->transpose_half((uint16_t *)(void *)dst + first * OUT, OUT, (const uint16_t *)(const void *)strip,
                                    STRIP, OUT, count);
        else
            j->c->k->transpose((float *)(void *)dst + first * OUT, OUT, (const float *)(const void *)strip, STRIP, OUT,
                               count);
    }
    return KILN_OK;
}

static kiln_status pack_block(void *arg, size_t index, unsigned slot, error *e)
{
    const packing *j = arg;
    const winograd_plan *p = j->c->plan;
    size_t row = filter_numbers(j->c), block = OUT * row;
    size_t n = (size_t)min64(OUT, j->c->op.in[1].shape.dim[0] - (int64_t)index * OUT);
    char *own = j->scratch ? j->scratch + slot * j->c->base.pack_scratch[1] : NULL;
    char *strip = own ? own : mem_alloc(strip_bytes(p)), *dst = j->dst + index * block * size_of(p->stored);
    kiln_status st = strip ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory for packing weights");
    if (st == KILN_OK && j->rows) {
        char *rows = strip + strip_bytes(p);
        st = j->rows->read(j->rows->self, index * block, n * row, (float *)(void *)rows, e);
        if (st == KILN_OK) st = pack_strips(j, rows, KILN_F32, n, strip, dst, e);
    } else if (st == KILN_OK)
        st = pack_strips(j, j->src + index * block * dtype_size(j->dtype), j->dtype, n, strip, dst, e);
    if (!own) mem_free(strip);
    return st;
}

static kiln_status pack_in(const kernel *k, uint32_t operand, const void *src, uint32_t dtype, void *dst, void *scratch,
                           pool *q, error *e)
{
    const cpu_kernel *c = (const cpu_kernel *)k;
    const winograd_plan *p = c->plan;
    if (operand == 1) {
        packing j = {.c = c, .src = src, .dtype = dtype, .dst = dst, .scratch = scratch};
        return tiles_run(q, (size_t)p->blocks, pack_block, &j, e);
    }
    kiln_status st = dtype_convert(dst, KILN_F32, src, dtype, (size_t)shape_count(&c->op.in[operand].shape));
    return st == KILN_OK ? st : error_set(e, st, "constants of type %s are not supported", dtype_name(dtype));
}

static kiln_status pack(const kernel *k, uint32_t operand, const void *src, uint32_t dtype, void *dst, pool *q,
                        error *e)
{
    return pack_in(k, operand, src, dtype, dst, NULL, q, e);
}

static kiln_status pack_rows(const kernel *k, uint32_t operand, const row_source *src, void *dst, void *scratch,
                             pool *q, error *e)
{
    const cpu_kernel *c = (const cpu_kernel *)k;
    packing j = {.c = c, .rows = src, .dst = dst, .scratch = scratch};
    assert(k->pack_tiles[operand] && scratch);
    (void)operand;
    return tiles_run(q, (size_t)((const winograd_plan *)c->plan)->blocks, pack_block, &j, e);
}

/* Where gemm is bf16, by a table of machines. Rates over those of bf16's direct convolution, one thread by processor
 * time, filters that lie as codes like others:
 *     EPYC Zen 4    width 24 and more 1.4 to 1.6 (4 rows of it 1.0 to 1.4), 16 1.3 to 1.5 (4 rows 0.9 to 1.1), 12 1.1,
 *                   13 0.9, 8 0.8 to 0.9 (1.1 for two pictures); of blocks of 64 outputs that are filled to 5/8 1.05 to
 *                   1.2, to a half 0.8
 *     AMX           never: bf16 has more than four times the rate of f32 */
static int is_faster(const op_desc *op)
{
    enum { ZEN_WIDTH = 16 };
    int64_t outputs = op->in[1].shape.dim[0], filled = (int64_t)round_up((size_t)outputs, OUT);
    if (cpu_gemm_type(op->precision) == KILN_F32) return 1;
    return cpu_level_get() != CPU_AMX && op->out.shape.dim[2] >= ZEN_WIDTH && 8 * outputs >= 5 * filled;
}

/* A stripe of a picture's rows goes this way where the picture does, and has its bytes (nodes/vae/vae_stages.c). So
 * nothing decides that they do not share, which are rows and what is padded above and below; nor does a batch. */
int winograd_fits(const op_desc *op)
{
    const conv2d_attr *t = &op->attr.conv2d;
    const int64_t *x = op->in[0].shape.dim, *w = op->in[1].shape.dim;
    uint32_t type = type_of(&op->in[0]);
    int plain = w[2] == 3 && w[3] == 3;
    for (int i = 0; i < 2; i++) plain &= t->stride[i] == 1 && t->dilation[i] == 1;
    for (int i = 0; i < 4; i++) plain &= t->pad[i] >= 0 && t->pad[i] < 3;
    return plain && x[3] % 16 == 0 && w[0] >= 32 && (type == KILN_F32 || type == KILN_BF16) && is_faster(op);
}

static void keep_filters(cpu_kernel *c, winograd_plan *p)
{
    p->stored = c->op.precision == KILN_BF16 ? KILN_BF16 : KILN_F32;
    c->base.pack = pack, c->base.pack_in = pack_in, c->base.pack_rows = pack_rows;
    c->base.pack_tiles[1] = p->blocks < cpu_slots() ? (size_t)p->blocks : cpu_slots();
    c->base.pack_scratch[1] = strip_bytes(p) + round_up(OUT * filter_numbers(c) * sizeof(float), 64);
    c->base.packed_bytes[1] = (size_t)p->blocks * OUT * filter_numbers(c) * size_of(p->stored);
    snprintf(c->base.pack_form[1], sizeof c->base.pack_form[1], "winograd:%s:%d", dtype_name(p->stored), OUT);
}

static void keep_codes(cpu_kernel *c, winograd_plan *p)
{
    p->stored = KILN_F32;
    p->coded = rows_form(&c->op, 1);
    p->piece = (int64_t)round_up(IN * TAPS + 2 * p->coded.block, 16);
    p->code_floats = (size_t)(OUT * p->piece + IN * TAPS * OUT);
    rows_keep(c, 1);
}

/* Tiles of a small op are smaller, so that scratch is no more than half as much again as pictures and filters: else a
 * small memory budget could not have the picture whole. 48 squares were found to be no slower than 66. */
static int64_t squares_for(const cpu_kernel *c, const winograd_plan *p)
{
    const op_desc *op = &c->op;
    size_t bytes = (size_t)shape_count(&op->in[0].shape) * size_of(type_of(&op->in[0])) +
                   (size_t)shape_count(&op->in[1].shape) * size_of(p->stored) +
                   (size_t)shape_count(&op->out.shape) * size_of(op->out.dtype);
    int64_t n = SQUARES;
    while (n > LEAST_SQUARES && 2 * cpu_slots() * slot_floats(p, n, p->most_blocks) * sizeof(float) > 3 * bytes) n -= 6;
    return min64(n, (int64_t)round_up((size_t)p->squares, 6));
}

kiln_status winograd_prepare(cpu_kernel *c, error *e)
{
    const op_desc *op = &c->op;
    const int64_t *o = op->out.shape.dim, *w = op->in[1].shape.dim;
    if (!op->in[1].weight || (op->in[2].dtype && !op->in[2].weight))
        return error_set(e, KILN_ERR_UNSUPPORTED, "conv2d: the filter and the bias must be weights or constants");
    winograd_plan *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = p, c->plan_free = mem_free, c->body = run;
    p->wide = parts_of(o[2], 4), p->high = parts_of(o[1], 4), p->per_image = p->wide * p->high;
    p->squares = o[0] * p->per_image;
    p->blocks = parts_of(w[0], OUT);
    p->most_blocks = parts_of(p->blocks, parts_of(p->blocks, BLOCKS));
    if (rows_are_coded(op, 1))
        keep_codes(c, p);
    else
        keep_filters(c, p);
    p->most_squares = squares_for(c, p);
    c->base.scratch_bytes = cut(p, 1, &(call){.c = c}) * sizeof(float);
    c->base.flops = 2u * (uint64_t)(o[0] * o[1] * o[2]) * (uint64_t)shape_count(&op->in[1].shape);
    c->base.name = "winograd:4x4,3x3:f32";
    return KILN_OK;
}
