/* controlnet_model.h - ControlNet (Zhang et al. 2023) as a recorded program: a UNet's down blocks and middle, which see
 * a hint beside x, with a 1x1 convolution behind each. */
#ifndef KILN_UNET_CONTROLNET_MODEL_H
#define KILN_UNET_CONTROLNET_MODEL_H

#include "unet_model.h"

enum { CONTROLNET_HINT_MAX = 8 };

/* Names and meanings as in diffusers' ControlNetModel and ControlNetUnionModel. */
typedef struct {
    unet_config unet; /* encoder 1 */
    int64_t hint_channels, hint_width[CONTROLNET_HINT_MAX];
    uint32_t hint_widths; /* of the hint's embedding; between two of them the picture is halved             */
    uint32_t bgr;         /* the hint's channels are taken in the other order                               */
    uint32_t pool;        /* each result is its mean over the cells ("global_pool_conditions": shuffle)     */
    int64_t types;        /* Union: how many kinds of hints it tells apart; 0: it is none                   */
    int64_t sinusoid;     /* Union: numbers that "is it this kind" becomes for each of them                 */
    uint32_t fusers;      /* Union: transformer layers over the hint's mean                                 */
    uint32_t change;      /* 1: a Control-LoRA: matrices are X.up and X.down, to be added to the denoiser's */
    kiln_weights *base;   /* of a Control-LoRA: the denoiser's with that change; NULL: not known yet        */
} controlnet_config;

/* Inputs: x [N,H,W,in_channels] scaled, timestep f32 [N], those of unet_inputs.h, hint [N,8H,8W,hint_channels] in 0..1,
 * and of a Union perhaps control_type [N,types], 1 for the hint's kind. Results: "output.K.skip" for every skip and
 * "middle". */
void controlnet_record(const controlnet_config *c, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                       const kiln_denoise_inputs *in, const kiln_outputs *out);

#endif
