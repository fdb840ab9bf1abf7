/* wan.h - the parts of this plugin: Wan 2.1 (Wan Team, Alibaba 2025), from text or from a picture to a video.
 *
 * wan_transformer.c  the denoiser: latents [N,T,H,W,C], places on three axes, a second attention to a picture's tokens
 *
 * wan_names.c        diffusers' names -> those of the released single files, which is what is recorded
 *
 * wan_vae.c          the autoencoder that is causal in time: at once, or in parts over states
 *
 * wan_vae_family.c   how it is found and opened
 *
 * umt5.c             the text encoder, with its tokenizer
 *
 * wan_nodes.c        empty videos, what an image-to-video model is given, a VAE with parts of another length; and the
 * plugin's table
 */
#ifndef EXAMPLE_WAN_H
#define EXAMPLE_WAN_H

#include "kiln/checkpoint.h"
#include "kiln/kit.h"
#include "kiln/model.h"

#include <stdio.h>

enum {
    WAN_CHANNELS = 16, /* of latents                       */
    WAN_FACTOR = 8,    /* pixels a cell                    */
    WAN_TIME = 4,      /* frames a cell, after the first   */
    WAN_PATCH = 2,     /* cells that the transformer takes together */
    WAN_TEXT = 512     /* tokens of text, rows of zeros behind the prompt's own */
};

/* "blocks.3.ffn" made of a pattern: text is an array. */
#define NAME(text, ...) (snprintf((text), sizeof(text), __VA_ARGS__), (text))
#define DIMS(...)                                                                                                      \
    (uint32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }

extern const kiln_latent_format wan_latent;
extern const kiln_model_family wan_denoiser_family, wan_autoencoder_family, umt5_family;

/* ---- names ---- */

/* A set under the released single file's names, whichever it has below `prefix`; a new reference, or NULL with a
 * message. */
kiln_weights *wan_transformer_names(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const char *prefix,
                                    int diffusers);
kiln_weights *wan_vae_names(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, int diffusers);

kiln_status wan_save_transformer(const kiln_model *, int64_t heads, const kiln_saving *);
kiln_status wan_save_vae(const kiln_autoencoder *, kiln_weights *, const kiln_saving *);

/* ---- the autoencoder ---- */

enum { WAN_LAYERS = 64 };

/* A layer of a side, as the file's names say. */
typedef struct {
    int resample; /* 1: halves or doubles height and width; 0: a residual block */
    int in_time;  /* 1: frames too                                             */
    int shortcut; /* 1: a residual block that changes the width                */
    int64_t out;  /* width behind it                                           */
} wan_vae_layer;

typedef struct {
    kiln_autoencoder autoencoder;
    wan_vae_layer down[WAN_LAYERS], up[WAN_LAYERS];
    int n_down, n_up;
    int64_t first_down, first_up; /* widths behind encoder.conv1 and decoder.conv1 */
    char family[160];
} wan_vae;

/* The table's functions: a whole video, and a part of one. */
kiln_t wan_record_decode(const kiln_autoencoder *, const kiln_ops *, kiln_program *, kiln_weights *, kiln_t latent);
void wan_record_encode(const kiln_autoencoder *, const kiln_ops *, kiln_program *, kiln_weights *, kiln_t image,
                       kiln_latent_distribution *out);
kiln_t wan_record_decode_part(const kiln_autoencoder *, const kiln_ops *, kiln_program *, kiln_weights *, kiln_t latent,
                              uint32_t part);
void wan_record_encode_part(const kiln_autoencoder *, const kiln_ops *, kiln_program *, kiln_weights *, kiln_t image,
                            uint32_t part, kiln_latent_distribution *out);

#endif
