/* clip_vision_names.h - a vision encoder's tensors under transformers' names. */
#ifndef KILN_VISION_CLIP_VISION_NAMES_H
#define KILN_VISION_CLIP_VISION_NAMES_H

#include "kiln/weights.h"

typedef enum {
    CLIP_VISION_TRANSFORMERS,
    CLIP_VISION_BARE, /* transformers' without its "vision_model." */
    CLIP_VISION_OPEN_CLIP
} clip_vision_names;

/* Of the set's tensors below `prefix` those of the encoder, or NULL with a message. */
kiln_weights *clip_vision_view(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set, const char *prefix,
                               clip_vision_names names);

#endif
