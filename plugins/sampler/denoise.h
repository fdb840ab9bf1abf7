/* denoise.h - x at a noise level -> x0: what is between a sampler and the networks of its guider.
 *
 * Scales the input, turns sigma into a timestep, evaluates the conditionings that are used at sigma (those of one model
 * and one size as one batch, conditional and unconditional together), blends each set of them by area, and lets the
 * guider make one guess of the sets' guesses. Latents and what is computed of them stay where programs run.
 */
#ifndef KILN_SAMPLER_DENOISE_H
#define KILN_SAMPLER_DENOISE_H

#include "conditions.h"
#include "default_entries.h"
#include "guider_registry.h"
#include "hooked_models.h"
#include "kiln/sampler.h"
#include "latent_space.h"
#include "network.h"
#include "network_hooks.h"

/* A guider's own sets come first, then those of the guidance that hangs on its first model. */
enum { DENOISE_EXTRA = 4, DENOISE_SETS = KILN_GUIDER_SETS + DENOISE_EXTRA };

enum { DENOISE_RANGES = 8 };

/* A model that evaluates a conditioning, from the level `below` down (the first: from above everything). */
typedef struct {
    const kiln_model *model;
    const char *name;       /* NULL: the MODEL has neither name nor ranges */
    model_sampling counted; /* how the model counts noise */
    double below;
    conditions given; /* for the whole picture; n 0: there is none */
} denoise_range;

/* One conditioning of a guider, with the models that evaluate it. */
typedef struct {
    denoise_range range[DENOISE_RANGES];
    size_t n;
} denoise_set;

/* The conditionings for a part of the picture, with their weights on the device, as the ranges have them at a level. */
typedef struct denoise_area {
    struct denoise_area *next;
    kiln_latent_place place;
    int64_t height, width;
    uint8_t range[DENOISE_SETS];
    conditions set[DENOISE_SETS];
    default_rest *rest; /* what default entries are for, by who acts beside them */
} denoise_area;

typedef struct {
    float *data;
    size_t capacity;
} float_buffer;

/* What hooks gave beside a set's guess: data is a latent's of one channel. */
typedef struct {
    network_output by[NETWORK_OUTPUTS_MAX];
    kiln_latent given[NETWORK_OUTPUTS_MAX];
    float_buffer memory[NETWORK_OUTPUTS_MAX];
    size_t n;
} hook_outputs;

typedef struct evaluator evaluator;

/* The last evaluation, and the memory it worked in. Evaluators of one sampling share one. */
typedef struct {
    evaluator *by;
    denoise_area *area;
    double sigma;
    uint32_t evaluated;                  /* sets whose guesses are of this evaluation, as bits */
    entry_keys keys;                     /* of all conditionings                               */
    hook_effects effects;                /* of all models' hooks                               */
    hook_schedules schedules;            /* of all conditionings' hooks                        */
    hooked_models hooked;                /* models over other weights, as these hooks say      */
    uint32_t precision;                  /* of the networks; 0: the run's. It changes when a result is not finite */
    uint32_t ran;                        /* what its networks computed in; of several the one that is not f32 */
    int wants_unconditional;             /* 1: a sampler asks for the unconditional guess: it is evaluated always */
    kiln_latent x;                       /* its input                                          */
    kiln_latent guess[DENOISE_SETS + 1]; /* of x0; the last is a further one that guidance asked for */
    kiln_latent changed[2];              /* positive and negative, as guidance made them before they were combined */
    int changed_set;                     /* whose the second is; -1: nobody's                                      */
    float_buffer x_memory, guess_memory[DENOISE_SETS + 1], total[DENOISE_SETS + 1]; /* on the device */
    float_buffer in, out;                                         /* the network's, a part for each conditioning */
    float_buffer stream_in[STREAMS_MAX], stream_out[STREAMS_MAX]; /* the same of further streams */
    float_buffer part, x0;                                        /* of one conditioning with an area or weights */
    float_buffer window_x, window_sum[DENOISE_SETS + 1];          /* where pictures are evaluated in windows */
    hook_outputs beside[DENOISE_SETS];
    float_buffer output[NETWORK_OUTPUTS_MAX];                                 /* of one batch */
    struct apart_results *apart;                                              /* what controls that run apart give */
    float_buffer timestep, strength[CONTROLS_MAX], input[NETWORK_INPUTS_MAX]; /* on the host */
} evaluation;

/* A guider over pictures of one size. */
struct evaluator {
    const kiln_call *call;
    latent_space *space;
    evaluation *last; /* shared */
    guider_parts by;
    const kiln_model *model[KILN_GUIDER_MODELS];
    model_sampling counted; /* of the first model */
    carried_hooks carried;  /* that conditionings bring   */
    denoise_set set[DENOISE_SETS];
    denoise_area *areas;      /* that were asked for */
    const kiln_value *latent; /* that is sampled */
    uint64_t seed;            /* of its noise    */
    const float *frame_share; /* [pictures, frames] how much of a frame the noise mask frees; NULL: all */
    const float *cell_share;  /* [pictures, frames, height, width] the noise mask itself                */
    int64_t steps;            /* of the sampling */
    int unconditional;        /* of a pair: hooks take their unconditional values */
    uint32_t always;          /* sets that are evaluated whatever the guider says, as bits */
    /* What guidance on the first model remembers: [its n_guidance]; NULL: none does. */
    struct guidance_memory *memory;
    const kiln_sampling *session; /* where that is kept across steps */
    const kiln_sampler *foreign;  /* the sampler, where it is none of this plugin's; else NULL */
    size_t number;                /* of this evaluator in the session */
};

/* Reads a GUIDER and its models; call, space, last, latent and seed are set. */
kiln_status evaluator_open(evaluator *e, const kiln_value *guider);
/* Reads the conditionings for the space's shape; again after a change of size. */
kiln_status evaluator_read_conditions(evaluator *e);
/* out = the guess of x0. x: a part of the picture that begins at `place`. out may be x. */
kiln_status evaluator_denoise(evaluator *e, const kiln_latent *x, kiln_latent_place place, double sigma,
                              kiln_latent *out);
/* Fails unless the model's latents are of the kind of the evaluator's first model, scaled alike. */
kiln_status evaluator_check_latents(const evaluator *e, const char *name, const kiln_model *m);
/* The guess of that set in the last evaluation; NULL: it was not evaluated. */
static inline kiln_latent *evaluation_guess(evaluation *v, int set)
{
    return v->evaluated & 1u << set ? &v->guess[set] : NULL;
}
/* What a hook gave beside the set's guess in the last evaluation; NULL: nothing, or that guess is made of several. */
kiln_latent *evaluation_output(evaluation *v, int set, const kiln_hook *hook, const char *name);
/* *out = one more guess at the last evaluation's level, under the conditionings of `set`. */
kiln_status evaluator_further(evaluator *e, int set, const kiln_further_guess *asked, kiln_latent **out);
/* Of one model under one conditioning, without a guider and without guidance; call, space, last, latent and seed are
 * set. */
kiln_status evaluator_open_pair(evaluator *e, const kiln_value *model, const kiln_value *conditioning,
                                int unconditional);
/* The unconditional guess of the last evaluation, which was of out's shape. From then on it is evaluated always
 * (CFG++).
 */
kiln_status evaluation_unconditional(evaluation *last, kiln_latent *out);

#endif
