/* unet_ldm.h - what a tensor of diffusers' names is called in a single file; ldm_names.h goes the other way. */
#ifndef KILN_UNET_LDM_H
#define KILN_UNET_LDM_H

#include "unet_model.h"

enum { UNET_LDM_NAME = 200 };

/* "down_blocks.1.attentions.0.norm.weight" -> "input_blocks.4.1.norm.weight". A name that no layout knows stays. 0: it
 * is too long. */
int unet_ldm_name(const unet_config *c, const char *name, char out[UNET_LDM_NAME]);

#endif
