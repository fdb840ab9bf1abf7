/* vae_names.h - the names an autoencoder's tensors go by, as rules for a view under diffusers' present ones. */
#ifndef KILN_VAE_NAMES_H
#define KILN_VAE_NAMES_H

#include "kiln/weights.h"

enum { VAE_RULES_MAX = 400, VAE_NAME_ROOM = 112 };

typedef struct {
    kiln_weight_rule rule[VAE_RULES_MAX];
    char text[VAE_RULES_MAX][2][VAE_NAME_ROOM];
    size_t n;
} vae_rules;

/* diffusers' names below `prefix`, the old ones of the middle attention included. */
void vae_rules_diffusers(vae_rules *r, const char *prefix);
/* ldm's names below `prefix` ("first_stage_model.") of a model with so many levels. */
void vae_rules_ldm(vae_rules *r, const char *prefix, uint32_t levels);

#endif
