/* bad_fixture.c - a model family whose network asks for its tensors wrongly, or computes something else in bf16:
 * compiled by test_check_fixture.sh with -DBAD=n, where 0 is good. It is plugins/templates' network, cell by cell. */
#include "kiln/kit.h"
#include "kiln/model.h"
#include "kiln/standard_sampling.h"

#include <stdlib.h>

enum { LEVELS = 1000, HIDDEN = 8 };

typedef struct {
    kiln_denoiser denoiser;
    kiln_standard_sampling sampling;
    double sigma[LEVELS];
} model;

static const double scale = 0.18215;
static const kiln_latent_scaling scaling = {.size = sizeof scaling, .n = 1, .scale = &scale};
static const kiln_latent_format latent = {
    .size = sizeof latent, .rank = 4, .channels = 4, .factor = 8, .scaling = &scaling};

static kiln_t record(const kiln_denoiser *d, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                     const kiln_denoise_inputs *in)
{
    (void)d;
    const int64_t hidden = HIDDEN, channels = BAD == 3 ? 5 : 4;
    kiln_t gate = o->weight(p, w, "bad.gate.weight", 2, KILN_DIMS(hidden, 4));
    kiln_t h = o->linear(p, in->x, o->weight(p, w, "bad.in.weight", 2, KILN_DIMS(hidden, 4)),
                         BAD == 1 ? (kiln_t){0} : o->weight(p, w, "bad.in.bias", 1, &hidden));
    if (BAD == 2) gate = o->weight(p, w, "bad.gate.weight", 2, KILN_DIMS(hidden, 4));
    h = o->mul(p, h, o->act(p, o->linear(p, in->x, gate, (kiln_t){0}), KILN_ACT_SILU));
    if (BAD == 4 || BAD == 6) h = o->affine(p, o->affine(p, h, 1, 1024), 1, -1024); /* bf16 has 8 bits for it */
    if (BAD == 5) h = o->affine(p, o->affine(p, o->affine(p, h, 1e30f, 0), 1e30f, 0), 1e-30f, 0);
    h = o->linear(p, h, o->weight(p, w, "bad.out.weight", 2, KILN_DIMS(channels, hidden)), (kiln_t){0});
    return BAD == 7 ? o->reshape(p, h, 6, KILN_DIMS(1, 4, 2, 4, 2, 4)) : h; /* the last reshape is forgotten */
}

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info = {.size = sizeof info};
    return w->find(set, "bad.in.weight", &info) == KILN_OK && info.rank == 2 && info.dim[0] == HIDDEN ? 90 : 0;
}

static kiln_value *open_set(const kiln_host *h, kiln_ctx *c, kiln_weights *set)
{
    const kiln_model_api *api = h->ability(KILN_MODEL_ABILITY);
    model *d = calloc(1, sizeof *d);
    kiln_sampling_row row = {.prediction = KILN_PREDICT_EPS, .n_sigma = LEVELS};
    if (!d) return NULL;
    kiln_discrete_sigmas("scaled_linear", 0.00085, 0.012, LEVELS, d->sigma);
    row.sigma = d->sigma;
    kiln_standard_sampling_init(&d->sampling, &row);
    d->denoiser = (kiln_denoiser){.size = sizeof d->denoiser,
                                  .family = "bad",
                                  .latent = &latent,
                                  .sampling = &d->sampling.base,
                                  .record = record,
                                  .precisions = BAD == 6 ? 1u << KILN_F32 : 0};
    kiln_model m = {.size = sizeof m, .denoiser = &d->denoiser, .weights = set, .owned = d, .release = free};
    kiln_value *v = api->model_new(c, &m);
    if (!v) free(d);
    return v;
}

static const kiln_model_family family = {.size = sizeof family,
                                         .kind = KILN_FAMILY_DENOISER,
                                         .name = "bad",
                                         .doc = "A family.",
                                         .detect = detect,
                                         .open = open_set};

static kiln_status open_plugin(const kiln_host *h)
{
    const kiln_model_api *api = h->ability(KILN_MODEL_ABILITY);
    return api ? api->register_family(&family) : KILN_ERR_UNSUPPORTED;
}
KILN_PLUGIN_WITHOUT_NODES("org.example.bad-fixture", "1.0.0", "MIT", open_plugin);
