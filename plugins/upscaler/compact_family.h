/* compact_family.h - SRVGG, "compact": Real-ESRGAN's small networks (Wang et al. 2021). */
#ifndef KILN_PLUGINS_UPSCALER_COMPACT_FAMILY_H
#define KILN_PLUGINS_UPSCALER_COMPACT_FAMILY_H

#include "kiln/model.h"

extern const kiln_model_family compact_family;

#endif
