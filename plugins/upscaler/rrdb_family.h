/* rrdb_family.h - ESRGAN, ESRGAN+, BSRGAN, RealSR and Real-ESRGAN: residual-in-residual dense blocks (Wang et al.
 * 2018).
 */
#ifndef KILN_PLUGINS_UPSCALER_RRDB_FAMILY_H
#define KILN_PLUGINS_UPSCALER_RRDB_FAMILY_H

#include "kiln/model.h"

extern const kiln_model_family rrdb_family;

#endif
