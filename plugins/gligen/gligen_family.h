/* gligen_family.h - files of GLIGEN, a kind of this plugin's own: their value is a GLIGEN, whose network is the way
 * from rows of boxes to grounding tokens and whose weights hold the gated layers as well. */
#ifndef KILN_GLIGEN_FAMILY_H
#define KILN_GLIGEN_FAMILY_H

#include "gligen_model.h"
#include "kiln/model.h"

#define GLIGEN_KIND "gligen"
#define GLIGEN_TYPE "GLIGEN"

extern const kiln_model_family gligen_family;

/* Of a GLIGEN of this family. */
const gligen_config *gligen_config_of(const kiln_net *net);

#endif
