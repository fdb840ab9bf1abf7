/* denoise.h - x at a noise level -> x0: what is between a sampler and the networks of its guider.
 *
 * Scales the input, turns sigma into a timestep, evaluates the conditionings that are used at sigma (those of one model
 * and one size as one batch, conditional and unconditional together), blends each set of them by area, and lets the
 * guider make one guess of the sets' guesses. Latents and what is computed of them stay where programs run.
 */
#ifndef KILN_SAMPLER_DENOISE_H
#define KILN_SAMPLER_DENOISE_H

#include "conditions.h"
#include "guider_registry.h"
#include "latent_space.h"

/* A guider's own sets come first, then those of the guidance that hangs on its first model. */
enum { DENOISE_EXTRA = 4, DENOISE_SETS = KILN_GUIDER_SETS + DENOISE_EXTRA };

/* One conditioning of a guider. */
typedef struct {
    const kiln_model *model; /* evaluates it */
    model_sampling counted;  /* how that model counts noise */
    conditions given;        /* for the whole picture; n 0: there is none */
} denoise_set;

/* The conditionings for a part of the picture, with their weights on the device. */
typedef struct denoise_area {
    struct denoise_area *next;
    kiln_latent_place place;
    int64_t height, width;
    conditions set[DENOISE_SETS];
} denoise_area;

typedef struct {
    float *data;
    size_t capacity;
} float_buffer;

typedef struct evaluator evaluator;

/* The last evaluation, and the memory it worked in. Evaluators of one sampling share one. */
typedef struct {
    evaluator *by;
    denoise_area *area;
    double sigma;
    uint32_t evaluated;              /* sets whose guesses are of this evaluation, as bits */
    int wants_unconditional;         /* 1: a sampler asks for the unconditional guess: it is evaluated always */
    kiln_latent x;                   /* its input                                          */
    kiln_latent guess[DENOISE_SETS]; /* of x0                                              */
    float_buffer x_memory, guess_memory[DENOISE_SETS], total[DENOISE_SETS]; /* on the device */
    float_buffer in, out;  /* the network's, a part for each conditioning */
    float_buffer part, x0; /* of one conditioning with an area or weights */
    float_buffer host;     /* timesteps and tokens; on the host           */
} evaluation;

/* A guider over pictures of one size. */
struct evaluator {
    const kiln_call *call;
    latent_space *space;
    evaluation *last; /* shared */
    guider_parts by;
    const kiln_model *model[KILN_GUIDER_MODELS];
    model_sampling counted; /* of the first model */
    denoise_set set[DENOISE_SETS];
    denoise_area *areas; /* that were asked for */
    uint32_t always;     /* sets that are evaluated whatever the guider says, as bits */
};

/* Reads a GUIDER and its models; call, space and last are set. */
kiln_status evaluator_open(evaluator *e, const kiln_value *guider);
/* Reads the conditionings for the space's shape; again after a change of size. */
kiln_status evaluator_read_conditions(evaluator *e);
/* out = the guess of x0. x: a part of the picture that begins at `place`. out may be x. */
kiln_status evaluator_denoise(evaluator *e, const kiln_latent *x, kiln_latent_place place, double sigma,
                              kiln_latent *out);
/* The unconditional guess of the last evaluation, which was of out's shape. From then on it is evaluated always
 * (CFG++).
 */
kiln_status evaluation_unconditional(evaluation *last, kiln_latent *out);

#endif
