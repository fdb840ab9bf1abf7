/* sample_mask.c - the noise mask of a sampling: the LATENT's at the latent's size, and what of it counts at a level.
 *
 * A MODEL may have a rule by which parts of a picture begin later (kiln_mask_rule). What counts follows from the level
 * alone, so a saved state has nothing of it.
 */
#include "kiln/kit.h"
#include "sample_session.h"

#include <math.h>

/* Which of the masks a plane (a frame of a picture) has: one, or a mix of two. */
typedef struct {
    int64_t first, second;
    float share; /* of the second */
} mask_pair;

/* One for all, one a picture, or one a frame. Any other number are the masks of a video, of as many frames as it has
 * pixels' and not cells': scaled in time, linearly. ComfyUI's. */
static mask_pair masks_of(const kiln_latent_shape *s, int64_t masks, int64_t plane)
{
    if (s->frames == 1 || masks == s->pictures || masks == 1) return (mask_pair){.first = plane / s->frames % masks};
    if (masks == s->pictures * s->frames) return (mask_pair){.first = plane};
    double at = ((double)(plane % s->frames) + 0.5) * (double)masks / (double)s->frames - 0.5;
    int64_t low = at > 0 ? (int64_t)at : 0;
    return (mask_pair){low, low + 1 < masks ? low + 1 : low, at > 0 ? (float)(at - (double)low) : 0};
}

/* The mask of a plane at the latent's size; `work` has room for one. */
static void plane_mask(const kiln_tensor *m, const kiln_latent_shape *s, int64_t plane, float *work, float *out)
{
    mask_pair of = masks_of(s, m->dim[0], plane);
    const float *masks = m->data;
    int64_t h = m->dim[1], w = m->dim[2];
    resize_bilinear(masks + of.first * h * w, h, w, out, s->height, s->width);
    if (of.share == 0) return;
    resize_bilinear(masks + of.second * h * w, h, w, work, s->height, s->width);
    for (int64_t i = 0; i < s->height * s->width; i++) out[i] = out[i] * (1 - of.share) + work[i] * of.share;
}

/* How much of each frame the mask frees: its mean. */
static kiln_status set_frame_shares(kiln_session *s, const float *mask)
{
    const kiln_latent_shape *shape = &s->space.shape;
    int64_t planes = shape->pictures * shape->frames, cells = shape->height * shape->width;
    float *share = session_floats(s, (size_t)planes);
    if (!share) return KILN_ERR_NOMEM;
    for (int64_t p = 0; p < planes; p++) {
        double sum = 0;
        for (int64_t i = 0; i < cells && !kit_estimating(s->call); i++) sum += (double)mask[p * cells + i];
        share[p] = (float)(sum / (double)cells);
    }
    for (size_t i = 0; i < s->job->n_guider; i++)
        s->evaluator[i].frame_share = share, s->evaluator[i].cell_share = mask;
    return KILN_OK;
}

/* ---- a rule ---- */

static const kiln_mask_rule *rule_of(const kiln_session *s) { return s->evaluator->model[0]->mask_rule; }

/* The mask as the LATENT has it, for the rule. No level has counted yet. */
static kiln_status keep_given(kiln_session *s, const float *mask)
{
    if (!rule_of(s)) return KILN_OK;
    s->mask_given = mask;
    s->mask_level = NAN;
    s->mask_now = session_floats(s, latent_shape_count(&s->mask.shape));
    return s->mask_now ? KILN_OK : KILN_ERR_NOMEM;
}

kiln_status session_mask_at(kiln_session *s, double sigma)
{
    const kiln_mask_rule *rule = rule_of(s);
    const kiln_model_sampling *counted = s->evaluator->counted.by;
    if (!rule || sigma == s->mask_level) return KILN_OK;
    for (size_t i = 0; i < latent_shape_count(&s->mask.shape) && !kit_estimating(s->call); i++)
        s->mask_now[i] = (float)rule->at(rule->self, counted, sigma, s->job->sigma[0], s->job->sigma[s->job->n],
                                         (double)s->mask_given[i]);
    s->mask_level = sigma;
    return latent_upload(&s->space, &s->mask, s->mask_now);
}

/* ---- reading ---- */

kiln_status session_read_mask(kiln_session *s)
{
    const kiln_call *c = s->call;
    const kiln_value *mask = kit_values(c)->map_get(s->job->latent, "noise_mask");
    kiln_latent_shape shape = s->space.shape;
    int64_t cells = shape.height * shape.width, planes = shape.pictures * shape.frames;
    kiln_tensor m;
    if (!mask) return KILN_OK;
    TRY(kit_f32(c, mask, 3, "the latent's noise_mask", &m));
    float *host = session_floats(s, (size_t)(planes * cells));
    if (!host) return KILN_ERR_NOMEM;
    if (kit_count(&m) == 0) return c->host->fail(c->ctx, KILN_ERR_INVALID, "the latent's noise_mask is empty");
    for (int64_t p = 0; p < planes && !kit_estimating(c); p++) plane_mask(&m, &shape, p, s->work, host + p * cells);
    TRY(set_frame_shares(s, host));
    shape.channels = 1;
    TRY(latent_from_host(&s->space, &s->mask, &shape, host));
    return keep_given(s, host);
}
