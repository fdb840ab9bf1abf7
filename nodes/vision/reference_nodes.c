/* reference_nodes.c - ReferenceOnlySimple, as ComfyUI's experiments have it: pictures that look like another one. The
 * reference is the first picture of the batch, kept by a noise mask, and the others see it in self-attention.
 */
#include "kiln/kit.h"
#include "kiln/model.h"
#include "reference_only.h"
#include "vision_nodes.h"

#include <stdlib.h>

typedef struct {
    int64_t batch_size;
} reference_params;

enum { MASK_CELLS = 8 };

static const kiln_port in[] = {
    {.name = "model", .type = "MODEL", .doc = "The denoiser, a UNet."},
    {.name = "reference", .type = "LATENT", .doc = "One picture, encoded, of the size that is to be drawn."},
};
static const kiln_port out[] = {
    {.name = "MODEL", .type = "MODEL", .doc = "The denoiser whose pictures see the first of them."},
    {.name = "LATENT", .type = "LATENT", .doc = "The reference, and behind it what is to be drawn."},
};
static const kiln_param param[] = {
    KIT_INT(reference_params, batch_size, 1, 1, 64, "How many pictures are drawn beside the reference."),
};

/* ---- the model ---- */

static kiln_status put_hook(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *model = models->model(c->ctx, c->in[0]);
    const kiln_hook **all = model ? calloc(model->n_hook + 1, sizeof *all) : NULL;
    if (!all) return model ? KILN_ERR_NOMEM : KILN_ERR_INVALID;
    kiln_model m = *model;
    for (size_t i = 0; i < model->n_hook; i++) all[i] = model->hook[i];
    all[model->n_hook] = &reference_only;
    m.hook = all, m.n_hook = model->n_hook + 1;
    m.owned = (void *)all, m.release = free, m.base = c->in[0];
    c->out[0] = models->model_new(c->ctx, &m);
    if (!c->out[0]) free((void *)all);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static void find_self_attention(void *arg, const char *place, uint32_t kind)
{
    size_t n = strlen(place);
    if (kind == KILN_PLACE_ATTENTION && n > 6 && strcmp(place + n - 6, ".attn1") == 0) *(int *)arg = 1;
}

static kiln_status check_model(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *model = models->model(c->ctx, c->in[0]);
    int found = 0;
    if (!model) return KILN_ERR_INVALID;
    if (model->denoiser->places) model->denoiser->places(model->denoiser, find_self_attention, &found);
    if (found) return KILN_OK;
    return c->host->fail(
        c->ctx, KILN_ERR_INVALID,
        "ReferenceOnlySimple acts at '*.attn1', a place that this model does not have: it is for UNets");
}

/* ---- the latent ---- */

static kiln_status make_samples(const kiln_call *c, kiln_value **samples)
{
    int64_t n = ((const reference_params *)c->params)->batch_size, dim[KILN_MAX_RANK];
    kiln_tensor from, to;
    TRY(kit_samples(c, c->in[1], &from));
    if (from.rank != 4 || from.dim[0] != 1)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the reference has to be one picture, and it is %lld; LatentFromBatch takes one of them",
                             (long long)from.dim[0]);
    memcpy(dim, from.dim, from.rank * sizeof *dim);
    dim[0] = 1 + n;
    TRY(kit_new_f32(c, from.rank, dim, samples, &to));
    if (!to.data) return KILN_OK;
    memset(to.data, 0, kit_count(&to) * sizeof(float));
    memcpy(to.data, from.data, kit_count(&from) * sizeof(float));
    return KILN_OK;
}

/* 0 for the reference, 1 for those that are drawn. */
static kiln_status make_mask(const kiln_call *c, kiln_value **mask)
{
    int64_t n = ((const reference_params *)c->params)->batch_size;
    size_t each = (size_t)MASK_CELLS * MASK_CELLS;
    kiln_tensor t;
    TRY(kit_new_f32(c, 3, KILN_DIMS(1 + n, MASK_CELLS, MASK_CELLS), mask, &t));
    for (size_t i = 0; t.data && i < (size_t)(1 + n) * each; i++) ((float *)t.data)[i] = i < each ? 0 : 1;
    return KILN_OK;
}

static kiln_status make_latent(const kiln_call *c)
{
    kiln_value *samples = NULL, *mask = NULL;
    kiln_status status = make_samples(c, &samples);
    if (status != KILN_OK) {
        c->host->unref(samples);
        return status;
    }
    TRY(kit_latent(c, NULL, samples, &c->out[1]));
    status = make_mask(c, &mask);
    if (status == KILN_OK) return kit_set(c, c->out[1], "noise_mask", mask);
    c->host->unref(mask);
    return status;
}

static kiln_status run(const kiln_call *c)
{
    TRY(check_model(c));
    TRY(make_latent(c));
    return put_hook(c);
}

const kiln_node node_reference_only_simple = {
    KIT_NODE("ReferenceOnlySimple", "ReferenceOnlySimple", "custom_node_experiments",
             "Draws pictures that look like another one: they see it in self-attention."),
    KILN_ARRAY(in, in),
    KILN_ARRAY(out, out),
    KIT_PARAMS(reference_params, param),
    .run = run,
};
