/* lora_names.h - the modules of a network by every name that LoRA files have for them.
 *
 * A network's set names its tensors one way (diffusers' for UNets, transformers' for text encoders), whatever names its
 * file has. Files name modules by that way, or by a single-file checkpoint's ("input_blocks.1.1..."), or by older ones
 * still.
 */
#ifndef KILN_LORA_NAMES_H
#define KILN_LORA_NAMES_H

#include "lora_key.h"

#include "kiln/weights.h"

typedef struct {
    const char *alias, *module; /* alias with underscores; module: MODULE.weight is in the set */
} lora_name;

typedef struct {
    lora_name *name; /* sorted by alias */
    size_t n;
} lora_names;

/* In the call's scratch memory. KILN_ERR_NOMEM. */
kiln_status lora_names_make(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, lora_part part,
                            lora_names *out);
/* The module of that alias, or NULL. */
const char *lora_names_find(const lora_names *names, const char *alias);
/* `module` of a UNet in diffusers' names as single-file checkpoints call it; `layers` resnets a down block, `attends`
 * whether its up block has attentions. 0: it has no other name. */
int lora_ldm_name(const char *module, unsigned layers, int attends, char out[LORA_NAME_ROOM]);

#endif
