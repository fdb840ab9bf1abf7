/* t2i_family.c - see t2i_family.h. The configuration is what names and shapes show; where a folder has a config.json it
 * has to say the same. */
#include "t2i_family.h"

#include "kiln/checkpoint.h"
#include "kiln/config.h"
#include "kiln/kit.h"
#include "t2i_adapter.h"
#include "t2i_names.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const kiln_host *host;
    kiln_network network;
    t2i_config config;
    kiln_input_spec input[1];
    kiln_value *facts;
    char architecture[80], family[300];
} adapter;

static void free_adapter(void *owned)
{
    adapter *self = owned;
    if (!self) return;
    self->host->unref(self->facts);
    free(self);
}

/* ---- which files ---- */

static const checkpoint_layout layouts[] = {
    {.prefix = "adapter/adapter.",
     .config = "adapter/config.json",
     .needs = {"body.0.resnets.0.block1.weight"},
     .kind = T2I_DIFFUSERS},
    {.prefix = "adapter.", .config = "config.json", .needs = {"body.0.resnets.0.block1.weight"}, .kind = T2I_DIFFUSERS},
    {.prefix = "", .needs = {"conv_in.weight", "body.0.block1.weight"}, .kind = T2I_RELEASE_FULL},
    {.prefix = "", .needs = {"body.0.in_conv.weight", "body.0.body.0.block1.weight"}, .kind = T2I_RELEASE_LIGHT},
};

/* Adapters of other kinds, by a name that they alone have. */
static const struct {
    const char *name, *why;
} relatives[] = {
    {"body.0.skep.weight", "its resnets have a convolution beside them, which no released adapter has"},
    {"backbone.0.0.weight", "it is for Stable Cascade"},
    {"backbone.10.blocks.0.weight", "it is for Stable Cascade"},
    {"adapters.0.adapter.body.0.resnets.0.block1.weight",
     "it is several adapters in one; give each a file of its own, and apply them one after the other"},
};

static const char *unsupported(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info = {.size = sizeof info};
    for (size_t i = 0; i < COUNT(relatives); i++)
        if (w->find(set, relatives[i].name, &info) == KILN_OK) return relatives[i].why;
    return NULL;
}

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    if (unsupported(w, set)) return 1; /* claimed at low rank, so that open() can say why not */
    return checkpoint_find(w, set, layouts, COUNT(layouts)) ? 90 : 0;
}

/* ---- what the tensors show ---- */

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_weights_api *w;
    const kiln_weights *view;
    t2i_config *out;
} reader;

#define REFUSE(r, ...) return (r)->host->fail((r)->ctx, KILN_ERR_UNSUPPORTED, "this T2I-Adapter: " __VA_ARGS__)

/* Dimension i of a level's tensor; 0: there is none. */
static int64_t dim_of(const reader *r, uint32_t level, const char *what, uint32_t i)
{
    kiln_weight_info info;
    int there = checkpoint_has(r->w, r->view, "", &info, "body.%u.%s", level, what);
    return there && i < info.rank ? info.dim[i] : 0;
}

/* One of several tensors will do, so that a missing one is found to be missing. */
static int64_t width_of(const reader *r, uint32_t level, uint32_t resnet)
{
    static const char *const parts[] = {"block1.weight", "block1.bias", "block2.weight", "block2.bias"};
    char name[40];
    int64_t width = 0;
    for (size_t i = 0; i < COUNT(parts) && !width; i++) {
        snprintf(name, sizeof name, "resnets.%u.%s", resnet, parts[i]);
        width = dim_of(r, level, name, 0);
    }
    return width;
}

static kiln_status take_levels(const reader *r)
{
    t2i_config *c = r->out;
    for (uint32_t i = 0; i <= T2I_LEVELS_MAX; i++) {
        int64_t width = width_of(r, i, 0);
        if (!width) continue;
        if (i == T2I_LEVELS_MAX) REFUSE(r, "more than %d levels", T2I_LEVELS_MAX);
        c->levels = i + 1;
        c->inner[i] = width;
        c->channels[i] = c->kind == T2I_LIGHT ? dim_of(r, i, "out_conv.weight", 0) : width;
        c->in_kernel[i] = dim_of(r, i, "in_conv.weight", 2);
        if (!c->in_kernel[i] && c->kind == T2I_LIGHT) c->in_kernel[i] = 1;
        c->down_conv |= dim_of(r, i, "down_opt.op.weight", 0) > 0;
    }
    while (c->resnets < T2I_RESNETS_MAX && width_of(r, 0, c->resnets)) c->resnets++;
    c->out_kernel = dim_of(r, 0, "resnets.0.block2.weight", 2);
    for (uint32_t i = 0; i < c->levels; i++)
        if (c->in_kernel[i] < 0 || c->in_kernel[i] > 3 || (c->in_kernel[i] && c->in_kernel[i] % 2 == 0))
            REFUSE(r, "level %u begins with a convolution of %lldx%lld; 1x1 and 3x3 are supported", i,
                   (long long)c->in_kernel[i], (long long)c->in_kernel[i]);
    if (c->out_kernel != 1 && c->out_kernel != 3)
        REFUSE(r, "its resnets end with a convolution of %lldx%lld; 1x1 and 3x3 are supported",
               (long long)c->out_kernel, (long long)c->out_kernel);
    return KILN_OK;
}

/* The hint's channels times the square of the factor; of the released ones 16 is SDXL's. `factor`, `xl`: what
 * config.json says; 0 and -1: nothing. */
static kiln_status take_hint(const reader *r, int64_t factor, int xl)
{
    t2i_config *c = r->out;
    kiln_weight_info info;
    int light = !checkpoint_has(r->w, r->view, "", &info, "conv_in.weight") &&
                !checkpoint_has(r->w, r->view, "", &info, "conv_in.bias");
    int64_t in = light                                                        ? dim_of(r, 0, "in_conv.weight", 1)
                 : checkpoint_has(r->w, r->view, "", &info, "conv_in.weight") ? info.rank > 1 ? info.dim[1] : 0
                                                                              : 192;
    if (!factor) factor = !light && (in == 256 || in == 768) ? 16 : 8;
    c->kind = light ? T2I_LIGHT : (xl < 0 ? factor == 16 : xl) ? T2I_FULL_XL : T2I_FULL;
    c->factor = factor, c->hint_channels = in / (factor * factor);
    if (in % (factor * factor) || c->hint_channels < 1 || c->hint_channels > T2I_HINT_CHANNELS_MAX)
        REFUSE(r, "%lld channels of a hint that is unshuffled by %lld are no hint's", (long long)in, (long long)factor);
    return KILN_OK;
}

/* ---- config.json ---- */

static void agree(config *c, const char *key, int64_t said, int64_t seen)
{
    if (said != seen)
        CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: '%s' says %lld, and the weights have %lld", c->path, key, (long long)said,
                    (long long)seen);
}

static void check_config(config *c, const t2i_config *seen)
{
    int64_t width[T2I_LEVELS_MAX];
    size_t n = config_get(c, "channels") ? config_ints(c, "channels", 0, 1, 1 << 16, 0, width, T2I_LEVELS_MAX) : 0;
    /* a light adapter's last width counts twice */
    if (n) agree(c, "channels", (int64_t)n + (seen->kind == T2I_LIGHT), seen->levels);
    for (size_t i = 0; i < n && !c->failed; i++) agree(c, "channels", width[i], seen->channels[i]);
    agree(c, "in_channels", config_int(c, "in_channels", seen->hint_channels, 1, 64), seen->hint_channels);
    agree(c, "num_res_blocks", config_int(c, "num_res_blocks", seen->resnets, 1, 64), seen->resnets);
}

static kiln_status read_adapter(const reader *r, const kiln_weights *set, const char *path)
{
    static const char *const types[] = {
        [T2I_FULL] = "full_adapter", [T2I_FULL_XL] = "full_adapter_xl", [T2I_LIGHT] = "light_adapter"};
    config c = {.host = r->host, .ctx = r->ctx};
    if (path) c = config_open(r->host, r->ctx, set, path);
    const char *type = c.root ? config_text(&c, "adapter_type", types[T2I_FULL]) : NULL;
    int64_t factor = c.root ? config_int(&c, "downscale_factor", 8, 1, 64) : 0;
    kiln_status status = c.failed ? KILN_ERR_INVALID : take_hint(r, factor, type ? strcmp(type, types[1]) == 0 : -1);
    if (status == KILN_OK) status = take_levels(r);
    if (status == KILN_OK && type && strcmp(type, types[r->out->kind]) != 0)
        CONFIG_FAIL(&c, KILN_ERR_INVALID, "%s: 'adapter_type' is '%.40s', and the weights are those of %s", c.path,
                    type, types[r->out->kind]);
    if (status == KILN_OK && c.root) check_config(&c, r->out);
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : status;
}

/* Which of the UNet's blocks end its levels depends on how many resnets a level has: 2 in all released ones. A file for
 * another UNet brings that one's configuration. */
static kiln_status read_unet(const reader *r, const kiln_weights *set)
{
    config c = config_open(r->host, r->ctx, set, "__metadata__/unet_config");
    r->out->unet_layers = c.root ? (uint32_t)config_int(&c, "layers_per_block", 2, 1, 16) : 2;
    int failed = c.failed;
    config_close(&c);
    return failed ? KILN_ERR_INVALID : KILN_OK;
}

/* ---- the table ---- */

static void record(const kiln_network *n, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_named_tensor *in, size_t n_in, const kiln_outputs *out)
{
    t2i_record(&((const adapter *)n->self)->config, ops, p, w, kiln_input(in, n_in, "hint"), out);
}

static void name_family(adapter *self)
{
    const t2i_config *c = &self->config;
    size_t at = (size_t)snprintf(self->family, sizeof self->family, "t2i-adapter/%u.%u.%u.%lld.%lld.%lld.%u", c->kind,
                                 c->unet_layers, c->resnets, (long long)c->hint_channels, (long long)c->factor,
                                 (long long)c->out_kernel, c->down_conv);
    for (uint32_t i = 0; i < c->levels && at < sizeof self->family; i++)
        at += (size_t)snprintf(self->family + at, sizeof self->family - at, "/%lld.%lld.%lld",
                               (long long)c->channels[i], (long long)c->inner[i], (long long)c->in_kernel[i]);
}

static void fill_table(adapter *self)
{
    static const char *const called[] = {
        [T2I_FULL] = "for SD1", [T2I_FULL_XL] = "for SDXL", [T2I_LIGHT] = "light, for SD1"};
    const t2i_config *c = &self->config;
    snprintf(self->architecture, sizeof self->architecture, "T2I-Adapter %s, %lld to %lld channels", called[c->kind],
             (long long)c->channels[0], (long long)c->channels[c->levels - 1]);
    name_family(self);
    self->input[0] = (kiln_input_spec){.size = sizeof self->input[0],
                                       .kind = KILN_INPUT_IMAGE,
                                       .flags = KILN_INPUT_CENTRED | KILN_INPUT_NEAREST,
                                       .name = "hint",
                                       .doc = "the picture that the result shall follow",
                                       .width = c->hint_channels};
    self->network = (kiln_network){.size = sizeof self->network,
                                   .family = self->family,
                                   .self = self,
                                   KILN_ARRAY(input, self->input),
                                   .record = record,
                                   .facts = self->facts,
                                   .architecture = self->architecture};
}

static kiln_status fill_facts(kiln_ctx *ctx, adapter *self)
{
    const kiln_value_api *v = self->host->ability(KILN_VALUE_ABILITY);
    kiln_value *channels = v->new_int(ctx, 4);
    self->facts = v->new_map(ctx);
    kiln_status status =
        channels && self->facts ? v->map_set(self->facts, "latent_channels", channels) : KILN_ERR_NOMEM;
    self->host->unref(channels);
    return status;
}

static kiln_value *open_adapter(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    const char *why = unsupported(w, set);
    if (!why && !at) why = "no T2I-Adapter this plugin knows is in it";
    if (why) {
        host->fail(ctx, KILN_ERR_UNSUPPORTED, "this adapter cannot be used: %s", why);
        return NULL;
    }
    kiln_weights *view = t2i_view(w, ctx, set, at->prefix, (t2i_layout)at->kind);
    adapter *self = view ? calloc(1, sizeof *self) : NULL;
    kiln_value *value = NULL;
    if (self) self->host = host;
    reader r = {host, ctx, w, view, self ? &self->config : NULL};
    int read = self && read_adapter(&r, set, at->config) == KILN_OK && read_unet(&r, set) == KILN_OK;
    if (read && fill_facts(ctx, self) == KILN_OK) {
        fill_table(self);
        value = models->net_new(ctx, "CONTROL_NET",
                                &(kiln_net){.size = sizeof(kiln_net),
                                            .network = &self->network,
                                            .weights = view,
                                            .owned = self,
                                            .release = free_adapter});
    }
    if (!value) free_adapter(self);
    w->unref(view);
    return value;
}

const kiln_model_family t2i_family = {.size = sizeof t2i_family,
                                      .kind = KILN_FAMILY_CONTROL,
                                      .name = "t2i-adapter",
                                      .doc = "T2I-Adapters for the UNets of Stable Diffusion 1 and of SDXL",
                                      .detect = detect,
                                      .open = open_adapter};
