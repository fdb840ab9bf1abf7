/* style_adapter.h - T2I-Adapter's style adapter (Mou et al. 2023): a picture's CLIP features become tokens that are put
 * behind the prompt's. Its value is a STYLE_MODEL, a kind of this plugin's own.
 */
#ifndef KILN_VISION_STYLE_ADAPTER_H
#define KILN_VISION_STYLE_ADAPTER_H

#include "kiln/model.h"

#define STYLE_KIND "style"
#define STYLE_TYPE "STYLE_MODEL"
#define STYLE_FEATURES "last_hidden_state" /* its one input, of a CLIP_VISION_OUTPUT; its output is "tokens" */

extern const kiln_model_family style_adapter_family;

/* Of a STYLE_MODEL: how wide its features and its tokens are. */
int64_t style_features(const kiln_net *net);
int64_t style_width(const kiln_net *net);

#endif
