/* unet_family.c - see unet_family.h. Opens unet/ of a folder, a UNet's own folder or file, or the model.diffusion_model
 * of a single file, each through a view with diffusers' names. */
#include "unet_family.h"

#include "kiln/checkpoint.h"
#include "kiln/kit.h"
#include "unet_architecture.h"
#include "unet_inputs.h"
#include "unet_key.h"
#include "unet_latents.h"
#include "unet_noise.h"
#include "unet_save.h"
#include "unet_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    kiln_denoiser denoiser;
    unet_config config;
    kiln_standard_sampling sampling;
    unet_latents latents;
    kiln_input_spec input[UNET_INPUTS_MAX];
    double sigma[NOISE_LEVELS_MAX];
    char architecture[UNET_ARCHITECTURE_MAX];
    char family[1500];
    const char *path; /* of its config.json in the set it was opened from; NULL: a single file */
} unet_self;

/* ---- layouts ---- */

enum { DIFFUSERS, LDM };
#define DIFFUSERS_NEEDS                                                                                                \
    {                                                                                                                  \
        "conv_in.weight", "time_embedding.linear_1.weight", "conv_out.weight"                                          \
    }
#define LDM_NEEDS                                                                                                      \
    {                                                                                                                  \
        "input_blocks.0.0.weight", "time_embed.0.weight", "out.2.weight"                                               \
    }
#define BOTH(prefix_)                                                                                                  \
    {.prefix = (prefix_), .needs = LDM_NEEDS, .kind = LDM},                                                            \
    {                                                                                                                  \
        .prefix = (prefix_), .needs = DIFFUSERS_NEEDS, .kind = DIFFUSERS                                               \
    }

static const checkpoint_layout layouts[] = {
    {.prefix = "unet/", .config = "unet/config.json", .needs = DIFFUSERS_NEEDS, .kind = DIFFUSERS},
    {.prefix = "", .config = "config.json", .needs = DIFFUSERS_NEEDS, .kind = DIFFUSERS},
    BOTH("model.diffusion_model."),
    BOTH("diffusion_model."),
    BOTH("model.model."),
    BOTH("unet."),
    {.prefix = "", .needs = LDM_NEEDS, .kind = LDM},
};

/* Networks with UNet's names and more: a part that they alone have. */
static const struct {
    const char *part, *why;
} relatives[] = {
    {".time_stack.", "it is a video model (Stable Video Diffusion)"},
    {".time_mixer.", "it is a video model (Stable Video Diffusion)"},
    {".temp_convs.", "it is a video model"},
    {".temporal_transformer_blocks.", "it is a video model (Stable Video Diffusion)"},
    {"motion_modules.", "it has AnimateDiff's motion modules"},
    {"encoder_hid_proj.", "it projects the tokens of another text encoder, as Kolors does"},
    {"position_net.", "it has GLIGEN's boxes"},
    {"add_embedding.image_", "it embeds pictures, as Kandinsky does"},
    {"add_embedding.pool.", "it pools its prompt itself, as DeepFloyd IF does"},
    {"cc_projection.", "it is Zero123, which is told a camera"},
    {"heatmap_head.", "it has a head for heat maps"},
};

/* Why the UNet at `at` is not supported, or NULL. */
static const char *unsupported(const kiln_weights_api *w, const kiln_weights *set, const checkpoint_layout *at)
{
    kiln_weight_info info = {.size = sizeof info};
    size_t n = strlen(at->prefix);
    for (size_t i = 0; i < w->count(set); i++) {
        if (w->at(set, i, &info) != KILN_OK) continue;
        int mine = strncmp(info.name, at->prefix, n) == 0 || strncmp(info.name, "cc_projection.", 14) == 0;
        for (size_t k = 0; mine && k < COUNT(relatives); k++)
            if (strstr(info.name, relatives[k].part)) return relatives[k].why;
    }
    return NULL;
}

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    if (!at) return 0;
    return unsupported(w, set, at) ? 1 : 90; /* 1: claimed at low rank, so that open() can say why not */
}

/* ---- the table's functions ---- */

static const unet_config *config_of(const kiln_denoiser *d) { return &((const unet_self *)d->self)->config; }

static kiln_t record(const kiln_denoiser *d, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                     const kiln_denoise_inputs *in)
{
    return unet_record(config_of(d), ops, p, w, in);
}

static void list_places(const kiln_denoiser *d, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg)
{
    unet_places(config_of(d), fn, arg);
}

static kiln_status derive(const kiln_denoiser *d, const kiln_derivation *of) { return unet_derive(config_of(d), of); }

static kiln_status save(const kiln_denoiser *d, const kiln_model *m, const kiln_saving *s)
{
    return unet_save(config_of(d), ((const unet_self *)d->self)->path, m, s);
}

/* ---- views ---- */

static kiln_weights *view_of(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set, const checkpoint_layout *at)
{
    ldm_rules rules = {0};
    if (at->kind == DIFFUSERS)
        ldm_rules_add(&rules, at->prefix, "*", "*");
    else
        ldm_rules_make(w, set, at->prefix, &rules);
    return unet_view(w, ctx, set, &rules);
}

/* ---- opening ---- */

static void fill_table(unet_self *self)
{
    kiln_denoiser *d = &self->denoiser;
    const unet_config *c = &self->config;
    uint32_t prediction = self->sampling.row.prediction;
    int cosxl = prediction == KILN_PREDICT_V && self->sampling.row.time == KILN_TIME_LOG;
    unet_architecture(c, prediction, self->architecture);
    unet_key(c, "sd-unet", self->family, sizeof self->family);
    *d = (kiln_denoiser){.size = sizeof *d,
                         .family = self->family,
                         .self = self,
                         .latent = &self->latents.format,
                         .sampling = &self->sampling.base,
                         .input = self->input,
                         .n_input = unet_input_rows(c, cosxl, self->input),
                         .input_stride = sizeof self->input[0],
                         .record = record,
                         .places = list_places,
                         .derive = unet_derives(c) ? derive : NULL,
                         .derive_key = unet_derive_keys,
                         .save = save,
                         .architecture = self->architecture,
                         .precisions = unet_needs_range(c) ? 1u << KILN_BF16 | 1u << KILN_F32 : 0};
}

static kiln_status fill_self(const kiln_host *host, kiln_ctx *ctx, const unet_source *from, unet_self *self)
{
    TRY(unet_settings_read(host, ctx, from, &self->config));
    TRY(unet_noise_read(host, ctx, from, &self->config, self->sigma, &self->sampling));
    TRY(unet_latents_read(host, ctx, from, &self->config, &self->latents));
    self->path = from->path;
    fill_table(self);
    return KILN_OK;
}

static kiln_value *open_model(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    const char *why = at ? unsupported(w, set, at) : "no UNet this plugin knows is in it";
    if (why) {
        host->fail(ctx, KILN_ERR_UNSUPPORTED, "the denoiser of this checkpoint cannot be used: %s", why);
        return NULL;
    }
    kiln_weights *view = view_of(w, ctx, set, at);
    unet_self *self = view ? calloc(1, sizeof *self) : NULL;
    kiln_value *value = NULL;
    if (self && fill_self(host, ctx, &(unet_source){.set = set, .view = view, .path = at->config}, self) == KILN_OK)
        value = models->model_new(ctx, &(kiln_model){.size = sizeof(kiln_model),
                                                     .denoiser = &self->denoiser,
                                                     .weights = view,
                                                     .name = unet_range_name(&self->config),
                                                     .owned = self,
                                                     .release = free});
    if (!value) free(self);
    w->unref(view);
    return value;
}

const kiln_model_family unet_family = {.size = sizeof unet_family,
                                       .kind = KILN_FAMILY_DENOISER,
                                       .name = "sd-unet",
                                       .doc = "The UNets of Stable Diffusion 1 and 2 and of SDXL",
                                       .detect = detect,
                                       .open = open_model};
