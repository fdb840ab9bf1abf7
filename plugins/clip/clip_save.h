/* clip_save.h - the text encoders of a CLIP in a single file. */
#ifndef KILN_CLIP_SAVE_H
#define KILN_CLIP_SAVE_H

#include "clip_encoder.h"

/* In a checkpoint they lie where clip_layout.h looks for them: CLIP L under transformers' names, OpenCLIP's under its
 * own, with q, k and v as one tensor. Alone an encoder has transformers' names. */
kiln_status clip_save(const kiln_clip *clip, const kiln_saving *s);

#endif
