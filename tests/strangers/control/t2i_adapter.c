/* t2i_adapter.c - T2I-Adapter as diffusers' T2IAdapter of the type "full_adapter" stores it: features of the hint
 * alone, one for each level of the UNet, added where the level's last resnet (with attention) ends. Because the skip is
 * taken there too, the place is the block itself, "input.N", and not the skip.
 *
 *   h = conv_in(pixel_unshuffle(hint)); each level: average of 2x2 (but the first), 1x1 convolution, resnets
 *
 * kiln has neither op: unshuffling is a permutation of a reshape, and an average of 2x2 is four slices.
 */
#include "control.h"
#include "kiln/checkpoint.h"
#include "kiln/config.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    int64_t channels[CONTROL_LEVELS_MAX], hint_channels, factor, resnets;
    size_t levels;
} adapter_config;

typedef struct {
    kiln_network network;
    adapter_config config;
    kiln_input_spec input[1];
    char family[200];
} adapter;

typedef struct {
    const adapter_config *config;
    const kiln_ops *ops;
    kiln_program *p;
    kiln_weights *w;
} recorder;

enum { UNET_LAYERS = 2 }; /* resnets a level of the UNet: SD1's */

static int64_t dim(const recorder *r, kiln_t x, uint32_t i) { return control_dim(r->ops, r->p, x, i); }

static kiln_t conv(const recorder *r, const char *name, kiln_t x, int64_t out, int64_t kernel)
{
    return control_conv(r->ops, r->p, r->w, name, x, KILN_DIMS(out, kernel, 1));
}

/* [N,H*f,W*f,C] -> [N,H,W,C*f*f], channels as torch's PixelUnshuffle orders them: colour, row, column. */
static kiln_t unshuffle(const recorder *r, kiln_t x, int64_t f)
{
    int64_t n = dim(r, x, 0), h = dim(r, x, 1) / f, w = dim(r, x, 2) / f, c = dim(r, x, 3);
    x = r->ops->reshape(r->p, x, 6, KILN_DIMS(n, h, f, w, f, c));
    x = r->ops->permute(r->p, x, (const uint32_t[]){0, 1, 3, 5, 2, 4});
    return r->ops->reshape(r->p, x, 4, KILN_DIMS(n, h, w, c * f * f));
}

/* An odd length gets its last row (column) once more: the average over what is there, as torch's ceil_mode has it. */
static kiln_t make_even(const recorder *r, kiln_t x, uint32_t axis)
{
    int64_t n = dim(r, x, axis);
    if (n % 2 == 0) return x;
    return r->ops->concat(r->p, (kiln_t[]){x, r->ops->slice(r->p, x, axis, n - 1, 1)}, 2, axis);
}

/* The mean of each 2x2 cells. */
static kiln_t average_pool(const recorder *r, kiln_t x)
{
    x = make_even(r, make_even(r, x, 1), 2);
    int64_t n = dim(r, x, 0), h = dim(r, x, 1) / 2, w = dim(r, x, 2) / 2, c = dim(r, x, 3);
    x = r->ops->reshape(r->p, x, 4, KILN_DIMS(n * h, 2, w, 2 * c)); /* pairs of rows; pairs of columns as channels */
    x = r->ops->add(r->p, r->ops->slice(r->p, x, 1, 0, 1), r->ops->slice(r->p, x, 1, 1, 1));
    x = r->ops->add(r->p, r->ops->slice(r->p, x, 3, 0, c), r->ops->slice(r->p, x, 3, c, c));
    return r->ops->reshape(r->p, r->ops->affine(r->p, x, 0.25f, 0), 4, KILN_DIMS(n, h, w, c));
}

static kiln_t level(const recorder *r, kiln_t x, size_t number)
{
    int64_t channels = r->config->channels[number];
    char name[80];
    if (number) x = average_pool(r, x);
    snprintf(name, sizeof name, "adapter.body.%zu.in_conv", number);
    if (dim(r, x, 3) != channels) x = conv(r, name, x, channels, 1);
    for (int64_t i = 0; i < r->config->resnets; i++) {
        snprintf(name, sizeof name, "adapter.body.%zu.resnets.%lld.block1", number, (long long)i);
        kiln_t h = r->ops->act(r->p, conv(r, name, x, channels, 3), KILN_ACT_RELU);
        snprintf(name, sizeof name, "adapter.body.%zu.resnets.%lld.block2", number, (long long)i);
        x = r->ops->add(r->p, conv(r, name, h, channels, 1), x);
    }
    return x;
}

/* Neither x nor timestep is looked at: kiln computes the features once and keeps them from step to step. */
static void record(const kiln_network *n, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_named_tensor *in, size_t n_in, const kiln_outputs *out)
{
    const adapter_config *c = &((const adapter *)n->self)->config;
    recorder r = {c, ops, p, w};
    char place[40];
    control_say_recorded("T2I-Adapter", ops, p, kiln_input(in, n_in, "hint"));
    kiln_t h = conv(&r, "adapter.conv_in", unshuffle(&r, kiln_input(in, n_in, "hint"), c->factor), c->channels[0], 3);
    for (size_t i = 0; i < c->levels; i++) {
        h = level(&r, h, i);
        snprintf(place, sizeof place, "input.%zu", UNET_LAYERS + i * (UNET_LAYERS + 1)); /* a downsample counts too */
        out->add(out, place, h);
    }
}

/* ---- opening ---- */

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    static const checkpoint_layout layout = {
        .prefix = "", .needs = {"adapter.conv_in.weight", "adapter.body.0.resnets.0.block1.weight"}};
    return checkpoint_find(w, set, &layout, 1) ? 95 : 0; /* before kiln's own, which says 90 */
}

static const config_rule expected[] = {{"adapter_type", "\"full_adapter\""}};

static kiln_status read_config(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, adapter_config *out)
{
    config c = config_open(host, ctx, set, "config.json");
    if (!c.root)
        CONFIG_FAIL(&c, KILN_ERR_INVALID, "a T2I-Adapter needs the config.json beside its weights; give its folder");
    config_expect(&c, expected, COUNT(expected));
    out->levels = config_ints(&c, "channels", 0, 1, 1 << 16, 0, out->channels, CONTROL_LEVELS_MAX);
    out->hint_channels = config_int(&c, "in_channels", 3, 1, 64);
    out->factor = config_int(&c, "downscale_factor", 8, 1, 64);
    out->resnets = config_int(&c, "num_res_blocks", 2, 1, 64);
    if (!out->levels) CONFIG_FAIL(&c, KILN_ERR_INVALID, "%s: 'channels' has to be a list of widths", c.path);
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

static void fill(adapter *self)
{
    const adapter_config *c = &self->config;
    int at = snprintf(self->family, sizeof self->family, "example-t2i-adapter/%lld.%lld.%lld", (long long)c->factor,
                      (long long)c->hint_channels, (long long)c->resnets);
    for (size_t i = 0; i < c->levels && at < (int)sizeof self->family; i++)
        at += snprintf(self->family + at, sizeof self->family - (size_t)at, ".%lld", (long long)c->channels[i]);
    self->input[0] = (kiln_input_spec){.size = sizeof self->input[0],
                                       .kind = KILN_INPUT_IMAGE,
                                       .name = "hint",
                                       .doc = "the picture that the result shall follow",
                                       .width = c->hint_channels};
    self->network = (kiln_network){.size = sizeof self->network,
                                   .family = self->family,
                                   .self = self,
                                   KILN_ARRAY(input, self->input),
                                   .record = record};
}

static kiln_value *open_adapter(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    adapter *self = calloc(1, sizeof *self);
    kiln_value *value = NULL;
    if (self && read_config(host, ctx, set, &self->config) == KILN_OK) {
        fill(self);
        kiln_net net = {.size = sizeof net, .network = &self->network, .weights = set, .owned = self, .release = free};
        value = models->net_new(ctx, "CONTROL_NET", &net);
    }
    if (!value) free(self);
    return value;
}

const kiln_model_family t2i_adapter_family = {.size = sizeof t2i_adapter_family,
                                              .kind = KILN_FAMILY_CONTROL,
                                              .name = "example-t2i-adapter",
                                              .doc = "T2I-Adapter for UNets of SD1's kind",
                                              .detect = detect,
                                              .open = open_adapter};
