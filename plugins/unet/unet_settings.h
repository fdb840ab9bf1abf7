/* unet_settings.h - the whole configuration of a UNet: what its tensors show, config.json, and what was released. */
#ifndef KILN_UNET_SETTINGS_H
#define KILN_UNET_SETTINGS_H

#include "unet_model.h"

/* The set, and the same under diffusers' names. `path`: config.json, which may be absent; NULL: a single file. */
typedef struct {
    const kiln_weights *set, *view;
    const char *path;
    uint32_t encoder; /* as unet_config.encoder */
} unet_source;

/* Sizes come from the tensors, and a config.json that says otherwise is refused. Without one the rest is what released
 * models have: 8 heads in SD1, heads of 64 in all others. Failures are recorded on ctx. */
kiln_status unet_settings_read(const kiln_host *host, kiln_ctx *ctx, const unet_source *from, unet_config *out);

/* Heads as released models have them, whose files do not say. */
void unet_guess_heads(unet_config *u);

#endif
