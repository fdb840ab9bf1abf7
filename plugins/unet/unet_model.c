/* unet_model.c - the denoiser of Stable Diffusion (Rombach et al. 2022) and SDXL (Podell et al. 2023), names as in
 * diffusers' UNet2DConditionModel.
 *
 *   temb = mlp(sinusoid(timestep)), and what is embedded beside it        [N,4C]
 *   input 0: conv_in of x and the channels beside it; then for each level: layers x (resnet, attention), downsample;
 *            every result is a skip
 *   middle:  resnet, attention, resnet; distilled networks have less
 *   output:  for each level upwards: (layers+1) x (concat with the last skip, resnet, attention), upsample
 *   out:     norm, silu, conv_out
 *
 * An upsample takes the size of the skip that follows, so any size works. Blocks are counted as in the ldm
 * source (input.0 is conv_in, a downsample counts), and those numbers name the places for hooks.
 */
#include "unet_model.h"

#include "kiln/kit.h"
#include "unet_embedding.h"
#include "unet_inputs.h"

#include <stdio.h>
#include <string.h>

static void enter(unet_walk *s, const char *part, uint32_t number, kiln_t x)
{
    s->entered = x;
    snprintf(s->r.place, sizeof s->r.place, "%s.%u", part, number);
    s->r.ops->scope_push(s->r.p, s->r.place);
}

static kiln_t leave(unet_walk *s, kiln_t x)
{
    x = unet_place(&s->r, "", x, &(kiln_place_info){.input = s->entered});
    s->r.ops->scope_pop(s->r.p);
    return x;
}

/* x is a skip connection; what goes on from here may be another. */
static kiln_t keep(unet_walk *s, kiln_t x)
{
    if (s->n_skip < UNET_SKIPS_MAX) s->skip[s->n_skip++] = x;
    return unet_place(&s->r, "after_skip", x, NULL);
}

/* The attention behind a resnet, of `depth` transformer blocks; 0: there is none. */
static kiln_t attention(unet_walk *s, const char *name, kiln_t x, uint32_t level, uint32_t depth)
{
    const unet_config *c = s->r.config;
    unet_transformer of = {c->heads[level], depth, c->context_only[level]};
    return depth ? unet_attention(&s->r, name, x, &of) : x;
}

kiln_t unet_first(unet_walk *s, kiln_t x, kiln_t more)
{
    enter(s, "input", s->input++, x);
    x = unet_conv(&s->r, "conv_in", x, s->r.config->channels[0], 3, 1); /* [N,H,W,C0] */
    if (more.id) x = s->r.ops->add(s->r.p, x, more);
    return keep(s, leave(s, x));
}

kiln_t unet_down(unet_walk *s, kiln_t x, uint32_t level)
{
    const unet_config *c = s->r.config;
    char name[80];
    for (uint32_t i = 0; i < c->layers[level]; i++) {
        enter(s, "input", s->input++, x);
        if (!unet_left_out(&s->r, x, c->channels[level])) {
            snprintf(name, sizeof name, "down_blocks.%u.resnets.%u", level, i);
            x = unet_resnet(&s->r, name, x, c->channels[level]);
            snprintf(name, sizeof name, "down_blocks.%u.attentions.%u", level, i);
            x = attention(s, name, x, level, c->down[level][i]);
        }
        x = keep(s, leave(s, x));
    }
    if (level + 1 == c->levels) return x;
    enter(s, "input", s->input++, x);
    snprintf(name, sizeof name, "down_blocks.%u.downsamplers.0.conv", level);
    return keep(s, leave(s, unet_conv(&s->r, name, x, c->channels[level], 3, 2)));
}

static kiln_t middle_resnet(unet_walk *s, kiln_t x, uint32_t number)
{
    int64_t width = s->r.config->channels[s->r.config->levels - 1];
    const char *name = number ? "mid_block.resnets.1" : "mid_block.resnets.0";
    enter(s, "middle", 2 * number, x);
    return leave(s, unet_left_out(&s->r, x, width) ? x : unet_resnet(&s->r, name, x, width));
}

static kiln_t middle_attention(unet_walk *s, kiln_t x)
{
    const unet_config *c = s->r.config;
    uint32_t last = c->levels - 1;
    unet_transformer of = {c->heads[last], c->middle_depth, 0};
    enter(s, "middle", 1, x);
    int out = unet_left_out(&s->r, x, c->channels[last]);
    return leave(s, out ? x : unet_attention(&s->r, "mid_block.attentions.0", x, &of));
}

kiln_t unet_middle(unet_walk *s, kiln_t x)
{
    uint32_t resnets = s->r.config->middle;
    if (resnets > 0) x = middle_resnet(s, x, 0);
    if (resnets > 1) x = middle_resnet(s, middle_attention(s, x), 1);
    snprintf(s->r.place, sizeof s->r.place, "middle");
    return unet_place(&s->r, "", x, NULL);
}

kiln_t unet_up(unet_walk *s, kiln_t x, uint32_t up_block)
{
    const unet_config *c = s->r.config;
    uint32_t level = c->levels - 1 - up_block;
    char name[80];
    for (uint32_t i = 0; i <= c->layers[level]; i++) {
        enter(s, "output", s->output++, x);
        kiln_t skip = s->skip[--s->n_skip];
        kiln_t h = unet_place(&s->r, "in", x, &(kiln_place_info){.beside = skip});
        skip = unet_place(&s->r, "skip", skip, &(kiln_place_info){.beside = h});
        if (!unet_left_out(&s->r, x, c->channels[level])) {
            x = s->r.ops->concat(s->r.p, (kiln_t[]){h, skip}, 2, 3); /* [N,H,W,C+Cskip] */
            snprintf(name, sizeof name, "up_blocks.%u.resnets.%u", up_block, i);
            x = unet_resnet(&s->r, name, x, c->channels[level]);
            snprintf(name, sizeof name, "up_blocks.%u.attentions.%u", up_block, i);
            x = attention(s, name, x, level, c->up[up_block][i]);
        }
        if (i == c->layers[level] && level > 0) {
            int64_t size[KILN_MAX_RANK] = {0};
            s->r.ops->shape(s->r.p, s->skip[s->n_skip - 1], size, KILN_MAX_RANK);
            snprintf(name, sizeof name, "up_blocks.%u.upsamplers.0", up_block);
            x = unet_upsample(&s->r, name, x, size[1], size[2]);
        }
        x = leave(s, x);
    }
    return x;
}

kiln_t unet_record(const unet_config *c, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_denoise_inputs *in)
{
    unet_walk s = {.r = {.config = c, .ops = ops, .p = p, .w = w, .in = in}};
    s.r.context = kiln_input(in->input, in->n_input, "context");
    s.r.temb = ops->act(p, unet_embedding(&s.r, in->timestep), KILN_ACT_SILU);
    kiln_t x = unet_first(&s, unet_beside_x(c, ops, p, in), (kiln_t){0});
    for (uint32_t level = 0; level < c->levels; level++) x = unet_down(&s, x, level);
    x = unet_middle(&s, x);
    for (uint32_t i = 0; i < c->levels; i++) x = unet_up(&s, x, i);
    x = ops->act(p, unet_group_norm(&s.r, "conv_norm_out", x, c->eps), KILN_ACT_SILU);
    return unet_conv(&s.r, "conv_out", x, c->out_channels, 3, 1);
}
