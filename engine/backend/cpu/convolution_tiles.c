/* convolution_tiles.c - see convolution_tiles.h.
 *
 * The picture is copied into planes of 32 channels, a line of 64 bytes each pixel, with what pads it. Where rows of the
 * result are whole tiles of 16 pixels, a plane has the pixels of the picture, and a tap further right is a line
 * further. Elsewhere there is a plane for each tap of a row, with as many pixels a row as the result has, so that 16
 * pixels of it stand one behind the other wherever rows end.
 *
 * An upsampled picture (conv2d_attr.upsampled) is never made. A result's 3x3 window over it sees 2x2 numbers, and which
 * depends on whether its row and column are even: so each pixel of the picture that was doubled has four results, of
 * 2x2 taps each, whose filters tile_products.h packs. That is 4/9 of the products.
 *
 * A task is 32 outputs of all pixels where these are few: a filter is then read once, channels after channels, from
 * memory. Elsewhere it is a band of rows, of one image, by some sets of 32 outputs; its planes are the slot's. Sums run
 * over channels by 32, and over taps, always in that order: no bit depends on what a task is.
 */
#include "backend/cpu/convolution_tiles.h"

#include "backend/cpu/attention_tiles.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/tile_products.h"
#include "base/memory_alloc.h"

#include <string.h>

#if defined __x86_64__
enum {
    FEW_PIXELS = 1024, /* of all images: a task has all of them */
    MOST_TAPS = 7,     /* of a row or column */
    LEAST_WIDTH = 8,   /* of the result */
    LEAST_CHANNELS = 64,
    BAND_PIXELS = 256,   /* or more, where that fits */
    TASKS_OF_THREAD = 4, /* or more, so that threads end alike */
    TILES_AT_ONCE = 12,  /* of a filter, taps and channels, in products of a task that has all pixels */
    TILES_AHEAD = 18,    /* that a filter is fetched before it is used */
    LINE = 64
};
/* Of a band's planes, in the second cache. */
static const size_t BAND_BYTES = 900 << 10, MOST_BAND_BYTES = 1900 << 10;

typedef struct {
    tile_filter filter;
    int64_t images, H, W, C, OH, OW, top, left;
    int64_t high, wide;    /* of the window that a pixel's products see */
    int64_t rows, columns; /* of pixels; of the result, but for an upsampled picture */
    int64_t pixels;        /* of all images */
    int64_t odd;           /* of an upsampled picture: rows of its first pixels that are none of the result */
    int64_t depth;         /* of 32 channels */
    int64_t planes, row;   /* of 32 channels; lines of a plane's row */
    int64_t whole, band;   /* every pixel is in a task; rows of pixels in a band */
    int64_t deep, ahead;   /* 32 channels that are multiplied at once where it is; times those, a filter is fetched */
    size_t plane_bytes;    /* of all a task's */
    size_t sums_bytes, row_bytes, slot_bytes;
} tiles_plan;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    const tiles_plan *p;
    int64_t groups; /* of sets of outputs: tasks of a band */
} call;

/* Some rows of an image's pixels, and where they are. */
typedef struct {
    const uint16_t *lines;
    int64_t image, first, rows;
    int64_t plane; /* lines of one plane */
    int64_t above; /* lines before it in a plane */
} band;

/* A stripe of a picture's rows goes this way where the picture does, and has its bytes (nodes/vae/vae_stages.c). So
 * nothing decides that they do not share, which are rows and what is padded above and below; nor does a batch. */
int convolution_tiles_fit(const op_desc *op)
{
    const conv2d_attr *t = &op->attr.conv2d;
    const int64_t *x = op->in[0].shape.dim, *w = op->in[1].shape.dim;
    int plain = t->groups == 1;
    for (int i = 0; i < 2; i++) plain &= t->stride[i] == 1 && t->dilation[i] == 1;
    for (int i = 0; i < 4; i++) plain &= t->pad[i] >= 0 && t->pad[i] < w[2 + i % 2];
    return plain && tile_products_fit(op) && w[2] * w[3] > 1 && w[2] <= MOST_TAPS && w[3] <= MOST_TAPS &&
           x[3] % STRIP_CHANNELS == 0 && x[3] >= LEAST_CHANNELS && w[0] % SET_OUTPUTS == 0 &&
           (t->upsampled.rows ? x[2] : op->out.shape.dim[2]) >= LEAST_WIDTH;
}

/* Padding is beside the picture, not beside rows that were left out. */
int convolution_tiles_take_upsampled(const op_desc *op)
{
    const conv2d_attr *t = &op->attr.conv2d;
    const int64_t *x = op->in[0].shape.dim, *w = op->in[1].shape.dim;
    int edges = (t->pad[0] == 0 || t->upsampled.first == 0) &&
                (t->pad[2] == 0 || t->upsampled.first + t->upsampled.rows == 2 * x[1]);
    return edges && w[2] == 3 && w[3] == 3 && t->pad[1] == 1 && t->pad[3] == 1 && convolution_tiles_fit(op);
}

/* ---- pixels ---- */

static int64_t ceil_of(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t taps_of(const tiles_plan *p) { return tile_filter_taps(&p->filter); }
static int64_t sets_of(const tiles_plan *p) { return tile_filter_sets(&p->filter); }
static int64_t tiles_of(const tiles_plan *p, int64_t rows) { return ceil_of(rows * p->columns, STRIP_PIXELS); }

/* The first line of a tile of the band. */
static const uint16_t *tile_at(const tiles_plan *p, const band *b, int64_t tile)
{
    int64_t pixel = tile * STRIP_PIXELS;
    if (p->planes == 1) pixel = pixel / p->columns * p->row + pixel % p->columns;
    return b->lines + (b->above + pixel) * LINE_NUMBERS;
}

/* n pixels, `apart` bytes from each other, as a row of each plane; n 0: zeros. */
static void fill_row(const tiles_plan *p, const char *from, int64_t n, size_t apart, uint16_t *to, int64_t plane)
{
    for (int64_t d = 0; d < p->depth; d++)
        for (int64_t tap = 0; tap < p->planes; tap++, to += plane * LINE_NUMBERS) {
            int64_t at = p->left - tap, begin = at > 0 ? at : 0, end = min64(at + n, p->row);
            memset(to, 0, (size_t)min64(begin, p->row) * LINE);
            for (int64_t i = begin; i < end; i++)
                memcpy(to + i * LINE_NUMBERS, from + (size_t)(i - at) * apart + (size_t)d * LINE, LINE);
            if (end < begin) end = begin;
            if (end < p->row) memset(to + end * LINE_NUMBERS, 0, (size_t)(p->row - end) * LINE);
        }
}

/* Row y of an image, padded above, into row `row` of the planes at `lines`. own: room for it as bf16. */
static void fill_from(const call *j, int64_t image, int64_t y, uint16_t *lines, int64_t row, int64_t plane, char *own)
{
    const tiles_plan *p = j->p;
    const operand_desc *x = &j->c->op.in[0];
    size_t apart = (size_t)x->ld * 2;
    int64_t first = (image * p->H + y - p->top) * p->W, n = y < p->top || y - p->top >= p->H ? 0 : p->W;
    const char *from = n ? place_of(x, j->a->in[0], first, 0) : own;
    if (n && type_of(x) != KILN_BF16) {
        apart = (size_t)p->C * 2;
        for (int64_t i = 0; i < n; i++)
            gemm_convert_row(j->c->k, own + (size_t)i * apart, KILN_BF16, place_of(x, j->a->in[0], first + i, 0),
                             type_of(x), (size_t)p->C);
        from = own;
    }
    fill_row(p, from, n, apart, lines + row * p->row * LINE_NUMBERS, plane);
}

/* Of an upsampled picture: the tile's pixels, row by row, each at every other of the result's. */
static void store_phase(const call *j, const band *b, int64_t first, int64_t n, const float *sums, int64_t set,
                        int64_t phase)
{
    const tiles_plan *p = j->p;
    for (int64_t i = 0, now; i < n; i += now) {
        int64_t column = (first + i) % p->columns, row = 2 * (b->first + (first + i) / p->columns) + phase / 2 - p->odd;
        now = min64(n - i, p->columns - column);
        if (row >= 0 && row < p->OH)
            tile_set_store(j->c, j->a, sums + i * PANEL_OUTPUTS, now,
                           (b->image * p->OH + row) * p->OW + 2 * column + phase % 2, 2, set);
    }
}

/* What becomes of a tile's sums by a set of outputs. */
static void finish_tile(const call *j, const band *b, int64_t tile, float *sums, int64_t set, int64_t phase)
{
    const tiles_plan *p = j->p;
    int64_t first = tile * STRIP_PIXELS, n = min64(STRIP_PIXELS, b->rows * p->columns - first);
    tile_set_activate(j->c, j->a, sums, set);
    if (p->filter.upsampled)
        store_phase(j, b, first, n, sums, set, phase);
    else
        tile_set_store(j->c, j->a, sums, n, (b->image * p->OH + b->first) * p->OW + first, 1, set);
}

/* ---- products ---- */

/* All but where pixels are. */
static strip_products products_of(const call *j, const band *b, int64_t set, int64_t phase)
{
    const tiles_plan *p = j->p;
    return (strip_products){.filter = {tile_filter_panel(&p->filter, j->a->in[1], set, 0, phase),
                                       tile_filter_panel(&p->filter, j->a->in[1], set, 1, phase)},
                            .depth = (size_t)p->depth,
                            .high = (size_t)p->filter.high,
                            .wide = (size_t)p->filter.wide,
                            .plane = (size_t)(p->planes * b->plane),
                            .row = (size_t)p->row,
                            .column = (size_t)(p->planes > 1 ? b->plane : 1)};
}

/* Two tiles of the band, the second of which may be missing. Of an upsampled picture an odd result's taps begin a row
 * or a column further. */
static void take_tiles(const call *j, const band *b, int64_t tile, int64_t tiles, int64_t phase, strip_products *s)
{
    size_t further = ((size_t)phase / 2 * s->row + (size_t)phase % 2 * s->column) * LINE_NUMBERS;
    s->pixels[0] = tile_at(j->p, b, tile) + further;
    s->pixels[1] = tile + 1 < tiles ? tile_at(j->p, b, tile + 1) + further : s->pixels[0];
}

/* ---- bands ---- */

static int64_t bands_of(const tiles_plan *p) { return ceil_of(p->rows, p->band); }
static int64_t lines_of(const tiles_plan *p, int64_t rows) { return (rows + p->high - 1) * p->row + STRIP_PIXELS; }

/* What a last tile reads behind its pixels. */
static void clear_ends(const tiles_plan *p, uint16_t *lines, int64_t plane)
{
    for (int64_t d = 1; d <= p->depth * p->planes; d++)
        memset(lines + (d * plane - STRIP_PIXELS) * LINE_NUMBERS, 0, (size_t)STRIP_PIXELS * LINE);
}

static band fill_band(const call *j, int64_t index, char *own)
{
    const tiles_plan *p = j->p;
    int64_t image = index / bands_of(p), top = index % bands_of(p) * p->band, rows = min64(p->band, p->rows - top);
    band b = {.image = image, .first = top, .rows = rows, .plane = lines_of(p, rows)};
    uint16_t *lines = (uint16_t *)(void *)own;
    for (int64_t r = 0; r < rows + p->high - 1; r++)
        fill_from(j, image, top + r, lines, r, b.plane, own + p->plane_bytes + p->sums_bytes);
    clear_ends(p, lines, b.plane);
    b.lines = lines;
    return b;
}

static void run_band_phase(const call *j, const band *b, int64_t set, int64_t phase, float *sums)
{
    strip_products s = products_of(j, b, set, phase);
    int64_t tiles = tiles_of(j->p, b->rows);
    s.sums = sums;
    for (int64_t t = 0; t < tiles; t += 2) {
        take_tiles(j, b, t, tiles, phase, &s);
        strips_multiply(&s);
        finish_tile(j, b, t, sums, set, phase);
        if (t + 1 < tiles) finish_tile(j, b, t + 1, sums + 2 * TILE_SUMS, set, phase);
    }
}

static kiln_status run_band(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const tiles_plan *p = j->p;
    char *own = (char *)j->a->scratch + slot * p->slot_bytes;
    int64_t group = (int64_t)index % j->groups, each = ceil_of(sets_of(p), j->groups);
    band b = fill_band(j, (int64_t)index / j->groups, own);
    float *sums = (float *)(void *)(own + p->plane_bytes);
    (void)e;
    tiles_begin();
    for (int64_t set = group * each; set < min64(sets_of(p), (group + 1) * each); set++)
        for (int64_t phase = 0; phase < tile_filter_phases(&p->filter); phase++)
            run_band_phase(j, &b, set, phase, sums);
    tiles_end();
    return KILN_OK;
}

/* ---- all pixels ---- */

static int64_t image_lines(const tiles_plan *p) { return (p->rows + p->high - 1) * p->row; }
static int64_t whole_plane(const tiles_plan *p) { return p->images * image_lines(p) + STRIP_PIXELS; }

static kiln_status fill_whole(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const tiles_plan *p = j->p;
    int64_t rows = p->rows + p->high - 1;
    (void)e;
    fill_from(j, (int64_t)index / rows, (int64_t)index % rows, j->a->scratch, (int64_t)index, whole_plane(p),
              (char *)j->a->scratch + p->plane_bytes + slot * p->slot_bytes + p->sums_bytes);
    return KILN_OK;
}

/* Channels from 32 d on, p->deep of those or fewer, of all pixels, while a later part of the filter is fetched. */
static void multiply_part(const call *j, const band *image, int64_t set, int64_t phase, int64_t d, float *sums)
{
    const tiles_plan *p = j->p;
    int64_t tiles = tiles_of(p, p->rows), pairs = p->images * ((tiles + 1) / 2), later = d + p->ahead * p->deep;
    size_t each = (size_t)taps_of(p) * PANEL_OUTPUTS * LINE_NUMBERS, step = (size_t)(p->deep * taps_of(p)),
           lines = later + p->deep <= p->depth ? (size_t)ceil_of(PANEL_OUTPUTS, pairs) : 0, fetched = 0;
    for (int64_t i = 0; i < p->images; i++)
        for (int64_t t = 0; t < tiles; t += 2, sums += 4 * TILE_SUMS, fetched += lines) {
            strip_products s = products_of(j, &image[i], set, phase);
            take_tiles(j, &image[i], t, tiles, phase, &s);
            for (int k = 0; k < 2; k++) {
                s.ahead[k] = (const char *)(s.filter[k] + (size_t)later * each) + fetched * step * LINE;
                s.filter[k] += (size_t)d * each;
                s.pixels[k] += (size_t)d * s.plane * LINE_NUMBERS;
            }
            s.depth = (size_t)min64(p->deep, p->depth - d), s.more = d > 0, s.sums = sums;
            s.lines = fetched < PANEL_OUTPUTS ? lines : 0;
            strips_multiply(&s);
        }
}

static void run_set_phase(const call *j, const band *image, int64_t set, int64_t phase, float *sums)
{
    const tiles_plan *p = j->p;
    int64_t tiles = tiles_of(p, p->rows);
    tiles_begin();
    for (int64_t d = 0; d < p->depth; d += p->deep) multiply_part(j, image, set, phase, d, sums);
    tiles_end();
    for (int64_t i = 0; i < p->images; i++, sums += (tiles + tiles % 2) * 2 * TILE_SUMS)
        for (int64_t t = 0; t < tiles; t++) finish_tile(j, &image[i], t, sums + t * 2 * TILE_SUMS, set, phase);
}

static kiln_status run_set(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const tiles_plan *p = j->p;
    float *sums = (float *)(void *)((char *)j->a->scratch + p->plane_bytes + slot * p->slot_bytes);
    band image[FEW_PIXELS / LEAST_WIDTH];
    (void)e;
    for (int64_t i = 0; i < p->images; i++)
        image[i] = (band){
            .lines = j->a->scratch, .image = i, .rows = p->rows, .plane = whole_plane(p), .above = i * image_lines(p)};
    for (int64_t phase = 0; phase < tile_filter_phases(&p->filter); phase++)
        run_set_phase(j, image, (int64_t)index, phase, sums);
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const tiles_plan *p = c->plan;
    call j = {.c = c, .a = a, .p = p};
    if (p->whole) {
        clear_ends(p, a->scratch, whole_plane(p));
        TRY(tiles_run(a->pool, (size_t)(p->images * (p->rows + p->high - 1)), fill_whole, &j, e));
        return tiles_run(a->pool, (size_t)sets_of(p), run_set, &j, e);
    }
    int64_t bands = p->images * bands_of(p), threads = a->pool ? (int64_t)pool_threads(a->pool) : 1;
    j.groups = min64(sets_of(p), ceil_of(TASKS_OF_THREAD * threads, bands));
    return tiles_run(a->pool, (size_t)(bands * j.groups), run_band, &j, e);
}

/* ---- preparing ---- */

static size_t planes_bytes(const tiles_plan *p, int64_t lines) { return (size_t)(p->depth * p->planes * lines) * LINE; }

/* As many rows as the second cache holds, of more than one pass over the filter pays for, but so few that all threads
 * have some bands; bands of one size. */
static int64_t band_rows(const tiles_plan *p)
{
    int64_t least = ceil_of(BAND_PIXELS, p->columns),
            share = ceil_of(p->images * p->rows, TASKS_OF_THREAD * (int64_t)cpu_slots()),
            rows = min64(p->rows, share < least ? least : share);
    while (rows > 1 && planes_bytes(p, lines_of(p, rows)) > (rows > least ? BAND_BYTES : MOST_BAND_BYTES)) rows--;
    return ceil_of(p->rows, ceil_of(p->rows, rows));
}

static void place_scratch(cpu_kernel *c, tiles_plan *p)
{
    int64_t tiles = tiles_of(p, p->rows);
    p->whole = p->pixels <= FEW_PIXELS;
    p->band = band_rows(p);
    p->plane_bytes = planes_bytes(p, p->whole ? whole_plane(p) : lines_of(p, p->band));
    p->sums_bytes = (size_t)(p->whole ? p->images * (tiles + tiles % 2) : 2) * 2 * TILE_SUMS * sizeof(float);
    if (type_of(&c->op.in[0]) != KILN_BF16) p->row_bytes = round_up((size_t)(p->W * p->C) * 2, LINE);
    p->slot_bytes = p->sums_bytes + p->row_bytes + (p->whole ? 0 : p->plane_bytes);
    c->base.scratch_bytes = cpu_slots() * p->slot_bytes + (p->whole ? p->plane_bytes : 0);
}

/* Rounded down; of -2 or more. */
static int64_t half_of(int64_t y) { return (y + 2) / 2 - 1; }

/* A result's row y has its window's middle in row y + 1 - pad + first of the upsampled picture, half of which is the
 * pixel. */
static void place_upsampled(tiles_plan *p, const conv2d_attr *t)
{
    int64_t begin = t->upsampled.first + 1 - t->pad[0], pixel = half_of(begin);
    p->odd = begin - 2 * pixel;
    p->rows = half_of(begin + p->OH - 1) - pixel + 1, p->columns = p->W;
    p->top = 1 - pixel;
    p->filter.high = p->filter.wide = 2, p->filter.upsampled = 1;
}

kiln_status convolution_tiles_prepare(cpu_kernel *c, error *e)
{
    const op_desc *op = &c->op;
    const int64_t *x = op->in[0].shape.dim, *w = op->in[1].shape.dim, *o = op->out.shape.dim;
    tiles_plan *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = p, c->plan_free = mem_free, c->body = run;
    *p = (tiles_plan){.images = o[0], .H = x[1], .W = x[2], .C = x[3], .OH = o[1], .OW = o[2]};
    p->filter = (tile_filter){.outputs = w[0], .inputs = w[1], .high = w[2], .wide = w[3]};
    p->high = w[2], p->wide = w[3], p->rows = p->OH, p->columns = p->OW;
    p->top = op->attr.conv2d.pad[0], p->left = op->attr.conv2d.pad[1];
    if (op->attr.conv2d.upsampled.rows) place_upsampled(p, &op->attr.conv2d);
    p->pixels = p->images * p->rows * p->columns;
    p->depth = p->C / STRIP_CHANNELS;
    p->planes = p->columns % STRIP_PIXELS ? p->wide : 1;
    p->row = p->planes > 1 ? p->columns : p->columns + p->wide - 1;
    p->deep = taps_of(p) < TILES_AT_ONCE ? TILES_AT_ONCE / taps_of(p) : 1;
    p->ahead = ceil_of(TILES_AHEAD, p->deep * taps_of(p));
    place_scratch(c, p);
    tile_filter_keep(c);
    c->base.flops = 2u * (uint64_t)(p->pixels * tile_filter_phases(&p->filter) * taps_of(p)) *
                    (uint64_t)(p->filter.inputs * p->filter.outputs);
    return KILN_OK;
}
#else
int convolution_tiles_fit(const op_desc *op) { return (void)op, 0; }
int convolution_tiles_take_upsampled(const op_desc *op) { return (void)op, 0; }
kiln_status convolution_tiles_prepare(cpu_kernel *c, error *e)
{
    return (void)c, error_set(e, KILN_ERR_BUG, "conv2d: no tiles here");
}
#endif
