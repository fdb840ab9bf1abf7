/* unet_model.h - the denoiser of SD1.x as a recorded program, and its configuration. */
#ifndef KILN_UNET_MODEL_H
#define KILN_UNET_MODEL_H

#include "kiln/model.h"

enum { UNET_LEVELS_MAX = 8 };

/* Names and meanings as in diffusers' UNet2DConditionModel. */
typedef struct {
    int64_t in_channels, out_channels, context, groups;
    int64_t channels[UNET_LEVELS_MAX]; /* of each level                                      */
    int64_t heads[UNET_LEVELS_MAX];    /* number of heads: SD1's "attention_head_dim" means that */
    uint32_t attends[UNET_LEVELS_MAX]; /* 1: CrossAttnDownBlock2D, 0: DownBlock2D              */
    uint32_t levels, layers;           /* layers: resnets per down block; an up block has one more */
    uint32_t depth;                    /* transformer blocks in each attention                  */
    uint32_t cos_first;
    double freq_shift;
    float eps;
} unet_config;

/* One evaluation: x [N,H,W,in], timestep f32 [N], context [N,T,context] -> [N,H,W,out]. */
kiln_t unet_record(const unet_config *c, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_denoise_inputs *in);
/* Calls fn for each place that hooks can name, in the order of evaluation. */
void unet_places(const unet_config *c, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg);

#endif
