/* clip_family.h - the text encoder of SD1.x: found in a checkpoint, opened as a CLIP value. */
#ifndef KILN_CLIP_FAMILY_H
#define KILN_CLIP_FAMILY_H

#include "kiln/model.h"

extern const kiln_model_family clip_family;

/* Sets the folder of the files that this plugin ships (kiln_host.data_folder); keeps the pointer. [open] */
void clip_family_data(const char *folder);

#endif
