/* sampler_rows.h - what the rows of the sampling nodes have in common. */
#ifndef KILN_NODES_SAMPLER_ROWS_H
#define KILN_NODES_SAMPLER_ROWS_H

#include "kiln/kit.h"
#include "kiln/sampling.h"

/* The head of a row whose title is its type. */
#define PLAIN_NODE(type_, ...) KIT_NODE(type_, type_, __VA_ARGS__)
#define PLAIN_NODE_AT(revision_, type_, ...) KIT_NODE_AT(revision_, type_, type_, __VA_ARGS__)

/* ---- noise: the parameters of a node that makes some ---- */

static const kiln_choice noise_choice[] = {
    {.name = "auto",
     .doc = "as ComfyUI without a GPU; samplers named _gpu follow the path a CUDA device draws",
     .value = KILN_NOISE_AUTO},
    {.name = "cpu", .doc = "torch's CPU generator for everything", .value = KILN_NOISE_CPU},
    {.name = "cuda",
     .doc = "as ComfyUI on an NVIDIA GPU: first noise of the CPU generator, that of the steps of CUDA's",
     .value = KILN_NOISE_CUDA},
    {.name = "cuda_all",
     .doc = "one CUDA generator for the first noise and then the steps",
     .value = KILN_NOISE_CUDA_ALL},
    {0}};

/* A noise that such rows have filled. */
static inline kiln_noise sized_noise(kiln_noise filled)
{
    filled.size = sizeof filled;
    return filled;
}

/* Two rows; `field_` is a kiln_noise of the node's struct. */
#define NOISE_PARAMS(struct_, field_)                                                                                  \
    {.name = "noise_source",                                                                                           \
     .type = KILN_P_ENUM,                                                                                              \
     .flags = KILN_PARAM_OWN,                                                                                          \
     .offset = offsetof(struct_, field_) + offsetof(kiln_noise, source),                                               \
     KILN_CHOICES(noise_choice),                                                                                       \
     .doc = "Which of torch's generators draws the noise; docs/samplers.md compares them."},                           \
    {                                                                                                                  \
        .name = "cuda_blocks", .type = KILN_P_INT, .flags = KILN_PARAM_OWN,                                            \
        .offset = offsetof(struct_, field_) + offsetof(kiln_noise, blocks), .max = KILN_NOISE_BLOCKS_MAX, .step = 1,   \
        .doc = "Size of the CUDA device that is followed: multiprocessors * (threads of each / 256). 0: large enough " \
               "for one wave."                                                                                         \
    }
/* One row: the seed of such a noise. */
#define NOISE_SEED(struct_, field_, name_)                                                                             \
    {                                                                                                                  \
        .name = name_, .type = KILN_P_SEED, .offset = offsetof(struct_, field_) + offsetof(kiln_noise, seed),          \
        .doc = "Of the noise."                                                                                         \
    }

/* A GUIDER of the kind "cfg" (custom_sampling.c). */
kiln_status cfg_guider_new(const kiln_call *c, kiln_value *const model_positive_negative[3], double cfg,
                           kiln_value **out);

#endif
