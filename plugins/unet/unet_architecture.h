/* unet_architecture.h - what people call a UNet of some configuration. */
#ifndef KILN_UNET_ARCHITECTURE_H
#define KILN_UNET_ARCHITECTURE_H

#include "unet_model.h"

enum { UNET_ARCHITECTURE_MAX = 160 };

/* "SD1.5", "SD2.1 (v)", "SDXL refiner", "SDXL base inpainting"; of no released sizes: "UNet like SDXL's, 32 to 64
 * channels". `prediction` is a kiln_prediction. */
void unet_architecture(const unet_config *c, uint32_t prediction, char out[UNET_ARCHITECTURE_MAX]);
/* "base" or "refiner": what entries of a CONDITIONING are bound to (kiln_model.name); NULL: neither. */
const char *unet_range_name(const unet_config *c);
/* 1: of a size that was released, with heads and numbers as released ones have them: a single file needs no
 * configuration. */
int unet_is_released(const unet_config *c);
/* 1: f16 is not wide enough for its attention, as SD2's. */
int unet_needs_range(const unet_config *c);

#endif
