/* merge_nodes.c - ModelMergeSimple, ModelMergeBlocks, ModelMergeAdd, ModelMergeSubtract and the same of CLIPs: the
 * first with weights that are sums of both. What hangs on the second (hooks, guidance, sampling) is not taken. Names,
 * defaults and ranges are ComfyUI's.
 */
#include "kiln/model.h"
#include "merge_nodes.h"
#include "model_patch_nodes.h"

#include <stdlib.h>

static const kiln_port model_in[] = {{.name = "model1", .type = "MODEL", .doc = "The denoiser that is changed."},
                                     {.name = "model2", .type = "MODEL", .doc = "Of the same family."}};
static const kiln_port model_out[] = {{.name = "MODEL", .type = "MODEL", .doc = "model1 with weights of both."}};
static const kiln_port clip_in[] = {{.name = "clip1", .type = "CLIP", .doc = "The text encoders that are changed."},
                                    {.name = "clip2", .type = "CLIP", .doc = "Of the same family."}};
static const kiln_port clip_out[] = {{.name = "CLIP", .type = "CLIP", .doc = "clip1 with weights of both."}};
#define MERGE_NODE(id, text, what)                                                                                     \
    KIT_NODE(id, id, "advanced/model_merging", text), KILN_ARRAY(in, what##_in), KILN_ARRAY(out, what##_out)

/* ---- factors ---- */

static weight_factors same_factors(const void *self, const char *tensor)
{
    (void)tensor;
    return *(const weight_factors *)self;
}

typedef struct {
    double input, middle, out;
} block_ratios;

/* By the names of diffusers and of ldm; what is in no block, as the time embedding, goes with the input's. */
static weight_factors block_factors(const void *self, const char *tensor)
{
    const block_ratios *r = self;
    static const char *const middle[] = {"mid_block", "middle"}, *const out[] = {"up_blocks", "conv_norm_out",
                                                                                 "conv_out", "out"};
    double ratio = r->input;
    for (size_t i = 0; i < COUNT(middle); i++)
        if (strncmp(tensor, middle[i], strlen(middle[i])) == 0) ratio = r->middle;
    for (size_t i = 0; i < COUNT(out); i++)
        if (strncmp(tensor, out[i], strlen(out[i])) == 0) ratio = r->out;
    return (weight_factors){ratio, 1 - ratio};
}

/* ---- MODEL ---- */

kiln_status merge_models(const kiln_call *c, factors_fn *factors, const void *self)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model *first = models->model(c->ctx, c->in[0]), *second = models->model(c->ctx, c->in[1]);
    kiln_weights *sum = NULL;
    if (!first || !second) return KILN_ERR_INVALID;
    TRY(weights_summed(c, &(weight_sum){first->weights, second->weights, "model1", "model2", factors, self}, &sum));
    kiln_model m = *first;
    m.weights = sum, m.owned = NULL, m.release = NULL, m.base = c->in[0];
    c->out[0] = sum == first->weights ? c->host->ref(c->in[0]) : models->model_new(c->ctx, &m);
    w->unref(sum);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

/* ---- CLIP ---- */

/* The encoder of that name; NULL: there is none. */
static const kiln_clip_encoder *encoder_called(const kiln_clip *clip, const char *name)
{
    for (size_t i = 0; i < clip->n_encoder; i++)
        if (strcmp(kiln_clip_encoder_at(clip, i)->name, name) == 0) return kiln_clip_encoder_at(clip, i);
    return NULL;
}

/* Each encoder of the first with that of the second that has its name. set[n_encoder]: references, in part on failure.
 */
static kiln_status sum_encoders(const kiln_call *c, const kiln_clip *first, const kiln_clip *second,
                                const weight_factors *f, kiln_weights **set)
{
    for (size_t i = 0; i < first->n_encoder; i++) {
        const kiln_clip_encoder *own = kiln_clip_encoder_at(first, i), *other = encoder_called(second, own->name);
        if (!other)
            return c->host->fail(
                c->ctx, KILN_ERR_INVALID,
                "clip1 has a text encoder '%s', and clip2 has none of that name: they are of different "
                "families, and cannot be merged",
                own->name);
        TRY(weights_summed(c, &(weight_sum){own->weights, other->weights, "clip1", "clip2", same_factors, f}, &set[i]));
    }
    return KILN_OK;
}

static kiln_status put_clip(const kiln_call *c, const kiln_clip *first, kiln_weights *const *set)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    kiln_clip_encoder *encoder = kiln_clip_encoders_copy(first);
    kiln_clip m = *first;
    int changed = 0;
    if (!encoder) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < first->n_encoder; i++) changed |= set[i] != encoder[i].weights, encoder[i].weights = set[i];
    m.encoder = encoder, m.owned = encoder, m.release = free, m.base = c->in[0];
    c->out[0] = changed ? models->clip_new(c->ctx, &m) : c->host->ref(c->in[0]);
    if (!changed || !c->out[0]) free(encoder);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status merge_clips(const kiln_call *c, weight_factors f)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_clip *first = models->clip(c->ctx, c->in[0]), *second = models->clip(c->ctx, c->in[1]);
    if (!first || !second) return KILN_ERR_INVALID;
    kiln_weights **set = calloc(first->n_encoder, sizeof(kiln_weights *));
    if (!set) return KILN_ERR_NOMEM;
    kiln_status status = sum_encoders(c, first, second, &f, set);
    if (status == KILN_OK) status = put_clip(c, first, set);
    for (size_t i = 0; i < first->n_encoder; i++)
        if (set[i]) w->unref(set[i]);
    free(set);
    return status;
}

/* ---- the rows ---- */

typedef struct {
    double ratio, multiplier;
} merge_params;

static const kiln_param ratio_param[] = {
    KIT_FLOAT(merge_params, ratio, 1, 0, 1, 0.01, "Share of the first; the second has the rest.")};
static const kiln_param multiplier_param[] = {
    KIT_FLOAT(merge_params, multiplier, 1, -10, 10, 0.01, "Times the difference.")};
static const kiln_param block_param[] = {
    KIT_FLOAT(block_ratios, input, 1, 0, 1, 0.01, "Share of the first in the way down, and in what is in no block."),
    KIT_FLOAT(block_ratios, middle, 1, 0, 1, 0.01, "The same in the middle."),
    KIT_FLOAT(block_ratios, out, 1, 0, 1, 0.01, "The same in the way up."),
};

static weight_factors mixed(const kiln_call *c)
{
    double ratio = ((const merge_params *)c->params)->ratio;
    return (weight_factors){ratio, 1 - ratio};
}

static weight_factors subtracted(const kiln_call *c)
{
    double by = ((const merge_params *)c->params)->multiplier;
    return (weight_factors){by, -by};
}

static kiln_status run_model_simple(const kiln_call *c)
{
    weight_factors f = mixed(c);
    return merge_models(c, same_factors, &f);
}
static kiln_status run_model_subtract(const kiln_call *c)
{
    weight_factors f = subtracted(c);
    return merge_models(c, same_factors, &f);
}
static kiln_status run_model_add(const kiln_call *c)
{
    weight_factors f = {1, 1};
    return merge_models(c, same_factors, &f);
}
static kiln_status run_model_blocks(const kiln_call *c) { return merge_models(c, block_factors, c->params); }
static kiln_status run_clip_simple(const kiln_call *c) { return merge_clips(c, mixed(c)); }
static kiln_status run_clip_subtract(const kiln_call *c) { return merge_clips(c, subtracted(c)); }
static kiln_status run_clip_add(const kiln_call *c) { return merge_clips(c, (weight_factors){1, 1}); }

const kiln_node node_model_merge_simple = {
    MERGE_NODE("ModelMergeSimple", "ratio of model1 and the rest of model2.", model),
    KIT_PARAMS(merge_params, ratio_param),
    .run = run_model_simple,
};
const kiln_node node_model_merge_blocks = {
    MERGE_NODE("ModelMergeBlocks", "As ModelMergeSimple, with a ratio for each part of a UNet.", model),
    KIT_PARAMS(block_ratios, block_param),
    .run = run_model_blocks,
};
const kiln_node node_model_merge_subtract = {
    MERGE_NODE("ModelMergeSubtract", "What model1 has and model2 has not, to be added to a third.", model),
    KIT_PARAMS(merge_params, multiplier_param),
    .run = run_model_subtract,
};
const kiln_node node_model_merge_add = {
    MERGE_NODE("ModelMergeAdd", "The weights of both added, one of them a difference.", model), .run = run_model_add};
const kiln_node node_clip_merge_simple = {
    MERGE_NODE("CLIPMergeSimple", "ratio of clip1 and the rest of clip2.", clip),
    KIT_PARAMS(merge_params, ratio_param),
    .run = run_clip_simple,
};
const kiln_node node_clip_merge_subtract = {
    MERGE_NODE("CLIPMergeSubtract", "What clip1 has and clip2 has not, to be added to a third.", clip),
    KIT_PARAMS(merge_params, multiplier_param),
    .run = run_clip_subtract,
};
const kiln_node node_clip_merge_add = {
    MERGE_NODE("CLIPMergeAdd", "The weights of both added, one of them a difference.", clip), .run = run_clip_add};
