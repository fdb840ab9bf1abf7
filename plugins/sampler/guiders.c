/* guiders.c - the kinds of GUIDER that kiln brings, as rows of kiln/sampling.h. */
#include "guiders.h"

#include "kiln/kit.h"
#include "kiln/model.h"
#include "model_guidance.h"

#include <math.h>

enum { POSITIVE, NEGATIVE, THIRD };
#define BIT(set) (1u << (set))
#define ROW(name_, doc_) .size = sizeof(kiln_guider), .name = name_, .doc = doc_
#define SETTINGS(type_, table_) KILN_ARRAY(param, table_), .params_size = sizeof(type_)
#define SCALE(type_, field_, default_, doc_)                                                                           \
    {                                                                                                                  \
        .name = #field_, .doc = doc_, .type = KILN_P_FLOAT, .flags = KILN_PARAM_REQUIRED,                              \
        .offset = offsetof(type_, field_), .def = default_, .min = 0, .max = 100, .step = 0.01                         \
    }

static const kiln_guider_model one_model[] = {{"model"}}, two_models[] = {{"model"}, {"model_negative"}};

static int is_one(double cfg) { return fabs(cfg - 1) <= 1e-9; }

/* ---- basic: one conditioning as it is ---- */

static uint32_t basic_wants(const void *params, double sigma) { return (void)params, (void)sigma, BIT(POSITIVE); }

static kiln_status basic_combine(const kiln_guider_step *g, kiln_latent *out)
{
    return g->guided(g, g->guess[POSITIVE], NULL, 1, out);
}

static const kiln_guider_set basic_sets[] = {{"conditioning", 0}};
static const kiln_guider basic = {ROW("basic", "One conditioning as it is."),
                                  KILN_ARRAY(model, one_model),
                                  KILN_ARRAY(set, basic_sets),
                                  .unconditional = -1,
                                  .wants = basic_wants,
                                  .combine = basic_combine};

/* ---- cfg: Ho and Salimans 2022 ---- */

typedef struct {
    double cfg;
} cfg_settings;
static const kiln_param cfg_param[] = {SCALE(cfg_settings, cfg, 8, "How strongly the prompt is followed.")};

static uint32_t cfg_wants(const void *params, double sigma)
{
    (void)sigma;
    return BIT(POSITIVE) | (is_one(((const cfg_settings *)params)->cfg) ? 0 : BIT(NEGATIVE));
}

static kiln_status cfg_combine(const kiln_guider_step *g, kiln_latent *out)
{
    return g->guided(g, g->guess[POSITIVE], g->guess[NEGATIVE], ((const cfg_settings *)g->params)->cfg, out);
}

static const kiln_guider_set cfg_sets[] = {{"positive", 0}, {"negative", 0}};
static const kiln_guider cfg = {ROW("cfg", "negative + cfg (positive - negative)"),
                                KILN_ARRAY(model, one_model),
                                KILN_ARRAY(set, cfg_sets),
                                .unconditional = NEGATIVE,
                                SETTINGS(cfg_settings, cfg_param),
                                .wants = cfg_wants,
                                .combine = cfg_combine};

static const kiln_guider_set dual_model_sets[] = {{"positive", 0}, {"negative", 1}};
static const kiln_guider dual_model = {ROW("dual-model", "As cfg, the negative evaluated by a model of its own."),
                                       KILN_ARRAY(model, two_models),
                                       KILN_ARRAY(set, dual_model_sets),
                                       .unconditional = NEGATIVE,
                                       SETTINGS(cfg_settings, cfg_param),
                                       .wants = cfg_wants,
                                       .combine = cfg_combine};

/* ---- two conditionings and a negative (InstructPix2Pix: Brooks et al. 2022, eq. 3) ---- */

typedef struct {
    double cfg_conds, cfg_cond2_negative;
} dual_settings;
static const kiln_param dual_param[] = {SCALE(dual_settings, cfg_conds, 8, "From cond2 towards cond1."),
                                        SCALE(dual_settings, cfg_cond2_negative, 8, "From negative towards cond2.")};

static uint32_t dual_wants(const void *params, double sigma)
{
    const dual_settings *p = params;
    int whole = is_one(p->cfg_cond2_negative);
    (void)sigma;
    return BIT(POSITIVE) | (whole ? 0 : BIT(NEGATIVE)) | (whole && is_one(p->cfg_conds) ? 0 : BIT(THIRD));
}

/* guided(cond2, negative, b) + a (cond1 - cond2) */
static kiln_status dual_combine(const kiln_guider_step *g, kiln_latent *out)
{
    const dual_settings *p = g->params;
    kiln_latent *first = g->guess[POSITIVE], *second = g->guess[THIRD];
    if (!second) return g->guided(g, first, NULL, 1, out);
    TRY(g->guided(g, second, g->guess[NEGATIVE], p->cfg_cond2_negative, out));
    g->latents->add_difference(g->latents, out, out, p->cfg_conds, first, second);
    return KILN_OK;
}

static const kiln_guider_set dual_sets[] = {{"cond1", 0}, {"negative", 0}, {"cond2", 0}};
static const kiln_guider dual = {ROW("dual-cfg", "negative + b (cond2 - negative) + a (cond1 - cond2)"),
                                 KILN_ARRAY(model, one_model),
                                 KILN_ARRAY(set, dual_sets),
                                 .unconditional = NEGATIVE,
                                 SETTINGS(dual_settings, dual_param),
                                 .wants = dual_wants,
                                 .combine = dual_combine};

static uint32_t nested_wants(const void *params, double sigma)
{
    return (void)params, (void)sigma, BIT(POSITIVE) | BIT(NEGATIVE) | BIT(THIRD);
}

/* negative + b (guided(cond1, cond2, a) - negative) */
static kiln_status nested_combine(const kiln_guider_step *g, kiln_latent *out)
{
    const dual_settings *p = g->params;
    kiln_latent *negative = g->guess[NEGATIVE];
    TRY(g->guided(g, g->guess[POSITIVE], g->guess[THIRD], p->cfg_conds, out));
    g->latents->add_difference(g->latents, out, negative, p->cfg_cond2_negative, out, negative);
    return KILN_OK;
}

static const kiln_guider nested = {ROW("dual-cfg-nested", "negative + b (cond2 + a (cond1 - cond2) - negative)"),
                                   KILN_ARRAY(model, one_model),
                                   KILN_ARRAY(set, dual_sets),
                                   .unconditional = THIRD,
                                   SETTINGS(dual_settings, dual_param),
                                   .wants = nested_wants,
                                   .combine = nested_combine};

/* ---- perp-neg: Armandpour et al. 2023 ---- */

typedef struct {
    double cfg, neg_scale;
} perp_settings;
static const kiln_param perp_param[] = {SCALE(perp_settings, cfg, 8, "How strongly the prompt is followed."),
                                        SCALE(perp_settings, neg_scale, 1, "How strongly the negative is avoided.")};

static uint32_t perp_wants(const void *params, double sigma)
{
    const perp_settings *p = params;
    int plain = p->neg_scale == 0;
    (void)sigma;
    return BIT(POSITIVE) | (plain ? 0 : BIT(NEGATIVE)) | (plain && is_one(p->cfg) ? 0 : BIT(THIRD));
}

static kiln_status perp_combine(const kiln_guider_step *g, kiln_latent *out)
{
    const perp_settings *p = g->params;
    TRY(perpendicular(&(kiln_guesses){.size = sizeof(kiln_guesses),
                                      .sampling = g->sampling,
                                      .latents = g->latents,
                                      .sigma = g->sigma,
                                      .cfg = p->cfg,
                                      .x = g->x,
                                      .positive = g->guess[POSITIVE],
                                      .negative = g->guess[NEGATIVE],
                                      .extra = g->guess[THIRD],
                                      .x0 = out},
                      p->neg_scale));
    return g->patch(g, g->guess[POSITIVE], g->guess[NEGATIVE], p->cfg, out);
}

static const kiln_guider_set perp_sets[] = {{"positive", 0}, {"negative", 0}, {"empty_conditioning", 0}};
static const kiln_guider perp = {ROW("perp-neg", "empty + cfg (p - neg_scale q), q perpendicular to p"),
                                 KILN_ARRAY(model, one_model),
                                 KILN_ARRAY(set, perp_sets),
                                 .unconditional = NEGATIVE,
                                 SETTINGS(perp_settings, perp_param),
                                 .wants = perp_wants,
                                 .combine = perp_combine};

const kiln_guider *const guider_rows[] = {&basic, &cfg, &dual_model, &dual, &nested, &perp};
const size_t guider_row_count = COUNT(guider_rows);
