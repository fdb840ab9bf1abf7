/* lora_file.h - a LoRA file put on a denoiser's and a text encoder's weights. */
#ifndef KILN_LORA_FILE_H
#define KILN_LORA_FILE_H

#include "kiln/weights.h"

typedef struct {
    const char *path;
    kiln_weights *unet, *text; /* text NULL: there is none, and what is for one is left alone */
    double unet_strength, text_strength;
} lora_request;

/* Gives patched sets, references of the caller's; the same set where nothing is added. What fits nothing is logged.
 * Fails when nothing fits at all, when half of a pair is missing, and for kinds of patches that kiln does not compute.
 * [run] */
kiln_status lora_apply(const kiln_host *host, kiln_ctx *ctx, const lora_request *r, kiln_weights **unet,
                       kiln_weights **text);

#endif
