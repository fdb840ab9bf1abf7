/* controlnet_family.c - see controlnet_family.h. Opens controlnet/ of a folder, a ControlNet's own folder or file, or
 * the control_model of a single file, each through a view with diffusers' names.
 *
 * Facts of such a control: latent_channels, of the x that it sees; difference, true where the weights are to be added
 * to a denoiser's of the same names.
 */
#include "controlnet_family.h"

#include "controlnet_bases.h"
#include "controlnet_names.h"
#include "controlnet_settings.h"
#include "controlnet_union.h"
#include "kiln/checkpoint.h"
#include "kiln/kit.h"
#include "unet_architecture.h"
#include "unet_inputs.h"
#include "unet_key.h"
#include "unet_view.h"

#include <stdio.h>
#include <stdlib.h>

static void free_self(void *owned)
{
    controlnet *self = owned;
    if (!self) return;
    controlnet_forget_bases(self);
    self->host->unref(self->facts);
    free(self);
}

/* ---- layouts ---- */

enum { DIFFUSERS, CLDM };
#define DIFFUSERS_NEEDS                                                                                                \
    {                                                                                                                  \
        "controlnet_cond_embedding.conv_in.weight", "conv_in.weight"                                                   \
    }
#define CLDM_NEEDS                                                                                                     \
    {                                                                                                                  \
        "input_hint_block.0.weight", "zero_convs.0.0.weight"                                                           \
    }

static const checkpoint_layout layouts[] = {
    {.prefix = "controlnet/", .config = "controlnet/config.json", .needs = DIFFUSERS_NEEDS, .kind = DIFFUSERS},
    {.prefix = "", .config = "config.json", .needs = DIFFUSERS_NEEDS, .kind = DIFFUSERS},
    {.prefix = "controlnet.", .needs = DIFFUSERS_NEEDS, .kind = DIFFUSERS},
    {.prefix = "control_model.", .needs = CLDM_NEEDS, .kind = CLDM},
    {.prefix = "", .needs = CLDM_NEEDS, .kind = CLDM},
};

/* Controls with a ControlNet's names and more, and those of other denoisers: a name that they alone have, or a part of
 * one. */
static const struct {
    const char *part, *why;
} relatives[] = {
    {"motion_modules.", "it is SparseCtrl, for AnimateDiff's videos"},
    {"controlnet_blocks.", "it is for transformers such as SD3, Flux or Qwen-Image"},
    {"control_blocks.0.after_proj.", "it is for transformers such as Qwen-Image"},
    {"after_proj_list.", "it is for Hunyuan-DiT"},
    {"down_zero_convs_out.", "it is a ControlNet-XS"},
    {"ctrl_to_base", "it is a ControlNet-XS"},
};

static const char *unsupported(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info = {.size = sizeof info};
    for (size_t i = 0; i < w->count(set); i++) {
        if (w->at(set, i, &info) != KILN_OK) continue;
        for (size_t k = 0; k < COUNT(relatives); k++)
            if (strstr(info.name, relatives[k].part)) return relatives[k].why;
    }
    return NULL;
}

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    if (unsupported(w, set)) return 1; /* claimed at low rank, so that open() can say why not */
    return checkpoint_find(w, set, layouts, COUNT(layouts)) ? 90 : 0;
}

/* ---- the table ---- */

static void record(const kiln_network *n, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_named_tensor *in, size_t n_in, const kiln_outputs *out)
{
    const kiln_denoise_inputs all = {.size = sizeof all,
                                     .x = kiln_input(in, n_in, "x"),
                                     .timestep = kiln_input(in, n_in, "timestep"),
                                     .input = in,
                                     .n_input = n_in};
    controlnet_record(&((const controlnet *)n->self)->config, ops, p, w, &all, out);
}

static uint32_t fill_inputs(const controlnet_config *c, kiln_input_spec *row)
{
    uint32_t n = unet_input_rows(&c->unet, 0, row);
    row[n++] = (kiln_input_spec){.size = sizeof *row,
                                 .kind = KILN_INPUT_IMAGE,
                                 .flags = KILN_INPUT_CENTRED | KILN_INPUT_NEAREST,
                                 .name = "hint",
                                 .doc = "the picture that the result shall follow",
                                 .width = c->hint_channels};
    if (c->types)
        row[n++] = (kiln_input_spec){.size = sizeof *row,
                                     .kind = KILN_INPUT_VECTOR,
                                     .flags = KILN_INPUT_OPTIONAL | KILN_INPUT_OMITTED,
                                     .name = "control_type",
                                     .doc = "1 for the kind of the hint, 0 for the others",
                                     .width = c->types};
    return n;
}

static void name_family(controlnet *self)
{
    const controlnet_config *c = &self->config;
    unet_key(&c->unet, "controlnet", self->family, sizeof self->family);
    size_t at = strlen(self->family);
    at += (size_t)snprintf(self->family + at, sizeof self->family - at, "/%u.%u.%lld.%lld.%u", c->bgr, c->pool,
                           (long long)c->types, (long long)c->sinusoid, c->fusers);
    for (uint32_t i = 0; i < c->hint_widths && at < sizeof self->family; i++)
        at += (size_t)snprintf(self->family + at, sizeof self->family - at, ".%lld", (long long)c->hint_width[i]);
}

static void fill_table(controlnet *self)
{
    const controlnet_config *c = &self->config;
    char unet[UNET_ARCHITECTURE_MAX];
    unet_architecture(&c->unet, 0, unet);
    snprintf(self->architecture, sizeof self->architecture, "%s for %s",
             c->change  ? "Control-LoRA"
             : c->types ? "ControlNet Union"
                        : "ControlNet",
             unet);
    name_family(self);
    self->network = (kiln_network){.size = sizeof self->network,
                                   .family = self->family,
                                   .self = self,
                                   .input = self->input,
                                   .n_input = fill_inputs(c, self->input),
                                   .input_stride = sizeof self->input[0],
                                   .record = record,
                                   .over = c->change ? controlnet_over : NULL,
                                   .facts = self->facts,
                                   .architecture = self->architecture,
                                   .precisions = unet_needs_range(&c->unet) ? 1u << KILN_BF16 | 1u << KILN_F32 : 0};
}

/* ---- opening ---- */

static kiln_status set_fact(const kiln_value_api *v, kiln_value *map, const char *key, kiln_value *fact,
                            const kiln_host *host)
{
    kiln_status status = fact ? v->map_set(map, key, fact) : KILN_ERR_NOMEM;
    host->unref(fact);
    return status;
}

static kiln_status fill_facts(kiln_ctx *ctx, const kiln_weights *set, controlnet *self)
{
    const kiln_value_api *v = self->host->ability(KILN_VALUE_ABILITY);
    const kiln_weights_api *w = self->host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info info = {.size = sizeof info};
    if (!(self->facts = v->new_map(ctx))) return KILN_ERR_NOMEM;
    if (self->config.change) return KILN_OK; /* without its denoiser nothing can be recorded */
    TRY(set_fact(v, self->facts, "latent_channels", v->new_int(ctx, self->config.unet.in_channels), self->host));
    if (w->find(set, "difference", &info) != KILN_OK) return KILN_OK;
    return set_fact(v, self->facts, "difference", v->new_bool(ctx, 1), self->host);
}

static kiln_status fill_self(kiln_ctx *ctx, const unet_source *from, controlnet *self)
{
    const kiln_weights_api *w = self->host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info info = {.size = sizeof info};
    TRY(controlnet_settings_read(self->host, ctx, from, &self->config));
    self->config.change = w->find(from->set, "lora_controlnet", &info) == KILN_OK;
    TRY(fill_facts(ctx, from->set, self));
    fill_table(self);
    return KILN_OK;
}

static kiln_weights *view_of(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set, const checkpoint_layout *at)
{
    ldm_rules rules = {0};
    controlnet_rules_make(w, set, at->prefix, at->kind == CLDM, &rules);
    return unet_view(w, ctx, set, &rules);
}

static kiln_value *open_control(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    const char *why = unsupported(w, set);
    if (!why && !at) why = "no ControlNet this plugin knows is in it";
    if (why) {
        host->fail(ctx, KILN_ERR_UNSUPPORTED, "this control cannot be used: %s", why);
        return NULL;
    }
    kiln_weights *view = view_of(w, ctx, set, at);
    controlnet *self = view ? calloc(1, sizeof *self) : NULL;
    kiln_value *value = NULL;
    if (self) self->host = host, pthread_mutex_init(&self->lock, NULL);
    if (self && fill_self(ctx, &(unet_source){set, view, at->config, 1}, self) == KILN_OK)
        value = models->net_new(ctx, "CONTROL_NET",
                                &(kiln_net){.size = sizeof(kiln_net),
                                            .network = &self->network,
                                            .weights = view,
                                            .owned = self,
                                            .release = free_self});
    if (!value) free_self(self);
    w->unref(view);
    return value;
}

const kiln_model_family controlnet_family = {.size = sizeof controlnet_family,
                                             .kind = KILN_FAMILY_CONTROL,
                                             .name = "sd-controlnet",
                                             .doc = "ControlNets for the UNets of Stable Diffusion 1 and 2 and of SDXL",
                                             .detect = detect,
                                             .open = open_control};
