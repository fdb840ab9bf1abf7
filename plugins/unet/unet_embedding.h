/* unet_embedding.h - what every resnet is told: the timestep, and what some networks embed beside it. */
#ifndef KILN_UNET_EMBEDDING_H
#define KILN_UNET_EMBEDDING_H

#include "unet_blocks.h"

/* linear, silu, linear: NAME.linear_1 and NAME.linear_2, x [N,any] -> [N,4*channels[0]]. */
kiln_t unet_mlp(const unet_recorder *r, const char *name, kiln_t x);
/* linear, silu, linear of the sinusoid [N,channels[0]] -> [N,4*channels[0]]. */
kiln_t unet_time_mlp(const unet_recorder *r, kiln_t sinusoid);
/* [N,pooled + numbers x sinusoid]: the pooled prompt, then the sinusoid of each number. UNET_SIZES only. */
kiln_t unet_sizes(const unet_recorder *r);
/* The whole embedding before its last silu: timestep f32 [N] and the inputs -> [N,4*channels[0]]. */
kiln_t unet_embedding(const unet_recorder *r, kiln_t timestep);

#endif
