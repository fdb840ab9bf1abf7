/* lora_file.h - applies a file of LoRA or other patches to a denoiser's and its text encoders' weights, or to a
 * ControlNet's. */
#ifndef KILN_LORA_FILE_H
#define KILN_LORA_FILE_H

#include "kiln/weights.h"

enum { LORA_TEXTS_MAX = 3 };

typedef struct {
    const char *path;
    kiln_weights *unet; /* NULL: there is none */
    int control;        /* 1: these are a ControlNet's */
    struct {
        const char *name; /* in its CLIP: "l", "g", "t5xxl" */
        kiln_weights *set;
    } text[LORA_TEXTS_MAX]; /* in the CLIP's order; set NULL: there is none. Without any, their tensors are ignored */
    double unet_strength, text_strength;
    kiln_weights *file; /* of that path, opened; NULL: it is opened here                                 */
    int may_miss;       /* 1: it is no fault when all of it is for a network that is not given            */
    int quiet;          /* 1: tensors without a module are not logged; they were before                   */
} lora_request;

/* Makes patched sets (*unet, text[]), which the caller unrefs; a set with no patches is returned as it was, with a new
 * reference. Tensors without a module are logged. Fails when no tensor has one, when half of a pair is missing, and for
 * kinds of patches that kiln does not support. [run] */
kiln_status lora_apply(const kiln_host *host, kiln_ctx *ctx, const lora_request *r, kiln_weights **unet,
                       kiln_weights *text[LORA_TEXTS_MAX]);

#endif
