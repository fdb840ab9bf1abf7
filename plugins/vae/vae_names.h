/* vae_names.h - the names of an autoencoder's tensors in files, as rules for a view with diffusers' current names. */
#ifndef KILN_VAE_NAMES_H
#define KILN_VAE_NAMES_H

#include "kiln/weights.h"

enum { VAE_RULES_MAX = 400, VAE_NAME_CAPACITY = 112 };

typedef struct {
    kiln_weight_rule rule[VAE_RULES_MAX];
    char text[VAE_RULES_MAX][2][VAE_NAME_CAPACITY];
    size_t n;
} vae_rules;

/* Rules for diffusers' names below `prefix`, including the old names of the middle attention. */
void vae_rules_diffusers(vae_rules *r, const char *prefix);
/* Rules for ldm's names below `prefix` ("first_stage_model."), for a model of `levels` levels. */
void vae_rules_ldm(vae_rules *r, const char *prefix, uint32_t levels);

#endif
