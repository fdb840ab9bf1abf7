/* vae_parts.c - see vae_parts.h. */
#include "vae_parts.h"

#include "kiln/kit.h"

/* All of a video's cells. */
static int64_t all_cells(const vae_converter *v, const vae_shape *in)
{
    return v->encode ? vae_time_cells(v, in->frames) : in->frames;
}

static int64_t first_cells(const vae_converter *v, int64_t cells) { return v->time_first ? 1 : cells; }

int vae_has_parts(const vae_converter *v, const vae_shape *one)
{
    const kiln_autoencoder *a = v->vae->autoencoder;
    if (v->rank < 5 || !KILN_HAS(kiln_autoencoder, a, part_cells) || a->part_cells < 1) return 0;
    if (v->encode ? !a->record_encode_part : !a->record_decode_part) return 0;
    return all_cells(v, one) > first_cells(v, a->part_cells);
}

/* What goes in where a part has so many cells. */
static vae_shape part_of(const vae_converter *v, const vae_shape *in, int64_t cells)
{
    vae_shape s = *in;
    s.frames = v->encode ? vae_time_frames(v, cells) : cells;
    return s;
}

static kiln_status part_fits(vae_converter *v, const vae_shape *one, uint32_t part, int64_t cells, int *fits)
{
    v->part = part;
    const vae_shape in = part_of(v, one, cells);
    kiln_status status = vae_fits(v, &in, fits);
    v->part = 0;
    return status;
}

kiln_status vae_parts_choose(vae_converter *v, const vae_shape *one, int64_t *cells, int *fits)
{
    int64_t n = v->vae->autoencoder->part_cells, all = all_cells(v, one);
    for (*fits = 0; !*fits && n; n /= 2) {
        const int64_t first = first_cells(v, n), later = n < all - first ? n : all - first;
        *cells = n;
        TRY(part_fits(v, one, KILN_PART_FIRST, first, fits));
        if (*fits && later > 0) TRY(part_fits(v, one, KILN_PART_LATER, later, fits));
    }
    return KILN_OK;
}

uint64_t vae_parts_runs(const vae_converter *v, const vae_shape *one, int64_t cells)
{
    return 1 + (uint64_t)((all_cells(v, one) - first_cells(v, cells) + cells - 1) / cells);
}

kiln_status vae_run_in_parts(vae_converter *v, int64_t cells, const vae_shape *in, float *x, float *y, float *variance)
{
    const kiln_call *c = v->call;
    const int64_t all = all_cells(v, in);
    kiln_status status = KILN_OK;
    if (!(v->states = v->ops->states_new(c->ctx, v->encode ? "the video's encoder" : "the video's decoder")))
        return KILN_ERR_NOMEM;
    for (int64_t done = 0, n = first_cells(v, cells); status == KILN_OK && done < all; done += n, n = cells) {
        v->part = done ? KILN_PART_LATER : KILN_PART_FIRST;
        if (n > all - done) n = all - done;
        const vae_shape from = part_of(v, in, n), to = v->encode ? vae_cells(v, &from) : vae_pixels(v, &from);
        status = vae_run(v, &from, x, y, variance);
        x = kit_at(x, vae_count(&from)), y = kit_at(y, vae_count(&to)), variance = kit_at(variance, vae_count(&to));
    }
    v->part = 0;
    v->ops->states_free(v->states);
    v->states = NULL;
    return status;
}
