/* vae_kind.h - whose autoencoder it is. SD1's, SD2's and SDXL's have tensors of the same names and shapes; what differs
 * is the scale of the latents, and that SDXL's activations pass what f16 holds. A config.json says it, or the model
 * that lies beside it in a single file; a lone file says nothing. */
#ifndef KILN_VAE_KIND_H
#define KILN_VAE_KIND_H

#include "kiln/config.h"
#include "vae_model.h"

typedef struct {
    double scale;        /* 0.18215 where nothing says it: pictures do not depend on it, since latents between nodes are
                            unscaled and the MODEL's own scale is what a sampler takes */
    uint32_t precisions; /* as kiln_autoencoder.precisions */
    char name[64];       /* "SDXL KL-f8"; "KL-f8, 4 channels" where it cannot be known */
} vae_kind;

/* `set` is the whole checkpoint, c its autoencoder's configuration (without a root: there is none). */
vae_kind vae_kind_find(config *c, const kiln_weights_api *w, const kiln_weights *set, const vae_config *v);

enum { VAE_BESIDE_NOTHING, VAE_BESIDE_SD, VAE_BESIDE_SDXL };
/* The model that a single file holds beside its autoencoder. */
int vae_beside(const kiln_weights_api *w, const kiln_weights *set);

#endif
