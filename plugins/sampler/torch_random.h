/* torch_random.h - the numbers of torch's CPU generator, so that a seed means here what it means there.
 *
 * mt19937 (Matsumoto and Nishimura 1998) seeded with the low 32 bits of the seed, and torch.randn's
 * two ways to make Gaussians of it (aten/src/ATen/native/cpu/DistributionTemplates.h and
 * aten/src/ATen/core/DistributionsHelper.h): 16 or more at a time from 24-bit uniforms in blocks of
 * sixteen, fewer one by one from 53-bit uniforms. Equal to torch up to libm's last place.
 */
#ifndef KILN_SAMPLER_TORCH_RANDOM_H
#define KILN_SAMPLER_TORCH_RANDOM_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t word[624];
    uint32_t at;
    int has_next; /* the second half of the last scalar pair */
    double next;
} torch_generator;

void torch_seed(torch_generator *g, uint64_t seed);
/* out[n] = torch.randn(n, dtype=float32, generator=g) */
void torch_randn(torch_generator *g, float *out, size_t n);
/* out[n] = torch.randperm(n, generator=g), n below 2^32 / 20 */
void torch_randperm(torch_generator *g, int64_t *out, size_t n);

#endif
