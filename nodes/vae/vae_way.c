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

static void say(const vae_converter *v, const vae_shape *one, const vae_tiling *t)
{
    const kiln_host *host = v->call->host;
    int64_t factor = v->encode ? 1 : v->factor;
    char how[80] = "one after the other", text[500];
    if (t)
        snprintf(how, sizeof how, "in tiles of %lldx%lld pixels", (long long)(t->side * factor),
                 (long long)(t->side * factor));
    snprintf(text, sizeof text,
             "%.160s: %s of %lldx%lld pixels does not fit into the memory there is; it is %s %s. Another machine may "
             "do it whole, so the result is not kept",
             KILN_HAS(kiln_host, host, node) ? host->node(v->call->ctx) : "a node",
             t ? v->rank > 4 ? "a video" : "a picture" : "a batch of pictures", (long long)(one->columns * factor),
             (long long)(one->rows * factor), v->encode ? "encoded" : "decoded", how);
    host->log(KILN_LOG_WARN, text);
    if (KILN_HAS(kiln_host, host, not_kept)) host->not_kept(v->call->ctx);
}

/* The largest tiles of a few that fit; *found 0: the picture is smaller than all of them. */
static kiln_status find_tiles(vae_converter *v, const vae_shape *one, vae_tiling *out, int *found)
{
    const kiln_tile_advice *a = v->vae->autoencoder->tile;
    int64_t usual = either(a->height < a->width ? a->height : a->width, SIDE), overlap = either(a->overlap, OVERLAP);
    int fits = 0;
    *found = 0;
    for (int64_t side = 4 * usual; !fits && side >= usual / 2 && side > 4 * overlap - 1; side /= 2) {
        vae_tiling t = tiles_of(v, one, side, overlap);
        if (one->rows <= t.side && one->columns <= t.side && one->frames <= t.frames) continue;
        *out = t, *found = 1;
        TRY(vae_tiles_fit(v, &t, one, &fits));
    }
    return KILN_OK;
}

/* For progress: what is behind us may have to be done again. */
static void count_runs(vae_converter *v, const vae_shape *one, int64_t n, const vae_way *w)
{
    v->total = v->done + (w->tiled ? vae_tiled_runs(v, &w->tiling, one) * (uint64_t)n
                                   : (uint64_t)((n + w->at_once - 1) / w->at_once));
}

/* What does not fit and is not to be cut stays whole: the run says how much it would take. */
static kiln_status choose(vae_converter *v, const vae_shape *one, vae_way *w)
{
    vae_shape whole = *one;
    int fits = 1, found = 0;
    whole.n = w->at_once;
    TRY(vae_fits(v, &whole, &fits));
    if (fits) return KILN_OK;
    if (w->at_once > 1) {
        w->at_once = 1;
        TRY(vae_fits(v, one, &fits));
        if (fits) say(v, one, NULL);
        if (fits) return KILN_OK;
    }
    if (!v->vae->autoencoder->tile || v->variance) return KILN_OK;
    TRY(find_tiles(v, one, &w->tiling, &found));
    w->tiled = found;
    if (found) say(v, one, &w->tiling);
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
