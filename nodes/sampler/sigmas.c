/* sigmas.c - nodes that cut, turn and write SIGMAS. Names, defaults and ranges are ComfyUI's. */
#include "sample.h"
#include "sampler_nodes.h"
#include "sampler_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const kiln_port sigmas_in[] = {{.name = "sigmas", .type = "SIGMAS", .doc = "Noise levels."}};
static const kiln_port sigmas_out[] = {{.name = "SIGMAS", .type = "SIGMAS", .doc = "Noise levels."}};
static const kiln_port split_out[] = {
    {.name = "high_sigmas", .type = "SIGMAS", .doc = "The first part."},
    {.name = "low_sigmas", .type = "SIGMAS", .doc = "The rest, from the first part's last level on."}};

/* ---- two parts that share a level ---- */

/* The first `step` steps, and the others; a part without steps keeps the one level there is, past the end nothing. */
static kiln_status split(const kiln_call *c, const double *sigma, size_t n, size_t step)
{
    size_t first = step + 1 < n ? step + 1 : n;
    TRY(sigmas_new(c, sigma, first, &c->out[0]));
    return sigmas_new(c, sigma + (step < n ? step : n), step < n ? n - step : 0, &c->out[1]);
}

typedef struct {
    int64_t step;
} split_params;
static const kiln_param split_param[] = {KIT_INT(split_params, step, 0, 0, 10000, "Steps of the first part.")};

static kiln_status split_run(const kiln_call *c)
{
    double *sigma;
    size_t n;
    TRY(sigmas_read(c, c->in[0], NULL, &sigma, &n));
    return split(c, sigma, n, (size_t)((const split_params *)c->params)->step);
}

const kiln_node node_split_sigmas = {PLAIN_NODE("SplitSigmas", "sampling/sigmas", "Two parts, for jobs of two stages."),
                                     KILN_ARRAY(in, sigmas_in),
                                     KILN_ARRAY(out, split_out),
                                     KILN_ARRAY(param, split_param),
                                     .params_size = sizeof(split_params),
                                     .run = split_run};

typedef struct {
    double denoise;
} split_denoise_params;
static const kiln_param split_denoise_param[] = {
    KIT_FLOAT(split_denoise_params, denoise, 1, 0, 1, 0.01, "Share of the steps in the second part.")};

static kiln_status split_denoise_run(const kiln_call *c)
{
    double *sigma;
    size_t n;
    TRY(sigmas_read(c, c->in[0], NULL, &sigma, &n));
    double steps = n ? (double)(n - 1) : 0, second = rint(steps * ((const split_denoise_params *)c->params)->denoise);
    return split(c, sigma, n, (size_t)(steps - second));
}

const kiln_node node_split_sigmas_denoise = {
    PLAIN_NODE("SplitSigmasDenoise", "sampling/sigmas", "Two parts, the second being that share of the steps."),
    KILN_ARRAY(in, sigmas_in),
    KILN_ARRAY(out, split_out),
    KILN_ARRAY(param, split_denoise_param),
    .params_size = sizeof(split_denoise_params),
    .run = split_denoise_run};

/* ---- FlipSigmas, SetFirstSigma ---- */

static kiln_status flip_run(const kiln_call *c)
{
    double *sigma;
    size_t n;
    TRY(sigmas_read(c, c->in[0], NULL, &sigma, &n));
    for (size_t i = 0; i < n / 2; i++) {
        double low = sigma[n - 1 - i];
        sigma[n - 1 - i] = sigma[i], sigma[i] = low;
    }
    if (n && sigma[0] == 0) sigma[0] = 0.0001; /* a start without any noise has no direction */
    return sigmas_new(c, sigma, n, &c->out[0]);
}

const kiln_node node_flip_sigmas = {
    PLAIN_NODE("FlipSigmas", "sampling/sigmas",
               "From low to high: a deterministic sampler then adds the noise a picture would come from."),
    KILN_ARRAY(in, sigmas_in), KILN_ARRAY(out, sigmas_out), .run = flip_run};

typedef struct {
    double sigma;
} first_params;
static const kiln_param first_param[] = {KIT_FLOAT(first_params, sigma, 136, 0, 20000, 0.001, "The first level.")};

static kiln_status first_run(const kiln_call *c)
{
    double *sigma;
    size_t n;
    TRY(sigmas_read(c, c->in[0], NULL, &sigma, &n));
    if (n == 0)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "sigmas is empty, so it has no first level (a scheduler's denoise of 0 makes it so)");
    sigma[0] = ((const first_params *)c->params)->sigma;
    return sigmas_new(c, sigma, n, &c->out[0]);
}

const kiln_node node_set_first_sigma = {PLAIN_NODE("SetFirstSigma", "sampling/sigmas", "Another first level."),
                                        KILN_ARRAY(in, sigmas_in),
                                        KILN_ARRAY(out, sigmas_out),
                                        KILN_ARRAY(param, first_param),
                                        .params_size = sizeof(first_params),
                                        .run = first_run};

/* ---- ExtendIntermediateSigmas ---- */

typedef struct {
    int64_t steps;
    double start_at_sigma, end_at_sigma;
    int32_t spacing;
} extend_params;

enum { SPACING_LINEAR, SPACING_COSINE, SPACING_SINE };
static const kiln_choice spacing_choice[] = {{.name = "linear", .value = SPACING_LINEAR},
                                             {.name = "cosine", .value = SPACING_COSINE},
                                             {.name = "sine", .value = SPACING_SINE},
                                             {0}};
static const kiln_param extend_param[] = {
    KIT_INT(extend_params, steps, 2, 1, 100, "Steps made of each."),
    KIT_FLOAT(extend_params, start_at_sigma, -1, -1, 20000, 0.01, "Only from this level down; below 0: from the top."),
    KIT_FLOAT(extend_params, end_at_sigma, 12, 0, 20000, 0.01, "Only down to this level."),
    KIT_ENUM(extend_params, spacing, spacing_choice, SPACING_LINEAR,
             "linear; cosine: wide first; sine: narrow first.")};

static double spaced(int32_t spacing, double x)
{
    const double half_pi = 1.57079632679489661923;
    if (spacing == SPACING_COSINE) return sin(x * half_pi);
    return spacing == SPACING_SINE ? 1 - cos(x * half_pi) : x;
}

static kiln_status extend_run(const kiln_call *c)
{
    const extend_params *p = c->params;
    double *sigma, start = p->start_at_sigma < 0 ? INFINITY : p->start_at_sigma;
    size_t n, made = 0;
    TRY(sigmas_read(c, c->in[0], NULL, &sigma, &n));
    double *more = c->host->scratch(c->ctx, (n * (size_t)p->steps + 1) * sizeof *more, KILN_CPU);
    if (!more) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        more[made++] = sigma[i];
        int outside = sigma[i] < p->end_at_sigma || sigma[i] > start; /* an estimate divides every step */
        if (i + 1 == n || (outside && !kit_estimating(c))) continue;
        for (int64_t k = 1; k < p->steps; k++)
            more[made++] = sigma[i] + spaced(p->spacing, (double)k / (double)p->steps) * (sigma[i + 1] - sigma[i]);
    }
    return sigmas_new(c, more, made, &c->out[0]);
}

const kiln_node node_extend_sigmas = {
    PLAIN_NODE("ExtendIntermediateSigmas", "sampling/sigmas", "Divides steps into more."),
    KILN_ARRAY(in, sigmas_in),
    KILN_ARRAY(out, sigmas_out),
    KILN_ARRAY(param, extend_param),
    .params_size = sizeof(extend_params),
    .run = extend_run};

/* ---- ManualSigmas ---- */

typedef struct {
    const char *sigmas;
} manual_params;
static const kiln_param manual_param[] = {{.name = "sigmas",
                                           .type = KILN_P_STRING,
                                           .offset = offsetof(manual_params, sigmas),
                                           .def_str = "1, 0.5",
                                           .doc = "Levels as numbers, separated by commas or blanks."}};

static kiln_status manual_run(const kiln_call *c)
{
    const char *text = ((const manual_params *)c->params)->sigmas, *between = ", \t\r\n";
    double *sigma = c->host->scratch(c->ctx, (strlen(text) + 1) * sizeof *sigma, KILN_CPU);
    size_t n = 0;
    if (!sigma) return KILN_ERR_NOMEM;
    for (text += strspn(text, between); *text; text += strspn(text, between)) {
        char *end;
        double v = strtod(text, &end);
        if (end == text || (*end && !strchr(between, *end)) || !isfinite(v) || v < 0)
            return c->host->fail(c->ctx, KILN_ERR_INVALID,
                                 "'%.*s' is no noise level; write numbers from 0 up, as in \"14.6, 3, 0.5, 0\"",
                                 (int)strcspn(text, between), text);
        sigma[n++] = v;
        text = end;
    }
    return sigmas_new(c, sigma, n, &c->out[0]);
}

const kiln_node node_manual_sigmas = {PLAIN_NODE("ManualSigmas", "sampling/sigmas", "Levels as written."),
                                      KILN_ARRAY(out, sigmas_out), KILN_ARRAY(param, manual_param),
                                      .params_size = sizeof(manual_params), .run = manual_run};

/* ---- SamplingPercentToSigma ---- */

typedef struct {
    double sampling_percent;
    int32_t return_actual_sigma;
} percent_params;
static const kiln_port percent_in[] = {{.name = "model", .type = "MODEL", .doc = "Whose noise levels."}};
static const kiln_port percent_out[] = {{.name = "sigma_value", .type = "FLOAT", .doc = "The level."}};
static const kiln_param percent_param[] = {
    KIT_FLOAT(percent_params, sampling_percent, 0, 0, 1, 0.0001, "Share of the denoising done."),
    KIT_BOOL(percent_params, return_actual_sigma, 0,
             "At 0 and 1 the model's own ends, in place of above and below everything.")};

static kiln_status percent_run(const kiln_call *c)
{
    const percent_params *p = c->params;
    model_sampling l;
    TRY(sample_model_sampling(c, c->in[0], &l));
    double sigma = model_sampling_percent_to_sigma(&l, p->sampling_percent);
    if (isinf(sigma)) sigma = 999999999.9; /* as ComfyUI says it: above every level */
    if (p->return_actual_sigma && p->sampling_percent <= 0) sigma = model_sampling_sigma_max(&l);
    if (p->return_actual_sigma && p->sampling_percent >= 1) sigma = model_sampling_sigma_min(&l);
    c->out[0] = kit_values(c)->new_float(c->ctx, sigma);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

const kiln_node node_percent_to_sigma = {
    PLAIN_NODE("SamplingPercentToSigma", "sampling/sigmas", "The noise level at a share of the denoising."),
    KILN_ARRAY(in, percent_in),
    KILN_ARRAY(out, percent_out),
    KILN_ARRAY(param, percent_param),
    .params_size = sizeof(percent_params),
    .run = percent_run};
