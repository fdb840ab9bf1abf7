/* controlnet_names.h - whose names a ControlNet's tensors have, as rules for a view under diffusers'. */
#ifndef KILN_UNET_CONTROLNET_NAMES_H
#define KILN_UNET_CONTROLNET_NAMES_H

#include "ldm_names.h"

/* Appends the rules for what stands below `prefix`; `cldm` 1: under the names of the ControlNet source. */
void controlnet_rules_make(const kiln_weights_api *w, const kiln_weights *set, const char *prefix, int cldm,
                           ldm_rules *out);

#endif
