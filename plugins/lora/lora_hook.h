/* lora_hook.h - a file of LoRA or other patches, and a checkpoint's difference from a model, as hooks of a conditioning
 * (kiln/entry_hook.h). */
#ifndef KILN_LORA_LORA_HOOK_H
#define KILN_LORA_LORA_HOOK_H

#include "kiln/entry_hook.h"

/* Times the keyframe's strength. */
typedef struct {
    double model, clip;
} hook_strengths;

/* A hook of the file; NULL with a message. [run] */
kiln_value *lora_hook_new(const kiln_call *c, const char *path, const hook_strengths *s);
/* A hook that adds strength times what these have and the hooked ones have not, tensor by tensor. NULL for one of
 * which there is nothing to add. NULL with a message. */
kiln_value *checkpoint_hook_new(const kiln_call *c, kiln_value *model, kiln_value *clip, const hook_strengths *s);

#endif
