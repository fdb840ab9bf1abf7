/* vision_encode.h - pictures through a vision encoder of any family: what CLIPVisionEncode gives, and what the nodes of
 * IP-Adapters begin with.
 */
#ifndef KILN_VISION_ENCODE_H
#define KILN_VISION_ENCODE_H

#include "kiln/plugin.h"

/* The type CLIP_VISION_OUTPUT. Registers it; [open]. */
kiln_status vision_output_type(const kiln_host *host);

/* *out = a CLIP_VISION_OUTPUT of the pictures `image`, an IMAGE, one after the other. crop: the middle square of each
 * counts, else all of it. [run] */
kiln_status vision_encode(const kiln_call *c, const kiln_value *clip_vision, const kiln_value *image, int crop,
                          kiln_value **out);

/* *out = a black IMAGE of the size that the encoder wants. [run] */
kiln_status vision_black(const kiln_call *c, const kiln_value *clip_vision, kiln_value **out);

#endif
