/* upscale_relatives.h - upscalers that are known by name and not computed, so that a file says what it is. */
#ifndef KILN_PLUGINS_UPSCALER_UPSCALE_RELATIVES_H
#define KILN_PLUGINS_UPSCALER_UPSCALE_RELATIVES_H

#include "kiln/model.h"

extern const kiln_model_family upscale_relatives;

#endif
