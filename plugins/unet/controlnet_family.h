/* controlnet_family.h - the ControlNets of the Stable Diffusion family: found in a file, opened as a CONTROL_NET. */
#ifndef KILN_UNET_CONTROLNET_FAMILY_H
#define KILN_UNET_CONTROLNET_FAMILY_H

#include "kiln/model.h"

extern const kiln_model_family controlnet_family;

#endif
