/* vae_way.c - see vae_way.h. */
#include "vae_way.h"

#include "kiln/kit.h"

#include <stdio.h>

enum { SIDE = 64, OVERLAP = 8 }; /* cells, where the family says none */

static int64_t either(int64_t said, int64_t usual) { return said > 0 ? said : usual; }

/* Tiles of `side` cells, in cells of the input. */
static vae_tiling tiles_of(const vae_converter *v, const vae_shape *one, int64_t side, int64_t overlap)
{
    const kiln_tile_advice *a = v->vae->autoencoder->tile;
    int64_t all = v->encode ? vae_time_cells(v, one->frames) : one->frames;
    int64_t frames = v->rank > 4 ? either(a->frames, all) : 1,
            shared = v->rank > 4 && a->frame_overlap > 0 && a->frame_overlap < frames ? a->frame_overlap : 1;
    vae_tiling t = {.frames = frames,
                    .frame_overlap = shared,
                    .side = side,
                    .overlap = 2 * overlap,
                    .margin = overlap > 1 ? 3 * overlap / 4 : 1};
    if (!v->encode) return t;
    t.side *= v->factor, t.overlap *= v->factor, t.margin *= v->factor;
    if (v->rank > 4) t.frames = vae_time_frames(v, frames), t.frame_overlap = vae_time_frames(v, shared);
    return t;
}

static void how_it_goes(const vae_converter *v, const vae_shape *one, const vae_way *w, char *how, size_t size)
{
    int64_t factor = v->encode ? 1 : v->factor, rows = w->stripes ? vae_stripes_rows(w->stripes) : 0;
    if (w->tiled)
        snprintf(how, size, "in tiles of %lldx%lld pixels", (long long)(w->tiling.side * factor),
                 (long long)(w->tiling.side * factor));
    else if (w->part_cells)
        snprintf(how, size, "in parts of %lld frames", (long long)(w->part_cells * v->time_factor));
    else if (!w->stripes)
        snprintf(how, size, "one after the other");
    else if (rows < one->rows * factor)
        snprintf(how, size, "in stripes of %lld rows", (long long)rows);
    else
        snprintf(how, size, "layer by layer");
}

/* Has the result the bytes that the whole has? Of a batch whose pictures go one after the other no test says so. */
static int has_same_bytes(const vae_converter *v, const vae_way *w)
{
    return !w->tiled && (w->stripes || w->part_cells) && KILN_HAS(kiln_ops, v->ops, parts_are_exact) &&
           v->ops->parts_are_exact(v->call->ctx);
}

static void say(const vae_converter *v, const vae_shape *one, const vae_way *w)
{
    const kiln_host *host = v->call->host;
    int64_t factor = v->encode ? 1 : v->factor;
    const int cut = w->tiled || w->stripes || w->part_cells, kept = has_same_bytes(v, w);
    char how[80], text[500];
    how_it_goes(v, one, w, how, sizeof how);
    snprintf(text, sizeof text, "%.160s: %s of %lldx%lld pixels does not fit into the memory there is; it is %s %s%s",
             KILN_HAS(kiln_host, host, node) ? host->node(v->call->ctx) : "a node",
             cut ? v->rank > 4 ? "a video" : "a picture" : "a batch of pictures", (long long)(one->columns * factor),
             (long long)(one->rows * factor), v->encode ? "encoded" : "decoded", how,
             kept ? ", with the same bytes" : ". Another machine may do it whole, so the result is not kept");
    host->log(KILN_LOG_WARN, text);
    if (!kept && KILN_HAS(kiln_host, host, not_kept)) host->not_kept(v->call->ctx);
}

/* The largest tiles of a few that fit, else the smallest; none where the picture is smaller than all of them. */
static kiln_status find_tiles(vae_converter *v, const vae_shape *one, vae_way *w, int *fits)
{
    const kiln_tile_advice *a = v->vae->autoencoder->tile;
    int64_t usual = either(a->height < a->width ? a->height : a->width, SIDE), overlap = either(a->overlap, OVERLAP);
    for (int64_t side = 4 * usual; !*fits && side >= usual / 2 && side > 4 * overlap - 1; side /= 2) {
        vae_tiling t = tiles_of(v, one, side, overlap);
        if (one->rows <= t.side && one->columns <= t.side && one->frames <= t.frames) continue;
        w->tiling = t, w->tiled = 1;
        TRY(vae_tiles_fit(v, &t, one, fits));
    }
    if (*fits) w->stripes = NULL;
    return KILN_OK;
}

/* For progress: what is behind us may have to be done again. */
static void count_runs(vae_converter *v, const vae_shape *one, int64_t n, const vae_way *w)
{
    uint64_t each = w->tiled        ? vae_tiled_runs(v, &w->tiling, one)
                    : w->part_cells ? vae_parts_runs(v, one, w->part_cells)
                    : w->stripes    ? vae_stripes_runs(w->stripes)
                                    : 1;
    v->total = v->done + each * (uint64_t)((n + w->at_once - 1) / w->at_once);
}

/* The highest stripes that fit, else the lowest; none where the autoencoder does not go in stripes. */
static kiln_status find_stripes(vae_converter *v, const vae_shape *one, vae_way *w, int *fit)
{
    *fit = 0;
    TRY(vae_stripes_new(v, one, &w->stripes));
    return w->stripes ? vae_stripes_choose(w->stripes, fit) : KILN_OK;
}

/* Where nothing fits: the lowest stripes or the smallest tiles, whichever need less. */
static kiln_status take_the_least(vae_converter *v, const vae_shape *one, vae_way *w)
{
    uint64_t tile = UINT64_MAX;
    if (w->tiled) TRY(vae_tiles_least(v, &w->tiling, one, &tile));
    if (w->stripes && vae_stripes_least(w->stripes) <= tile)
        w->tiled = 0;
    else
        w->stripes = NULL;
    return KILN_OK;
}

static int is_together(const vae_converter *v)
{
    const kiln_autoencoder *a = v->vae->autoencoder;
    return KILN_HAS(kiln_autoencoder, a, together) && a->together;
}

/* In parts, shorter ones than usual where those do not fit; not even the shortest may. */
static kiln_status find_parts(vae_converter *v, const vae_shape *one, vae_way *w, int *fits)
{
    TRY(vae_parts_choose(v, one, &w->part_cells, fits));
    if (!*fits)
        w->part_cells = 0;
    else if (w->part_cells < v->vae->autoencoder->part_cells)
        say(v, one, w);
    return KILN_OK;
}

/* What does not fit and is not to be cut stays whole: the run says how much it would take. */
static kiln_status choose(vae_converter *v, const vae_shape *one, vae_way *w)
{
    vae_shape whole = *one;
    int fits = 1;
    whole.n = w->at_once;
    if (is_together(v)) return KILN_OK;
    if (vae_has_parts(v, one)) {
        w->at_once = 1;
        TRY(find_parts(v, one, w, &fits));
        if (fits) return KILN_OK;
    }
    TRY(vae_fits(v, &whole, &fits));
    if (fits) return KILN_OK;
    if (w->at_once > 1) {
        w->at_once = 1;
        TRY(vae_fits(v, one, &fits));
        if (fits) say(v, one, w);
        if (fits) return KILN_OK;
    }
    TRY(find_stripes(v, one, w, &fits));
    if (!fits && v->vae->autoencoder->tile && !v->variance) TRY(find_tiles(v, one, w, &fits));
    if (!fits && vae_has_parts(v, one))
        *w = (vae_way){.part_cells = 1, .at_once = 1};
    else if (!fits)
        TRY(take_the_least(v, one, w));
    if (w->stripes) TRY(vae_fits(v, one, &fits)); /* its further inputs are those of the whole picture */
    if (w->tiled || w->stripes) say(v, one, w);
    return KILN_OK;
}

kiln_status vae_choose_way(vae_converter *v, const vae_shape *one, int64_t n, const vae_tiling *asked, vae_way *out)
{
    int64_t most = vae_at_once(v);
    *out = (vae_way){.tiled = asked != NULL, .at_once = asked ? 1 : n < most ? n : most};
    if (asked)
        out->tiling = *asked;
    else
        TRY(choose(v, one, out));
    count_runs(v, one, n, out);
    return KILN_OK;
}

kiln_status vae_go(vae_converter *v, const vae_way *w, const vae_shape *in, float *x, float *y, float *variance)
{
    if (w->part_cells) return vae_run_in_parts(v, w->part_cells, in, x, y, variance);
    if (w->stripes) return vae_stripes_run(w->stripes, x, y, variance);
    return w->tiled ? vae_run_tiled(v, &w->tiling, in, x, y) : vae_run(v, in, x, y, variance);
}
