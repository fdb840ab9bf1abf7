/* vae_family.c - see vae_family.h. Opens vae/ of a folder, an autoencoder's own folder or file with diffusers' or ldm's
 * names, or the first_stage_model (vae) of a single file. SD1's and SDXL's have the same tensors: what tells them apart
 * is in vae_kind.h. */
#include "vae_family.h"

#include "kiln/checkpoint.h"
#include "kiln/config.h"
#include "kiln/kit.h"
#include "vae_kind.h"
#include "vae_model.h"
#include "vae_names.h"
#include "vae_save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    kiln_autoencoder autoencoder;
    vae_config config;
    double scale, shift;
    kiln_latent_scaling scaling;
    kiln_latent_format latent;
    char family[300], architecture[64];
    const char *path; /* of its config.json in the set it was opened from; NULL: a single file */
} vae_self;

enum { LATENT_CHANNELS_MAX = 64 };

/* 512 pixels a side, as ComfyUI's tiled decoding has it. */
static const kiln_tile_advice tile = {.size = sizeof tile, .height = 64, .width = 64, .overlap = 8};

/* ---- layouts ---- */

enum { DIFFUSERS, LDM };
#define FIRST "encoder.conv_in.weight"
#define DIFFUSERS_NEEDS                                                                                                \
    {                                                                                                                  \
        FIRST, "decoder.mid_block.resnets.0.conv1.weight", "encoder.conv_norm_out.weight"                              \
    }
#define LDM_NEEDS                                                                                                      \
    {                                                                                                                  \
        FIRST, "decoder.mid.block_1.conv1.weight", "encoder.norm_out.weight"                                           \
    }

static const checkpoint_layout layouts[] = {
    {.prefix = "vae/", .config = "vae/config.json", .needs = DIFFUSERS_NEEDS, .kind = DIFFUSERS},
    {.prefix = "", .config = "config.json", .needs = DIFFUSERS_NEEDS, .kind = DIFFUSERS},
    {.prefix = "first_stage_model.", .needs = LDM_NEEDS, .kind = LDM},
    {.prefix = "first_stage_model.", .needs = DIFFUSERS_NEEDS, .kind = DIFFUSERS},
    {.prefix = "vae.", .needs = LDM_NEEDS, .kind = LDM},
    {.prefix = "vae.", .needs = DIFFUSERS_NEEDS, .kind = DIFFUSERS},
    {.prefix = "", .needs = LDM_NEEDS, .kind = LDM},
};

/* NULL also when the first convolution is not 2-D: video autoencoders have the same names. */
static const checkpoint_layout *layout_of(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info;
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    return at && checkpoint_has(w, set, at->prefix, &info, FIRST) && info.rank == 4 ? at : NULL;
}

static int detect(const kiln_weights_api *w, const kiln_weights *set) { return layout_of(w, set) ? 90 : 0; }

static uint32_t ldm_levels(const kiln_weights_api *w, const kiln_weights *set, const char *prefix)
{
    kiln_weight_info info;
    uint32_t n = 0;
    while (n < VAE_LEVELS_MAX && checkpoint_has(w, set, prefix, &info, "encoder.down.%u.block.0.conv1.weight", n)) n++;
    return n;
}

static kiln_weights *view_of(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set, const checkpoint_layout *at)
{
    vae_rules *rules = malloc(sizeof *rules);
    if (!rules) return NULL;
    if (at->kind == LDM)
        vae_rules_ldm(rules, at->prefix, ldm_levels(w, set, at->prefix));
    else
        vae_rules_diffusers(rules, at->prefix);
    kiln_weights *view = w->view(ctx, set, rules->rule, rules->n);
    free(rules);
    return view;
}

/* ---- config ---- */

static const config_rule expected[] = {{"act_fn", "\"silu\""}, {"latents_mean", "null"}, {"latents_std", "null"}};

static void read_shapes(const kiln_weights_api *w, const kiln_weights *view, vae_config *c)
{
    kiln_weight_info info;
    *c = (vae_config){.groups = 32};
    if (checkpoint_has(w, view, "", &info, "encoder.conv_in.weight") && info.rank == 4) c->in_channels = info.dim[1];
    if (checkpoint_has(w, view, "", &info, "decoder.conv_out.weight")) c->out_channels = info.dim[0];
    if (checkpoint_has(w, view, "", &info, "decoder.conv_in.weight") && info.rank == 4)
        c->latent_channels = info.dim[1];
    c->quant_conv = (uint32_t)checkpoint_has(w, view, "", &info, "quant_conv.weight");
    c->post_quant_conv = (uint32_t)checkpoint_has(w, view, "", &info, "post_quant_conv.weight");
    c->attention = (uint32_t)checkpoint_has(w, view, "", &info, "decoder.mid_block.attentions.0.group_norm.weight");
    for (; c->levels < VAE_LEVELS_MAX; c->levels++) {
        if (!checkpoint_has(w, view, "", &info, "encoder.down_blocks.%u.resnets.0.conv1.weight", c->levels)) break;
        c->channels[c->levels] = info.dim[0];
    }
    while (c->layers < 16 &&
           checkpoint_has(w, view, "", &info, "encoder.down_blocks.0.resnets.%u.conv1.weight", c->layers))
        c->layers++;
}

/* Encoder and decoder of one shape; AsymmetricAutoencoderKL has a wider decoder. */
static void check_symmetry(config *c, const kiln_weights_api *w, const kiln_weights *view, const vae_config *v)
{
    const char *name = config_text(c, "_class_name", "AutoencoderKL");
    kiln_weight_info info;
    if (c->failed) return;
    if (strcmp(name, "AutoencoderKL") != 0) {
        CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED, "%s: it is an %.60s; of this kind only AutoencoderKL is supported",
                    c->path, name);
        return;
    }
    int alike = v->levels > 0;
    for (uint32_t i = 0; i < v->levels && alike; i++)
        alike = checkpoint_has(w, view, "", &info, "decoder.up_blocks.%u.resnets.%u.conv2.weight", i, v->layers) &&
                info.dim[0] == v->channels[v->levels - 1 - i] &&
                !checkpoint_has(w, view, "", &info, "decoder.up_blocks.%u.resnets.%u.conv2.weight", i, v->layers + 1);
    if (!alike || checkpoint_has(w, view, "", &info, "decoder.up_blocks.%u.resnets.0.conv1.weight", v->levels))
        CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED,
                    "%s: its decoder is not its encoder's mirror image (an asymmetric autoencoder), which is not "
                    "supported",
                    c->path);
}

static void expect_blocks(config *c, const char *key, const char *wanted)
{
    const json_t *list = config_get(c, key);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (!name || strcmp(name, wanted) != 0)
            CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED, "%s: '%s' has '%.60s'; only %s is supported", c->path, key,
                        name ? name : "something else", wanted);
    }
}

static void check_sizes(config *c, const vae_config *v)
{
    if (v->in_channels != 3 || v->out_channels != 3)
        CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED,
                    "%s: the autoencoder has %lld channels in and %lld out; pictures of 3 are supported", c->path,
                    (long long)v->in_channels, (long long)v->out_channels);
    if (!v->levels || !v->layers || v->latent_channels < 1 || v->latent_channels > LATENT_CHANNELS_MAX)
        CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: incomplete: %u levels of %u layers, %lld latent channels", c->path,
                    v->levels, v->layers, (long long)v->latent_channels);
    for (uint32_t i = 0; i < v->levels; i++)
        if (v->groups < 1 || v->channels[i] % v->groups)
            CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: level %u has %lld channels, no multiple of its %lld groups", c->path,
                        i, (long long)v->channels[i], (long long)v->groups);
}

static kiln_status read_config(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const kiln_weights *view,
                               const char *path, vae_self *self)
{
    vae_config *v = &self->config;
    config c = {.host = host, .ctx = ctx, .path = "the checkpoint"};
    read_shapes(host->ability(KILN_WEIGHTS_ABILITY), view, v);
    if (path) c = config_open(host, ctx, set, path);
    /* A single file of another kind than those that were released. */
    if (!c.root && !c.failed) c = config_open(host, ctx, set, "__metadata__/vae_config");
    if (!c.root && !c.failed) c.path = "the checkpoint";
    self->path = path;
    config_expect(&c, expected, COUNT(expected));
    expect_blocks(&c, "down_block_types", "DownEncoderBlock2D");
    expect_blocks(&c, "up_block_types", "UpDecoderBlock2D");
    if (config_get(&c, "block_out_channels"))
        v->levels = (uint32_t)config_ints(&c, "block_out_channels", 0, 1, 1 << 16, 0, v->channels, VAE_LEVELS_MAX);
    v->in_channels = config_int(&c, "in_channels", v->in_channels, 1, 1024);
    v->out_channels = config_int(&c, "out_channels", v->out_channels, 1, 1024);
    v->latent_channels = config_int(&c, "latent_channels", v->latent_channels, 1, LATENT_CHANNELS_MAX);
    v->layers = (uint32_t)config_int(&c, "layers_per_block", v->layers, 1, 16);
    v->groups = config_int(&c, "norm_num_groups", v->groups, 1, 1024);
    v->quant_conv = (uint32_t)config_bool(&c, "use_quant_conv", (int)v->quant_conv);
    v->post_quant_conv = (uint32_t)config_bool(&c, "use_post_quant_conv", (int)v->post_quant_conv);
    v->attention = (uint32_t)config_bool(&c, "mid_block_add_attention", (int)v->attention);
    if (!c.failed) check_sizes(&c, v);
    if (!c.failed) check_symmetry(&c, host->ability(KILN_WEIGHTS_ABILITY), view, v);
    vae_kind kind = vae_kind_find(&c, host->ability(KILN_WEIGHTS_ABILITY), set, v);
    self->scale = kind.scale;
    self->shift = config_number(&c, "shift_factor", 0, -1e6, 1e6);
    self->scaling = (kiln_latent_scaling){sizeof self->scaling, 1, &self->scale, &self->shift};
    self->latent = (kiln_latent_format){.size = sizeof self->latent,
                                        .channels = (int32_t)v->latent_channels,
                                        .factor = v->levels ? 1 << (v->levels - 1) : 1,
                                        .scaling = &self->scaling};
    self->autoencoder.latent = &self->latent;
    self->autoencoder.tile = &tile;
    snprintf(self->architecture, sizeof self->architecture, "%s", kind.name);
    self->autoencoder.architecture = self->architecture;
    self->autoencoder.precisions = kind.precisions;
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

/* ---- the table's functions ---- */

static void record_encode(const kiln_autoencoder *a, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                          kiln_t image, kiln_latent_distribution *out)
{
    vae_recorder r = {&((const vae_self *)a->self)->config, ops, p, w};
    vae_record_encode(&r, image, out);
}

static kiln_t record_decode(const kiln_autoencoder *a, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                            kiln_t latent)
{
    vae_recorder r = {&((const vae_self *)a->self)->config, ops, p, w};
    return vae_record_decode(&r, latent);
}

static kiln_status save(const kiln_autoencoder *a, kiln_weights *weights, const kiln_saving *s)
{
    const vae_self *self = a->self;
    return vae_save(&self->config, self->path, weights, s);
}

/* Sets the key of recorded programs: everything that decides what is recorded, apart from the weights. */
static void name_family(vae_self *self)
{
    const vae_config *v = &self->config;
    int at = snprintf(self->family, sizeof self->family, "sd1-vae/%lld.%lld.%u.%u%u%u", (long long)v->latent_channels,
                      (long long)v->groups, v->layers, v->quant_conv, v->post_quant_conv, v->attention);
    for (uint32_t i = 0; i < v->levels && at < (int)sizeof self->family; i++)
        at += snprintf(self->family + at, sizeof self->family - (size_t)at, "/%lld", (long long)v->channels[i]);
}

static kiln_value *open_vae(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const checkpoint_layout *at = layout_of(w, set);
    if (!at) {
        host->fail(ctx, KILN_ERR_UNSUPPORTED,
                   "this checkpoint has no autoencoder of Stable Diffusion's kind (AutoencoderKL)");
        return NULL;
    }
    kiln_weights *view = view_of(w, ctx, set, at);
    vae_self *self = view ? calloc(1, sizeof *self) : NULL;
    kiln_value *value = NULL;
    if (self && read_config(host, ctx, set, view, at->config, self) == KILN_OK) {
        kiln_autoencoder *a = &self->autoencoder;
        a->size = sizeof *a;
        a->family = self->family;
        a->self = self;
        a->record_encode = record_encode;
        a->record_decode = record_decode;
        a->save = save;
        name_family(self);
        value = models->vae_new(
            ctx,
            &(kiln_vae){.size = sizeof(kiln_vae), .autoencoder = a, .weights = view, .owned = self, .release = free});
    }
    if (!value) free(self);
    w->unref(view);
    return value;
}

const kiln_model_family vae_family = {.size = sizeof vae_family,
                                      .kind = KILN_FAMILY_AUTOENCODER,
                                      .name = "sd1-vae",
                                      .doc = "The autoencoder of Stable Diffusion 1, 2 and XL (AutoencoderKL)",
                                      .detect = detect,
                                      .open = open_vae};
