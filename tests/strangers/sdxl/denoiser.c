/* denoiser.c - SDXL's base and refiner as denoisers. They are one network of different sizes with different inputs:
 * each has a table of rows, and what the network embeds is named by it.
 *
 *   base     tokens of both encoders, pooled of g, six numbers: height, width, crop_h, crop_w, target_height,
 *            target_width
 *   refiner  tokens and pooled of g, five numbers: height, width, crop_h, crop_w, aesthetic_score
 *
 * The latents are the same, so that one can go on where the other stopped.
 */
#include "sdxl.h"

#include "kiln/checkpoint.h"
#include "kiln/config.h"

#include <stdio.h>
#include <stdlib.h>

enum { LEVELS = 1000, INPUTS = 8 };

/* What a MODEL keeps: its table, and what the table points to. */
typedef struct {
    kiln_denoiser denoiser;
    sdxl_unet unet;
    kiln_standard_sampling sampling;
    kiln_latent_format latent;
    kiln_input_spec input[INPUTS];
    double sigma[LEVELS];
    char family[160];
} denoiser_self;

static const double scale = 0.13025;
static const kiln_latent_scaling scaling = {.size = sizeof scaling, .n = 1, .scale = &scale};

static const checkpoint_layout layouts[] = {
    {.prefix = "unet/", .config = "unet/config.json", .needs = {"conv_in.weight", "add_embedding.linear_1.weight"}},
    {.prefix = "", .config = "config.json", .needs = {"conv_in.weight", "add_embedding.linear_1.weight"}},
};

/* ---- inputs ---- */

/* A number that a workflow need not say: with CLIPTextEncode, say. */
#define NUMBER(name_, fallback_, doc_)                                                                                 \
    {                                                                                                                  \
        .size = sizeof(kiln_input_spec), .kind = KILN_INPUT_SCALAR, .name = (name_), .flags = KILN_INPUT_OPTIONAL,     \
        .fallback = (fallback_), .doc = (doc_)                                                                         \
    }
#define NUMBER_LIKE(name_, other_, doc_)                                                                               \
    {                                                                                                                  \
        .size = sizeof(kiln_input_spec), .kind = KILN_INPUT_SCALAR, .name = (name_), .flags = KILN_INPUT_OPTIONAL,     \
        .fallback = 1024, .fallback_from = (other_), .doc = (doc_)                                                     \
    }
/* Prompts of other lengths go into one batch: cross-attention to tokens that are there twice is attention to the
 * tokens, because softmax gives each copy half. */
#define TEXT(batch_)                                                                                                   \
    {.size = sizeof(kiln_input_spec),                                                                                  \
     .kind = KILN_INPUT_TOKENS,                                                                                        \
     .name = "context",                                                                                                \
     .key = "tokens",                                                                                                  \
     .batch = (batch_)},                                                                                               \
    {                                                                                                                  \
        .size = sizeof(kiln_input_spec), .kind = KILN_INPUT_VECTOR, .name = "pooled", .doc = "the prompt as a whole"   \
    }

static const kiln_input_spec base_input[] = {
    TEXT(KILN_BATCH_REPEAT),
    NUMBER("height", 1024, "of the pictures this shall look like, in pixels"),
    NUMBER("width", 1024, "of the pictures this shall look like, in pixels"),
    NUMBER("crop_h", 0, "pixels that are cut off above"),
    NUMBER("crop_w", 0, "pixels that are cut off at the left"),
    NUMBER_LIKE("target_height", "height", "of this picture"),
    NUMBER_LIKE("target_width", "width", "of this picture"),
};

static const kiln_input_spec refiner_input[] = {
    TEXT(KILN_BATCH_APART),
    NUMBER("height", 1024, "of the pictures this shall look like, in pixels"),
    NUMBER("width", 1024, "of the pictures this shall look like, in pixels"),
    NUMBER("crop_h", 0, "pixels that are cut off above"),
    NUMBER("crop_w", 0, "pixels that are cut off at the left"),
    {.size = sizeof(kiln_input_spec),
     .kind = KILN_INPUT_SCALAR,
     .name = "aesthetic_score",
     .doc = "6 for what the picture should be like, 2.5 for what it should not"},
};

/* Everything behind the tokens and the pooled vector is a number. */
static void set_inputs(denoiser_self *self, const kiln_input_spec *input, uint32_t n)
{
    memcpy(self->input, input, n * sizeof *input);
    self->input[0].width = self->unet.context;
    self->input[1].width = self->unet.pooled;
    self->unet.n_number = n - 2;
    for (uint32_t i = 2; i < n; i++) self->unet.number[i - 2] = self->input[i].name;
    self->denoiser.input = self->input, self->denoiser.n_input = n;
    self->denoiser.input_stride = (uint32_t)sizeof *self->input;
}

/* ---- what a checkpoint holds ---- */

static int64_t dim_of(const kiln_weights_api *w, const kiln_weights *set, const char *prefix, const char *name,
                      uint32_t i)
{
    kiln_weight_info info;
    return checkpoint_has(w, set, prefix, &info, "%s", name) && i < info.rank ? info.dim[i] : 0;
}

/* Both the refiner's tokens and its pooled vector are g's, so that what is left of the embedding's width are the
 * sinusoids of five numbers; base has tokens that are wider than g's. */
static int is_refiner(const kiln_weights_api *w, const kiln_weights *set, const char *prefix)
{
    int64_t context = dim_of(w, set, prefix, "mid_block.attentions.0.transformer_blocks.0.attn2.to_k.weight", 1);
    int64_t embedded = dim_of(w, set, prefix, "add_embedding.linear_1.weight", 1);
    return context > 0 && embedded > context && (embedded - context) % 5 == 0;
}

static int detect(const kiln_weights_api *w, const kiln_weights *set, int refiner)
{
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    return at && is_refiner(w, set, at->prefix) == refiner ? 95 : 0;
}

static int detect_base(const kiln_weights_api *w, const kiln_weights *set) { return detect(w, set, 0); }
static int detect_refiner(const kiln_weights_api *w, const kiln_weights *set) { return detect(w, set, 1); }

static uint32_t count_blocks(const kiln_weights_api *w, const kiln_weights *view, const char *attention)
{
    kiln_weight_info info;
    uint32_t n = 0;
    while (n < 64 && checkpoint_has(w, view, "", &info, "%s.transformer_blocks.%u.norm1.weight", attention, n)) n++;
    return n;
}

static void read_shapes(const kiln_weights_api *w, const kiln_weights *view, sdxl_unet *u)
{
    kiln_weight_info info;
    char name[80];
    u->latent = dim_of(w, view, "", "conv_out.weight", 0);
    u->context = dim_of(w, view, "", "mid_block.attentions.0.transformer_blocks.0.attn2.to_k.weight", 1);
    u->middle_depth = count_blocks(w, view, "mid_block.attentions.0");
    for (; u->levels < SDXL_LEVELS; u->levels++) {
        if (!checkpoint_has(w, view, "", &info, "down_blocks.%u.resnets.0.conv1.weight", u->levels)) break;
        u->channels[u->levels] = info.dim[0];
        snprintf(name, sizeof name, "down_blocks.%u.attentions.0", u->levels);
        u->depth[u->levels] = count_blocks(w, view, name);
    }
    while (u->layers < 8 && checkpoint_has(w, view, "", &info, "down_blocks.0.resnets.%u.conv1.weight", u->layers))
        u->layers++;
}

/* What shapes do not show: heads, groups and the width of a number's sinusoid. SDXL's own has heads of 64. */
static kiln_status read_config(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const char *path,
                               sdxl_unet *u)
{
    config c = config_open(host, ctx, set, path);
    for (uint32_t i = 0; i < u->levels; i++) u->heads[i] = u->channels[i] / 64;
    if (config_get(&c, "attention_head_dim"))
        config_ints(&c, "attention_head_dim", 0, 1, 1024, u->levels, u->heads, SDXL_LEVELS);
    u->groups = config_int(&c, "norm_num_groups", 32, 1, 1024);
    u->sinusoid = config_int(&c, "addition_time_embed_dim", 256, 2, 1 << 16);
    for (uint32_t i = 0; i < u->levels; i++)
        if (u->heads[i] < 1 || u->channels[i] % u->heads[i] || u->channels[i] % u->groups)
            CONFIG_FAIL(&c, KILN_ERR_INVALID,
                        "%s: level %u has %lld channels, no multiple of %lld heads and %lld groups", path, i,
                        (long long)u->channels[i], (long long)u->heads[i], (long long)u->groups);
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

/* ---- the table ---- */

static kiln_t record(const kiln_denoiser *d, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                     const kiln_denoise_inputs *in)
{
    return sdxl_unet_record(&((const denoiser_self *)d->self)->unet, o, p, w, in);
}

static void places(const kiln_denoiser *d, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg)
{
    sdxl_unet_places(&((const denoiser_self *)d->self)->unet, fn, arg);
}

/* Part of programs' keys: all that decides what record() records, apart from the weights and their shapes. */
static void name_family(denoiser_self *self, const char *name)
{
    const sdxl_unet *u = &self->unet;
    int n =
        snprintf(self->family, sizeof self->family, "%s/%lld.%lld", name, (long long)u->groups, (long long)u->sinusoid);
    for (uint32_t i = 0; i < u->levels && n < (int)sizeof self->family; i++)
        n += snprintf(self->family + n, sizeof self->family - (size_t)n, ".%lld", (long long)u->heads[i]);
}

static void set_table(denoiser_self *self)
{
    kiln_discrete_sigmas("scaled_linear", 0.00085, 0.012, LEVELS, self->sigma);
    kiln_standard_sampling_init(
        &self->sampling, &(kiln_sampling_row){.prediction = KILN_PREDICT_EPS, .n_sigma = LEVELS, .sigma = self->sigma});
    self->latent = (kiln_latent_format){
        .size = sizeof self->latent, .channels = (int32_t)self->unet.latent, .factor = 8, .scaling = &scaling};
    self->denoiser = (kiln_denoiser){.size = sizeof self->denoiser,
                                     .family = self->family,
                                     .self = self,
                                     .latent = &self->latent,
                                     .sampling = &self->sampling.base,
                                     .record = record,
                                     .places = places};
}

static kiln_status fill(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const kiln_weights *view,
                        const checkpoint_layout *at, denoiser_self *self)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    int refiner = is_refiner(w, set, at->prefix);
    sdxl_unet *u = &self->unet;
    read_shapes(w, view, u);
    TRY(read_config(host, ctx, set, at->config, u));
    u->pooled = dim_of(w, view, "", "add_embedding.linear_1.weight", 1) - (refiner ? 5 : 6) * u->sinusoid;
    if (!u->levels || !u->layers || u->pooled < 1)
        return host->fail(ctx, KILN_ERR_INVALID,
                          "%s: a size embedding of %lld numbers for each of %d sizes leaves nothing for the prompt",
                          at->config, (long long)u->sinusoid, refiner ? 5 : 6);
    set_table(self);
    if (refiner)
        set_inputs(self, refiner_input, COUNT(refiner_input));
    else
        set_inputs(self, base_input, COUNT(base_input));
    name_family(self, refiner ? "example-sdxl-refiner" : "example-sdxl");
    return KILN_OK;
}

static kiln_value *open_model(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    int refiner = at && is_refiner(w, set, at->prefix);
    char from[40];
    snprintf(from, sizeof from, "%s*", at ? at->prefix : "");
    kiln_weights *view = w->view(ctx, set, &(kiln_weight_rule)KILN_RULE(.from = from, .to = "*"), 1);
    denoiser_self *self = view && at ? calloc(1, sizeof *self) : NULL;
    kiln_value *value = NULL;
    if (self && fill(host, ctx, set, view, at, self) == KILN_OK)
        value = models->model_new(ctx, &(kiln_model){.size = sizeof(kiln_model),
                                                     .denoiser = &self->denoiser,
                                                     .weights = view,
                                                     .name = refiner ? "refiner" : "base",
                                                     .owned = self,
                                                     .release = free});
    if (!value) free(self);
    w->unref(view);
    return value;
}

const kiln_model_family sdxl_base_family = {.size = sizeof sdxl_base_family,
                                            .kind = KILN_FAMILY_DENOISER,
                                            .name = "example-sdxl",
                                            .doc = "The UNet of SDXL",
                                            .detect = detect_base,
                                            .open = open_model};
const kiln_model_family sdxl_refiner_family = {.size = sizeof sdxl_refiner_family,
                                               .kind = KILN_FAMILY_DENOISER,
                                               .name = "example-sdxl-refiner",
                                               .doc = "The UNet of SDXL's refiner",
                                               .detect = detect_refiner,
                                               .open = open_model};
