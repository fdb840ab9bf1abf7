/* qwen_true_cfg.c - guidance as diffusers' pipeline of Qwen-Image-Edit has it: the usual one, and then each patch of
 * the velocity becomes as long as it is under the prompt alone. A patch is 2x2 cells.
 */
#include "qwen.h"

enum { PATCH = 2, LATENTS = 4 };

/* Numbers of all latents, one behind the other: x, the two guesses, the result. */
typedef struct {
    float *of[LATENTS];
    kiln_latent_shape shape;
    double sigma, cfg;
} latents;

/* Where number k of patch (y,x) of a picture lies. */
static size_t number_at(const kiln_latent_shape *s, int64_t picture, const int64_t at[2], int64_t k)
{
    int64_t cell = k / s->channels, y = at[0] * PATCH + cell / PATCH, x = at[1] * PATCH + cell % PATCH;
    return (size_t)(((picture * s->height + y) * s->width + x) * s->channels + k % s->channels);
}

static void guide_patch(const latents *l, int64_t picture, const int64_t at[2])
{
    const int64_t n = PATCH * PATCH * l->shape.channels;
    double alone = 0, both = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t k = 0; k < n; k++) {
            size_t i = number_at(&l->shape, picture, at, k);
            double x = (double)l->of[0][i], positive = (x - (double)l->of[1][i]) / l->sigma,
                   negative = (x - (double)l->of[2][i]) / l->sigma, guided = negative + l->cfg * (positive - negative);
            if (pass == 0)
                alone += positive * positive, both += guided * guided;
            else
                l->of[3][i] = (float)(x - l->sigma * guided * (both > 0 ? sqrt(alone / both) : 1));
        }
}

static kiln_status apply(void *self, const kiln_guesses *g)
{
    kiln_latent *const from[] = {g->x, g->positive, g->negative};
    latents l = {.shape = g->latents->shape(g->latents, g->x), .sigma = g->sigma, .cfg = g->cfg};
    const size_t count = g->latents->count(g->latents, g->x);
    (void)self;
    if (l.shape.frames != 1 || l.shape.height % PATCH || l.shape.width % PATCH)
        return g->fail(g, KILN_ERR_UNSUPPORTED, "ExampleQwenTrueCFG is for pictures in patches of 2x2 cells");
    float *data = calloc(LATENTS * count, sizeof *data);
    if (!data) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < LATENTS; i++) l.of[i] = data + i * count;
    for (size_t i = 0; i < COUNT(from); i++) g->latents->download(g->latents, from[i], l.of[i]);
    for (int64_t picture = 0; picture < l.shape.pictures; picture++)
        for (int64_t at[2] = {0, 0}; at[0] < l.shape.height / PATCH; at[0]++)
            for (at[1] = 0; at[1] < l.shape.width / PATCH; at[1]++) guide_patch(&l, picture, at);
    g->latents->upload(g->latents, g->x0, l.of[3]);
    free(data);
    return KILN_OK;
}

static const kiln_guidance true_cfg = {
    .size = sizeof true_cfg, .flags = KILN_GUIDANCE_REPLACE, .identity = "example-qwen-true-cfg", .apply = apply};

static const kiln_port in[] = {{.name = "model", .type = "MODEL", .doc = "Qwen-Image or Qwen-Image-Edit."}};
static const kiln_port out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The same with the guidance."}};

static kiln_status run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *model = models->model(c->ctx, c->in[0]);
    const kiln_guidance **all = model ? calloc(model->n_guidance + 1, sizeof *all) : NULL;
    if (!all) return model ? KILN_ERR_NOMEM : KILN_ERR_INVALID;
    for (size_t i = 0; i < model->n_guidance; i++) all[i] = model->guidance[i];
    all[model->n_guidance] = &true_cfg;
    kiln_model changed = *model;
    changed.guidance = all, changed.n_guidance = model->n_guidance + 1;
    changed.owned = all, changed.release = free, changed.base = c->in[0];
    c->out[0] = models->model_new(c->ctx, &changed);
    if (!c->out[0]) free(all);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

const kiln_node qwen_true_cfg_node = {KIT_NODE("ExampleQwenTrueCFG", "Qwen: true CFG", "examples",
                                               "Guidance that leaves each patch of the velocity its length."),
                                      KILN_ARRAY(in, in), KILN_ARRAY(out, out), .run = run};
