/* unet_save.h - a UNet in a single file: names, markers, and what its metadata says. */
#ifndef KILN_UNET_SAVE_H
#define KILN_UNET_SAVE_H

#include "unet_settings.h"

/* Writes what the readers of single files (unet_settings.h, unet_noise.h, unet_latents.h) make the same model of.
 * `config`: where the set the MODEL was opened from has its config.json; NULL: nowhere. Fails with a sentence where a
 * single file has no place for something. */
kiln_status unet_save(const unet_config *c, const char *config, const kiln_model *m, const kiln_saving *s);

#endif
