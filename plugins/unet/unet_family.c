/* unet_family.c - see unet_family.h. Opens unet/ of a folder, a UNet's own folder or file, or the model.diffusion_model
 * of a single file, each through a view with diffusers' names. */
#include "unet_family.h"

#include "kiln/checkpoint.h"
#include "kiln/kit.h"
#include "ldm_names.h"
#include "unet_settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    kiln_denoiser denoiser;
    unet_config config;
    kiln_standard_sampling sampling;
    latent_numbers latent;
    kiln_input_spec input[1];
    double sigma[NOISE_LEVELS_MAX];
    char family[400];
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

static const checkpoint_layout layouts[] = {
    {.prefix = "unet/", .config = "unet/config.json", .needs = DIFFUSERS_NEEDS, .kind = DIFFUSERS},
    {.prefix = "", .config = "config.json", .needs = DIFFUSERS_NEEDS, .kind = DIFFUSERS},
    {.prefix = "model.diffusion_model.", .needs = LDM_NEEDS, .kind = LDM},
    {.prefix = "diffusion_model.", .needs = LDM_NEEDS, .kind = LDM},
    {.prefix = "", .needs = LDM_NEEDS, .kind = LDM},
};

/* Why the UNet at `at` is not supported, or NULL. */
static const char *unsupported_layout(const kiln_weights_api *w, const kiln_weights *set, const checkpoint_layout *at)
{
    static const struct {
        const char *classes, *attention, *first;
    } names[] = {
        [DIFFUSERS] = {"add_embedding.linear_1.weight", "mid_block.attentions.0.proj_in.weight", "conv_in.weight"},
        [LDM] = {"label_emb.0.0.weight", "middle_block.1.proj_in.weight", "input_blocks.0.0.weight"},
    };
    kiln_weight_info info;
    if (checkpoint_has(w, set, at->prefix, &info, "%s", names[at->kind].classes))
        return "it takes sizes or classes beside the time, as SDXL does; SD1.x is supported";
    if (!checkpoint_has(w, set, at->prefix, &info, "%s", names[at->kind].attention))
        return "it has no attention in the middle; SD1.x is supported";
    if (info.rank != 4) return "its transformers have linear projections, as SD2.x has; SD1.x is supported";
    if (!checkpoint_has(w, set, at->prefix, &info, "%s", names[at->kind].first) || info.rank != 4)
        return "its first layer is not a 2-D convolution";
    if (info.dim[1] == 9) return "it has 9 input channels, an inpainting model; those are not supported yet";
    if (info.dim[1] == 8) return "it has 8 input channels, a picture-editing model; those are not supported yet";
    return NULL;
}

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    if (!at) return 0;
    return unsupported_layout(w, set, at) ? 1 : 90; /* 1: claimed at low rank, so that open() can say why not */
}

/* ---- the table's functions ---- */

static kiln_t record(const kiln_denoiser *d, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                     const kiln_denoise_inputs *in)
{
    return unet_record(&((const unet_self *)d->self)->config, ops, p, w, in);
}

static void list_places(const kiln_denoiser *d, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg)
{
    unet_places(&((const unet_self *)d->self)->config, fn, arg);
}

/* ---- opening ---- */

static kiln_weights *view_of(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set, const checkpoint_layout *at)
{
    if (at->kind == DIFFUSERS) {
        char from[40];
        snprintf(from, sizeof from, "%s*", at->prefix);
        return w->view(ctx, set, &(kiln_weight_rule)KILN_RULE(.from = from, .to = "*"), 1);
    }
    ldm_rules rules;
    ldm_rules_make(w, set, at->prefix, &rules);
    kiln_weights *view = rules.nomem ? NULL : w->view(ctx, set, rules.rule, rules.n);
    ldm_rules_free(&rules);
    return view;
}

/* Sets the key of recorded programs: everything that decides what is recorded, apart from the weights. */
static void name_family(unet_self *self)
{
    const unet_config *c = &self->config;
    int at = snprintf(self->family, sizeof self->family, "sd1-unet/%lld.%lld.%lld.%lld.%u.%u.%u.%g.%g",
                      (long long)c->in_channels, (long long)c->out_channels, (long long)c->context,
                      (long long)c->groups, c->layers, c->depth, c->cos_first, c->freq_shift, (double)c->eps);
    for (uint32_t i = 0; i < c->levels && at < (int)sizeof self->family; i++)
        at += snprintf(self->family + at, sizeof self->family - (size_t)at, "/%lld.%lld.%u", (long long)c->channels[i],
                       (long long)c->heads[i], c->attends[i]);
}

static kiln_status fill_self(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const kiln_weights *view,
                             const checkpoint_layout *at, unet_self *self)
{
    kiln_denoiser *d = &self->denoiser;
    TRY(unet_settings_read(host, ctx, set, view, at->config, &self->config));
    *d = (kiln_denoiser){.size = sizeof *d,
                         .family = self->family,
                         .self = self,
                         .sampling = &self->sampling.base,
                         KILN_ARRAY(input, self->input),
                         .record = record,
                         .places = list_places};
    self->input[0] = (kiln_input_spec){.size = sizeof self->input[0],
                                       .kind = KILN_INPUT_TOKENS,
                                       .name = "context",
                                       .key = "tokens",
                                       .doc = "what cross-attention attends to",
                                       .width = self->config.context};
    TRY(unet_noise_read(host, ctx, set, self->sigma, &self->sampling));
    TRY(unet_latent_read(host, ctx, set, self->config.out_channels, &self->latent));
    d->latent = &self->latent.format;
    name_family(self);
    return KILN_OK;
}

static kiln_value *open_model(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    const char *why = at ? unsupported_layout(w, set, at) : "no UNet this plugin knows is in it";
    if (why) {
        host->fail(ctx, KILN_ERR_UNSUPPORTED, "the denoiser of this checkpoint cannot be used: %s", why);
        return NULL;
    }
    kiln_weights *view = view_of(w, ctx, set, at);
    unet_self *self = view ? calloc(1, sizeof *self) : NULL;
    kiln_value *value = NULL;
    if (self && fill_self(host, ctx, set, view, at, self) == KILN_OK)
        value = models->model_new(ctx, &(kiln_model){.size = sizeof(kiln_model),
                                                     .denoiser = &self->denoiser,
                                                     .weights = view,
                                                     .owned = self,
                                                     .release = free});
    if (!value) free(self);
    w->unref(view);
    return value;
}

const kiln_model_family unet_family = {.size = sizeof unet_family,
                                       .kind = KILN_FAMILY_DENOISER,
                                       .name = "sd1-unet",
                                       .doc = "The UNet of Stable Diffusion 1.x",
                                       .detect = detect,
                                       .open = open_model};
