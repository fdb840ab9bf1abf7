/* lora_file.h - applies a LoRA file to a denoiser's and a text encoder's weights. */
#ifndef KILN_LORA_FILE_H
#define KILN_LORA_FILE_H

#include "kiln/weights.h"

typedef struct {
    const char *path;
    kiln_weights *unet, *text; /* text NULL: there is none, and its tensors are ignored */
    double unet_strength, text_strength;
} lora_request;

/* Makes patched sets (*unet, *text), which the caller unrefs; a set with no patches is returned as it was, with a new
 * reference. Tensors without a module are logged. Fails when no tensor has one, when half of a pair is missing, and for
 * kinds of patches that kiln does not support. [run] */
kiln_status lora_apply(const kiln_host *host, kiln_ctx *ctx, const lora_request *r, kiln_weights **unet,
                       kiln_weights **text);

#endif
