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
#include "kiln/sampler.h"
#include "philox.h"
#include "torch_random.h"

typedef enum { NOISE_AUTO, NOISE_CPU, NOISE_CUDA, NOISE_CUDA_ALL } noise_kind;

/* The parameters of a node that makes noise: kind, and the CUDA device's size (philox.h; 0: large enough). */
typedef struct {
    int32_t kind;
    int64_t blocks;
} noise_options;

extern const kiln_choice noise_choice[];
enum { NOISE_BLOCKS_MAX = 65536 };
/* Two rows for the node's table, at offset `offset` of a noise_options in its struct. */
#define NOISE_PARAMS(type_, field)                                                                                     \
    {.name = "noise_source",                                                                                           \
     .type = KILN_P_ENUM,                                                                                              \
     .offset = offsetof(type_, field) + offsetof(noise_options, kind),                                                 \
     .choice = noise_choice,                                                                                           \
     .doc = "Which of torch's generators draws the noise; docs/samplers.md compares them."},                           \
    {                                                                                                                  \
        .name = "cuda_blocks", .type = KILN_P_INT, .offset = offsetof(type_, field) + offsetof(noise_options, blocks), \
        .max = NOISE_BLOCKS_MAX, .step = 1,                                                                            \
        .doc = "Size of the CUDA device that is followed: multiprocessors * (threads of each / 256). 0: large enough " \
               "for one wave."                                                                                         \
    }

typedef struct {
    int cuda;
    torch_generator cpu;
    cuda_generator gpu;
} noise_stream;

void stream_seed(noise_stream *s, int cuda, uint64_t seed, uint32_t blocks);
void stream_randn(noise_stream *s, float *out, size_t n);

typedef struct {
    noise_kind kind;
    uint32_t blocks;
    noise_stream steps;
    int brownian, tree_cuda;
    brownian_tree tree; /* room and its arg are the owner's to set */
} noise_source;

/* 1 if the first noise is CUDA's. */
int noise_first_cuda(const noise_options *options);
/* 1 if anything of a run with this row is drawn by CUDA's generator. */
int noise_any_cuda(const noise_options *options, const kiln_sampler *row);
/* first: the first noise's generator as that draw left it. sigma[n + 1]; count: numbers of a latent. */
void noise_source_init(noise_source *s, const noise_options *options, const kiln_sampler *row,
                       const noise_stream *first, uint64_t seed, const double *sigma, size_t n, size_t count);
/* out[count], in torch's order (NCHW). KILN_ERR_NOMEM, KILN_ERR_INVALID: as brownian_noise(). */
kiln_status noise_source_draw(noise_source *s, double from, double to, float *out);

#endif
