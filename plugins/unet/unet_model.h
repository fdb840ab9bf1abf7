/* unet_model.h - the denoiser of the Stable Diffusion family as a recorded program, and its configuration. */
#ifndef KILN_UNET_MODEL_H
#define KILN_UNET_MODEL_H

#include "kiln/model.h"

enum { UNET_LEVELS_MAX = 8, UNET_LAYERS_MAX = 7, UNET_NUMBERS_MAX = 6 };

/* What is embedded beside the timestep. */
typedef enum {
    UNET_ALONE = 0, /* nothing: SD1, SD2                                                          */
    UNET_SIZES,     /* a pooled prompt and numbers such as the height: SDXL ("text_time")         */
    UNET_VECTOR,    /* a vector, such as a picture's embedding: unCLIP ("projection")             */
    UNET_CLASS      /* a row of a table: the noise level of the x4 upscaler ("num_class_embeds")  */
} unet_beside;

/* What x gets as further channels. */
typedef enum {
    UNET_PLAIN = 0,
    UNET_INPAINT, /* a mask, and a latent of as many channels as x */
    UNET_EDIT,    /* a latent of as many channels as x             */
    UNET_UPSCALE  /* a picture of three channels                   */
} unet_concat;

/* Names and meanings as in diffusers' UNet2DConditionModel. All arrays go by level but `up`, which goes by up block:
 * up[0] belongs to the last level. */
typedef struct {
    int64_t in_channels, out_channels, context, groups;
    int64_t channels[UNET_LEVELS_MAX];
    int64_t heads[UNET_LEVELS_MAX];   /* number of heads: SD1's "attention_head_dim" means that     */
    uint32_t levels;                  /* of sizes                                                   */
    uint32_t encoder;                 /* 1: down blocks and middle alone, as a ControlNet has       */
    uint32_t layers[UNET_LEVELS_MAX]; /* resnets of the down block; the up block has one more       */
    /* Transformer blocks of the attention behind each resnet; 0: there is none. */
    uint32_t down[UNET_LEVELS_MAX][UNET_LAYERS_MAX + 1], up[UNET_LEVELS_MAX][UNET_LAYERS_MAX + 1];
    uint32_t middle;                        /* resnets in the middle: 2 around an attention, 1, or 0  */
    uint32_t middle_depth;                  /* that attention's transformer blocks                    */
    uint32_t context_only[UNET_LEVELS_MAX]; /* 1: the first attention of a block sees the context too */
    uint32_t linear;                        /* 1: an attention's projections are [C,C], 0: [C,C,1,1]  */
    uint32_t concat;                        /* unet_concat                                            */
    uint32_t beside;                        /* unet_beside                                            */
    int64_t embedded;                       /* width of what is embedded beside; of a table, its rows */
    int64_t sinusoid;                       /* UNET_SIZES: numbers that each of them becomes          */
    const char *number[UNET_NUMBERS_MAX];   /* UNET_SIZES: the inputs they are, in order              */
    uint32_t n_number;
    int64_t guidance; /* width of an embedded guidance scale (LCM); 0: there is none */
    uint32_t cos_first;
    double freq_shift;
    float eps;
} unet_config;

/* One evaluation: x [N,H,W,out], timestep f32 [N], and the inputs that unet_inputs.h lists -> [N,H,W,out]. */
kiln_t unet_record(const unet_config *c, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_denoise_inputs *in);
/* Calls fn for each place that hooks can name, in the order of evaluation. "middle" is where the middle ends, whatever
 * it is made of. */
void unet_places(const unet_config *c, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg);

#endif
