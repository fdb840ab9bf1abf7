/* unet_noise.c - see unet_noise.h. A folder's scheduler says everything; its timestep_spacing and the like belong to
 * schedules, and are not read. */
#include "unet_noise.h"

#include "kiln/config.h"
#include "kiln/kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEVELS = 1000 };

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_weights_api *w;
    const unet_source *from;
    const unet_config *c;
    double *sigma;
    kiln_sampling_row row;
} reader;

/* ---- tables ---- */

static void set_continuous(reader *r, double low, double high)
{
    kiln_continuous_sigmas(low, high, LEVELS, r->sigma);
    r->row.n_sigma = LEVELS, r->row.time = KILN_TIME_LOG;
}

static int is_upscaler(const unet_config *c) { return c->concat == UNET_UPSCALE; }

/* The training levels of a family without a scheduler's file. */
static void set_table(reader *r)
{
    double start = is_upscaler(r->c) ? 0.0001 : 0.00085, end = is_upscaler(r->c) ? 0.02 : 0.012;
    kiln_discrete_sigmas("scaled_linear", start, end, LEVELS, r->sigma);
    r->row.n_sigma = LEVELS;
}

/* ---- scheduler_config.json ---- */

static const config_rule expected[] = {{"trained_betas", "null"}};

static uint32_t config_prediction(config *c)
{
    static const struct {
        const char *name;
        kiln_prediction kind;
    } kinds[] = {{"epsilon", KILN_PREDICT_EPS}, {"v_prediction", KILN_PREDICT_V}, {"sample", KILN_PREDICT_X0}};
    const char *name = config_text(c, "prediction_type", "epsilon");
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (strcmp(name, kinds[i].name) == 0) return (uint32_t)kinds[i].kind;
    CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED,
                "%s: 'prediction_type' is '%.40s'; epsilon, v_prediction and sample are supported", c->path, name);
    return 0;
}

/* diffusers' EDM schedulers: their "epsilon" is Karras' F, preconditioned with sigma_data. */
static void read_edm(config *c, reader *r)
{
    double low = config_number(c, "sigma_min", 0.002, 1e-9, 1e6), high = config_number(c, "sigma_max", 80, 1e-9, 1e9);
    r->row.sigma_data = config_number(c, "sigma_data", 0.5, 1e-6, 1e6);
    if (r->row.prediction == KILN_PREDICT_EPS) r->row.prediction = KILN_PREDICT_EDM;
    if (r->row.prediction == KILN_PREDICT_X0)
        CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED, "%s: 'prediction_type' is 'sample', which no EDM scheduler has", c->path);
    if (low >= high) CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: 'sigma_max' is not above 'sigma_min'", c->path);
    if (!c->failed) set_continuous(r, low, high);
}

static void read_discrete(config *c, reader *r)
{
    const char *kind = config_text(c, "beta_schedule", "scaled_linear");
    if (strcmp(kind, "scaled_linear") != 0 && strcmp(kind, "linear") != 0)
        CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED, "%s: 'beta_schedule' is '%.40s'; scaled_linear and linear are supported",
                    c->path, kind);
    int64_t n = config_int(c, "num_train_timesteps", LEVELS, 2, NOISE_LEVELS_MAX);
    double start = config_number(c, "beta_start", 0.00085, 1e-9, 0.5),
           end = config_number(c, "beta_end", 0.012, 1e-9, 0.5);
    int zero = config_bool(c, "rescale_betas_zero_snr", 0);
    if (end < start) CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: 'beta_end' is below 'beta_start'", c->path);
    if (zero && r->row.prediction == KILN_PREDICT_EPS)
        CONFIG_FAIL(c, KILN_ERR_INVALID,
                    "%s: 'rescale_betas_zero_snr' is true and 'prediction_type' is epsilon; of a latent without signal "
                    "the noise tells nothing",
                    c->path);
    if (c->failed) return;
    kiln_discrete_sigmas(kind, start, end, (size_t)n, r->sigma);
    if (zero) kiln_zero_terminal_snr(r->sigma, (size_t)n, r->sigma);
    r->row.n_sigma = (uint32_t)n;
}

static kiln_status read_scheduler(config *c, reader *r)
{
    const char *name = config_text(c, "_class_name", "");
    config_expect(c, expected, COUNT(expected));
    r->row.prediction = config_prediction(c);
    if (strncmp(name, "EDM", 3) == 0)
        read_edm(c, r);
    else
        read_discrete(c, r);
    return c->failed ? KILN_ERR_INVALID : KILN_OK;
}

/* ---- single files ---- */

static int has_marker(const reader *r, const char *name)
{
    kiln_weight_info info = {.size = sizeof info};
    return r->w->find(r->from->set, name, &info) == KILN_OK;
}

/* A marker that is one number. */
static kiln_status read_marker(const reader *r, const char *name, double *out)
{
    kiln_weight_info info = {.size = sizeof info};
    float number = 0;
    size_t n = 1;
    if (r->w->find(r->from->set, name, &info) != KILN_OK) return KILN_OK;
    for (uint32_t i = 0; i < info.rank; i++) n *= (size_t)info.dim[i];
    if (n != 1) return r->host->fail(r->ctx, KILN_ERR_INVALID, "tensor '%s' has to be one number, a noise level", name);
    TRY(r->w->read_f32(r->ctx, r->from->set, name, &number));
    *out = number;
    return KILN_OK;
}

/* SD2 with v-prediction has wider biases here than SD2 base: ComfyUI's rule. */
static kiln_status guess_sd2(const reader *r, uint32_t *prediction)
{
    char name[100];
    kiln_weight_info info = {.size = sizeof info};
    double mean = 0, square = 0;
    snprintf(name, sizeof name, "up_blocks.%u.attentions.%u.transformer_blocks.0.norm1.bias", r->c->levels - 1,
             r->c->layers[0]);
    if (r->w->find(r->from->view, name, &info) != KILN_OK || info.rank != 1 || info.dim[0] < 1) return KILN_OK;
    size_t n = (size_t)info.dim[0];
    float *bias = r->host->scratch(r->ctx, n * sizeof *bias, KILN_CPU);
    if (!bias) return KILN_ERR_NOMEM;
    TRY(r->w->read_f32(r->ctx, r->from->view, name, bias));
    for (size_t i = 0; i < n; i++) mean += (double)bias[i] / (double)n;
    for (size_t i = 0; i < n; i++) square += ((double)bias[i] - mean) * ((double)bias[i] - mean) / (double)n;
    if (sqrt(square) > 0.09) *prediction = KILN_PREDICT_V;
    return KILN_OK;
}

static int is_one_of(const char *text, const char *const *names)
{
    while (*names && strcmp(text, *names) != 0) names++;
    return *names != NULL;
}

static kiln_status read_prediction(reader *r)
{
    static const char *const noise[] = {"epsilon", "eps", NULL}, *const v[] = {"v", "v_prediction", "v-prediction",
                                                                               NULL};
    const char *text = r->w->text(r->from->set, "__metadata__/modelspec.prediction_type", NULL);
    r->row.prediction = is_upscaler(r->c) ? KILN_PREDICT_V : KILN_PREDICT_EPS;
    if (has_marker(r, "v_pred") || (text && is_one_of(text, v)))
        r->row.prediction = KILN_PREDICT_V;
    else if (text && !is_one_of(text, noise))
        return r->host->fail(r->ctx, KILN_ERR_UNSUPPORTED,
                             "the file's metadata says modelspec.prediction_type '%.40s'; epsilon and v are supported",
                             text);
    else if (!text && r->c->linear && r->c->beside != UNET_SIZES && r->c->concat == UNET_PLAIN)
        return guess_sd2(r, &r->row.prediction);
    return KILN_OK;
}

static kiln_status read_file(reader *r)
{
    double low = 0.002, high = 120;
    if (has_marker(r, "edm_mean") && has_marker(r, "edm_std")) { /* Playground 2.5 */
        r->row.prediction = KILN_PREDICT_EDM, r->row.sigma_data = 0.5;
        set_continuous(r, low, 80);
        return KILN_OK;
    }
    if (has_marker(r, "edm_vpred.sigma_max")) { /* CosXL */
        TRY(read_marker(r, "edm_vpred.sigma_max", &high));
        TRY(read_marker(r, "edm_vpred.sigma_min", &low));
        if (!(low > 0 && high > low && high < 1e9))
            return r->host->fail(r->ctx, KILN_ERR_INVALID, "'edm_vpred.sigma_max' is %g and the lowest level %g", high,
                                 low);
        r->row.prediction = KILN_PREDICT_V;
        set_continuous(r, low, high);
        return KILN_OK;
    }
    TRY(read_prediction(r));
    set_table(r);
    if (r->row.prediction == KILN_PREDICT_V && has_marker(r, "ztsnr"))
        kiln_zero_terminal_snr(r->sigma, LEVELS, r->sigma);
    return KILN_OK;
}

kiln_status unet_noise_read(const kiln_host *host, kiln_ctx *ctx, const unet_source *from, const unet_config *c,
                            double *sigma, kiln_standard_sampling *out)
{
    reader r = {.host = host,
                .ctx = ctx,
                .w = host->ability(KILN_WEIGHTS_ABILITY),
                .from = from,
                .c = c,
                .sigma = sigma,
                .row = {.sigma = sigma}};
    config scheduler = config_open(host, ctx, from->set, "scheduler/scheduler_config.json");
    kiln_status status = scheduler.failed ? KILN_ERR_INVALID
                         : scheduler.root ? read_scheduler(&scheduler, &r)
                                          : read_file(&r);
    config_close(&scheduler);
    if (status == KILN_OK) kiln_standard_sampling_init(out, &r.row);
    return status;
}
