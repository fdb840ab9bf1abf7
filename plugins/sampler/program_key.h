/* program_key.h - the text under which a program is kept: all that decides what is recorded. */
#ifndef KILN_SAMPLER_PROGRAM_KEY_H
#define KILN_SAMPLER_PROGRAM_KEY_H

#include "kiln/weights.h"

enum { PROGRAM_KEY_MAX = 16384 };

typedef struct {
    char text[PROGRAM_KEY_MAX];
    size_t n; /* PROGRAM_KEY_MAX or more: it was too long */
} program_key;

void program_key_put(program_key *k, const char *text);
void program_key_shape(program_key *k, const char *name, uint32_t rank, const int64_t *dim);
kiln_status program_key_weights(const kiln_call *c, program_key *k, const char *family, const kiln_weights *weights);
/* Fails when the key was too long. */
kiln_status program_key_check(const kiln_call *c, const program_key *k);

#endif
