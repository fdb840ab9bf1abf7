/* ldm_names.h - the UNet names of single-file checkpoints, as rules for a view under diffusers' names. */
#ifndef KILN_UNET_LDM_NAMES_H
#define KILN_UNET_LDM_NAMES_H

#include "kiln/weights.h"

typedef struct {
    kiln_weight_rule *rule;
    size_t n, capacity;
    int nomem;
} ldm_rules;

/* Appends the rules for the blocks that exist below `prefix` ("model.diffusion_model.") to `out`, which is {0} or has
 * rules that go before them. Free the rules in any case; nomem is set when memory ran out. */
void ldm_rules_make(const kiln_weights_api *w, const kiln_weights *set, const char *prefix, ldm_rules *out);
/* Appends one: `prefix` + `from` is seen as `to`. */
void ldm_rules_add(ldm_rules *r, const char *prefix, const char *from, const char *to);
void ldm_rules_free(ldm_rules *r);

#endif
