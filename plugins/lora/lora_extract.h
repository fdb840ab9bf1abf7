/* lora_extract.h - the tensors of a file of patches, made of sets of weights that are differences. */
#ifndef KILN_LORA_LORA_EXTRACT_H
#define KILN_LORA_LORA_EXTRACT_H

#include "kiln/plugin.h"
#include "kiln/weights.h"

typedef struct {
    const kiln_call *call;
    size_t rank;
    int whole;  /* matrices as they are, and not as products */
    int biases; /* what has one dimension too                */
    int cuts;   /* products are cut at a quantile             */
    kiln_weight_row *row;
    size_t n, capacity;
} lora_extract;

/* Adds the tensors of a denoiser's or an encoder's differences under the names that ComfyUI's LoRAs have for them. What
 * is 0 everywhere is left out. [run] */
kiln_status lora_extract_denoiser(lora_extract *x, kiln_weights *difference);
kiln_status lora_extract_encoder(lora_extract *x, const char *encoder, kiln_weights *difference);
void lora_extract_free(lora_extract *x);

#endif
