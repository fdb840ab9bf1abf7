/* span_family.h - SPAN, "swift parameter-free attention network" (Wan et al. 2024). */
#ifndef KILN_PLUGINS_UPSCALER_SPAN_FAMILY_H
#define KILN_PLUGINS_UPSCALER_SPAN_FAMILY_H

#include "kiln/model.h"

extern const kiln_model_family span_family;

#endif
