/* vae_family.h - the autoencoder of SD1.x: found in a checkpoint, opened as a VAE value. */
#ifndef KILN_VAE_FAMILY_H
#define KILN_VAE_FAMILY_H

#include "kiln/model.h"

extern const kiln_model_family vae_family;

#endif
