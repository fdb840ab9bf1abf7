/* vae_tiles.c - see vae_tiles.h. Where tiles lie and how they fade is what ComfyUI's tiled nodes do. */
#include "vae_tiles.h"

#include "kiln/kit.h"

#include <assert.h>
#include <math.h>

enum { TIME, ROWS, COLUMNS, AXES, TILINGS = 3 };

/* A tiling along the axes, in cells of the input. */
typedef struct {
    int64_t size[AXES], overlap[AXES], margin[AXES];
} grid;

static void extents(const vae_shape *s, int64_t out[AXES])
{
    out[TIME] = s->frames, out[ROWS] = s->rows, out[COLUMNS] = s->columns;
}

/* Squares, then (pictures) tiles twice as high or as wide and half the other side; in the order they are summed. */
static size_t grids_of(const vae_converter *v, const vae_tiling *t, grid out[TILINGS])
{
    int64_t side = t->side;
    grid square = {{t->frames, side, side}, {t->frame_overlap, t->overlap, t->overlap}, {0, t->margin, t->margin}},
         tall = square, low = square;
    tall.size[ROWS] = 2 * side, tall.size[COLUMNS] = side / 2;
    low.size[ROWS] = side / 2, low.size[COLUMNS] = 2 * side;
    out[0] = square;
    if (v->rank > 4 || t->margin) return 1;
    if (v->encode)
        out[1] = low, out[2] = tall;
    else
        out[0] = tall, out[1] = low, out[2] = square;
    return TILINGS;
}

static int fits_one_tile(const grid *g, const int64_t all[AXES])
{
    return all[TIME] <= g->size[TIME] && all[ROWS] <= g->size[ROWS] && all[COLUMNS] <= g->size[COLUMNS];
}

/* How many tiles there are along an axis. */
static int64_t tiles_along(const grid *g, int axis, int64_t all)
{
    int64_t step = g->size[axis] - g->overlap[axis];
    return all <= g->size[axis] ? 1 : (all - g->overlap[axis] + step - 1) / step;
}

static int64_t tile_count(const grid *g, const vae_shape *in)
{
    int64_t all[AXES], n = 1;
    extents(in, all);
    for (int a = 0; a < AXES; a++) n *= tiles_along(g, a, all[a]);
    return fits_one_tile(g, all) ? 1 : n;
}

uint64_t vae_tiled_runs(const vae_converter *v, const vae_tiling *t, const vae_shape *in)
{
    grid g[TILINGS];
    size_t n = grids_of(v, t, g);
    uint64_t runs = 0;
    for (size_t i = 0; i < n; i++) runs += (uint64_t)tile_count(&g[i], in);
    return runs;
}

/* ---- one tile ---- */

/* Copies the box `part` that begins at `at` out of `all`. */
static void cut(const vae_shape *all, const float *x, const int64_t at[AXES], const vae_shape *part, float *out)
{
    size_t row = (size_t)(part->columns * part->channels);
    for (int64_t t = 0; t < part->frames; t++)
        for (int64_t y = 0; y < part->rows; y++, out += row)
            memcpy(out, x + (((at[TIME] + t) * all->rows + at[ROWS] + y) * all->columns + at[COLUMNS]) * all->channels,
                   row * sizeof *out);
}

/* Where tile number i begins. With a margin the last one is moved back to the size of the others. */
static int64_t tile_begin(const grid *g, int axis, int64_t i, int64_t all)
{
    int64_t at = i * (g->size[axis] - g->overlap[axis]);
    return g->margin[axis] && at + g->size[axis] > all && all > g->size[axis] ? all - g->size[axis] : at;
}

/* The weight of place i of n: it falls over `feather` places towards both ends. */
static float fade(int64_t i, int64_t n, int64_t feather)
{
    float w = 1;
    if (feather >= n) return 1;
    if (i < feather) w *= (float)((double)(i + 1) / (double)feather);
    if (n - 1 - i < feather) w *= (float)((double)(n - i) / (double)feather);
    return w;
}

typedef struct {
    vae_shape in, out;                   /* of the whole                           */
    int64_t feather[AXES], margin[AXES]; /* in the output's cells */
    const float *made;                   /* what became of a tile */
    float *weight;                       /* [out.frames, rows, columns] the totals */
} tiles;

/* The weight at `d` places from a tile's edge inside the picture. */
static float rise(int64_t d, int64_t margin, int64_t feather)
{
    if (d < margin) return 0;
    return d >= feather - margin ? 1 : (float)((double)(d - margin + 1) / (double)(feather - 2 * margin + 1));
}

/* The weight of place i of a tile of n places that begins at `at`. */
static float weight_of(const tiles *w, int axis, int64_t i, int64_t n, int64_t at, int64_t all)
{
    int64_t margin = w->margin[axis], feather = w->feather[axis];
    if (!margin) return fade(i, n, feather);
    float first = at > 0 ? rise(i, margin, feather) : 1, last = at + n < all ? rise(n - 1 - i, margin, feather) : 1;
    return first * last;
}

/* Adds a tile that begins there to the sums. */
static void add(const tiles *w, const vae_shape *tile, const int64_t at[AXES], float *sum)
{
    int64_t n[AXES], all[AXES], channels = w->out.channels;
    extents(tile, n);
    extents(&w->out, all);
    for (int64_t t = 0; t < n[TIME] && at[TIME] + t < all[TIME]; t++)
        for (int64_t y = 0; y < n[ROWS] && at[ROWS] + y < all[ROWS]; y++)
            for (int64_t x = 0; x < n[COLUMNS] && at[COLUMNS] + x < all[COLUMNS]; x++) {
                int64_t to = ((at[TIME] + t) * all[ROWS] + at[ROWS] + y) * all[COLUMNS] + at[COLUMNS] + x;
                const float *from = w->made + ((t * n[ROWS] + y) * n[COLUMNS] + x) * channels;
                float weight = weight_of(w, TIME, t, n[TIME], at[TIME], all[TIME]) *
                               weight_of(w, ROWS, y, n[ROWS], at[ROWS], all[ROWS]) *
                               weight_of(w, COLUMNS, x, n[COLUMNS], at[COLUMNS], all[COLUMNS]);
                for (int64_t k = 0; k < channels; k++) sum[to * channels + k] += from[k] * weight;
                w->weight[to] += weight;
            }
}

static vae_shape part_shape(const vae_shape *all, const grid *g, const int64_t at[AXES])
{
    int64_t n[AXES];
    vae_shape s = *all;
    extents(all, n);
    for (int a = 0; a < AXES; a++) n[a] = n[a] - at[a] < g->size[a] ? n[a] - at[a] : g->size[a];
    s.frames = n[TIME], s.rows = n[ROWS], s.columns = n[COLUMNS];
    return s;
}

/* Where cell `at` of the input lies in the output. */
static int64_t place(const vae_converter *v, int axis, int64_t at)
{
    int64_t scale = axis == TIME ? v->time_factor : v->factor;
    return v->encode ? at / scale : at * scale;
}

/* Cells of the input as cells of the output. */
static int64_t in_output(const vae_converter *v, int64_t cells)
{
    return v->encode ? (int64_t)rint((double)cells / (double)v->factor) : cells * v->factor;
}

/* How far a tile fades, in the output's cells: a video's overlap in time as the autoencoder counts it. */
static int64_t feather_of(const vae_converter *v, const grid *g, int axis)
{
    if (axis == TIME && v->rank > 4)
        return v->encode ? vae_time_cells(v, g->overlap[TIME]) : vae_time_frames(v, g->overlap[TIME]);
    return in_output(v, g->overlap[axis]);
}

static kiln_status run_tile(vae_converter *v, const tiles *w, const grid *g, const int64_t at[AXES], const float *x,
                            float *sum)
{
    int64_t to[AXES];
    vae_shape part = part_shape(&w->in, g, at), made = v->encode ? vae_cells(v, &part) : vae_pixels(v, &part);
    if (!kit_estimating(v->call)) cut(&w->in, x, at, &part, v->tile.part);
    TRY(vae_run(v, &part, v->tile.part, v->tile.made, NULL));
    for (int a = 0; a < AXES; a++) to[a] = place(v, a, at[a]);
    if (!kit_estimating(v->call)) add(w, &made, to, sum);
    return KILN_OK;
}

kiln_status vae_tiles_fit(vae_converter *v, const vae_tiling *t, const vae_shape *in, int *fit)
{
    const int64_t corner[AXES] = {0, 0, 0};
    grid g[TILINGS];
    size_t n = grids_of(v, t, g);
    *fit = 1;
    for (size_t i = 0; i < n && *fit; i++) {
        vae_shape part = part_shape(in, &g[i], corner);
        TRY(vae_fits(v, &part, fit));
    }
    return KILN_OK;
}

kiln_status vae_tiles_least(vae_converter *v, const vae_tiling *t, const vae_shape *in, uint64_t *bytes)
{
    const int64_t corner[AXES] = {0, 0, 0};
    grid g[TILINGS];
    size_t n = grids_of(v, t, g);
    *bytes = 0;
    for (size_t i = 0; i < n; i++) {
        vae_shape part = part_shape(in, &g[i], corner);
        kiln_program_info info = {.size = sizeof info};
        int fit;
        TRY(vae_fits(v, &part, &fit));
        TRY(v->ops->info(v->program, &info));
        uint64_t one = info.arena_bytes + info.scratch_bytes + vae_count(&part) * sizeof(float);
        if (one > *bytes) *bytes = one;
    }
    return KILN_OK;
}

/* ---- a tiling ---- */

static void divide(const tiles *w, float *sum)
{
    int64_t channels = w->out.channels, cells = (int64_t)vae_count(&w->out) / channels;
    for (int64_t i = 0; i < cells; i++)
        for (int64_t k = 0; k < channels; k++) sum[i * channels + k] /= w->weight[i];
}

/* Every tile of the grid into y. */
static kiln_status run_grid(vae_converter *v, tiles *w, const grid *g, float *x, float *y)
{
    int64_t all[AXES], n[AXES], at[AXES];
    size_t cells = vae_count(&w->out) / (size_t)w->out.channels;
    extents(&w->in, all);
    if (fits_one_tile(g, all)) return vae_run(v, &w->in, x, y, NULL);
    for (int a = 0; a < AXES; a++) {
        n[a] = tiles_along(g, a, all[a]);
        w->feather[a] = feather_of(v, g, a), w->margin[a] = in_output(v, g->margin[a]);
        assert(w->feather[a] >= 2 * w->margin[a]); /* so that every place has a tile that counts */
    }
    if (!kit_estimating(v->call)) memset(y, 0, vae_count(&w->out) * sizeof *y);
    memset(w->weight, 0, cells * sizeof *w->weight);
    for (int64_t i = 0; i < n[TIME] * n[ROWS] * n[COLUMNS]; i++) {
        const int64_t index[AXES] = {i / (n[ROWS] * n[COLUMNS]), i / n[COLUMNS] % n[ROWS], i % n[COLUMNS]};
        for (int a = 0; a < AXES; a++) at[a] = tile_begin(g, a, index[a], all[a]);
        TRY(run_tile(v, w, g, at, x, y));
    }
    if (!kit_estimating(v->call)) divide(w, y);
    return KILN_OK;
}

static float *floats(const vae_converter *v, size_t n)
{
    return v->call->host->scratch(v->call->ctx, n * sizeof(float), KILN_CPU);
}

/* Memory for the largest tile of all grids. */
static kiln_status reserve(vae_converter *v, const tiles *w, const grid *g, size_t n)
{
    const int64_t corner[AXES] = {0, 0, 0};
    size_t in = 0, out = 0;
    for (size_t i = 0; i < n; i++) {
        vae_shape part = part_shape(&w->in, &g[i], corner),
                  made = v->encode ? vae_cells(v, &part) : vae_pixels(v, &part);
        in = vae_count(&part) > in ? vae_count(&part) : in;
        out = vae_count(&made) > out ? vae_count(&made) : out;
    }
    v->tile.part = floats(v, in), v->tile.made = floats(v, out);
    v->tile.weight = floats(v, vae_count(&w->out) / (size_t)w->out.channels);
    v->tile.sum = n > 1 ? floats(v, vae_count(&w->out)) : v->tile.made;
    return v->tile.part && v->tile.made && v->tile.weight && v->tile.sum ? KILN_OK : KILN_ERR_NOMEM;
}

kiln_status vae_run_tiled(vae_converter *v, const vae_tiling *t, const vae_shape *in, float *x, float *y)
{
    grid g[TILINGS];
    size_t n = grids_of(v, t, g);
    tiles w = {.in = *in, .out = v->encode ? vae_cells(v, in) : vae_pixels(v, in)};
    size_t count = vae_count(&w.out);
    if (!v->tile.part) TRY(reserve(v, &w, g, n));
    w.made = v->tile.made, w.weight = v->tile.weight;
    TRY(run_grid(v, &w, &g[0], x, y));
    if (n == 1) return KILN_OK;
    for (size_t i = 1; i < n; i++) {
        TRY(run_grid(v, &w, &g[i], x, v->tile.sum));
        for (size_t k = 0; k < count && !kit_estimating(v->call); k++) y[k] += v->tile.sum[k];
    }
    for (size_t k = 0; k < count && !kit_estimating(v->call); k++) y[k] /= (float)n;
    return KILN_OK;
}
