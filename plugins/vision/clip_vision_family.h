/* clip_vision_family.h - CLIP's vision encoders: L/14, H/14, bigG/14 and any other size, as transformers' model with or
 * without a projection (a folder, a file, image_encoder/ of a diffusers folder), and as OpenCLIP's `visual.*` or the
 * same inside a checkpoint (unCLIP's embedder.model.visual.*).
 */
#ifndef KILN_VISION_CLIP_VISION_FAMILY_H
#define KILN_VISION_CLIP_VISION_FAMILY_H

#include "kiln/model.h"

extern const kiln_model_family clip_vision_family;

#endif
