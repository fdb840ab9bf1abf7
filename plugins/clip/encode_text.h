/* encode_text.h - "kiln.text/1": a CLIP value and prompts -> CONDITIONING. */
#ifndef KILN_CLIP_ENCODE_TEXT_H
#define KILN_CLIP_ENCODE_TEXT_H

#include "kiln/model.h"

extern const kiln_text_api text_api;

#endif
