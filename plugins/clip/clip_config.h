/* clip_config.h - the sizes of a CLIP text encoder, from the shapes of its tensors and its config.json. */
#ifndef KILN_CLIP_CONFIG_H
#define KILN_CLIP_CONFIG_H

#include "clip_layout.h"
#include "text_model.h"

/* `view` has transformers' names. What depends on the encoder's company (plain_hidden) is left 0. */
kiln_status clip_config_read(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const kiln_weights *view,
                             const clip_part *part, text_config *out);

#endif
