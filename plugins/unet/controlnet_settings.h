/* controlnet_settings.h - the configuration of a ControlNet: what its tensors show, and config.json. */
#ifndef KILN_UNET_CONTROLNET_SETTINGS_H
#define KILN_UNET_CONTROLNET_SETTINGS_H

#include "controlnet_model.h"
#include "unet_settings.h"

/* As unet_settings_read(); from->encoder is 1. */
kiln_status controlnet_settings_read(const kiln_host *host, kiln_ctx *ctx, const unet_source *from,
                                     controlnet_config *out);

#endif
