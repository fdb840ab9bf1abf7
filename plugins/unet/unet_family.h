/* unet_family.h - the denoisers of the Stable Diffusion family: found in a checkpoint, opened as a MODEL value. */
#ifndef KILN_UNET_FAMILY_H
#define KILN_UNET_FAMILY_H

#include "kiln/model.h"

extern const kiln_model_family unet_family;

#endif
