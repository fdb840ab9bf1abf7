/* clip_layout.h - which CLIP text encoders a checkpoint holds, and under which names. Decided by tensors and
 * configuration, never by what a file is called.
 *
 *   in a diffusers folder          in a single file                            is
 *   text_encoder, quick_gelu       cond_stage_model.transformer                CLIP L (SD1)
 *   text_encoder, gelu             cond_stage_model.model                      OpenCLIP H (SD2)
 *   text_encoder, text_encoder_2   conditioner.embedders.0.transformer, and    CLIP L and OpenCLIP G (SDXL)
 *                                  conditioner.embedders.1.model
 *   text_encoder_2                 conditioner.embedders.0.model               OpenCLIP G (SDXL's refiner)
 *
 * An encoder by itself has no prefix. Names are transformers' or open_clip's.
 */
#ifndef KILN_CLIP_LAYOUT_H
#define KILN_CLIP_LAYOUT_H

#include "kiln/config.h"
#include "kiln/weights.h"

/* What kind of encoder it is; "l", "h" and "g" in a CLIP value. */
typedef enum { CLIP_L, CLIP_H, CLIP_G } clip_kind;

/* Whose names the tensors have. BARE: transformers', without "text_model.". */
typedef enum { NAMES_TRANSFORMERS, NAMES_BARE, NAMES_OPEN_CLIP } clip_names;

typedef struct {
    const char *prefix;    /* of the encoder's tensors: "text_encoder_2/"                    */
    const char *config;    /* its config.json, which a single file seldom has, in its metadata */
    const char *tokenizer; /* its tokenizer's folder, with a slash; likewise                  */
    clip_kind kind;
    clip_names names;
} clip_part;

enum { CLIP_PARTS = 2 };

/* 1: the checkpoint has a text encoder of this kind, whole or not. */
int clip_layout_any(const kiln_weights_api *w, const kiln_weights *set);

/* The encoders, L before G. Fails with a sentence when there is none, or one of SDXL's two is missing. */
kiln_status clip_layout_find(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, clip_part part[CLIP_PARTS],
                             size_t *n);

/* The encoder's tensors under transformers' names; a reference of the caller's. NULL with a message. */
kiln_weights *clip_layout_view(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const clip_part *part);

/* 1: its config.json, if there is one, is a text of the file's metadata. */
int clip_layout_in_metadata(const clip_part *part);

/* config.json of a part, empty where there is none. Of a whole CLIP's it is what text_config says. Close it with
 * config_close. */
config clip_layout_config(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const clip_part *part);

/* The layers that the view of an encoder has, counted. */
int32_t clip_layout_layers(const kiln_weights_api *w, const kiln_weights *view);

#endif
