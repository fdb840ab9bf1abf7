/* sample_sampling.h - a made-up sampling for trying a sampler that nobody has wired: latents are small arrays in
 * double, and the model knows its data, a mixture of two Gaussians in each element, so that every guess is exact.
 */
#ifndef KILN_CLI_SAMPLE_SAMPLING_H
#define KILN_CLI_SAMPLE_SAMPLING_H

#include "kiln/sampler.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sampled sampled;

/* What a run of a sampler is given. */
typedef struct {
    const kiln_sampler *row;
    const void *options; /* row->params_size bytes; the sampler gets them as a run gives them: a copy, NULL of none */
    uint32_t process;    /* kiln_process */
    const double *sigma;
    size_t n, first;
    int64_t side; /* height and width; four channels */
    uint64_t seed;
    const double *start; /* NULL: data with noise of level sigma[0] */
    /* The first `exact` steps' results are replaced by the exact ones: multistep methods begin with steps of lower
     * order. */
    size_t exact;
    /* What fails, counted from 0; < 0: nothing. stop_at: step() of that number says KILN_CANCELLED. */
    int64_t fail_denoise, fail_noise, fail_memory, stop_at;
    /* What denoise() gives in place of the mixture's guess; out is not x. NULL: that. */
    kiln_status (*guess)(void *self, kiln_latent *x, double sigma, kiln_latent *out);
    void *self;
    const sampled *resume; /* x, slots, scalars and the generator as they are there; first is behind its last step */
} sampling_plan;

/* What came of it. */
struct sampled {
    kiln_status status;
    char failure[300];
    double *x; /* [count] */
    size_t count;
    int64_t evaluations, unconditionals, draws, steps, resizes, memory;
    int64_t after_stop; /* calls after a function had told it to return */
    int64_t last_step;  /* what step() was told last; -1 */
    int fell, beyond;   /* step() was told a lower number than before; one that is not below n */
    int bad_call;       /* an operand was NULL, a sum had no term or more than 64 */
    double asked_low;   /* the lowest level that denoise() was asked at */
    void *kept;         /* slots and scalars, for resume */
    uint64_t generator[2];
};

#define SAMPLING_PLAN(...)                                                                                             \
    ((sampling_plan){.fail_denoise = -1, .fail_noise = -1, .fail_memory = -1, .stop_at = -1, __VA_ARGS__})

/* KILN_ERR_NOMEM: nothing was tried. Free with sampled_free(), also then. */
kiln_status sampling_try(const sampling_plan *, sampled *out);
/* The same in a process of its own, where no variable has a value yet that this process's samplings gave it, if it has
 * made none. KILN_ERR_IO: that process ended too early. */
kiln_status sampling_elsewhere(const sampling_plan *, sampled *out);
void sampled_free(sampled *);

/* Where the probability flow leads that passes through x0 at sigma[0]: the exact x at each of sigma[1..n], [n][count];
 * fine Runge-Kutta steps. 0: no memory. */
int sampling_exact(uint32_t process, const double *sigma, size_t n, const double *x0, size_t count, double *out);
/* The mixture's mean of square and of fourth power. */
void sampling_moments(double *square, double *fourth);
/* count numbers of the data with noise of that level on them. */
void sampling_start(uint32_t process, double sigma, uint64_t seed, size_t count, double *out);

#endif
