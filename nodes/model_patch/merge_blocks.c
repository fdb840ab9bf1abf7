/* merge_blocks.c - ModelMergeSD1, ModelMergeSD2, ModelMergeSDXL: two MODELs merged with a ratio for each block of a
 * UNet.
 *
 * Blocks are called and counted as ldm does, which ComfyUI's inputs are named after; a set's tensors have diffusers'
 * names. A level of `layers` resnets is layers + 1 of ldm's blocks: on the way down the last one halves, on the way up
 * the last one doubles as well. As in ComfyUI, what is in no named block goes with time_embed.
 */
#include "kiln/model.h"
#include "merge_nodes.h"
#include "model_patch_nodes.h"

#include <stdio.h>

enum { SIDE = 12, MIDDLE = 3 };

typedef struct {
    double time_embed, label_emb, input[SIDE], middle[MIDDLE], output[SIDE], out;
} block_ratios;

typedef struct {
    const block_ratios *ratio;
    unsigned layers; /* resnets of a level on the way down */
} blocks;

static int begins(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

/* The number that ldm gives the block; or SIDE. */
static unsigned block_of(const char *name, const char *side, unsigned first, unsigned together, const char *last)
{
    unsigned level, layer;
    char kind[16];
    size_t n = strlen(side);
    if (strncmp(name, side, n) != 0 || sscanf(name + n, ".%u.%15[a-z].%u", &level, kind, &layer) != 3 || level > SIDE)
        return SIDE;
    if (strcmp(kind, last) == 0) layer = together - 1;
    unsigned at = first + level * together + layer;
    return at < SIDE ? at : SIDE;
}

static double ratio_of(const blocks *b, const char *name)
{
    const block_ratios *r = b->ratio;
    const unsigned together = b->layers + 1, in = block_of(name, "down_blocks", 1, together, "downsamplers"),
                   out = block_of(name, "up_blocks", 0, together, "upsamplers");
    if (in < SIDE) return r->input[in];
    if (out < SIDE) return r->output[out];
    if (begins(name, "conv_in.")) return r->input[0];
    if (begins(name, "mid_block.resnets.0.")) return r->middle[0];
    if (begins(name, "mid_block.attentions.")) return r->middle[1];
    if (begins(name, "mid_block.resnets.")) return r->middle[2];
    if (begins(name, "add_embedding.") || begins(name, "class_embedding.")) return r->label_emb;
    if (begins(name, "conv_norm_out.") || begins(name, "conv_out.")) return r->out;
    return r->time_embed;
}

static weight_factors factors_of(const void *self, const char *tensor)
{
    const double ratio = ratio_of(self, tensor);
    return (weight_factors){ratio, 1 - ratio};
}

static kiln_status run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model *model = models->model(c->ctx, c->in[0]);
    blocks b = {.ratio = c->params};
    char name[64] = "";
    if (!model) return KILN_ERR_INVALID;
    for (kiln_weight_info info = {.size = sizeof info}; b.layers < SIDE; b.layers++) {
        snprintf(name, sizeof name, "down_blocks.0.resnets.%u.conv1.weight", b.layers);
        if (w->find(model->weights, name, &info) != KILN_OK) break;
    }
    if (!b.layers)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "model1 is no UNet of Stable Diffusion, and has none of these blocks; take "
                             "ModelMergeSimple");
    return merge_models(c, factors_of, &b);
}

/* ---- the rows ---- */

static const kiln_port in[] = {{.name = "model1", .type = "MODEL", .doc = "The denoiser that is changed."},
                               {.name = "model2", .type = "MODEL", .doc = "Of the same family."}};
static const kiln_port out[] = {{.name = "MODEL", .type = "MODEL", .doc = "model1 with weights of both."}};

#define RATIO(name_, field_)                                                                                           \
    {                                                                                                                  \
        .name = (name_), .type = KILN_P_FLOAT, .offset = offsetof(block_ratios, field_), .def = 1, .min = 0, .max = 1, \
        .step = 0.01, .doc = "Share of model1; model2 has the rest."                                                   \
    }
#define NUMBERED(side_, n_, end_) RATIO(#side_ "_blocks." #n_ end_, side_[n_])
#define NINE(side_, end_)                                                                                              \
    NUMBERED(side_, 0, end_), NUMBERED(side_, 1, end_), NUMBERED(side_, 2, end_), NUMBERED(side_, 3, end_),            \
        NUMBERED(side_, 4, end_), NUMBERED(side_, 5, end_), NUMBERED(side_, 6, end_), NUMBERED(side_, 7, end_),        \
        NUMBERED(side_, 8, end_)
#define TWELVE(side_, end_)                                                                                            \
    NINE(side_, end_), NUMBERED(side_, 9, end_), NUMBERED(side_, 10, end_), NUMBERED(side_, 11, end_)
#define CENTRE(end_)                                                                                                   \
    RATIO("middle_block.0" end_, middle[0]), RATIO("middle_block.1" end_, middle[1]),                                  \
        RATIO("middle_block.2" end_, middle[2])
#define EMBEDDINGS RATIO("time_embed.", time_embed), RATIO("label_emb.", label_emb)

static const kiln_param sd_param[] = {EMBEDDINGS, TWELVE(input, "."), CENTRE("."), TWELVE(output, "."),
                                      RATIO("out.", out)};
static const kiln_param xl_param[] = {EMBEDDINGS, NINE(input, ""), CENTRE(""), NINE(output, ""), RATIO("out.", out)};

#define BLOCKS_NODE(id_, of_, param_)                                                                                  \
    {                                                                                                                  \
        KIT_NODE(id_, id_, "advanced/model_merging/model_specific",                                                    \
                 "As ModelMergeSimple, with a ratio for each block of " of_ "'s UNet."),                               \
            KILN_ARRAY(in, in), KILN_ARRAY(out, out), KIT_PARAMS(block_ratios, param_), .run = run                     \
    }
const kiln_node node_model_merge_sd1 = BLOCKS_NODE("ModelMergeSD1", "SD1", sd_param);
const kiln_node node_model_merge_sd2 = BLOCKS_NODE("ModelMergeSD2", "SD2", sd_param);
const kiln_node node_model_merge_sdxl = BLOCKS_NODE("ModelMergeSDXL", "SDXL", xl_param);
