/* guider.c - see guider.h. */
#include "guider.h"

#include "guidance.h"
#include "guide.h"
#include "kiln/kit.h"

#include <math.h>
#include <string.h>

enum { POSITIVE, NEGATIVE, THIRD };
#define BIT(set) (1u << (set))

static int is_one(double cfg) { return fabs(cfg - 1) <= 1e-9; }
static size_t size_of_one(const guide *g) { return (size_t)(g->height * g->width * g->channels); }
static size_t size_of_all(const guide *g) { return (size_t)g->batch * size_of_one(g); }

/* ---- guidance that hangs on the model ---- */

static const float *extra_of(const guide *g, size_t k)
{
    size_t set = GUIDER_SETS;
    for (size_t i = 0; i < k; i++) set += g->model->guidance[i]->conditioning != NULL;
    return g->model->guidance[k]->conditioning ? g->set[set].guess : NULL;
}

static kiln_status apply(const guide *g, size_t k, const kiln_guesses *given)
{
    const kiln_guidance *by = g->model->guidance[k];
    kiln_guesses now = *given;
    now.extra = extra_of(g, k);
    return by->apply(by->self, &now);
}

/* Guidance that replaces the usual sum: the last of the model's. */
static const kiln_guidance *replacement(const guide *g, size_t *k)
{
    for (size_t i = g->model->n_guidance; i-- > 0;)
        if (g->model->guidance[i]->flags & KILN_GUIDANCE_REPLACE) {
            *k = i;
            return g->model->guidance[i];
        }
    return NULL;
}

static kiln_status after(const guide *g, const kiln_guesses *given)
{
    for (size_t i = 0; i < g->model->n_guidance; i++)
        if (!(g->model->guidance[i]->flags & KILN_GUIDANCE_REPLACE)) TRY(apply(g, i, given));
    return KILN_OK;
}

static kiln_guesses guesses_of(const guide *g, const float *x, double sigma, double cfg, float *out)
{
    return (kiln_guesses){.size = sizeof(kiln_guesses),
                          .prediction = g->counted.prediction,
                          .batch = (size_t)g->batch,
                          .count = size_of_one(g),
                          .sigma = sigma,
                          .cfg = cfg,
                          .x = x,
                          .x0 = out};
}

/* What classifier-free guidance is everywhere: negative + cfg (positive - negative), or what the model has in its
 * place, then the model's other guidance. Ho and Salimans 2022. */
static kiln_status guided(const guide *g, const float *positive, const float *negative, double cfg, const float *x,
                          double sigma, float *out)
{
    size_t n = size_of_all(g), at = 0;
    kiln_guesses given = guesses_of(g, x, sigma, cfg, out);
    given.positive = positive, given.negative = negative;
    const kiln_guidance *instead = negative ? replacement(g, &at) : NULL;
    for (size_t i = 0; i < n && !instead; i++) {
        double c = (double)positive[i], u = negative ? (double)negative[i] : 0;
        out[i] = negative ? (float)(u + (c - u) * cfg) : positive[i];
    }
    if (instead) TRY(apply(g, at, &given));
    return after(g, &given);
}

static const float *guess(const guide *g, int set) { return g->evaluated & BIT(set) ? g->set[set].guess : NULL; }

/* ---- basic: one conditioning as it is ---- */

static uint32_t basic_wants(const guider *by) { return (void)by, BIT(POSITIVE); }

static kiln_status basic_combine(guide *g, const float *x, double sigma, float *out)
{
    return guided(g, g->set[POSITIVE].guess, NULL, 1, x, sigma, out);
}

static void basic_linear(const guider *by, double *weight)
{
    (void)by;
    weight[POSITIVE] = 1;
}

/* ---- cfg ---- */

static uint32_t cfg_wants(const guider *by) { return BIT(POSITIVE) | (is_one(by->number[0]) ? 0 : BIT(NEGATIVE)); }

static kiln_status cfg_combine(guide *g, const float *x, double sigma, float *out)
{
    return guided(g, g->set[POSITIVE].guess, guess(g, NEGATIVE), g->by->number[0], x, sigma, out);
}

static void cfg_linear(const guider *by, double *weight)
{
    double cfg = is_one(by->number[0]) ? 1 : by->number[0];
    weight[POSITIVE] = cfg, weight[NEGATIVE] = 1 - cfg;
}

/* ---- two conditionings and a negative (InstructPix2Pix: Brooks et al. 2022, eq. 3) ---- */

static uint32_t dual_wants(const guider *by)
{
    int whole = is_one(by->number[1]);
    return BIT(POSITIVE) | (whole ? 0 : BIT(NEGATIVE)) | (whole && is_one(by->number[0]) ? 0 : BIT(THIRD));
}

/* guided(second, negative, b) + a (first - second) */
static kiln_status dual_combine(guide *g, const float *x, double sigma, float *out)
{
    const float *first = g->set[POSITIVE].guess, *second = guess(g, THIRD);
    if (!second) return guided(g, first, NULL, 1, x, sigma, out);
    TRY(guided(g, second, guess(g, NEGATIVE), g->by->number[1], x, sigma, out));
    for (size_t i = 0; i < size_of_all(g); i++)
        out[i] = (float)((double)out[i] + ((double)first[i] - (double)second[i]) * g->by->number[0]);
    return KILN_OK;
}

static void dual_linear(const guider *by, double *weight)
{
    double a = by->number[0], b = by->number[1];
    if (!(dual_wants(by) & BIT(THIRD)))
        weight[POSITIVE] = 1;
    else
        weight[POSITIVE] = a, weight[THIRD] = (is_one(b) ? 1 : b) - a, weight[NEGATIVE] = is_one(b) ? 0 : 1 - b;
}

static uint32_t nested_wants(const guider *by) { return (void)by, BIT(POSITIVE) | BIT(NEGATIVE) | BIT(THIRD); }

/* negative + b (guided(first, second, a) - negative) */
static kiln_status nested_combine(guide *g, const float *x, double sigma, float *out)
{
    const float *negative = g->set[NEGATIVE].guess;
    TRY(guided(g, g->set[POSITIVE].guess, g->set[THIRD].guess, g->by->number[0], x, sigma, out));
    for (size_t i = 0; i < size_of_all(g); i++)
        out[i] = (float)((double)negative[i] + ((double)out[i] - (double)negative[i]) * g->by->number[1]);
    return KILN_OK;
}

static void nested_linear(const guider *by, double *weight)
{
    double a = by->number[0], b = by->number[1];
    weight[POSITIVE] = a * b, weight[THIRD] = (1 - a) * b, weight[NEGATIVE] = 1 - b;
}

/* ---- perp-neg ---- */

static uint32_t perp_wants(const guider *by)
{
    int plain = by->number[1] == 0;
    return BIT(POSITIVE) | (plain ? 0 : BIT(NEGATIVE)) | (plain && is_one(by->number[0]) ? 0 : BIT(THIRD));
}

static kiln_status perp_combine(guide *g, const float *x, double sigma, float *out)
{
    kiln_guesses given = guesses_of(g, x, sigma, g->by->number[0], out);
    given.positive = g->set[POSITIVE].guess, given.negative = guess(g, NEGATIVE), given.extra = guess(g, THIRD);
    perpendicular(&given, g->by->number[1]);
    given.extra = NULL;
    return after(g, &given);
}

/* ---- rows ---- */

static const guider_kind kinds[] = {
    {.name = "basic",
     .node = "BasicGuider",
     .set = {"conditioning"},
     .unconditional = -1,
     .wants = basic_wants,
     .combine = basic_combine,
     .linear = basic_linear},
    {.name = "cfg",
     .node = "CFGGuider",
     .set = {"positive", "negative"},
     .number = {"cfg"},
     .unconditional = NEGATIVE,
     .wants = cfg_wants,
     .combine = cfg_combine,
     .linear = cfg_linear},
    {.name = "dual-model",
     .node = "DualModelGuider",
     .set = {"positive", "negative"},
     .number = {"cfg"},
     .on_other = BIT(NEGATIVE),
     .unconditional = NEGATIVE,
     .wants = cfg_wants,
     .combine = cfg_combine,
     .linear = cfg_linear},
    {.name = "dual-cfg",
     .node = "DualCFGGuider",
     .set = {"cond1", "negative", "cond2"},
     .number = {"cfg_conds", "cfg_cond2_negative"},
     .unconditional = NEGATIVE,
     .wants = dual_wants,
     .combine = dual_combine,
     .linear = dual_linear},
    {.name = "dual-cfg-nested",
     .node = "DualCFGGuider",
     .set = {"cond1", "negative", "cond2"},
     .number = {"cfg_conds", "cfg_cond2_negative"},
     .unconditional = THIRD,
     .wants = nested_wants,
     .combine = nested_combine,
     .linear = nested_linear},
    {.name = "perp-neg",
     .node = "PerpNegGuider",
     .set = {"positive", "negative", "empty_conditioning"},
     .number = {"cfg", "neg_scale"},
     .unconditional = NEGATIVE,
     .wants = perp_wants,
     .combine = perp_combine},
};

const guider_kind *guider_named(const char *name)
{
    for (size_t i = 0; name && i < COUNT(kinds); i++)
        if (strcmp(kinds[i].name, name) == 0) return &kinds[i];
    return NULL;
}

/* ---- values ---- */

guider guider_cfg(const kiln_value *model, const kiln_value *positive, const kiln_value *negative, double cfg)
{
    return (guider){.kind = guider_named("cfg"), .model = model, .conditioning = {positive, negative}, .number = {cfg}};
}

kiln_status guider_read(const kiln_call *c, const kiln_value *value, guider *out)
{
    const kiln_value_api *v = kit_values(c);
    const char *name = v->get_string(v->map_get(value, "kind"), NULL);
    *out = (guider){.kind = guider_named(name), .model = v->map_get(value, "model")};
    if (!out->kind)
        return c->host->fail(
            c->ctx, KILN_ERR_INVALID,
            "the GUIDER's kind is '%s'; it has to be basic, cfg, dual-model, dual-cfg, dual-cfg-nested or perp-neg",
            name ? name : "");
    if (out->kind->on_other && !(out->other = v->map_get(value, "model_negative")))
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "the GUIDER lacks its 'model_negative'");
    for (int i = 0; i < GUIDER_SETS && out->kind->set[i]; i++)
        if (!(out->conditioning[i] = v->map_get(value, out->kind->set[i])))
            return c->host->fail(c->ctx, KILN_ERR_INVALID, "the GUIDER lacks its '%s'", out->kind->set[i]);
    for (int i = 0; i < GUIDER_NUMBERS && out->kind->number[i]; i++)
        if (v->get_float(v->map_get(value, out->kind->number[i]), &out->number[i]) != KILN_OK)
            return c->host->fail(c->ctx, KILN_ERR_INVALID, "the GUIDER lacks its '%s'", out->kind->number[i]);
    return KILN_OK;
}

kiln_status guider_value(const kiln_call *c, const guider *g, kiln_value **out)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *map = v->new_map(c->ctx);
    kiln_status status =
        map ? kit_set(c, map, "kind", v->new_string(c->ctx, g->kind->name, strlen(g->kind->name))) : KILN_ERR_NOMEM;
    if (status == KILN_OK) status = v->map_set(map, "model", (kiln_value *)(uintptr_t)g->model);
    if (status == KILN_OK && g->other) status = v->map_set(map, "model_negative", (kiln_value *)(uintptr_t)g->other);
    for (int i = 0; status == KILN_OK && i < GUIDER_SETS && g->kind->set[i]; i++)
        status = v->map_set(map, g->kind->set[i], (kiln_value *)(uintptr_t)g->conditioning[i]);
    for (int i = 0; status == KILN_OK && i < GUIDER_NUMBERS && g->kind->number[i]; i++)
        status = kit_set(c, map, g->kind->number[i], v->new_float(c->ctx, g->number[i]));
    if (status == KILN_OK)
        *out = map;
    else
        c->host->unref(map);
    return status;
}
