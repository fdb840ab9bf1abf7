/* unet_blocks.h - the blocks of the UNet; the tests also record each one alone. `name` is diffusers' name of the block,
 * relative to the view's root. */
#ifndef KILN_UNET_BLOCKS_H
#define KILN_UNET_BLOCKS_H

#include "unet_model.h"

/* What every block needs while an evaluation is recorded. */
typedef struct {
    const unet_config *config;
    const kiln_ops *ops;
    kiln_program *p;
    kiln_weights *w, *base; /* base: has what w lacks; NULL: w has all */
    const kiln_denoise_inputs *in;
    kiln_t temb; /* silu of the time embedding [N,temb], an input of every resnet */
    kiln_t context;
    char place[48];  /* the current block's name for hooks, such as "input.4" */
    int64_t grid[2]; /* rows and columns of cells that an attention's tokens are  */
} unet_recorder;

/* What an attention is made of. */
typedef struct {
    int64_t heads;
    uint32_t depth;        /* transformer blocks                                */
    uint32_t context_only; /* 1: attn1 attends to the context, not to the cells */
} unet_transformer;

kiln_t unet_linear(const unet_recorder *r, const char *name, kiln_t x, int64_t out, int bias);
kiln_t unet_conv(const unet_recorder *r, const char *name, kiln_t x, int64_t out, int32_t kernel, int32_t stride);
kiln_t unet_layer_norm(const unet_recorder *r, const char *name, kiln_t x);
kiln_t unet_group_norm(const unet_recorder *r, const char *name, kiln_t x, float eps);
/* x [N,H,W,in] -> [N,H,W,out] */
kiln_t unet_resnet(const unet_recorder *r, const char *name, kiln_t x, int64_t out);
/* x [N,H,W,C] -> the same shape: norm, proj_in, transformer blocks, proj_out, + x */
kiln_t unet_attention(const unet_recorder *r, const char *name, kiln_t x, const unet_transformer *of);
/* tokens x [N,T,C] -> [N,T,C] */
kiln_t unet_transformer_block(const unet_recorder *r, const char *name, kiln_t x, const unet_transformer *of);
/* To h x w by repeating, then a 3x3 convolution. */
kiln_t unet_upsample(const unet_recorder *r, const char *name, kiln_t x, int64_t h, int64_t w);

/* The state of an evaluation between levels. */
enum { UNET_SKIPS_MAX = 64 };
typedef struct {
    unet_recorder r;
    kiln_t skip[UNET_SKIPS_MAX];
    uint32_t n_skip;
    kiln_t entered;         /* what went into the current block */
    uint32_t input, output; /* indices of the next blocks, as ldm numbers them */
} unet_walk;

/* Block input.0, a skip too: conv_in of x [N,H,W,in_channels], plus `more` [N,H,W,channels[0]] ({0}: nothing). */
kiln_t unet_first(unet_walk *s, kiln_t x, kiln_t more);
/* A level on the way down: resnets, attentions and downsample; each result is also a skip connection. */
kiln_t unet_down(unet_walk *s, kiln_t x, uint32_t level);
kiln_t unet_middle(unet_walk *s, kiln_t x);
/* Level levels-1-up_block on the way up; takes the last skips. */
kiln_t unet_up(unet_walk *s, kiln_t x, uint32_t up_block);

/* 1: a hook leaves the current block out. x has to have the channels that come out of it. */
int unet_left_out(const unet_recorder *r, kiln_t x, int64_t channels);
/* x at "<place>.<what>", or at the place itself when `what` is "": controls and hooks act (kiln/hook.h). */
kiln_t unet_place(const unet_recorder *r, const char *what, kiln_t x, const kiln_place_info *more);

#endif
