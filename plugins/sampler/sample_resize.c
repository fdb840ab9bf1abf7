/* sample_resize.c - a sampling that goes on at another size: the latent and all slots are scaled on the host, and what
 * depends on the size (areas of conditionings, memory, how much noise is drawn) is made anew.
 *
 * Memory is the call's scratch, which is let go with the call: each size costs its latents once more.
 */
#include "kiln/bislerp.h"
#include "kiln/kit.h"
#include "pair_evaluator.h"
#include "sample_session.h"

#include <math.h>

kiln_status session_set_size(kiln_session *s, int64_t height, int64_t width)
{
    s->space.shape.height = height, s->space.shape.width = width;
    size_t count = session_count(s);
    s->random.tree.n = count;
    s->noise = session_floats(s, count), s->work = session_floats(s, count);
    if (!s->noise || !s->work) return KILN_ERR_NOMEM;
    s->input = (kiln_latent){0};
    TRY(latent_init(&s->space, &s->x, &s->space.shape));
    if (s->denoised.data) TRY(latent_init(&s->space, &s->denoised, &s->space.shape));
    for (size_t i = 0; i < s->job->n_guider; i++) TRY(evaluator_read_conditions(&s->evaluator[i]));
    return pair_evaluators_resize(s);
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
    float *between; /* scratch of bislerp_plane */
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

/* Brings x to the host, scales it, and makes `out` of it. from: host memory for x; s->work has the new size. */
static kiln_status scale_one(kiln_session *s, const scaling *z, const kiln_latent *x, float *from, kiln_latent *out)
{
    TRY(latent_download(&s->space, x, from));
    if (!kit_estimating(s->call)) scale_latent(z, from, s->work);
    return latent_from_host(&s->space, out, &s->space.shape, s->work);
}

static kiln_status may_resize(const kiln_session *s, uint32_t method)
{
    const kiln_call *c = s->call;
    if (!(s->row->flags & KILN_SAMPLER_RESIZES) || method > RESIZE_BISLERP)
        return c->host->fail(c->ctx, KILN_ERR_BUG,
                             "sampler '%s' changes the size without KILN_SAMPLER_RESIZES, or in no known way",
                             s->row->name);
    if (s->space.n_stream)
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                             "sampler '%s' changes the size on the way, which a latent of several streams cannot; take "
                             "another sampler",
                             s->row->name);
    if (s->job->denoise)
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                             "sampler '%s' changes the size on the way, and this node evaluates parts of one size; "
                             "take another sampler",
                             s->row->name);
    if (!s->mask.data) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                         "the latent has a noise_mask, and sampler '%s' changes its size on the way: what is outside "
                         "the mask could not be "
                         "kept; take the mask away, or leave the size as it is",
                         s->row->name);
}

kiln_status session_resize(const kiln_sampling *api, double scale, uint32_t method)
{
    kiln_session *s = api->self;
    const kiln_latent_shape *old = &s->space.shape;
    scaling z = {.batch = old->pictures * old->frames,
                 .channels = old->channels,
                 .h = old->height,
                 .w = old->width,
                 .to_h = scaled(s->first_height, scale),
                 .to_w = scaled(s->first_width, scale),
                 .method = method};
    kiln_latent x = s->x;
    if (z.to_h == z.h && z.to_w == z.w) return KILN_OK;
    TRY(may_resize(s, method));
    float *from = session_floats(s, session_count(s));
    z.between = session_floats(s, (size_t)(z.h * z.to_w * z.channels));
    if (!from || !z.between) return KILN_ERR_NOMEM;
    TRY(session_set_size(s, z.to_h, z.to_w));
    TRY(scale_one(s, &z, &x, from, &s->x));
    for (size_t i = 0; i < s->n_slot; i++)
        if (s->slot[i].latent.data) TRY(scale_one(s, &z, &s->slot[i].latent, from, &s->slot[i].latent));
    return KILN_OK;
}
