/* unet_embedding.c - see unet_embedding.h. Names as in diffusers: time_embedding, add_embedding (SDXL), class_embedding
 * (unCLIP, the x4 upscaler). What is embedded beside the time does not change from step to step. */
#include "unet_embedding.h"

#include <stdio.h>

static kiln_t sinusoid_of(const unet_recorder *r, kiln_t t, int64_t width)
{
    kiln_timestep_embedding how = {
        .size = sizeof how, .cos_first = r->config->cos_first, .shift = r->config->freq_shift};
    return r->ops->timestep_embedding(r->p, t, width, &how);
}

static kiln_t input(const unet_recorder *r, const char *name) { return kiln_input(r->in->input, r->in->n_input, name); }

kiln_t unet_mlp(const unet_recorder *r, const char *name, kiln_t x)
{
    int64_t width = 4 * r->config->channels[0];
    char layer[64];
    snprintf(layer, sizeof layer, "%s.linear_1", name);
    kiln_t h = unet_linear(r, layer, x, width, 1);
    snprintf(layer, sizeof layer, "%s.linear_2", name);
    return unet_linear(r, layer, r->ops->act(r->p, h, KILN_ACT_SILU), width, 1);
}

/* LCM's guidance scale: diffusers' get_guidance_scale_embedding, of 1000 times the scale less one. */
static kiln_t add_guidance(const unet_recorder *r, kiln_t sinusoid)
{
    kiln_timestep_embedding how = {.size = sizeof how, .cos_first = 0, .shift = 1};
    kiln_t w = r->ops->timestep_embedding(r->p, input(r, "guidance"), r->config->guidance, &how);
    return r->ops->add(r->p, sinusoid, unet_linear(r, "time_embedding.cond_proj", w, r->config->channels[0], 0));
}

kiln_t unet_time_mlp(const unet_recorder *r, kiln_t sinusoid) { return unet_mlp(r, "time_embedding", sinusoid); }

kiln_t unet_sizes(const unet_recorder *r)
{
    const unet_config *c = r->config;
    kiln_t part[1 + UNET_NUMBERS_MAX] = {input(r, "pooled")};
    for (uint32_t i = 0; i < c->n_number; i++) part[1 + i] = sinusoid_of(r, input(r, c->number[i]), c->sinusoid);
    return r->ops->concat(r->p, part, 1 + c->n_number, 1);
}

/* A row of the table for each picture. */
static kiln_t class_of(const unet_recorder *r)
{
    const unet_config *c = r->config;
    int64_t width = 4 * c->channels[0], n[2] = {0};
    kiln_t ids = input(r, "noise_level"); /* i32 [N,1] */
    kiln_t table = r->ops->weight(r->p, r->w, "class_embedding.weight", 2, KILN_DIMS(c->embedded, width));
    r->ops->shape(r->p, ids, n, 2);
    return r->ops->reshape(r->p, r->ops->embedding(r->p, table, ids), 2, KILN_DIMS(n[0], width));
}

kiln_t unet_embedding(const unet_recorder *r, kiln_t timestep)
{
    kiln_t t = sinusoid_of(r, timestep, r->config->channels[0]);
    if (r->config->guidance) t = add_guidance(r, t);
    t = unet_time_mlp(r, t);
    switch (r->config->beside) {
    case UNET_SIZES: return r->ops->add(r->p, t, unet_mlp(r, "add_embedding", unet_sizes(r)));
    case UNET_VECTOR: return r->ops->add(r->p, t, unet_mlp(r, "class_embedding", input(r, "image_embedding")));
    case UNET_CLASS: return r->ops->add(r->p, t, class_of(r));
    default: return t;
    }
}
