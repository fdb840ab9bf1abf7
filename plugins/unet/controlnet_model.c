/* controlnet_model.c - see controlnet_model.h.
 *
 *   h = conv_in(x) + embedding(hint); then the UNet's down blocks and middle
 *   result i: 1x1 convolution of skip i of n, for the UNet's block output.(n-1-i), which takes that skip; the first
 * skip is taken last
 *
 * What depends on the hint alone is computed once a sampling, because kiln keeps what follows from inputs that stay.
 */
#include "controlnet_model.h"

#include "controlnet_union.h"
#include "unet_embedding.h"

#include <stdio.h>

static kiln_t flipped(const unet_recorder *r, kiln_t x, int64_t channels)
{
    kiln_t part[CONTROLNET_CHANNELS_MAX] = {{0}};
    for (int64_t i = 0; i < channels; i++) part[i] = r->ops->slice(r->p, x, 3, channels - 1 - i, 1);
    return r->ops->concat(r->p, part, (uint32_t)channels, 3);
}

/* hint [N,8H,8W,channels] -> [N,H,W,C0] */
static kiln_t embed_hint(const unet_recorder *r, const controlnet_config *c, kiln_t hint)
{
    char name[64];
    if (c->bgr) hint = flipped(r, hint, c->hint_channels);
    kiln_t h = unet_conv(r, "controlnet_cond_embedding.conv_in", hint, c->hint_width[0], 3, 1);
    for (uint32_t i = 0; i + 1 < c->hint_widths; i++)
        for (uint32_t half = 0; half < 2; half++) { /* the second of a pair halves the picture */
            snprintf(name, sizeof name, "controlnet_cond_embedding.blocks.%u", 2 * i + half);
            h = unet_conv(r, name, r->ops->act(r->p, h, KILN_ACT_SILU), c->hint_width[i + half], 3, half ? 2 : 1);
        }
    h = r->ops->act(r->p, h, KILN_ACT_SILU);
    return unet_conv(r, "controlnet_cond_embedding.conv_out", h, c->unet.channels[0], 3, 1);
}

typedef struct {
    const controlnet_config *config;
    const unet_recorder *r;
    const kiln_outputs *out;
} results;

/* The 1x1 convolution that training began with zeros in. */
static void add_result(const results *to, const char *name, const char *place, kiln_t h)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    to->r->ops->shape(to->r->p, h, dim, KILN_MAX_RANK);
    h = unet_conv(to->r, name, h, dim[3], 1, 1);
    if (to->config->pool)
        h = to->r->ops->reshape(to->r->p, controlnet_mean(to->r, h), 4, KILN_DIMS(dim[0], 1, 1, dim[3]));
    to->out->add(to->out, place, h);
}

static void add_results(const results *to, const unet_walk *s, kiln_t middle)
{
    char name[48], place[48];
    for (uint32_t i = 0; i < s->n_skip; i++) {
        snprintf(name, sizeof name, "controlnet_down_blocks.%u", i);
        snprintf(place, sizeof place, "output.%u.skip", s->n_skip - 1 - i);
        add_result(to, name, place, s->skip[i]);
    }
    add_result(to, "controlnet_mid_block", "middle", middle);
}

void controlnet_record(const controlnet_config *c, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                       const kiln_denoise_inputs *in, const kiln_outputs *out)
{
    unet_walk s = {.r = {.config = &c->unet, .ops = ops, .p = p, .w = w, .base = c->base, .in = in}};
    if (c->change && !c->base) {
        ops->fail(p, "a Control-LoRA is a change of its denoiser's weights, and has not been given any");
        return;
    }
    kiln_t type = kiln_input(in->input, in->n_input, "control_type");
    s.r.context = kiln_input(in->input, in->n_input, "context");
    kiln_t t = unet_embedding(&s.r, in->timestep);
    if (c->types) t = ops->add(p, t, controlnet_embed_type(&s.r, c, type));
    s.r.temb = ops->act(p, t, KILN_ACT_SILU);
    kiln_t hint = embed_hint(&s.r, c, kiln_input(in->input, in->n_input, "hint"));
    if (c->types && type.id) hint = controlnet_fuse_type(&s.r, c, hint, type);
    kiln_t h = unet_first(&s, in->x, hint);
    for (uint32_t level = 0; level < c->unet.levels; level++) h = unet_down(&s, h, level);
    h = unet_middle(&s, h);
    add_results(&(results){c, &s.r, out}, &s, h);
}
