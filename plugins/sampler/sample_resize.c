/* sample_resize.c - a sampling that goes on at another size: the latent and all slots are scaled, and what depends on
 * the size (areas of conditionings, room, how much noise is drawn) is made anew.
 *
 * Memory is the call's scratch, which is let go with the call: each size costs its latents once more.
 */
#include "kiln/bislerp.h"
#include "kiln/kit.h"
#include "sample_session.h"

#include <math.h>
#include <string.h>

kiln_status session_set_size(session *s, int64_t height, int64_t width)
{
    size_t count = (size_t)(s->guide.batch * height * width * s->guide.channels);
    int had_denoised = s->denoised.data != NULL;
    s->guide.height = height, s->guide.width = width, s->count = count, s->random.tree.n = count;
    s->place.n = count;
    s->x = (kiln_latent){.data = session_floats(s, count)}, s->noise = session_floats(s, count),
    s->masked = session_floats(s, count);
    if (!s->x.data || !s->noise || !s->masked) return KILN_ERR_NOMEM;
    if (s->denoised.data) s->denoised = (kiln_latent){.data = session_floats(s, count)};
    if (had_denoised && !s->denoised.data) return KILN_ERR_NOMEM;
    return guide_init(&s->guide);
}

/* A size scaled, at least one cell; halves to even, as Python rounds. */
static int64_t scaled(int64_t cells, double by)
{
    double v = rint((double)cells * by);
    return v < 1 ? 1 : (int64_t)v;
}

typedef struct {
    int64_t batch, channels, h, w, to_h, to_w;
    uint32_t method;
    float *between; /* room of bislerp_plane */
} scaling;

static void scale_latent(const scaling *z, const float *from, float *to)
{
    for (int64_t b = 0; b < z->batch; b++) {
        resize_source src = {.data = from + b * z->h * z->w * z->channels,
                             .h = z->h,
                             .w = z->w,
                             .c = z->channels,
                             .row = z->w * z->channels};
        float *dst = to + b * z->to_h * z->to_w * z->channels;
        if (z->method == RESIZE_BISLERP)
            bislerp_plane(src, z->between, dst, z->to_h, z->to_w);
        else
            resize_plane(src, dst, z->to_h, z->to_w, (int)z->method);
    }
}

static kiln_status scale_slots(session *s, const scaling *z)
{
    for (size_t i = 0; i < s->n_slot; i++) {
        float *from = s->slot[i].latent.data, *to = from ? session_floats(s, s->count) : NULL;
        if (from && !to) return KILN_ERR_NOMEM;
        if (from) scale_latent(z, from, to);
        s->slot[i].latent.data = to;
    }
    return KILN_OK;
}

static kiln_status may_resize(const session *s, uint32_t method)
{
    const kiln_call *c = s->job->call;
    if (!(s->job->sampler->flags & KILN_SAMPLER_RESIZES) || method > RESIZE_BISLERP)
        return c->host->fail(c->ctx, KILN_ERR_BUG,
                             "sampler '%s' changes the size without KILN_SAMPLER_RESIZES, or in no known way",
                             s->job->sampler->name);
    if (!s->mask) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                         "the latent has a noise_mask, and sampler '%s' changes its size on the way: what is outside "
                         "the mask could not be "
                         "kept; take the mask away, or leave the size as it is",
                         s->job->sampler->name);
}

kiln_status session_resize(const kiln_sampling *api, double scale, uint32_t method)
{
    session *s = api->self;
    scaling z = {.batch = s->guide.batch,
                 .channels = s->guide.channels,
                 .h = s->guide.height,
                 .w = s->guide.width,
                 .to_h = scaled(s->first_height, scale),
                 .to_w = scaled(s->first_width, scale),
                 .method = method};
    const float *x = s->x.data;
    if (z.to_h == z.h && z.to_w == z.w) return KILN_OK;
    TRY(may_resize(s, method));
    if (!(z.between = session_floats(s, (size_t)(z.h * z.to_w * z.channels)))) return KILN_ERR_NOMEM;
    TRY(session_set_size(s, z.to_h, z.to_w));
    scale_latent(&z, x, s->x.data);
    return scale_slots(s, &z);
}
