/* vae_save.h - an autoencoder in a single file, under ldm's names. */
#ifndef KILN_VAE_SAVE_H
#define KILN_VAE_SAVE_H

#include "kiln/autoencoder.h"
#include "vae_model.h"

/* `config`: where the set it was opened from has its config.json; NULL: nowhere. It goes along where readers would take
 * another number of groups. */
kiln_status vae_save(const vae_config *v, const char *config, kiln_weights *weights, const kiln_saving *s);

#endif
