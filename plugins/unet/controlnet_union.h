/* controlnet_union.h - what a Union ControlNet has more: it is told which kind of hint it gets. */
#ifndef KILN_UNET_CONTROLNET_UNION_H
#define KILN_UNET_CONTROLNET_UNION_H

#include "controlnet_model.h"
#include "unet_blocks.h"

enum { CONTROLNET_CHANNELS_MAX = 16, CONTROLNET_TYPES_MAX = 64 };

/* What is added to the time embedding: [N,4*channels[0]]; type {0}: nobody has said it. */
kiln_t controlnet_embed_type(const unet_recorder *r, const controlnet_config *c, kiln_t type);
/* The embedded hint [N,H,W,C] with what its mean and its kind add to every cell. */
kiln_t controlnet_fuse_type(const unet_recorder *r, const controlnet_config *c, kiln_t hint, kiln_t type);
/* x [N,H,W,C] -> [N,C]: the mean over the cells. */
kiln_t controlnet_mean(const unet_recorder *r, kiln_t x);

#endif
