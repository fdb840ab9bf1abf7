/* guidance.c - guidance that grows from frame to frame: min_cfg at the first, the sampler's cfg at the last (Blattmann
 * et al. 2023, section D.3). It stands in the place of negative + cfg (positive - negative), on the MODEL.
 */
#include "svd.h"

#include <stdlib.h>

typedef struct {
    kiln_guidance guidance;
    const kiln_guidance **all; /* what hung on the model, and this */
    double min_cfg;
    char identity[80];
} linear_cfg;

static kiln_status apply(void *self, const kiln_guesses *g)
{
    double from = ((const linear_cfg *)self)->min_cfg;
    int64_t frames = g->latents->shape(g->latents, g->x).pictures;
    double *share = malloc((size_t)frames * 2 * sizeof *share);
    if (!share) return KILN_ERR_NOMEM;
    for (int64_t i = 0; i < frames; i++) {
        double cfg = from + (g->cfg - from) * (frames > 1 ? (double)i / (double)(frames - 1) : 0);
        share[2 * i] = 1 - cfg, share[2 * i + 1] = cfg;
    }
    g->latents->lincomb_each(g->latents, g->x0, 2, share, (kiln_latent *[]){g->negative, g->positive});
    free(share);
    return KILN_OK;
}

static void release(void *owned)
{
    linear_cfg *self = owned;
    free((void *)self->all);
    free(self);
}

/* `model` with one guidance more. */
static kiln_value *model_with(const kiln_call *c, const kiln_model *model, linear_cfg *self)
{
    kiln_model m = {.size = sizeof m};
    self->all = calloc(model->n_guidance + 1, sizeof *self->all);
    if (!self->all || !KILN_READ(&m, model, base)) return NULL;
    for (size_t i = 0; i < model->n_guidance; i++) self->all[i] = model->guidance[i];
    self->all[model->n_guidance] = &self->guidance;
    m.guidance = self->all, m.n_guidance = model->n_guidance + 1;
    m.owned = self, m.release = release, m.base = c->in[0];
    return ((const kiln_model_api *)c->host->ability(KILN_MODEL_ABILITY))->model_new(c->ctx, &m);
}

/* ---- ExampleVideoLinearCFGGuidance ---- */

typedef struct {
    double min_cfg;
} params;

static const kiln_port in[] = {{.name = "model", .type = "MODEL", .doc = "Whose pictures are frames."}};
static const kiln_port out[] = {{.name = "MODEL", .type = "MODEL", .doc = "With guidance that grows."}};
static const kiln_param param[] = {KIT_FLOAT(params, min_cfg, 1, 0, 100, 0.5, "Guidance of the first frame.")};

static kiln_status run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *model = models->model(c->ctx, c->in[0]);
    linear_cfg *self = model ? calloc(1, sizeof *self) : NULL;
    if (!self) return model ? KILN_ERR_NOMEM : KILN_ERR_INVALID;
    self->min_cfg = ((const params *)c->params)->min_cfg;
    NAME(self->identity, "example linear cfg %.17g", self->min_cfg);
    self->guidance =
        (kiln_guidance){.size = sizeof self->guidance,
                        .flags = KILN_GUIDANCE_REPLACE | (self->min_cfg != 1 ? KILN_GUIDANCE_UNCONDITIONAL : 0),
                        .self = self,
                        .identity = self->identity,
                        .apply = apply};
    c->out[0] = model_with(c, model, self);
    if (!c->out[0]) release(self);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

const kiln_node svd_guidance_node = {KIT_NODE("ExampleVideoLinearCFGGuidance", "Video Linear CFG Guidance", "examples",
                                              "Guidance that grows from the first frame to the last."),
                                     KILN_ARRAY(in, in), KILN_ARRAY(out, out), KIT_PARAMS(params, param), .run = run};
