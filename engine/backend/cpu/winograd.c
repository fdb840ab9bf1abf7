/* winograd.c - 3x3 convolution with a quarter of the multiplications: F(4x4,3x3) of Lavin and Gray, "Fast
 * Algorithms for Convolutional Neural Networks", 2015, in f32.
 *
 * A tile of work is some 66 squares of 4x4 pixels by 64 output channels. For 64 input channels at a time the squares
 * and the filters are transformed and multiplied, 36 small GEMMs, into sums that stay in the second-level cache
 * together with both; then the sums are transformed back and finished. Filters are stored as they are (bf16 or f32, or
 * rows of codes, which are widened then) and transformed each time, which costs a few percent and saves four times
 * their memory.
 */
#include "backend/cpu/winograd.h"

#include "backend/cpu/row_forms.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>

enum { SQUARES = 66, OUT = 64, IN = 64, POINTS = 36, TAPS = 9 };

typedef struct {
    int64_t wide, high, per_image, squares, per_tile, groups; /* squares; tiles of them */
    int64_t column_tiles;                                     /* of OUT output channels */
    uint32_t stored;
    row_form blocks; /* of filters that stay rows of codes; block 0: not so */
    int64_t piece;   /* of such a row, for IN channels: with what blocks begin before and end behind them */
    size_t slot_floats;
} winograd_plan;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
} call;

typedef struct {
    float *v, *u, *m;     /* [36][squares][IN], [36][IN][OUT], [36][squares][OUT] */
    float *rows, *turned; /* of blocks: [OUT][piece], [IN][TAPS][OUT] */
} buffers;

static const float zeros[IN];

/* The 6x6 pixels of a square from channel `first` on; outside the picture is 0. */
static void pixels_of(const call *j, int64_t square, int64_t first, const void *pixel[POINTS])
{
    const winograd_plan *p = j->c->plan;
    const operand_desc *x = &j->c->op.in[0];
    int64_t H = x->shape.dim[1], W = x->shape.dim[2], n = square / p->per_image, within = square % p->per_image;
    int64_t top = within / p->wide * 4 - 1, left = within % p->wide * 4 - 1;
    for (int64_t y = 0; y < 6; y++)
        for (int64_t i = 0; i < 6; i++) {
            int inside = top + y >= 0 && top + y < H && left + i >= 0 && left + i < W;
            pixel[6 * y + i] =
                inside ? (const void *)place_of(x, j->a->in[0], (n * H + top + y) * W + left + i, first) : zeros;
        }
}

/* Filters of input channels [first, first+width) as numbers, [width][TAPS][OUT]. */
static const char *widen_filters(const call *j, const buffers *b, int64_t block, int64_t first, int64_t width)
{
    const winograd_plan *p = j->c->plan;
    const row_form *f = &p->blocks;
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

/* The GEMMs over input channels [first, first+width). */
static void multiply(const call *j, const buffers *b, int64_t square, int64_t squares, int64_t block, int64_t first,
                     int64_t width)
{
    const winograd_plan *p = j->c->plan;
    const cpu_kernels *k = j->c->k;
    const operand_desc *x = &j->c->op.in[0];
    size_t T = (size_t)p->per_tile, n = (size_t)width;
    for (int64_t s = 0; s < squares; s++) {
        const void *pixel[POINTS];
        pixels_of(j, square + s, first, pixel);
        k->winograd_input(b->v + (size_t)s * IN, T * IN, pixel, type_of(x), n);
    }
    const char *w = p->blocks.block ? widen_filters(j, b, block, first, width)
                                    : (const char *)j->a->in[1] +
                                          (size_t)((block * x->shape.dim[3] + first) * TAPS * OUT) * size_of(p->stored);
    for (size_t i = 0; i < n; i++)
        k->winograd_weight(b->u + i * OUT, IN * OUT, w + i * TAPS * OUT * size_of(p->stored), p->stored, OUT, OUT);
    for (size_t i = 0; i < POINTS; i++)
        k->gemm((size_t)squares, OUT, n, b->v + i * T * IN, IN, 1, b->u + i * IN * OUT, OUT, b->m + i * T * OUT, OUT,
                first > 0);
}

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

static void finish_square(const call *j, const buffers *b, int64_t square, int64_t s, int64_t block)
{
    const winograd_plan *p = j->c->plan;
    const int64_t *o = j->c->op.out.shape.dim;
    float rows[16 * OUT];
    int64_t n = square / p->per_image, within = square % p->per_image;
    int64_t top = within / p->wide * 4, left = within % p->wide * 4;
    size_t columns = (size_t)min64(OUT, o[3] - block * OUT);
    j->c->k->winograd_output(rows, b->m + (size_t)s * OUT, (size_t)p->per_tile * OUT, OUT);
    for (int64_t y = 0; y < 4 && top + y < o[1]; y++)
        for (int64_t x = 0; x < 4 && left + x < o[2]; x++)
            finish_pixel(j, rows + (4 * y + x) * OUT, (n * o[1] + top + y) * o[2] + left + x, block * OUT, columns);
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const winograd_plan *p = j->c->plan;
    int64_t channels = j->c->op.in[0].shape.dim[3], block = (int64_t)index / p->groups;
    int64_t first = (int64_t)index % p->groups * p->per_tile, squares = min64(p->per_tile, p->squares - first);
    buffers b;
    (void)e;
    b.v = (float *)j->a->scratch + slot * p->slot_floats;
    b.u = b.v + POINTS * p->per_tile * IN;
    b.m = b.u + POINTS * IN * OUT;
    b.rows = b.m + POINTS * p->per_tile * OUT;
    b.turned = b.rows + OUT * p->piece;
    for (int64_t i = 0; i < channels; i += IN) multiply(j, &b, first, squares, block, i, min64(IN, channels - i));
    for (int64_t s = 0; s < squares; s++) finish_square(j, &b, first + s, s, block);
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const winograd_plan *p = c->plan;
    call j = {c, a};
    return tiles_run(a->pool, (size_t)(p->groups * p->column_tiles), tile, &j, e);
}

/* [O][I][3][3] -> [O/64][I][9][64], the last block filled up with zeros */
typedef struct {
    const cpu_kernel *c;
    const char *src;
    uint32_t dtype;
    char *dst;
} packing;

/* A strip of input channels at a time, so that what is turned stays in cache. */
enum { STRIP = 32 };

static kiln_status pack_block(void *arg, size_t index, unsigned slot, error *e)
{
    const packing *j = arg;
    const winograd_plan *p = j->c->plan;
    const int64_t *w = j->c->op.in[1].shape.dim;
    size_t row = (size_t)w[1] * 9, n = (size_t)min64(OUT, w[0] - (int64_t)index * OUT), from = dtype_size(j->dtype),
           to = size_of(p->stored), most = STRIP * 9;
    char *rows = mem_calloc(most * OUT, to), *dst = j->dst + index * OUT * row * to;
    kiln_status st = rows ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory for packing weights");
    (void)slot;
    for (size_t first = 0; st == KILN_OK && first < row; first += most) {
        size_t count = row - first < most ? row - first : most;
        for (size_t o = 0; o < n && st == KILN_OK; o++)
            st = dtype_convert(rows + o * most * to, p->stored, j->src + ((index * OUT + o) * row + first) * from,
                               j->dtype, count);
        if (st != KILN_OK)
            error_set(e, st, "weights of type %s are not supported", dtype_name(j->dtype));
        else if (p->stored == KILN_BF16)
            j->c->k->transpose_half((uint16_t *)(void *)dst + first * OUT, OUT, (const uint16_t *)(const void *)rows,
                                    most, OUT, count);
        else
            j->c->k->transpose((float *)(void *)dst + first * OUT, OUT, (const float *)(const void *)rows, most, OUT,
                               count);
    }
    mem_free(rows);
    return st;
}

static kiln_status pack(const kernel *k, uint32_t operand, const void *src, uint32_t dtype, void *dst, pool *q,
                        error *e)
{
    const cpu_kernel *c = (const cpu_kernel *)k;
    const winograd_plan *p = c->plan;
    if (operand == 1) {
        packing j = {.c = c, .src = src, .dtype = dtype, .dst = dst};
        return tiles_run(q, (size_t)p->column_tiles, pack_block, &j, e);
    }
    kiln_status st = dtype_convert(dst, KILN_F32, src, dtype, (size_t)shape_count(&c->op.in[operand].shape));
    return st == KILN_OK ? st : error_set(e, st, "constants of type %s are not supported", dtype_name(dtype));
}

int winograd_fits(const op_desc *op)
{
    const conv2d_attr *t = &op->attr.conv2d;
    const int64_t *x = op->in[0].shape.dim, *w = op->in[1].shape.dim;
    int same = t->stride[0] == 1 && t->stride[1] == 1 && t->dilation[0] == 1 && t->dilation[1] == 1 && t->pad[0] == 1 &&
               t->pad[1] == 1 && t->pad[2] == 1 && t->pad[3] == 1;
    uint32_t type = type_of(&op->in[0]);
    return w[2] == 3 && w[3] == 3 && same && x[3] % 16 == 0 && w[0] >= 32 && (type == KILN_F32 || type == KILN_BF16) &&
           cpu_gemm_type(op->precision) == KILN_F32;
}

static void keep_filters(cpu_kernel *c, winograd_plan *p)
{
    p->stored = c->op.precision == KILN_BF16 ? KILN_BF16 : KILN_F32;
    c->base.pack = pack;
    c->base.packed_bytes[1] = (size_t)(p->column_tiles * OUT * c->op.in[1].shape.dim[1] * TAPS) * size_of(p->stored);
    snprintf(c->base.pack_form[1], sizeof c->base.pack_form[1], "winograd:%s:%d", dtype_name(p->stored), OUT);
}

static void keep_blocks(cpu_kernel *c, winograd_plan *p)
{
    p->stored = KILN_F32;
    p->blocks = rows_form(&c->op, 1);
    p->piece = (int64_t)round_up(IN * TAPS + 2 * p->blocks.block, 16);
    p->slot_floats += (size_t)(OUT * p->piece + IN * TAPS * OUT);
    rows_keep(c, 1);
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
    p->wide = (o[2] + 3) / 4, p->high = (o[1] + 3) / 4, p->per_image = p->wide * p->high;
    p->squares = o[0] * p->per_image;
    p->groups = (p->squares + SQUARES - 1) / SQUARES;
    p->per_tile = (int64_t)round_up((size_t)((p->squares + p->groups - 1) / p->groups), 6);
    p->groups = (p->squares + p->per_tile - 1) / p->per_tile;
    p->column_tiles = (w[0] + OUT - 1) / OUT;
    p->slot_floats = (size_t)POINTS * ((size_t)p->per_tile * IN + IN * OUT + (size_t)p->per_tile * OUT);
    if (rows_are_coded(op, 1))
        keep_blocks(c, p);
    else
        keep_filters(c, p);
    c->base.scratch_bytes = cpu_slots() * p->slot_floats * sizeof(float);
    c->base.flops = 2u * (uint64_t)(o[0] * o[1] * o[2]) * (uint64_t)shape_count(&op->in[1].shape);
    c->base.name = "winograd:4x4,3x3:f32";
    return KILN_OK;
}
