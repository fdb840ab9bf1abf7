/* unet_save.c - see unet_save.h.
 *
 * A single file says how a model counts noise by marker tensors: v_pred, ztsnr, edm_vpred.sigma_max and sigma_min
 * (CosXL), edm_mean and edm_std (Playground 2.5); without them levels are those of Stable Diffusion. What the MODEL
 * does is compared with what each of them stands for. A UNet of a size that was not released takes its config.json
 * along in the metadata.
 */
#include "unet_save.h"

#include "kiln/kit.h"
#include "unet_architecture.h"
#include "unet_latents.h"
#include "unet_ldm.h"
#include "unet_noise.h"

#include <math.h>
#include <stdlib.h>

#define PREFIX "model.diffusion_model."

/* ---- tensors ---- */

static kiln_status fail(const kiln_saving *s, const char *what)
{
    return s->host->fail(s->ctx, KILN_ERR_UNSUPPORTED, "this UNet cannot be saved as a single file: %s", what);
}

static kiln_status put_tensors(const unet_config *c, kiln_weights *weights, const kiln_saving *s)
{
    const kiln_weights_api *w = s->host->ability(KILN_WEIGHTS_ABILITY);
    for (size_t i = 0; i < w->count(weights); i++) {
        kiln_weight_info info = {.size = sizeof info};
        char name[UNET_LDM_NAME], full[UNET_LDM_NAME + sizeof PREFIX];
        if (w->at(weights, i, &info) != KILN_OK) continue;
        if (!unet_ldm_name(c, info.name, name)) return fail(s, "the name of a tensor is too long");
        snprintf(full, sizeof full, PREFIX "%s", name);
        TRY(s->tensor(
            s,
            &(kiln_weight_row){
                .size = sizeof(kiln_weight_row), .name = full, .from = weights, .tensor = &info.name, .n_tensor = 1}));
    }
    return KILN_OK;
}

static kiln_status put_numbers(const kiln_saving *s, const char *name, const float *data, int64_t n)
{
    return s->tensor(
        s, &(kiln_weight_row){
               .size = sizeof(kiln_weight_row), .dtype = KILN_F32, .name = name, .rank = 1, .dim = &n, .data = data});
}

static kiln_status put_number(const kiln_saving *s, const char *name, double number)
{
    float data = (float)number;
    return s->tensor(
        s, &(kiln_weight_row){.size = sizeof(kiln_weight_row), .dtype = KILN_F32, .name = name, .data = &data});
}

static kiln_status put_marker(const kiln_saving *s, const char *name) { return put_numbers(s, name, NULL, 0); }

/* ---- noise ---- */

/* What a single file can say of noise. */
typedef enum { SAYS_EPS, SAYS_V, SAYS_V_ZERO, SAYS_V_EDM, SAYS_EDM, SAYS_COUNT } noise_kind;

static int close_to(double a, double b) { return a == b || fabs(a - b) <= 1e-12 * fabs(b); }

static int same_level(const kiln_model_sampling *a, const kiln_model_sampling *b, double sigma)
{
    kiln_level x = {.size = sizeof x}, y = {.size = sizeof y};
    a->level(a, sigma, &x);
    b->level(b, sigma, &y);
    return close_to(x.input, y.input) && close_to(x.of_x, y.of_x) && close_to(x.of_prediction, y.of_prediction) &&
           close_to(x.clean, y.clean) && close_to(x.noise, y.noise) &&
           close_to(a->timestep(a, sigma), b->timestep(b, sigma));
}

static int same_sampling(const kiln_model_sampling *a, const kiln_model_sampling *b)
{
    if (a->process != b->process || a->n_sigma != b->n_sigma || !a->sigma || !b->sigma) return 0;
    for (uint32_t i = 0; i < a->n_sigma; i++)
        if (!close_to(a->sigma[i], b->sigma[i])) return 0;
    return same_level(a, b, a->sigma[0]) && same_level(a, b, a->sigma[a->n_sigma / 2]) &&
           same_level(a, b, a->sigma[a->n_sigma - 1]);
}

/* The sampling that a reader makes of a file that says this; the ends are those of `like`. */
static void said(const unet_config *c, noise_kind kind, const kiln_model_sampling *like, double *sigma,
                 kiln_standard_sampling *out)
{
    enum { LEVELS = 1000 };
    static const uint32_t prediction[] = {KILN_PREDICT_EPS, KILN_PREDICT_V, KILN_PREDICT_V, KILN_PREDICT_V,
                                          KILN_PREDICT_EDM};
    kiln_sampling_row row = {.prediction = prediction[kind], .sigma = sigma, .n_sigma = LEVELS};
    int upscaler = c->concat == UNET_UPSCALE;
    if (kind == SAYS_V_EDM || kind == SAYS_EDM) {
        kiln_continuous_sigmas(kind == SAYS_EDM ? 0.002 : like->sigma_min, kind == SAYS_EDM ? 80 : like->sigma_max,
                               LEVELS, sigma);
        row.time = KILN_TIME_LOG;
    } else
        kiln_discrete_sigmas("scaled_linear", upscaler ? 0.0001 : 0.00085, upscaler ? 0.02 : 0.012, LEVELS, sigma);
    if (kind == SAYS_EDM) row.sigma_data = 0.5;
    if (kind == SAYS_V_ZERO) kiln_zero_terminal_snr(sigma, LEVELS, sigma);
    kiln_standard_sampling_init(out, &row);
}

/* SAYS_COUNT: no file can say it. */
static noise_kind find_noise(const unet_config *c, const kiln_model_sampling *sampling)
{
    double sigma[1000];
    kiln_standard_sampling one;
    int kind = 0;
    for (; kind < SAYS_COUNT; kind++) {
        said(c, (noise_kind)kind, sampling, sigma, &one);
        if (same_sampling(sampling, &one.base)) break;
    }
    return (noise_kind)kind;
}

/* What acts; where that cannot be said, what the network was opened with. */
static kiln_status choose_noise(const unet_config *c, const kiln_model *m, const kiln_saving *s, noise_kind *out,
                                const kiln_model_sampling **which)
{
    *which = m->sampling ? m->sampling : m->denoiser->sampling;
    if ((*out = find_noise(c, *which)) != SAYS_COUNT) return KILN_OK;
    *which = m->denoiser->sampling;
    if ((*out = find_noise(c, *which)) == SAYS_COUNT)
        return fail(s, "such a file has no place for its noise levels or for what it predicts");
    s->host->log(KILN_LOG_WARN,
                 "how a node makes this MODEL count noise has no place in the file; what is saved counts "
                 "as it did when it was loaded");
    return KILN_OK;
}

/* edm_vpred.sigma_min is left out where readers take the same number without it: f32 does not hold it. */
static kiln_status put_noise(const kiln_saving *s, noise_kind kind, const kiln_model_sampling *sampling)
{
    static const char *const v[] = {"modelspec.predict_key", "modelspec.prediction_type"};
    for (size_t i = 0; i < COUNT(v) && kind <= SAYS_V_ZERO; i++)
        TRY(s->text(s, v[i], kind == SAYS_EPS ? "epsilon" : "v"));
    if (kind == SAYS_V || kind == SAYS_V_ZERO) TRY(put_marker(s, "v_pred"));
    if (kind == SAYS_V_ZERO) TRY(put_marker(s, "ztsnr"));
    if (kind != SAYS_V_EDM) return KILN_OK;
    TRY(put_number(s, "edm_vpred.sigma_max", sampling->sigma_max));
    return sampling->sigma_min == 0.002 ? KILN_OK : put_number(s, "edm_vpred.sigma_min", sampling->sigma_min);
}

/* ---- latents ---- */

static kiln_status put_statistics(const kiln_saving *s, const kiln_latent_scaling *scaling)
{
    float mean[LATENT_CHANNELS_MAX], deviation[LATENT_CHANNELS_MAX];
    for (uint32_t i = 0; i < scaling->n; i++) {
        mean[i] = (float)(scaling->shift ? scaling->shift[i] : 0);
        deviation[i] = (float)(0.5 / scaling->scale[i]);
    }
    TRY(put_numbers(s, "edm_mean", mean, scaling->n));
    return put_numbers(s, "edm_std", deviation, scaling->n);
}

static kiln_status put_latents(const unet_config *c, const kiln_model *m, noise_kind kind, const kiln_saving *s)
{
    const kiln_latent_scaling *scaling = m->latent ? m->latent : m->denoiser->latent->scaling;
    double usual = c->concat == UNET_UPSCALE ? 0.08333 : c->beside == UNET_SIZES ? 0.13025 : 0.18215;
    int many = scaling->n == (uint32_t)c->out_channels && scaling->n > 1 && scaling->n <= LATENT_CHANNELS_MAX;
    if (kind == SAYS_EDM && many) return put_statistics(s, scaling);
    if (kind != SAYS_EDM && scaling->n == 1 && close_to(scaling->scale[0], usual) &&
        (!scaling->shift || scaling->shift[0] == 0))
        return KILN_OK;
    return fail(s, "such a file has no place for how its latents are scaled");
}

/* ---- metadata ---- */

static kiln_status put_architecture(const unet_config *c, const kiln_saving *s)
{
    int refiner = c->n_number == 5, edit = c->concat == UNET_EDIT;
    if (c->beside != UNET_SIZES) return KILN_OK;
    TRY(s->text(s, "modelspec.architecture",
                refiner ? "stable-diffusion-xl-v1-refiner"
                : edit  ? "stable-diffusion-xl-v1-edit"
                        : "stable-diffusion-xl-v1-base"));
    TRY(s->text(s, "modelspec.sai_model_spec", "1.0.0"));
    return s->text(s, "modelspec.implementation", "sgm");
}

static kiln_status put_config(const unet_config *c, const char *config, kiln_weights *weights, const kiln_saving *s)
{
    const kiln_weights_api *w = s->host->ability(KILN_WEIGHTS_ABILITY);
    const char *text = config ? w->text(weights, config, NULL) : NULL;
    if (!text) text = w->text(weights, "__metadata__/unet_config", NULL);
    return text && !unet_is_released(c) ? s->text(s, "unet_config", text) : KILN_OK;
}

/* What a vector beside the time is follows from its width where there is no config.json. */
static kiln_status check_vector(const unet_config *c, const kiln_saving *s)
{
    int known = c->context == 1024 && (c->embedded == 1536 || c->embedded == 2048);
    if ((c->beside == UNET_VECTOR && !known) || (c->beside == UNET_SIZES && known))
        return fail(s, "such a file would be taken for another kind, by the width of what is embedded beside the time");
    return KILN_OK;
}

kiln_status unet_save(const unet_config *c, const char *config, const kiln_model *m, const kiln_saving *s)
{
    const kiln_model_sampling *sampling;
    noise_kind kind;
    TRY(check_vector(c, s));
    TRY(choose_noise(c, m, s, &kind, &sampling));
    TRY(put_tensors(c, m->weights, s));
    TRY(put_noise(s, kind, sampling));
    TRY(put_latents(c, m, kind, s));
    TRY(put_architecture(c, s));
    return put_config(c, config, m->weights, s);
}
