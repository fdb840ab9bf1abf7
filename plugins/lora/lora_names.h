/* lora_names.h - finds a network's modules by the names that LoRA files use.
 *
 * A network's set has canonical names (diffusers' for UNets, transformers' for text encoders), whatever names its file
 * has. LoRA files use those, the names of single-file checkpoints ("input_blocks.1.1..."), or older ones.
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

/* Makes the table in the call's scratch memory. KILN_ERR_NOMEM. */
kiln_status lora_names_make(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, lora_part part,
                            lora_names *out);
/* The module of that alias, or NULL. */
const char *lora_names_find(const lora_names *names, const char *alias);
/* Translates a UNet's module from diffusers' name to the one in single-file checkpoints. `layers`: resnets per down
 * block; `attends`: its up block has attentions. 0: it has no such name. */
int lora_ldm_name(const char *module, unsigned layers, int attends, char out[LORA_NAME_CAPACITY]);

/* What these names depend on in a UNet's set, and a module's name by it. */
typedef struct {
    const kiln_weights_api *w;
    const kiln_weights *set;
    unsigned layers;
} lora_blocks;
lora_blocks lora_blocks_of(const kiln_weights_api *w, const kiln_weights *set);
int lora_single_name(const lora_blocks *b, const char *module, char out[LORA_NAME_CAPACITY]);

#endif
