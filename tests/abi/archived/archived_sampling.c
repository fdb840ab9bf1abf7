/* archived_sampling.c - a sampler with an option, a slot, noise and a sum, and a kind of GUIDER. */
#include "archived.h"

/* ---- the sampler ---- */

typedef struct {
    double churn;
} options;
static const kiln_param option[] = {KIT_FLOAT(options, churn, 0.1, 0, 1, 0.01, "How much noise each step gets.")};

static kiln_status euler(const kiln_sampling *s)
{
    const options *o = s->options;
    const kiln_latents *l = s->latents;
    kiln_latent *d = s->slot(s, "archived.d"), *noise = s->slot(s, "archived.noise");
    double *norm = s->scalars(s, "archived.norm", 1);
    if (!d || !noise || !norm) return KILN_ERR_NOMEM;
    for (size_t i = s->first; i < s->n; i++) {
        double now = s->sigma[i], next = s->sigma[i + 1], a = (next - now) / now;
        TRY(s->denoise(s, s->x, now, d));
        s->lincomb(s, s->x, 2, (double[]){1 + a, -a}, (kiln_latent *[]){s->x, d});
        if (next > 0) {
            TRY(s->noise(s, now, next, noise));
            l->lincomb(l, s->x, 2, (double[]){1, o->churn * next}, (kiln_latent *[]){s->x, noise});
        }
        norm[0] += l->norm(l, d);
        TRY(s->step(s, i, d));
    }
    return KILN_OK;
}

const kiln_sampler archived_sampler = {.size = sizeof archived_sampler,
                                       .flags = KILN_SAMPLER_STOCHASTIC,
                                       .name = "archived_euler",
                                       .doc = "Euler's method with a little noise.",
                                       .source = "Karras et al. 2022, arXiv:2206.00364",
                                       .order = 1,
                                       .evaluations = 1,
                                       KIT_PARAMS(options, option),
                                       .run = euler};

/* ---- the guider: out = b + scale (a - b), less what a and b agree in ---- */

typedef struct {
    double scale;
} settings;
static const kiln_param setting[] = {KIT_FLOAT(settings, scale, 2, 0, 100, 0.1, "Of the guidance.")};
static const kiln_guider_model model[] = {{"model"}};
static const kiln_guider_set set[] = {{"positive", 0}, {"negative", 0}};

static uint32_t wants(const void *params, double sigma)
{
    (void)params, (void)sigma;
    return 3;
}

static kiln_status combine(const kiln_guider_step *g, kiln_latent *out)
{
    const kiln_latents *l = g->latents;
    double together[64], own[64];
    kiln_latent *const both[] = {g->guess[0], g->guess[1]};
    kiln_latent_shape shape = l->shape(l, g->x);
    if (shape.pictures > 64) return KILN_ERR_UNSUPPORTED;
    for (int64_t p = 0; p < shape.pictures; p++) together[p] = own[p] = 0;
    l->dot(l,
           &(kiln_latent_dot){
               .size = sizeof(kiln_latent_dot), .n = 2, .a = (double[]){1, 0}, .b = (double[]){0, 1}, .x = both},
           together);
    l->dot(l,
           &(kiln_latent_dot){
               .size = sizeof(kiln_latent_dot), .n = 2, .a = (double[]){0, 1}, .b = (double[]){0, 1}, .x = both},
           own);
    TRY(g->guided(g, g->guess[0], g->guess[1], ((const settings *)g->params)->scale, out));
    double share = own[0] > 0 ? 0.1 * together[0] / own[0] : 0;
    l->lincomb(l, out, 2, (double[]){1, -share}, (kiln_latent *[]){out, g->guess[1]});
    return KILN_OK;
}

const kiln_guider archived_guider_row = {.size = sizeof archived_guider_row,
                                         .name = "archived",
                                         .doc = "Guidance less what both sides agree in.",
                                         KILN_ARRAY(model, model),
                                         KILN_ARRAY(set, set),
                                         .unconditional = 1,
                                         KIT_PARAMS(settings, setting),
                                         .wants = wants,
                                         .combine = combine};

/* ---- the node that makes one ---- */

static const kiln_port guider_in[] = {{.name = "model", .type = "MODEL", .doc = "The denoiser."},
                                      {.name = "positive", .type = "CONDITIONING", .doc = "Towards."},
                                      {.name = "negative", .type = "CONDITIONING", .doc = "Away from."}};
static const kiln_port guider_out[] = {{.name = "GUIDER", .type = "GUIDER", .doc = "Both."}};

static kiln_status guider_run(const kiln_call *c)
{
    static const char *const name[] = {"model", "positive", "negative"};
    const kiln_sampling_api *s = c->host->ability(KILN_SAMPLING_ABILITY);
    const kiln_params_api *params = c->host->ability(KILN_PARAMS_ABILITY);
    const kiln_param_table table = {
        .size = sizeof table, .noun = "setting", .owner = "guider 'archived'", KIT_PARAMS(settings, setting)};
    kiln_value *parts = kit_values(c)->new_map(c->ctx);
    if (!parts) return KILN_ERR_NOMEM;
    kiln_status status = params->to_map(c->ctx, &table, c->params, parts);
    for (size_t i = 0; status == KILN_OK && i < COUNT(name); i++)
        status = kit_values(c)->map_set(parts, name[i], c->in[i]);
    if (status == KILN_OK) return s->guider_new(c, "archived", parts, &c->out[0]);
    c->host->unref(parts);
    return status;
}

const kiln_node archived_guider = {KIT_NODE("ArchivedGuider", "Guider", "archived", "A guider."),
                                   KILN_ARRAY(in, guider_in), KILN_ARRAY(out, guider_out),
                                   KIT_PARAMS(settings, setting), .run = guider_run};
