/* philox.h - the numbers of torch's CUDA generator, computed on a CPU.
 *
 * Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"), cuRAND's way to make
 * four Gaussians of its four words (Box-Muller, sine first), and torch's way to share elements among threads
 * (aten/src/ATen/native/cuda/DistributionTemplates.h): blocks of 256 threads, thread t draws for the elements t,
 * t + T, t + 2T, ... of n, T being all threads there are. As long as a device holds ceil(n / 256) blocks at once
 * each thread draws once and all devices agree; a smaller one has fewer threads, and other numbers. So the most
 * blocks a device holds are a parameter: multiprocessors * (threads a multiprocessor / 256).
 *
 * The words are exact. Gaussians are libm's in f32; the device computes sine and cosine with its fast intrinsics,
 * which are off by up to 2^-20.9 absolute, so equality is to about 1e-5, not to the last bit.
 */
#ifndef KILN_SAMPLER_PHILOX_H
#define KILN_SAMPLER_PHILOX_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint64_t seed, offset; /* offset: words a thread has taken, as torch counts it */
    uint32_t blocks;       /* most blocks of 256 threads at once; 0: enough for every draw */
} cuda_generator;

/* Ten rounds. */
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* torch.Generator("cuda").manual_seed(seed) */
void cuda_seed(cuda_generator *g, uint64_t seed, uint32_t blocks);
/* out[n] = torch.randn(n, dtype=float32, device="cuda", generator=g); n below 2^29 (torch splits larger draws) */
void cuda_randn(cuda_generator *g, float *out, size_t n);

#endif
