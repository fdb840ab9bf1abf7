/* svd.h - the parts of this plugin, Stable Video Diffusion (Blattmann et al. 2023) from pictures to frames:
 *
 *   blocks.c       what its network and its decoder are made of: resnets and transformers within a frame and across
 * frames unet.c         the denoiser's network       autoencoder.c  the VAE, whose decoder sees all frames model.c the
 * denoiser: what it is opened from, how it counts noise, what it takes names.c        diffusers' names -> those of the
 * released single files, which the others use guidance.c     guidance that grows from frame to frame nodes.c loader,
 * conditioning, frames at a time
 *
 * Frames are the pictures of a batch: x is [videos*frames,H,W,C]. What looks across frames sees it as
 * [videos,frames,...].
 */
#ifndef EXAMPLE_SVD_H
#define EXAMPLE_SVD_H

#include "kiln/checkpoint.h"
#include "kiln/kit.h"
#include "kiln/model.h"

#include <stdio.h>

enum { SVD_NAME = 160, SVD_LEVELS = 8, SVD_GROUPS = 32 /* of group norms, where nothing else is said */ };

/* "blocks.3.proj" made of a pattern: text is an array; what does not fit is cut off, and then missed by name. */
#define NAME(text, ...) svd_name((text), sizeof(text), __VA_ARGS__)

/* ---- blocks.c ---- */

const char *svd_name(char *text, size_t size, const char *pattern, ...) __attribute__((format(printf, 3, 4)));

typedef struct {
    const kiln_ops *o;
    kiln_program *p;
    kiln_weights *w;
    const kiln_weights_api *find;
    int64_t videos, frames;
    int32_t groups;               /* of group norms */
    const kiln_recording *hooked; /* of a denoiser: attentions are places; NULL: there are none */
} svd_walk;

/* A time stack's mix: sigmoid(mix_factor) is the share of what was computed within a frame, or across frames. */
typedef enum { SVD_SHARE_OF_FRAME, SVD_SHARE_OF_TIME } svd_mix;

/* Dimension i of a weight; 0: there is none. */
int64_t svd_size(const kiln_weights_api *w, const kiln_weights *set, uint32_t i, const char *name, ...)
    __attribute__((format(printf, 4, 5)));
int64_t svd_dim(const svd_walk *s, kiln_t x, uint32_t i);
kiln_t svd_linear(const svd_walk *s, kiln_t x, const char *name, const char *part, int64_t out);
kiln_t svd_conv(const svd_walk *s, kiln_t x, const char *name, int64_t out, const kiln_conv2d *how);
kiln_t svd_group_norm(const svd_walk *s, kiln_t x, const char *name, float eps);
/* x [N,H,W,I] -> [N,H,W,O], as many as the weights have; in a UNet's names. */
kiln_t svd_unet_resnet(const svd_walk *s, kiln_t x, const char *block, kiln_t embedding, float eps);
kiln_t svd_vae_resnet(const svd_walk *s, kiln_t x, const char *block, int in_time);
/* x [N,H,W,C]; context [N,T,D] of each frame. place: what its attentions are called by hooks. */
kiln_t svd_transformer(const svd_walk *s, kiln_t x, kiln_t context, int64_t heads, const char *block,
                       const char *place);

/* ---- the others ---- */

/* What the denoiser is, beside its weights. */
typedef struct {
    int64_t heads[SVD_LEVELS]; /* by level; 0: channels / 64 */
    int32_t groups;
    float outer_eps; /* of resnets on the way up, and on the way down before a transformer: diffusers has 1e-6 there */
} svd_network;

kiln_t svd_record_unet(const svd_network *n, svd_walk *s, const kiln_denoise_inputs *in);
void svd_unet_places(const kiln_weights_api *w, const kiln_weights *set, void (*fn)(void *, const char *, uint32_t),
                     void *arg);

enum { SVD_RULES = 400 };
typedef struct {
    kiln_weight_rule rule[SVD_RULES];
    char text[SVD_RULES][2][SVD_NAME];
    size_t n;
} svd_rules;

/* The view of a network under the released names; diffusers 1: `prefix` has diffusers'. NULL with a message. */
kiln_weights *svd_view(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const char *prefix, int diffusers);
kiln_weights *svd_vae_view(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const char *prefix, int diffusers);

extern const kiln_model_family svd_denoiser_family, svd_autoencoder_family;
extern const kiln_node svd_guidance_node, svd_loader_node, svd_conditioning_node, svd_entry_node, svd_augment_node,
    svd_chunks_node;

#endif
