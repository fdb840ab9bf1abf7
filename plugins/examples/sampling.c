/* sampling.c - sampling from outside the tree (kiln/sampling.h): a kind of GUIDER with a node that makes it, a node
 * that samples a MODEL in tiles, and a node that samples one schedule with two models.
 */
#include "kiln/kit.h"
#include "kiln/sampling.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const kiln_sampling_api *sampling(const kiln_call *c) { return c->host->ability(KILN_SAMPLING_ABILITY); }

static kiln_status absent(const kiln_call *c)
{
    return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, "this kiln has no %s", KILN_SAMPLING_ABILITY);
}

/* ---- a GUIDER: classifier-free guidance whose scale goes from `cfg` at high noise to `last` at low noise ---- */

typedef struct {
    double cfg, last, middle;
} ramp_settings;

static const kiln_param ramp_param[] = {
    KIT_FLOAT(ramp_settings, cfg, 8, 0, 100, 0.1, "Scale of the guidance at high noise."),
    KIT_FLOAT(ramp_settings, last, 1, 0, 100, 0.1, "Scale at low noise."),
    KIT_FLOAT(ramp_settings, middle, 1, 0.001, 1000, 0.01, "The noise level where it is half-way between them."),
};

static double scale_at(const ramp_settings *p, double sigma)
{
    double share = sigma / (sigma + p->middle);
    return p->cfg == p->last ? p->cfg : p->last + share * (p->cfg - p->last);
}

enum { POSITIVE, NEGATIVE };

static uint32_t ramp_wants(const void *params, double sigma)
{
    return 1u << POSITIVE | (scale_at(params, sigma) == 1 ? 0 : 1u << NEGATIVE);
}

static kiln_status ramp_combine(const kiln_guider_step *g, kiln_latent *out)
{
    return g->guided(g, g->guess[POSITIVE], g->guess[NEGATIVE], scale_at(g->params, g->sigma), out);
}

static const kiln_guider_model ramp_model[] = {{"model"}};
static const kiln_guider_set ramp_set[] = {{"positive", 0}, {"negative", 0}};

static const kiln_guider ramp = {
    .size = sizeof ramp,
    .name = "example-ramp",
    .doc = "Classifier-free guidance whose scale follows the noise level.",
    KILN_ARRAY(model, ramp_model),
    KILN_ARRAY(set, ramp_set),
    .unconditional = NEGATIVE,
    KIT_PARAMS(ramp_settings, ramp_param),
    .wants = ramp_wants,
    .combine = ramp_combine,
};

static const kiln_port ramp_in[] = {
    {.name = "model", .type = "MODEL", .doc = "The denoiser."},
    {.name = "positive", .type = "CONDITIONING", .doc = "What the picture should show."},
    {.name = "negative", .type = "CONDITIONING", .doc = "What it should not."},
};
static const kiln_port ramp_out[] = {{.name = "GUIDER", .type = "GUIDER", .doc = "A model with its conditionings."}};

static kiln_status ramp_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    const ramp_settings *p = c->params;
    if (!sampling(c)) return absent(c);
    kiln_value *parts = v->new_map(c->ctx);
    kiln_status status = parts ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < COUNT(ramp_in); i++)
        status = v->map_set(parts, ramp_in[i].name, c->in[i]);
    if (status == KILN_OK) status = kit_set(c, parts, "cfg", v->new_float(c->ctx, p->cfg));
    if (status == KILN_OK) status = kit_set(c, parts, "last", v->new_float(c->ctx, p->last));
    if (status == KILN_OK) status = kit_set(c, parts, "middle", v->new_float(c->ctx, p->middle));
    if (status == KILN_OK) return sampling(c)->guider_new(c, "example-ramp", parts, &c->out[0]);
    c->host->unref(parts);
    return status;
}

static const kiln_node ramp_node = {
    KIT_NODE("ExampleRampGuider", "Ramp Guider", "example", "Guidance whose scale follows the noise level."),
    KILN_ARRAY(in, ramp_in), KILN_ARRAY(out, ramp_out), KIT_PARAMS(ramp_settings, ramp_param), .run = ramp_run};

/* ---- what the samplers below share: noise, sampler, levels, latent ---- */

static const kiln_port latent_out[] = {{.name = "LATENT", .type = "LATENT", .doc = "The denoised latent."}};
#define SAMPLING_NODE(type_, doc_)                                                                                     \
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, type_, type_,     \
                   "example", doc_)

/* Noise, levels and latent are the inputs from `first` on. The job's guiders and memory for its noise are set. */
static kiln_status read_inputs(const kiln_call *c, kiln_sampling_job *job, kiln_noise *noise, uint32_t first)
{
    const kiln_sampling_api *s = sampling(c);
    double *sigma;
    size_t n;
    noise->size = sizeof *noise;
    TRY(s->noise_read(c, c->in[first], noise));
    TRY(s->sigmas_read(c, c->in[first + 1], kit_values(c)->map_get(job->guider[0], "model"), &sigma, &n));
    job->size = sizeof *job;
    job->noise = noise, job->latent = c->in[first + 2];
    job->sigma = sigma, job->n = n ? n - 1 : 0;
    return KILN_OK;
}

/* The same, and a SAMPLER behind them: its row takes the steps. */
static kiln_status sample(const kiln_call *c, kiln_sampling_job *job, uint32_t first)
{
    const kiln_sampling_api *s = sampling(c);
    kiln_noise noise;
    kiln_session *session;
    TRY(read_inputs(c, job, &noise, first));
    TRY(s->sampler_read(c, c->in[first + 3], &job->sampler, &job->options));
    TRY(s->open(c, job, &session));
    TRY(s->run(session));
    return s->finish(session, &c->out[0], NULL);
}

/* ---- tiles: every evaluation is put together from evaluations of overlapping parts ---- */

typedef struct {
    int64_t tile, overlap; /* latent cells */
} tile_params;

static const kiln_param tile_param[] = {
    KIT_INT(tile_params, tile, 64, 8, 4096, "Side of a tile in latent cells (8 pixels each)."),
    KIT_INT(tile_params, overlap, 8, 0, 1024, "Cells over which neighbouring tiles are blended."),
};
static const kiln_port tile_in[] = {
    {.name = "guider", .type = "GUIDER", .doc = "A model with its conditionings."},
    {.name = "noise", .type = "NOISE", .doc = "What to begin with."},
    {.name = "sigmas", .type = "SIGMAS", .doc = "Noise levels."},
    {.name = "latent_image", .type = "LATENT", .doc = "What to start from; empty for a new picture."},
    {.name = "sampler", .type = "SAMPLER", .doc = "How a step is taken."},
};

/* Memory for tiles of one size, from the first evaluation on. */
typedef struct {
    const kiln_call *call;
    const tile_params *params;
    kiln_latent *x, *guess, *weight, *total;
    int64_t h, w; /* of a tile */
} tiles;

/* Towards an edge that has a neighbour the weight falls to 1 / (overlap + 1). A tile that is the whole has 1. */
static float edge_weight(int64_t at, int64_t length, int64_t whole, int64_t overlap)
{
    int64_t from_edge = at < length - 1 - at ? at : length - 1 - at;
    if (length == whole || from_edge >= overlap) return 1;
    return (float)(from_edge + 1) / (float)(overlap + 1);
}

static kiln_status make_tiles(tiles *t, const kiln_latents *l, kiln_latent_shape whole)
{
    t->h = t->params->tile < whole.height ? t->params->tile : whole.height;
    t->w = t->params->tile < whole.width ? t->params->tile : whole.width;
    t->x = l->create(l, &(kiln_latent_shape){.height = t->h, .width = t->w});
    t->guess = l->create(l, &(kiln_latent_shape){.height = t->h, .width = t->w});
    t->weight = l->create(l, &(kiln_latent_shape){.pictures = 1, .height = t->h, .width = t->w, .channels = 1});
    t->total = l->create(l, &(kiln_latent_shape){.channels = 1});
    float *weight = t->call->host->scratch(t->call->ctx, (size_t)(t->h * t->w) * sizeof *weight, KILN_CPU);
    if (!t->x || !t->guess || !t->weight || !t->total || !weight) return KILN_ERR_NOMEM;
    for (int64_t i = 0; i < t->h * t->w; i++)
        weight[i] = edge_weight(i / t->w, t->h, whole.height, t->params->overlap) *
                    edge_weight(i % t->w, t->w, whole.width, t->params->overlap);
    l->upload(l, t->weight, weight);
    return KILN_OK;
}

static kiln_status add_tile(tiles *t, kiln_session *s, const kiln_latent *x, kiln_latent_place at, double sigma,
                            kiln_latent *out)
{
    const kiln_latents *l = sampling(t->call)->view(s)->latents;
    const kiln_evaluation e = {.size = sizeof e, .x = t->x, .place = at, .sigma = sigma};
    l->crop(l, t->x, x, at);
    TRY(sampling(t->call)->denoise(s, &e, t->guess));
    l->accumulate(l, out, t->total, t->guess, t->weight, at);
    return KILN_OK;
}

/* The place of the tile after `at`; the last one ends where the picture does. */
static int64_t next_place(int64_t at, int64_t tile, int64_t whole, int64_t overlap)
{
    int64_t step = tile > overlap ? tile - overlap : 1;
    if (at + tile >= whole) return whole;
    return at + step + tile > whole ? whole - tile : at + step;
}

static kiln_status tiled_denoise(void *self, kiln_session *s, kiln_latent *x, double sigma, kiln_latent *out)
{
    tiles *t = self;
    const kiln_latents *l = sampling(t->call)->view(s)->latents;
    kiln_latent_shape whole = l->shape(l, x);
    int64_t overlap = t->params->overlap;
    if (!t->x) TRY(make_tiles(t, l, whole));
    l->lincomb(l, out, 0, NULL, NULL);
    l->lincomb(l, t->total, 0, NULL, NULL);
    for (int64_t y = 0; y < whole.height; y = next_place(y, t->h, whole.height, overlap))
        for (int64_t at = 0; at < whole.width; at = next_place(at, t->w, whole.width, overlap))
            TRY(add_tile(t, s, x, (kiln_latent_place){y, at}, sigma, out));
    l->divide(l, out, t->total);
    return KILN_OK;
}

static kiln_status tile_run(const kiln_call *c)
{
    tiles t = {.call = c, .params = c->params};
    if (!sampling(c)) return absent(c);
    return sample(c, &(kiln_sampling_job){.guider = &c->in[0], .n_guider = 1, .denoise = tiled_denoise, .self = &t}, 1);
}

static const kiln_node tile_node = {SAMPLING_NODE("ExampleTiledSampler", "Samples a large latent in blended tiles."),
                                    KILN_ARRAY(in, tile_in), KILN_ARRAY(out, latent_out),
                                    KIT_PARAMS(tile_params, tile_param), .run = tile_run};

/* ---- two guiders, each for its part of one schedule ---- */

typedef struct {
    double sigma;
} switch_params;

static const kiln_param switch_param[] = {
    KIT_FLOAT(switch_params, sigma, 1, 0, 1000, 0.01, "Below this noise level the second guider guesses."),
};
static const kiln_port switch_in[] = {
    {.name = "guider", .type = "GUIDER", .doc = "Guesses at high noise."},
    {.name = "second", .type = "GUIDER", .doc = "Guesses at low noise; its model's latents are of the same kind."},
    {.name = "noise", .type = "NOISE", .doc = "What to begin with."},
    {.name = "sigmas", .type = "SIGMAS", .doc = "Noise levels."},
    {.name = "latent_image", .type = "LATENT", .doc = "What to start from; empty for a new picture."},
    {.name = "sampler", .type = "SAMPLER", .doc = "How a step is taken."},
};

static kiln_status switched_denoise(void *self, kiln_session *s, kiln_latent *x, double sigma, kiln_latent *out)
{
    const kiln_call *c = self;
    const kiln_evaluation e = {
        .size = sizeof e, .guider = sigma < ((const switch_params *)c->params)->sigma, .x = x, .sigma = sigma};
    return sampling(c)->denoise(s, &e, out);
}

static kiln_status switch_run(const kiln_call *c)
{
    if (!sampling(c)) return absent(c);
    return sample(c,
                  &(kiln_sampling_job){
                      .guider = &c->in[0], .n_guider = 2, .denoise = switched_denoise, .self = (void *)(uintptr_t)c},
                  2);
}

static const kiln_node switch_node = {
    SAMPLING_NODE("ExampleTwoModelSampler", "Samples one schedule with two models, one after the other."),
    KILN_ARRAY(in, switch_in), KILN_ARRAY(out, latent_out), KIT_PARAMS(switch_params, switch_param), .run = switch_run};

/* ---- a loop of its own: Euler's method ---- */

static const kiln_port loop_in[] = {
    {.name = "guider", .type = "GUIDER", .doc = "A model with its conditionings."},
    {.name = "noise", .type = "NOISE", .doc = "What to begin with."},
    {.name = "sigmas", .type = "SIGMAS", .doc = "Noise levels."},
    {.name = "latent_image", .type = "LATENT", .doc = "What to start from; empty for a new picture."},
};

/* From `first` on: the state of a run that was stopped has x as it was after its last step. */
static kiln_status euler(const kiln_sampling *s)
{
    kiln_latent *guess = s->n ? s->slot(s, "guess") : NULL;
    for (size_t i = s->first; i < s->n; i++) {
        double ratio = s->sigma[i + 1] / s->sigma[i];
        if (!guess) return KILN_ERR_NOMEM;
        TRY(s->denoise(s, s->x, s->sigma[i], guess));
        s->lincomb(s, s->x, 2, (double[]){ratio, 1 - ratio}, (kiln_latent *[]){s->x, guess});
        TRY(s->step(s, i, guess));
    }
    return KILN_OK;
}

static kiln_status loop_run(const kiln_call *c)
{
    const kiln_sampling_api *s = sampling(c);
    kiln_sampling_job job = {.guider = &c->in[0], .n_guider = 1};
    kiln_noise noise;
    kiln_session *session;
    if (!s) return absent(c);
    TRY(read_inputs(c, &job, &noise, 1));
    TRY(s->open(c, &job, &session));
    kiln_status status = euler(s->view(session));
    if (status == KILN_OK) return s->finish(session, &c->out[0], NULL);
    s->close(session, status);
    return status;
}

static const kiln_node loop_node = {SAMPLING_NODE("ExampleLoopSampler", "Samples by Euler's method, step by step."),
                                    KILN_ARRAY(in, loop_in), KILN_ARRAY(out, latent_out), .run = loop_run};

/* ---- the plugin ---- */

/* In the process where a plugin is tried nothing is provided yet. */
static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_sampling_api *s = host->ability(KILN_SAMPLING_ABILITY);
    return s ? s->register_guider(&ramp) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_OPEN("org.example.sampling", "1.0.0", "MIT", open_plugin, &ramp_node, &tile_node, &switch_node, &loop_node);
