/* t2i_adapter.h - T2I-Adapter (Mou et al. 2023) as a recorded program: features of a hint, added to a UNet's blocks. */
#ifndef KILN_CONTROL_T2I_ADAPTER_H
#define KILN_CONTROL_T2I_ADAPTER_H

#include "kiln/model.h"

enum { T2I_LEVELS_MAX = 8, T2I_RESNETS_MAX = 16, T2I_HINT_CHANNELS_MAX = 16 };

typedef enum {
    T2I_FULL = 0, /* SD1: levels as the UNet's                                  */
    T2I_FULL_XL,  /* SDXL: begins at half the UNet's size, and is halved once   */
    T2I_LIGHT     /* SD1: narrow resnets between two 1x1 convolutions a level   */
} t2i_kind;

/* What is not said here is in the weights: a level has a convolution in front (body.L.in_conv) where there is one, and
 * is halved by a convolution (body.L.down_opt.op) or by a mean. */
typedef struct {
    uint32_t kind, levels, resnets, unet_layers;             /* unet_layers: resnets a level of the UNet's way down */
    int64_t hint_channels, factor;                           /* factor: pixels along a side that become channels */
    int64_t channels[T2I_LEVELS_MAX], inner[T2I_LEVELS_MAX]; /* of a level's result; of its resnets */
    int64_t in_kernel[T2I_LEVELS_MAX];                       /* of its in_conv; 0: it has none      */
    int64_t out_kernel;                                      /* of a resnet's second convolution    */
    uint32_t down_conv;                                      /* 1: levels are halved by a convolution of 3x3 */
} t2i_config;

/* Input: hint [N,8H,8W,hint_channels] in 0..1. Names as in t2i_names.h. Results: a level each. */
void t2i_record(const t2i_config *c, const kiln_ops *ops, kiln_program *p, kiln_weights *w, kiln_t hint,
                const kiln_outputs *out);

#endif
