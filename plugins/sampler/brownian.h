/* brownian.h - one Brownian path over the noise levels, evaluated anywhere: torchsde's BrownianTree.
 *
 * The whole interval's increment is sqrt(length) times a Gaussian; each interval is halved (the point rounded to
 * 1e-6) by a Brownian bridge with a Gaussian of its own, whose seed numpy's SeedSequence makes of the tree's
 * entropy and the place in the tree; an increment between two levels is the sum over the largest intervals of the
 * tree between them. So a query's answer depends on the seed and the two levels alone, whatever was asked before, and
 * there is no state: some 2 log2(length / 1e-6) draws of a latent a query are made again each time (about 50).
 *
 * Mathematics: torchsde 0.2.6, BrownianTree(tol=1e-6, pool_size=24), as k-diffusion's BrownianTreeNoiseSampler uses
 * it; the bits are torch's, up to the Gaussians' (torch_random.h, philox.h).
 */
#ifndef KILN_SAMPLER_BROWNIAN_H
#define KILN_SAMPLER_BROWNIAN_H

#include "kiln/plugin.h"

enum { BROWNIAN_DEPTH = 64 };

typedef struct {
    uint64_t entropy;
    double low, high; /* the levels it spans, as f32 numbers: least above 0, and greatest */
    size_t n;         /* numbers a draw                                                    */
    /* out[n] = n Gaussians of a generator with this seed */
    void (*gaussians)(const void *arg, uint32_t seed, float *out, size_t n);
    const void *arg; /* gaussians()' own */
    /* n floats that live as long as the tree; NULL: no memory */
    float *(*capacity)(const void *owner, size_t n);
    const void *owner;               /* capacity()'s own */
    float *kept[BROWNIAN_DEPTH + 1]; /* zero at first: made by capacity() when needed */
} brownian_tree;

/* numpy.random.SeedSequence(entropy, spawn_key=(key, depth), pool_size=24).generate_state(1); depth < 0: no spawn key.
 */
uint32_t seed_sequence(uint64_t entropy, uint64_t key, int depth);

/* out[n]: the path's increment from one level to another over sqrt(|to - from|): unit Gaussians, of the sign
 * k-diffusion gives (negative going down). Levels are taken as f32, clamped to the tree's interval, and rounded to
 * 1e-6; equal ones give zeros. KILN_ERR_NOMEM, or KILN_ERR_INVALID when the levels span more than 64 halvings reach
 * (1e13).
 */
kiln_status brownian_noise(brownian_tree *tree, double from, double to, float *out);

#endif
