/* clip_family.h - the text encoders of Stable Diffusion: found in a checkpoint, opened as a CLIP value. */
#ifndef KILN_CLIP_FAMILY_H
#define KILN_CLIP_FAMILY_H

#include "kiln/model.h"

extern const kiln_model_family clip_family;

#endif
