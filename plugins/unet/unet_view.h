/* unet_view.h - a set's network under diffusers' names. */
#ifndef KILN_UNET_VIEW_H
#define KILN_UNET_VIEW_H

#include "ldm_names.h"

/* The view by these rules, which are freed in any case. Attentions' projections are [C,C] or [C,C,1,1], which is the
 * same: where a file has both, all are seen as [C,C]. NULL with a message, or without memory. */
kiln_weights *unet_view(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set, ldm_rules *rules);

#endif
