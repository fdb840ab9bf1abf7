/* sdxl.h - SDXL as a plugin that has kiln's public headers and nothing else: what its files share.
 *
 *   text.c      two text encoders in one CLIP, and what becomes of their features
 *   unet.c      the network, recorded
 *   denoiser.c  base and refiner as denoisers: their inputs, noise levels and latents
 *   nodes.c     prompts for either encoder, and a MODEL that hands over to another one at a noise level
 *   dump.c      writes tensors to files, for the test
 */
#ifndef SDXL_H
#define SDXL_H

#include "kiln/kit.h"
#include "kiln/model.h"
#include "kiln/standard_sampling.h"

/* Names and meanings as in diffusers' UNet2DConditionModel. */
enum { SDXL_LEVELS = 8, SDXL_NUMBERS = 6 };

typedef struct {
    int64_t channels[SDXL_LEVELS], heads[SDXL_LEVELS];
    uint32_t depth[SDXL_LEVELS]; /* transformer blocks of an attention; 0: the level has none */
    uint32_t levels, layers, middle_depth;
    int64_t latent, context, pooled, sinusoid, groups; /* sinusoid: of each number of the size embedding */
    const char *number[SDXL_NUMBERS];                  /* the inputs that are embedded so, in order      */
    uint32_t n_number;
} sdxl_unet;

/* x [N,H,W,latent] -> [N,H,W,latent], with the inputs "context", "pooled" and those of c->number. */
kiln_t sdxl_unet_record(const sdxl_unet *c, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                        const kiln_denoise_inputs *in);
/* The places where hooks and controls may act. */
void sdxl_unet_places(const sdxl_unet *c, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg);

extern const kiln_model_family sdxl_text_family, sdxl_base_family, sdxl_refiner_family;
extern const kiln_node sdxl_dump_node;

#endif
