/* t2i_family.h - T2I-Adapters: found in a file, opened as a CONTROL_NET. */
#ifndef KILN_CONTROL_T2I_FAMILY_H
#define KILN_CONTROL_T2I_FAMILY_H

#include "kiln/model.h"

extern const kiln_model_family t2i_family;

#endif
