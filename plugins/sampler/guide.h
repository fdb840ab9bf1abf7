/* guide.h - what stands between a sampler and a network: x at a noise level -> x0.
 *
 * Scales the input, turns sigma into a timestep, evaluates the conditionings that hold (all of one size as one batch,
 * conditional and unconditional together), blends each set of them by area, and lets the guider (guider.h) make one
 * guess of the sets' guesses.
 */
#ifndef KILN_SAMPLER_GUIDE_H
#define KILN_SAMPLER_GUIDE_H

#include "conditions.h"
#include "guider.h"
#include "place.h"

enum { GUIDE_EXTRA = 4, GUIDE_SETS = GUIDER_SETS + GUIDE_EXTRA }; /* the guider's own, then those of guidance */

typedef struct {
    const kiln_model *model; /* who evaluates it, and how that one counts noise */
    model_sampling counted;
    conditions given;   /* n == 0: there is none */
    float *guess;       /* [batch,height,width,channels]: x0 under it, of the last evaluation */
    float *total;       /* [batch,height,width]: how much was summed per cell                 */
    float *guess_there; /* the device's, of the last evaluation there, or NULL              */
} guide_set;

struct guide {
    const kiln_call *call;
    const kiln_model *model, *other; /* other: the guider's second, or NULL */
    const guider *by;
    model_sampling counted;
    int64_t batch, height, width, channels;
    guide_set set[GUIDE_SETS];
    uint32_t always;    /* sets to be evaluated whatever the guider says (bits)        */
    uint32_t evaluated; /* whose guesses are of the last evaluation                    */
    double sigma;       /* of the last evaluation                                      */
    float *x;           /* its input                                                   */
    float *work;
    size_t work_capacity;
    latent_place *place;                   /* where latents lie */
    int lies_there;                        /* the last evaluation was guide_denoise_there's */
    float *x_there, *in_there, *out_there; /* its input; the network's, scaled; what that said: a part for each set */
};

/* Reads the guider's conditionings and those of the model's guidance; call, model, other, by, counted and the sizes are
 * set. */
kiln_status guide_init(guide *g);
/* x, out: [batch,height,width,channels]; out may be x. */
kiln_status guide_denoise(guide *g, const float *x, double sigma, float *out);
/* The unconditional guess of the last guide_denoise(); from then on it is evaluated always (CFG++). */
kiln_status guide_unconditional(guide *g, float *out);

/* ---- the same on the device (guide_there.c) ---- */

/* 1: this guide's evaluations can stay there, at most levels. */
int guide_may_lie_there(const guide *g);
/* x, out: the device's. KILN_ERR_UNSUPPORTED: at this level conditionings are not so simple; do it on the host. */
kiln_status guide_denoise_there(guide *g, const float *x, double sigma, float *out);
/* After guide_denoise_there (lies_there). */
kiln_status guide_unconditional_there(guide *g, float *out);

/* What guide.c and guide_there.c share. Runs the denoiser for n pictures of e's size; x and out are `device`'s, the
 * others the host's. */
kiln_status guide_evaluate(const guide *g, const kiln_model *model, int64_t n, const condition *e, uint32_t device,
                           float *x, float *timestep, float *context, float *out);
void guide_gather_tokens(const guide *g, const condition *e, float *dst);
kiln_status guide_not_finite(const guide *g, double sigma);

#endif
