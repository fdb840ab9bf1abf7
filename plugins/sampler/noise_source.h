/* noise_source.h - where the noise of one sampling comes from: which generator draws the first noise, which one that of
 * the steps, and whether the steps' is white or one Brownian path.
 *
 *     source    first noise             steps, white                      steps, Brownian path
 *     auto      CPU, seed               CPU, seed + 1                     CPU; *_gpu samplers: CUDA
 *     cpu       CPU, seed               CPU, seed + 1                     CPU
 *     cuda      CPU, seed               CUDA, seed                        CPU; *_gpu samplers: CUDA
 *     cuda_all  CUDA, seed              the same generator goes on        CUDA
 *
 * CPU and CUDA: torch's generators of these names (torch_random.h, philox.h). auto and cpu are ComfyUI without a GPU,
 * cuda is ComfyUI with one, cuda_all a pipeline that is given one CUDA generator for everything. A row that continues
 * the first noise (churn) draws from the first noise's generator where that is the CPU's, after it.
 */
#ifndef KILN_SAMPLER_NOISE_SOURCE_H
#define KILN_SAMPLER_NOISE_SOURCE_H

#include "brownian.h"
#include "kiln/sampling.h"
#include "philox.h"
#include "torch_random.h"

typedef struct {
    int cuda;
    torch_generator cpu;
    cuda_generator gpu;
} noise_stream;

void stream_seed(noise_stream *s, int cuda, uint64_t seed, uint32_t blocks);
void stream_randn(noise_stream *s, float *out, size_t n);

typedef struct {
    kiln_noise_source kind;
    uint32_t blocks;
    noise_stream steps;
    int brownian, tree_cuda;
    brownian_tree tree; /* capacity and owner are to be set */
} noise_source;

/* 1 if the first noise is CUDA's. */
int noise_first_cuda(const kiln_noise *noise);
/* 1 if anything of a run with this row is drawn by CUDA's generator. */
int noise_any_cuda(const kiln_noise *noise, const kiln_sampler *row);
/* first: the first noise's generator as that draw left it. sigma[n + 1]; count: numbers of a latent. */
void noise_source_init(noise_source *s, const kiln_noise *noise, const kiln_sampler *row, const noise_stream *first,
                       uint64_t seed, const double *sigma, size_t n, size_t count);
/* out[count], in torch's order (NCHW). KILN_ERR_NOMEM, KILN_ERR_INVALID: as brownian_noise(). */
kiln_status noise_source_draw(noise_source *s, double from, double to, float *out);

#endif
