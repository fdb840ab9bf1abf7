/* lora_family.h - files of LoRA and other patches as a family of their own ("patch"), so that `kiln inspect` says what
 * such a file is: its kinds, ranks and alphas, the networks it is for, and the model it was made for. */
#ifndef KILN_LORA_FAMILY_H
#define KILN_LORA_FAMILY_H

#include "kiln/model.h"

extern const kiln_model_family lora_family;

#endif
