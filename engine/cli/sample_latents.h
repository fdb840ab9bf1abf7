/* sample_latents.h - latents of check-plugin's own behind the functions of kiln/latent.h, for samplers and guiders that
 * nobody has wired: small arrays in double, on the host. What they are called with wrongly is noted.
 */
#ifndef KILN_CLI_SAMPLE_LATENTS_H
#define KILN_CLI_SAMPLE_LATENTS_H

#include "kiln/latent.h"

#include <stddef.h>
#include <stdint.h>

struct kiln_latent {
    kiln_latent_shape shape;
    size_t count;
    double *v; /* [count], and a few that nobody may write */
};

typedef struct {
    kiln_latents api;        /* self points back here: not to be moved */
    kiln_latent_shape shape; /* the sampling's */
    kiln_latent **made;      /* by create(), all of them */
    size_t n_made;
    kiln_status told;            /* not KILN_OK: whoever calls was told to return that */
    int64_t after_stop;          /* calls after it had been told */
    int bad_call;                /* an operand was NULL or of another shape, a sum of more than 64 */
    int64_t memory, fail_memory; /* create() was asked so often; that one has no memory: < 0 none */
    void (*between)(void *self); /* at each call; NULL */
    void *self;
} sample_latents;

void sample_latents_init(sample_latents *l, kiln_latent_shape s);
/* With all that create() has made. */
void sample_latents_free(sample_latents *l);

/* NULL: no memory. */
kiln_latent *sample_latent_new(kiln_latent_shape s);
void sample_latent_free(kiln_latent *l);
/* 0: somebody wrote behind its numbers. */
int sample_latent_is_whole(const kiln_latent *l);

/* A call of theirs: 1 when its operands are what the contract asks for. */
int sample_call_is(sample_latents *l, int fine);
int sample_same_shape(const kiln_latent *a, const kiln_latent *b);
/* By the nearest cell. */
void sample_scale(kiln_latent *out, const kiln_latent *x);
double sample_gaussian(uint64_t *state);

#endif
