/* network.h - one run of a model's denoiser, with its hooks and controls. Programs are recorded once a shape and kept.
 */
#ifndef KILN_SAMPLER_NETWORK_RUN_H
#define KILN_SAMPLER_NETWORK_RUN_H

#include "control_use.h"
#include "hook_effect.h"
#include "kiln/model.h"
#include "latent_space.h"
#include "own_programs.h"

/* A named input of the program. */
typedef struct {
    const char *name; /* in the program: "context", "hook.0.tokens", "control.1.hint" */
    const char *own;  /* its owner's name for it: "tokens"                            */
    int hook;         /* the model's hook whose input it is; -1: none                 */
    int control;      /* 1: it is a control's                                         */
    uint32_t dtype, device, rank;
    int64_t dim[KILN_MAX_RANK];
    const void *data;
    int changes; /* from step to step */
} network_input;

enum { NETWORK_HOOKS_MAX = 128, NETWORK_INPUTS_MAX = 160, NETWORK_OUTPUTS_MAX = 8 };

/* What a hook gives beside the prediction: of x's shape, with one channel. */
typedef struct {
    const kiln_hook *hook;
    const char *name;
    float *data; /* on x's device */
} network_output;

typedef struct {
    const kiln_model *model;
    uint32_t device, rank; /* of x and prediction */
    int64_t dim[KILN_MAX_RANK];
    const float *x; /* scaled for the network */
    float *prediction;
    network_input timestep;
    const network_input *input;
    size_t n_input;
    const kiln_hook *hook[NETWORK_HOOKS_MAX]; /* that act now */
    size_t n_hook;
    const control_use *control[CONTROLS_MAX]; /* that act now */
    size_t n_control;
    struct { /* further streams of x */
        uint32_t rank;
        int64_t dim[5];
        const float *x;
        float *prediction;
    } stream[STREAMS_MAX];
    size_t n_stream;
    network_output output[NETWORK_OUTPUTS_MAX]; /* that are wanted */
    size_t n_output;
    const kiln_batch_member *member; /* [n_member] */
    size_t n_member;
    const struct apart_results *apart[CONTROLS_MAX]; /* set by network_run */
    struct apart_results **known;                    /* what controls that run apart give, found in this call */
    uint32_t precision;                              /* 0: the run's, or what is wide enough                  */
    hook_effects *effects;                           /* of the sampling; NULL: nobody asks                    */
    own_programs *own;                               /* who keeps the denoiser's program; NULL: the engine    */
    uint32_t *ran; /* gets what the denoiser computed in, if that is not f32 or nothing is there yet          */
} network_batch;

/* 1: they are the same: hooks of one identity compute the same. */
int network_output_is(const network_output *o, const kiln_hook *h, const char *name);

kiln_status network_run(const kiln_call *c, const network_batch *b);

#endif
