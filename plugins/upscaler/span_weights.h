/* span_weights.h - SPAN is trained with more layers than it has: three convolutions in a row (1x1, 3x3, 1x1) and one
 * 1x1 beside them. Together they are one 3x3 convolution. Files hold it too (eval_conv), as it was when it was last
 * looked at; what counts are the layers that were trained.
 */
#ifndef KILN_PLUGINS_UPSCALER_SPAN_WEIGHTS_H
#define KILN_PLUGINS_UPSCALER_SPAN_WEIGHTS_H

#include "kiln/weights.h"

/* The set with each X.eval_conv made of X.sk and X.conv.0 to 2, where these are there. NULL with a message. */
kiln_weights *span_folded(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set);

#endif
