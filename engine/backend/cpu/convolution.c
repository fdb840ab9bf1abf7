/* convolution.c - OP_CONV, of rank 1 to 3, that convolution_blocks.c leaves, and OP_POOL: what a tile of results sees
 * of the picture is gathered, some taps of the kernel at a time, and multiplied by the weights, which lie
 * [tap][input][output]. Where each channel is a group of its own (depthwise), rows of channels are multiplied instead.
 * A transposed convolution is computed by phases: results that are a stride apart see the same taps.
 *
 * A picture of rank 1 or 2 is one of rank 3 with dimensions of 1 before it.
 */
#include "backend/cpu/convolution_blocks.h"

#include "backend/resample.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { PIXELS = 192, DEPTH = 512, CHUNK = 1024, COLUMNS = 16, TOGETHER = 8, FOLDED_ROWS = 4, POOLED = 8192 };
enum { TOGETHER_CHANNELS = 256 };

typedef struct {
    int64_t x[3], out[3], kernel[3], stride[3], before[3], after[3], dilation[3];
    int64_t images, groups, in_group, out_group, padded, phases, tiles; /* padded: out_group in multiples of COLUMNS */
    int64_t taps, tap_batch, slot_floats, tiles_of[512];                /* before a phase's tiles: those of others */
    int64_t pool_width;                                                 /* results of a row that are pooled together */
    uint32_t pad_mode, transposed, depthwise;
} plan;

enum { MOST_PHASES = 511 };

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    const plan *p;
} call;

static void spread(int64_t to[3], const int32_t *v, uint32_t rank, int64_t none)
{
    for (uint32_t d = 0; d < 3; d++) to[d] = d + rank < 3 ? none : v[d + rank - 3];
}
static void spread_sizes(int64_t to[3], const shape *s)
{
    for (uint32_t d = 0; d < 3; d++) to[d] = d + s->rank < 5 ? 1 : s->dim[d + s->rank - 4];
}

/* ---- places ---- */

/* Results of a phase along each dimension. */
static void phase_sizes(const plan *p, int64_t phase, int64_t start[3], int64_t size[3])
{
    for (int d = 2; d >= 0; d--) {
        int64_t step = p->transposed ? p->stride[d] : 1;
        start[d] = phase % step;
        size[d] = start[d] < p->out[d] ? (p->out[d] - start[d] + step - 1) / step : 0;
        phase /= step;
    }
}
static int64_t phase_pixels(const plan *p, int64_t phase)
{
    int64_t start[3], size[3];
    phase_sizes(p, phase, start, size);
    return size[0] * size[1] * size[2];
}

/* Result i of a phase. */
static void result_place(const plan *p, int64_t phase, int64_t i, int64_t at[3])
{
    int64_t start[3], size[3];
    phase_sizes(p, phase, start, size);
    for (int d = 2; d >= 0; d--) {
        at[d] = start[d] + i % size[d] * (p->transposed ? p->stride[d] : 1);
        i /= size[d];
    }
}

static void tap_place(const plan *p, int64_t tap, int64_t k[3])
{
    k[0] = tap / p->kernel[2] / p->kernel[1], k[1] = tap / p->kernel[2] % p->kernel[1], k[2] = tap % p->kernel[2];
}

/* Pixel of the picture that result `at` sees through the tap; -1: padding. */
static int64_t source_pixel(const plan *p, const int64_t at[3], const int64_t k[3])
{
    int64_t pixel = 0;
    for (int d = 0; d < 3; d++) {
        int64_t i = at[d] * p->stride[d] - p->before[d] + k[d] * p->dilation[d];
        if (p->transposed) {
            i = at[d] + p->before[d] - k[d] * p->dilation[d];
            i = i < 0 || i % p->stride[d] || i / p->stride[d] >= p->x[d] ? -1 : i / p->stride[d];
        } else
            i = padded_place((int)p->pad_mode, i, p->x[d]);
        if (i < 0) return -1;
        pixel = pixel * p->x[d] + i;
    }
    return pixel;
}

/* Does any result of a phase see the tap? */
static int tap_is_seen(const plan *p, const int64_t start[3], const int64_t k[3])
{
    for (int d = 0; d < 3 && p->transposed; d++)
        if ((start[d] + p->before[d] - k[d] * p->dilation[d]) % p->stride[d]) return 0;
    return 1;
}

/* ---- a tile: some results of one phase of one image ---- */

typedef struct {
    int64_t image, phase, n;
    int64_t at[PIXELS][3];
} tile_place;

static void tile_at(const plan *p, int64_t index, tile_place *t)
{
    int64_t each = p->tiles_of[p->phases], phase = 0;
    t->image = index / each;
    index %= each;
    while (index >= p->tiles_of[phase + 1]) phase++;
    int64_t first = (index - p->tiles_of[phase]) * PIXELS;
    t->phase = phase, t->n = min64(PIXELS, phase_pixels(p, phase) - first);
    for (int64_t i = 0; i < t->n; i++) result_place(p, phase, first + i, t->at[i]);
}

/* n channels from `channel` on of what result `at` sees: zeros where that is padding. */
static void gather(const call *j, float *to, int64_t image, const int64_t at[3], const int64_t k[3], int64_t channel,
                   int64_t n)
{
    const operand_desc *x = &j->c->op.in[0];
    int64_t pixel = source_pixel(j->p, at, k);
    if (pixel < 0)
        memset(to, 0, (size_t)n * sizeof *to);
    else
        j->c->k->load(to, place_of(x, j->a->in[0], image * j->p->x[0] * j->p->x[1] * j->p->x[2] + pixel, channel),
                      x->dtype, (size_t)n);
}

static void store_result(const call *j, int64_t image, const int64_t at[3], int64_t column, float *v, int64_t n)
{
    const plan *p = j->p;
    const operand_desc *out = &j->c->op.out;
    const float *bias = j->c->op.kind == OP_CONV && j->c->op.in[2].dtype ? j->a->in[2] : NULL;
    int64_t row = ((image * p->out[0] + at[0]) * p->out[1] + at[1]) * p->out[2] + at[2];
    if (bias) j->c->k->add(v, bias + column, (size_t)n);
    j->c->k->store((char *)j->a->out + (size_t)(row * out->ld + column) * size_of(out->dtype), out->dtype, v,
                   (size_t)n);
}

/* The taps [*tap, ..) that the phase sees, up to a batch of them, into the columns of a. */
static int64_t gather_taps(const call *j, const tile_place *t, int64_t group, int64_t *tap, float *a, float *chosen,
                           const float **w)
{
    const plan *p = j->p;
    int64_t start[3], size[3], k[3], n = 0, block = p->in_group * p->padded;
    const float *weights = (const float *)j->a->in[1] + group * p->taps * block;
    phase_sizes(p, t->phase, start, size);
    *w = p->transposed ? chosen : weights + *tap * block; /* of a transposed one, those of some taps */
    for (; *tap < p->taps && n < p->tap_batch; ++*tap) {
        tap_place(p, *tap, k);
        if (!tap_is_seen(p, start, k)) continue;
        for (int64_t i = 0; i < t->n; i++)
            gather(j, a + (i * p->tap_batch + n) * p->in_group, t->image, t->at[i], k, group * p->in_group,
                   p->in_group);
        if (p->transposed) memcpy(chosen + n * block, weights + *tap * block, (size_t)block * sizeof *chosen);
        n++;
    }
    return n;
}

static void group_tile(const call *j, const tile_place *t, int64_t group, float *room)
{
    const plan *p = j->p;
    int64_t depth = p->tap_batch * p->in_group, tap = 0;
    float *a = room, *chosen = a + PIXELS * depth, *c = chosen + depth * p->padded;
    const float *w;
    memset(c, 0, (size_t)(t->n * p->padded) * sizeof *c);
    for (int64_t n; (n = gather_taps(j, t, group, &tap, a, chosen, &w)) > 0;)
        j->c->k->gemm((size_t)t->n, (size_t)p->padded, (size_t)(n * p->in_group), a, (size_t)depth, 1, w,
                      (size_t)p->padded, c, (size_t)p->padded, 1);
    for (int64_t i = 0; i < t->n; i++)
        store_result(j, t->image, t->at[i], group * p->out_group, c + i * p->padded, p->out_group);
}

/* Columns [column, column + n) of one result: rows of channels times rows of weights. */
static void depthwise_result(const call *j, const tile_place *t, const int64_t at[3], int64_t column, int64_t n)
{
    const plan *p = j->p;
    const operand_desc *x = &j->c->op.in[0];
    float sum[CHUNK] = {0};
    const void *from[TOGETHER];
    const float *w[TOGETHER];
    size_t rows = 0;
    int64_t k[3], first = t->image * p->x[0] * p->x[1] * p->x[2];
    for (int64_t tap = 0; tap < p->taps; tap++) {
        tap_place(p, tap, k);
        int64_t pixel = source_pixel(p, at, k);
        if (pixel < 0) continue;
        from[rows] = place_of(x, j->a->in[0], first + pixel, column);
        w[rows++] = (const float *)j->a->in[1] + tap * p->groups + column;
        if (rows < TOGETHER || p->taps <= TOGETHER) continue;
        j->c->k->products_stored(sum, from, w, rows, type_of(x), (size_t)n);
        rows = 0;
    }
    if (p->taps <= TOGETHER && type_of(x) == j->c->op.out.dtype && !op_saturates(&j->c->op)) {
        const operand_desc *out = &j->c->op.out;
        const float *bias = j->c->op.in[2].dtype ? (const float *)j->a->in[2] + column : NULL;
        int64_t row = ((t->image * p->out[0] + at[0]) * p->out[1] + at[1]) * p->out[2] + at[2];
        j->c->k->depthwise_row((char *)j->a->out + (size_t)(row * out->ld + column) * size_of(out->dtype), out->dtype,
                               from, w, rows, bias, (size_t)n, j->c->past);
        return;
    }
    if (rows) j->c->k->products_stored(sum, from, w, rows, type_of(x), (size_t)n);
    store_result(j, t->image, at, column, sum, n);
}

/* May DEPTHWISE_RESULTS results from `at` on be computed together? Their windows lie inside along the last dimension.
 * Where neighbours share no taps depthwise_row() makes one after the other. */
static int is_inner(const plan *p, const int64_t at[3])
{
    int64_t first = at[2] * p->stride[2] - p->before[2], end = at[2] + DEPTHWISE_RESULTS;
    int64_t last = (end - 1) * p->stride[2] - p->before[2] + (p->kernel[2] - 1) * p->dilation[2];
    return !p->transposed && p->kernel[2] > 2 && p->taps <= MOST_DEPTHWISE_TAPS && end <= p->out[2] && first >= 0 &&
           last < p->x[2];
}

/* Columns [column, column + n) of such results. */
static void depthwise_results(const call *j, const tile_place *t, const int64_t from[3], int64_t column, int64_t n)
{
    const plan *p = j->p;
    const operand_desc *x = &j->c->op.in[0], *out = &j->c->op.out;
    int64_t first = t->image * p->x[0] * p->x[1] * p->x[2], k[3], at[3] = {from[0], from[1], from[2]};
    float sums[DEPTHWISE_RESULTS * TOGETHER_CHANNELS];
    const void *pixels[MOST_DEPTHWISE_TAPS];
    size_t place[MOST_DEPTHWISE_TAPS];
    depthwise_taps d = {.x = pixels, .place = place, .w = j->a->in[1], .type = type_of(x)};
    for (int64_t tap = 0; tap < p->taps; tap += p->kernel[2]) {
        tap_place(p, tap, k);
        int64_t pixel = source_pixel(p, at, k);
        for (int64_t i = 0; i < p->kernel[2] && pixel >= 0; i++) {
            pixels[d.taps] = place_of(x, j->a->in[0], first + pixel + i * p->dilation[2], column);
            place[d.taps++] = (size_t)((tap + i) * p->groups + column);
        }
    }
    d.step = (size_t)p->stride[2] * (size_t)(x->weight ? columns_of(x) : x->ld) * size_of(type_of(x));
    if (out->dtype != KILN_F16) {
        int64_t row = ((t->image * p->out[0] + at[0]) * p->out[1] + at[1]) * p->out[2] + at[2];
        size_t size = size_of(out->dtype);
        d.bias = j->c->op.in[2].dtype ? (const float *)j->a->in[2] + column : NULL;
        j->c->k->depthwise((char *)j->a->out + (size_t)(row * out->ld + column) * size, out->dtype,
                           (size_t)out->ld * size, &d, (size_t)n, j->c->past);
        return;
    }
    j->c->k->depthwise(sums, KILN_F32, (size_t)n * sizeof *sums, &d, (size_t)n, 0);
    for (int r = 0; r < DEPTHWISE_RESULTS; r++, at[2]++) store_result(j, t->image, at, column, sums + r * n, n);
}

static void depthwise_tile(const call *j, const tile_place *t)
{
    const plan *p = j->p;
    for (int64_t i = 0, done; i < t->n; i += done) {
        int together = i + DEPTHWISE_RESULTS <= t->n && is_inner(p, t->at[i]);
        int64_t width = together ? TOGETHER_CHANNELS : CHUNK;
        done = together ? DEPTHWISE_RESULTS : 1;
        for (int64_t c = 0; c < p->groups; c += width)
            (together ? depthwise_results : depthwise_result)(j, t, t->at[i], c, min64(width, p->groups - c));
    }
}

static kiln_status conv_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const plan *p = j->p;
    tile_place t;
    tile_at(p, (int64_t)index, &t);
    (void)e;
    for (int64_t g = 0; g < p->groups && !p->depthwise; g++)
        group_tile(j, &t, g, (float *)j->a->scratch + (int64_t)slot * p->slot_floats);
    if (p->depthwise) depthwise_tile(j, &t);
    return KILN_OK;
}

static kiln_status conv(const cpu_kernel *c, const kernel_args *a, error *e)
{
    call j = {c, a, c->plan};
    return tiles_run(a->pool, (size_t)j.p->tiles, conv_tile, &j, e);
}

/* ---- weights: [O, I/groups, taps], transposed [I, O/groups, taps] -> [group][tap][input][padded output] ---- */

static kiln_status pack(const kernel *base, uint32_t operand, const void *src, uint32_t src_dtype, void *dst,
                        pool *workers, error *e)
{
    const cpu_kernel *c = (const cpu_kernel *)base;
    const plan *p = c->plan;
    size_t n = (size_t)shape_count(&c->op.in[operand].shape), size = dtype_size(src_dtype);
    float *to = dst;
    (void)workers;
    if (operand != 1) {
        kiln_status status = dtype_convert(dst, KILN_F32, src, src_dtype, n);
        return status == KILN_OK ? status
                                 : error_set(e, status, "weights of type %s are not supported", dtype_name(src_dtype));
    }
    memset(to, 0, base->packed_bytes[1]);
    for (size_t at = 0; at < n; at++) {
        int64_t tap = (int64_t)at % p->taps, b = (int64_t)at / p->taps,
                inner = p->transposed ? p->out_group : p->in_group;
        int64_t second = b % inner, first = b / inner, own = p->transposed ? p->in_group : p->out_group;
        int64_t group = first / own, i = p->transposed ? first % own : second, o = p->transposed ? second : first % own;
        int64_t place =
            p->depthwise ? tap * p->groups + group : ((group * p->taps + tap) * p->in_group + i) * p->padded + o;
        kiln_status status = dtype_convert(&to[place], KILN_F32, (const char *)src + at * size, src_dtype, 1);
        if (status != KILN_OK)
            return error_set(e, status, "weights of type %s are not supported", dtype_name(src_dtype));
    }
    return KILN_OK;
}

static kiln_status lay_out_tiles(plan *p, error *e)
{
    p->phases = p->transposed ? p->stride[0] * p->stride[1] * p->stride[2] : 1;
    if (p->phases > MOST_PHASES)
        return error_set(e, KILN_ERR_UNSUPPORTED, "conv: strides of %lld together; %d at most for a transposed one",
                         (long long)p->phases, MOST_PHASES);
    for (int64_t phase = 0; phase < p->phases; phase++)
        p->tiles_of[phase + 1] = p->tiles_of[phase] + (phase_pixels(p, phase) + PIXELS - 1) / PIXELS;
    p->tiles = p->images * p->tiles_of[p->phases];
    return KILN_OK;
}

/* Groups of several channels, and anything to compute. */
static int is_dense(const op_desc *op)
{
    const conv_attr *t = &op->attr.conv;
    return columns_of(&op->in[0]) / t->groups > 1 && columns_of(&op->out) / t->groups > 1 &&
           shape_count(&op->out.shape) && shape_count(&op->in[0].shape) && op->in[1].weight &&
           (!op->in[2].dtype || op->in[2].weight);
}

kiln_status cpu_prepare_conv(cpu_kernel *c, error *e)
{
    const op_desc *op = &c->op;
    const conv_attr *t = &op->attr.conv;
    if (is_dense(op)) {
        kiln_status status = convolution_blocks_prepare(c, e);
        if (status != KILN_ERR_UNSUPPORTED) return status;
    }
    plan *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = p, c->plan_free = mem_free, c->body = conv;
    spread_sizes(p->x, &op->in[0].shape), spread_sizes(p->out, &op->out.shape);
    spread_sizes(p->kernel, &(shape){.rank = 0});
    for (uint32_t d = 0; d < t->rank; d++) p->kernel[d + 3 - t->rank] = op->in[1].shape.dim[2 + d];
    spread(p->stride, t->stride, t->rank, 1), spread(p->dilation, t->dilation, t->rank, 1);
    spread(p->before, t->before, t->rank, 0);
    p->pad_mode = t->pad_mode, p->transposed = t->transposed, p->groups = t->groups, p->images = op->in[0].shape.dim[0];
    p->in_group = columns_of(&op->in[0]) / p->groups, p->out_group = columns_of(&op->out) / p->groups;
    p->depthwise = p->in_group == 1 && p->out_group == 1;
    p->padded = (int64_t)round_up((size_t)p->out_group, COLUMNS);
    p->taps = p->kernel[0] * p->kernel[1] * p->kernel[2];
    p->tap_batch = min64(p->taps, DEPTH / p->in_group > 0 ? DEPTH / p->in_group : 1);
    int64_t depth = p->tap_batch * p->in_group;
    p->slot_floats = (int64_t)round_up((size_t)(PIXELS * depth + depth * p->padded + PIXELS * p->padded), 16);
    if (!p->depthwise) c->base.scratch_bytes = (size_t)cpu_slots() * (size_t)p->slot_floats * sizeof(float);
    c->base.pack = pack;
    c->base.packed_bytes[1] =
        (size_t)(p->groups * p->taps * (p->depthwise ? 1 : p->in_group * p->padded)) * sizeof(float);
    snprintf(c->base.pack_form[1], sizeof c->base.pack_form[1], "conv f32 %lld groups, taps first%s",
             (long long)p->groups, p->transposed ? ", transposed" : "");
    c->base.flops = 2 * (uint64_t)shape_count(&op->out.shape) * (uint64_t)(p->taps * p->in_group) /
                    (uint64_t)(p->transposed ? p->stride[0] * p->stride[1] * p->stride[2] : 1);
    return lay_out_tiles(p, e);
}

/* ---- pool ---- */

/* Places of a window: those inside count, and of an average those in the padding. */
static double window_count(const plan *p, const int64_t at[3], int with_padding)
{
    int64_t all = 1;
    for (int d = 0; d < 3; d++) {
        int64_t first = at[d] * p->stride[d] - p->before[d], last = first + p->kernel[d];
        int64_t low = with_padding ? first : first > 0 ? first : 0, high = p->x[d] + (with_padding ? p->after[d] : 0);
        all *= min64(last, high) - low;
    }
    return (double)all;
}

/* to = rows of n numbers, up to FOLDED_ROWS, folded; `more`: into what is there. */
static void fold_rows(const call *j, uint32_t kind, float *to, const void *const *row, size_t rows, size_t n, int more)
{
    static const float one[FOLDED_ROWS] = {1, 1, 1, 1};
    uint32_t type = type_of(&j->c->op.in[0]);
    size_t first = 0;
    if (!more && !rows)
        for (size_t i = 0; i < n; i++) to[i] = kind == KILN_REDUCE_MAX ? -INFINITY : 0;
    else if (!more && kind == KILN_REDUCE_SUM)
        j->c->k->sum_weighed(to, one, row, rows, type, n), first = rows;
    else if (!more)
        j->c->k->load(to, row[0], type, n), first = 1;
    if (first < rows) j->c->k->fold_stored(kind, to, row + first, rows - first, type, n);
}

/* Of results at `at` and on along the last dimension, n of them: the rows of pixels of their windows, folded into one.
 */
static void fold_window_rows(const call *j, int64_t image, const int64_t at[3], int64_t first, int64_t pixels,
                             float *to)
{
    const plan *p = j->p;
    const operand_desc *x = &j->c->op.in[0];
    int64_t C = columns_of(x), dense = x->weight || x->ld == C, low[2], high[2];
    uint32_t kind = j->c->op.attr.pool.kind == KILN_POOL_MAX ? KILN_REDUCE_MAX : KILN_REDUCE_SUM;
    for (int d = 0; d < 2; d++) {
        int64_t start = at[d] * p->stride[d] - p->before[d];
        low[d] = start > 0 ? start : 0, high[d] = min64(start + p->kernel[d], p->x[d]);
    }
    for (int64_t pixel = 0; pixel < pixels; pixel += dense ? pixels : 1) {
        const void *row[TOGETHER];
        size_t rows = 0, n = (size_t)((dense ? pixels : 1) * C);
        int more = 0;
        for (int64_t z = low[0]; z < high[0]; z++)
            for (int64_t y = low[1]; y < high[1]; y++) {
                int64_t place = ((image * p->x[0] + z) * p->x[1] + y) * p->x[2] + first + pixel;
                row[rows++] = place_of(x, j->a->in[0], place, 0);
                if (rows < FOLDED_ROWS) continue;
                fold_rows(j, kind, to + pixel * C, row, rows, n, more);
                rows = 0, more = 1;
            }
        if (rows || !more) fold_rows(j, kind, to + pixel * C, row, rows, n, more);
    }
}

/* What a part of a row of results is made of: pixels first.. of the row's windows, folded. */
static void pool_pixel(const call *j, int64_t image, const int64_t at[3], int64_t first, const float *folded,
                       float *sum)
{
    const plan *p = j->p;
    int64_t C = columns_of(&j->c->op.in[0]), start = at[2] * p->stride[2] - p->before[2];
    int64_t low = start > 0 ? start : 0, high = min64(start + p->kernel[2], p->x[2]);
    int most = j->c->op.attr.pool.kind == KILN_POOL_MAX;
    for (int64_t c = 0; c < C; c++) sum[c] = most ? -INFINITY : 0;
    for (int64_t x = low; x < high; x += TOGETHER) {
        const void *row[TOGETHER];
        size_t rows = (size_t)min64(TOGETHER, high - x);
        for (size_t r = 0; r < rows; r++) row[r] = folded + (x + (int64_t)r - first) * C;
        j->c->k->fold_stored(most ? KILN_REDUCE_MAX : KILN_REDUCE_SUM, sum, row, rows, KILN_F32, (size_t)C);
    }
    if (!most)
        j->c->k->affine(sum, (float)(1 / window_count(p, at, (int)j->c->op.attr.pool.include_pad)), 0, (size_t)C);
    store_result(j, image, at, 0, sum, C);
}

/* How many results from `at` on, below end, have windows that lie inside their row. */
static int64_t pool_whole(const plan *p, int64_t at, int64_t end)
{
    int64_t start = at * p->stride[2] - p->before[2], room = p->x[2] - p->kernel[2] - start;
    return start < 0 || room < 0 ? 0 : min64(end - at, room / p->stride[2] + 1);
}

static void pool_run_of(const call *j, int64_t image, const int64_t at[3], int64_t n, int64_t first,
                        const float *folded)
{
    const plan *p = j->p;
    const operand_desc *out = &j->c->op.out;
    int64_t C = columns_of(out), start = at[2] * p->stride[2] - p->before[2],
            row = ((image * p->out[0] + at[0]) * p->out[1] + at[1]) * p->out[2] + at[2];
    size_t step = (size_t)out->ld * size_of(out->dtype);
    int most = j->c->op.attr.pool.kind == KILN_POOL_MAX;
    float scale = most ? 1 : (float)(1 / window_count(p, at, (int)j->c->op.attr.pool.include_pad));
    j->c->k->windows_row(most ? KILN_REDUCE_MAX : KILN_REDUCE_SUM, (char *)j->a->out + (size_t)row * step, out->dtype,
                         step, folded + (start - first) * C, (size_t)p->stride[2], (size_t)p->kernel[2], scale,
                         (size_t)n, (size_t)C, j->c->past);
}

/* ---- the greatest of small windows of bf16, by whole numbers ---- */

static int is_half_maximum(const call *j)
{
    const plan *p = j->p;
    return j->c->op.attr.pool.kind == KILN_POOL_MAX && type_of(&j->c->op.in[0]) == KILN_BF16 &&
           j->c->op.out.dtype == KILN_BF16 && p->kernel[0] * p->kernel[1] <= TOGETHER && p->kernel[2] <= TOGETHER;
}

/* fold_window_rows(), into keys. */
static void fold_half_rows(const call *j, int64_t image, const int64_t at[3], int64_t first, int64_t pixels,
                           uint16_t *to)
{
    const plan *p = j->p;
    const operand_desc *x = &j->c->op.in[0];
    int64_t C = columns_of(x), dense = x->weight || x->ld == C;
    for (int64_t pixel = 0; pixel < pixels; pixel += dense ? pixels : 1) {
        const void *row[TOGETHER];
        size_t rows = 0;
        for (int64_t k = 0; k < p->kernel[0] * p->kernel[1]; k++) {
            int64_t z = at[0] * p->stride[0] - p->before[0] + k / p->kernel[1],
                    y = at[1] * p->stride[1] - p->before[1] + k % p->kernel[1];
            if (z < 0 || z >= p->x[0] || y < 0 || y >= p->x[1]) continue;
            row[rows++] = place_of(x, j->a->in[0], ((image * p->x[0] + z) * p->x[1] + y) * p->x[2] + first + pixel, 0);
        }
        j->c->k->most_half(to + pixel * C, row, rows, 1, (size_t)((dense ? pixels : 1) * C), 0);
    }
}

/* Results of a row, [begin, end), of pixels `first` and on of folded rows. */
static void half_maxima(const call *j, int64_t row, int64_t begin, int64_t end, int64_t first, const uint16_t *folded)
{
    const plan *p = j->p;
    const operand_desc *out = &j->c->op.out;
    int64_t C = columns_of(out);
    for (int64_t o = begin, whole; o < end; o += whole) {
        int64_t start = o * p->stride[2] - p->before[2], low = start > 0 ? start : 0,
                high = min64(start + p->kernel[2], p->x[2]);
        const void *pixel[TOGETHER];
        for (int64_t i = low; i < high; i++) pixel[i - low] = folded + (i - first) * C;
        whole = pool_whole(p, o, end);
        if (!whole || p->stride[2] > 1 || out->ld != C) whole = 1;
        j->c->k->most_half((uint16_t *)j->a->out + (row * p->out[2] + o) * out->ld, pixel,
                           high > low ? (size_t)(high - low) : 0, 0, (size_t)(whole * C), j->c->past);
    }
}

/* Some results of one row, as many as the room for what they see allows. */
static kiln_status pool_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const plan *p = j->p;
    int64_t C = columns_of(&j->c->op.out), parts = (p->out[2] + p->pool_width - 1) / p->pool_width;
    int64_t begin = (int64_t)index % parts * p->pool_width, end = min64(p->out[2], begin + p->pool_width);
    int64_t row = (int64_t)index / parts, image = row / p->out[1] / p->out[0];
    int64_t at[3] = {row / p->out[1] % p->out[0], row % p->out[1], begin};
    int64_t first = begin * p->stride[2] - p->before[2], last = (end - 1) * p->stride[2] - p->before[2] + p->kernel[2];
    float *sum = (float *)j->a->scratch + (int64_t)slot * p->slot_floats, *folded = sum + C;
    (void)e;
    first = first > 0 ? first : 0, last = min64(last, p->x[2]);
    if (is_half_maximum(j)) {
        if (last > first) fold_half_rows(j, image, at, first, last - first, (uint16_t *)(void *)folded);
        half_maxima(j, row, begin, end, first, (const uint16_t *)(const void *)folded);
        return KILN_OK;
    }
    if (last > first) fold_window_rows(j, image, at, first, last - first, folded);
    while (at[2] < end) {
        int64_t whole = pool_whole(p, at[2], end);
        if (whole)
            pool_run_of(j, image, at, whole, first, folded);
        else
            pool_pixel(j, image, at, first, folded, sum);
        at[2] += whole ? whole : 1;
    }
    return KILN_OK;
}

static kiln_status pool_run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    call j = {c, a, c->plan};
    return tiles_run(a->pool, (size_t)j.p->tiles, pool_tile, &j, e);
}

kiln_status cpu_prepare_pool(cpu_kernel *c, error *e)
{
    const pool_attr *t = &c->op.attr.pool;
    plan *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = p, c->plan_free = mem_free, c->body = pool_run;
    spread_sizes(p->x, &c->op.in[0].shape), spread_sizes(p->out, &c->op.out.shape);
    spread(p->kernel, t->size, t->rank, 1), spread(p->stride, t->stride, t->rank, 1);
    spread(p->before, t->before, t->rank, 0), spread(p->after, t->after, t->rank, 0);
    for (int d = 0; d < 3; d++) p->dilation[d] = 1;
    p->images = c->op.in[0].shape.dim[0], p->taps = p->kernel[0] * p->kernel[1] * p->kernel[2];
    c->base.flops = (uint64_t)shape_count(&c->op.out.shape) * (uint64_t)p->taps;
    int64_t C = columns_of(&c->op.out), seen = POOLED / (C ? C : 1);
    p->pool_width = seen > p->kernel[2] ? (seen - p->kernel[2]) / p->stride[2] + 1 : 1;
    p->pool_width = min64(p->pool_width, p->out[2] > 0 ? p->out[2] : 1);
    p->slot_floats = (int64_t)round_up((size_t)(C * (1 + (p->pool_width - 1) * p->stride[2] + p->kernel[2])), 16);
    c->base.scratch_bytes = (size_t)cpu_slots() * (size_t)p->slot_floats * sizeof(float);
    p->tiles = C ? p->images * p->out[0] * p->out[1] * ((p->out[2] + p->pool_width - 1) / p->pool_width) : 0;
    return KILN_OK;
}
