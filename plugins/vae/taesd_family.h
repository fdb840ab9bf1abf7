/* taesd_family.h - TAESD and its relatives: found in a checkpoint, opened as a VAE value. */
#ifndef KILN_TAESD_FAMILY_H
#define KILN_TAESD_FAMILY_H

#include "kiln/model.h"

extern const kiln_model_family taesd_family;

#endif
