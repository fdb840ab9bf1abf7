/* unet_unclip.c - see unet_unclip.h. As ComfyUI has it (unclip_adm): levels of the cosine schedule that is cut at 0.999
 * (Nichol and Dhariwal 2021, section 3.2), and noise of the sampling's seed less 10, the same for each picture; that of
 * the sum goes on where the last picture's ended.
 */
#include "unet_unclip.h"

#include "kiln/kit.h"

#include <math.h>

#define UNCLIP_LEVELS 1000
#define UNCLIP_SEED 10 /* so much below the sampling's */
#define PI 3.14159265358979323846

typedef struct {
    const kiln_derivation *d;
    const kiln_value_api *v;
    int64_t width;
    float *noise; /* [2 width] */
    float *out;   /* [2 width]: the picture, and its level */
} unclip;

/* ---- levels ---- */

static double cosine(double t)
{
    double c = cos((t + 0.008) / 1.008 * PI / 2);
    return c * c;
}

/* alphas_cumprod of a level. */
static double kept_at(int64_t level)
{
    double kept = 1;
    for (int64_t i = 0; i <= level; i++)
        kept *= 1 - fmin(1 - cosine((double)(i + 1) / UNCLIP_LEVELS) / cosine((double)i / UNCLIP_LEVELS), 0.999);
    return kept;
}

static int64_t level_of(double share) { return (int64_t)rint((UNCLIP_LEVELS - 1) * share); }

/* x [width] of `weight` gets noise of a level, and is followed by the level's embedding, in f32 as torch has it; both
 * times the weight, onto `out`. */
static void augment(const unclip *u, const float *x, const float *noise, double share, double weight, float *out)
{
    int64_t level = level_of(share), half = u->width / 2;
    double kept = kept_at(level);
    float signal = (float)sqrt(kept), dirt = (float)sqrt(1 - kept);
    for (int64_t i = 0; i < u->width; i++) out[i] += (float)weight * (signal * x[i] + dirt * noise[i]);
    for (int64_t i = 0; i < half; i++) {
        float exponent = -9.210340371976184f * (float)i / (float)half, angle = (float)level * expf(exponent);
        out[u->width + i] += (float)weight * cosf(angle);
        out[u->width + half + i] += (float)weight * sinf(angle);
    }
}

/* ---- pictures ---- */

static kiln_status read_number(const unclip *u, const kiln_value *map, const char *key, double least, double most,
                               double *out)
{
    const kiln_derivation *d = u->d;
    if (u->v->get_float(u->v->map_get(map, key), out) == KILN_OK && *out >= least && *out <= most) return KILN_OK;
    return d->host->fail(d->ctx, KILN_ERR_INVALID,
                         "the conditioning's '" UNCLIP_KEY "': '%s' has to be a number from %g to %g", key, least,
                         most);
}

static kiln_status read_embeds(const unclip *u, const kiln_value *map, kiln_tensor *out)
{
    const kiln_derivation *d = u->d;
    const kiln_value *embeds = u->v->map_get(u->v->map_get(map, "clip_vision_output"), "image_embeds");
    kit_tensor_clear(out);
    if (u->v->kind(embeds) != KILN_V_TENSOR)
        return d->host->fail(d->ctx, KILN_ERR_INVALID,
                             "the conditioning's '" UNCLIP_KEY "' has no image_embeds; unCLIPConditioning makes it");
    TRY(d->host->view(d->ctx, embeds, out));
    if (out->dtype == KILN_F32 && out->rank == 2 && out->dim[0] > 0 && out->dim[1] == u->width) return KILN_OK;
    return d->host->fail(
        d->ctx, KILN_ERR_INVALID,
        "the picture's image_embeds are %lld wide, and this model wants %lld; encode it with the vision "
        "encoder of the model's own checkpoint (unCLIPCheckpointLoader)",
        (long long)(out->rank ? out->dim[out->rank - 1] : 0), (long long)u->width);
}

/* All pictures of one item; *n counts them. */
static kiln_status add_item(const unclip *u, const kiln_value *map, size_t *n)
{
    double strength, share;
    kiln_tensor t;
    TRY(read_number(u, map, "strength", -1000, 1000, &strength));
    TRY(read_number(u, map, "noise_augmentation", 0, 1, &share));
    TRY(read_embeds(u, map, &t));
    for (int64_t i = 0; i < t.dim[0]; i++, ++*n)
        if (u->out) augment(u, (const float *)t.data + i * u->width, u->noise, share, strength, u->out);
    return KILN_OK;
}

static kiln_status add_all(const unclip *u, size_t *n)
{
    const kiln_value *list = u->v->map_get(u->d->conditioning, UNCLIP_KEY);
    *n = 0;
    if (u->v->kind(list) != KILN_V_LIST || !u->v->count(list))
        return u->d->host->fail(u->d->ctx, KILN_ERR_INVALID,
                                "the conditioning's '" UNCLIP_KEY "' has to be a list; unCLIPConditioning makes it");
    for (size_t i = 0; i < u->v->count(list); i++) TRY(add_item(u, u->v->list_at(list, i), n));
    return KILN_OK;
}

/* The sum is a picture of its own. */
static void merge_all(const unclip *u, double share)
{
    float *sum = u->noise; /* what the pictures had is not wanted any more */
    memcpy(sum, u->out, (size_t)u->width * sizeof *sum);
    memset(u->out, 0, (size_t)(2 * u->width) * sizeof *u->out);
    augment(u, sum, u->noise + u->width, share, 1, u->out);
}

kiln_status unclip_embedding(const kiln_derivation *d, int64_t width, double merge, kiln_tensor *out)
{
    unclip u = {.d = d, .v = d->host->ability(KILN_VALUE_ABILITY), .width = width};
    size_t numbers = (size_t)(2 * width), n;
    int64_t *dim = d->host->scratch(d->ctx, 2 * sizeof *dim, KILN_CPU);
    if (!dim) return KILN_ERR_NOMEM;
    dim[0] = 1, dim[1] = 2 * width;
    *out = kit_window(KILN_F32, KILN_CPU, NULL, 2, dim);
    if (!d->estimate) {
        u.noise = d->host->scratch(d->ctx, numbers * sizeof *u.noise, KILN_CPU);
        u.out = d->host->scratch(d->ctx, numbers * sizeof *u.out, KILN_CPU);
        if (!u.noise || !u.out) return KILN_ERR_NOMEM;
        d->randn(d, d->seed - UNCLIP_SEED, u.noise, numbers);
        memset(u.out, 0, numbers * sizeof *u.out);
    }
    TRY(add_all(&u, &n));
    if (n > 1 && u.out) merge_all(&u, merge);
    out->data = u.out;
    return KILN_OK;
}
