/* vae_settings.c - see vae_settings.h. */
#include "vae_settings.h"

static int64_t at_least(int64_t v, int64_t least) { return v < least ? least : v; }
static int64_t at_most(int64_t v, int64_t most) { return v > most ? most : v; }

/* Half a tile has to be longer than what it shares. */
static kiln_status check(const vae_converter *v, const tile_params *p, const vae_tiling *t)
{
    const kiln_call *c = v->call;
    if (!v->vae->autoencoder->tile)
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                             "this VAE is not to be cut into tiles: its parts depend on the whole; take %s",
                             v->encode ? "VAEEncode" : "VAEDecode");
    if (t->side / 2 > t->overlap) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "tile_size %lld with overlap %lld: half a tile has to be larger than the overlap, and a tile "
                         "at least two cells of %lld pixels",
                         (long long)p->tile_size, (long long)p->overlap, (long long)v->factor);
}

kiln_status vae_tiling_decode(const vae_converter *v, const tile_params *p, vae_tiling *out)
{
    int64_t overlap = p->tile_size < 4 * p->overlap ? p->tile_size / 4 : p->overlap;
    int64_t shared = p->temporal_size < 2 * p->temporal_overlap ? p->temporal_overlap / 2 : p->temporal_overlap;
    int64_t frames = at_least(p->temporal_size / v->time_factor, 2);
    *out = (vae_tiling){.frames = frames,
                        .frame_overlap = at_least(at_most(frames / 2, shared / v->time_factor), 1),
                        .side = p->tile_size / v->factor,
                        .overlap = overlap / v->factor};
    return check(v, p, out);
}

/* Sides that the factor divides, so that every tile begins at a cell. */
kiln_status vae_tiling_encode(const vae_converter *v, const tile_params *p, vae_tiling *out)
{
    int64_t frames = at_least(vae_time_cells(v, p->temporal_size), 2);
    int64_t shared = at_least(at_most(frames / 2, vae_time_cells(v, p->temporal_overlap)), 1);
    *out = (vae_tiling){.frames = vae_time_frames(v, frames),
                        .frame_overlap = vae_time_frames(v, shared),
                        .side = p->tile_size / (2 * v->factor) * (2 * v->factor),
                        .overlap = p->overlap / v->factor * v->factor};
    return check(v, p, out);
}
