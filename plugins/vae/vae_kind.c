/* vae_kind.c - see vae_kind.h. */
#include "vae_kind.h"

#include "kiln/checkpoint.h"

#include <math.h>
#include <stdio.h>

#define SCALE_SD 0.18215
#define SCALE_SDXL 0.13025
#define SCALE_X4 0.08333

enum { SDXL_VECTOR = 2816, REFINER_VECTOR = 2560 }; /* width of the pooled text and the sizes */

int vae_beside(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info;
    if (!checkpoint_has(w, set, "model.diffusion_model.", &info, "input_blocks.0.0.weight")) return VAE_BESIDE_NOTHING;
    if (checkpoint_has(w, set, "model.diffusion_model.", &info, "label_emb.0.0.weight") && info.rank == 2 &&
        (info.dim[1] == SDXL_VECTOR || info.dim[1] == REFINER_VECTOR))
        return VAE_BESIDE_SDXL;
    return VAE_BESIDE_SD;
}

static int is_scale(double a, double b) { return fabs(a - b) < 1e-6; }

/* 0: nothing says it. */
static double known_scale(config *c, const kiln_weights_api *w, const kiln_weights *set, const vae_config *v)
{
    if (c->root) return config_number(c, "scaling_factor", SCALE_SD, 1e-6, 1e6);
    switch (vae_beside(w, set)) {
    case VAE_BESIDE_SD: return v->levels == 3 ? SCALE_X4 : SCALE_SD;
    case VAE_BESIDE_SDXL: return SCALE_SDXL;
    default: return 0;
    }
}

vae_kind vae_kind_find(config *c, const kiln_weights_api *w, const kiln_weights *set, const vae_config *v)
{
    double known = known_scale(c, w, set, v);
    int factor = v->levels ? 1 << (v->levels - 1) : 1, four = v->latent_channels == 4,
        is_sd = four && factor == 8 && is_scale(known, SCALE_SD);
    vae_kind k = {.scale = known > 0 ? known : SCALE_SD};
    if (is_sd)
        snprintf(k.name, sizeof k.name, "SD1 KL-f8"); /* and SD2's */
    else if (four && factor == 8 && is_scale(known, SCALE_SDXL))
        snprintf(k.name, sizeof k.name, "SDXL KL-f8");
    else if (four && factor == 4 && is_scale(known, SCALE_X4))
        snprintf(k.name, sizeof k.name, "x4 upscaler KL-f4");
    else
        snprintf(k.name, sizeof k.name, "KL-f%d, %lld channels", factor, (long long)v->latent_channels);
    /* diffusers writes true unless somebody said otherwise, so that only false says anything */
    if (!is_sd && config_bool(c, "force_upcast", 1)) k.precisions = 1u << KILN_BF16 | 1u << KILN_F32;
    return k;
}
