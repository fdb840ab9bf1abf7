/* sampler.h - "kiln.sampler/1": samplers and schedules as rows of open tables.
 *
 * A sampler is scalar arithmetic on the host plus linear combinations of latents, wherever
 * their memory is. Guidance sits inside denoise(). History lives in named slots and scalars,
 * so that the state can be saved after any step and a later run can go on from it.
 *
 *     for (size_t i = s->first; i < s->n; i++) {              // Euler
 *         TRY(s->denoise(s, s->x, s->sigma[i], d));            // d = x0
 *         double ratio = s->sigma[i + 1] / s->sigma[i];
 *         s->lincomb(s, s->x, 2, (double[]){ratio, 1 - ratio}, (kiln_latent *[]){s->x, d});
 *         TRY(s->step(s, i, d));
 *     }
 *
 * All functions of kiln_sampling are [run], on the sampler's thread.
 */
#ifndef KILN_SAMPLER_H
#define KILN_SAMPLER_H

#include "latent.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_SAMPLER_ABILITY "kiln.sampler/1"

/* How a latent is scaled: as torch's interpolate of that name does; BISLERP turns from cell to cell along the sphere.
 */
typedef enum {
    KILN_RESIZE_NEAREST,
    KILN_RESIZE_BILINEAR,
    KILN_RESIZE_AREA,
    KILN_RESIZE_BICUBIC,
    KILN_RESIZE_BISLERP
} kiln_resize;

typedef struct kiln_sampling {
    uint32_t size;
    size_t n;     /* steps: sigma[0..n], sigma[n] may be 0 */
    size_t first; /* where to begin: 0, or the step a saved state goes on with */
    const double *sigma;
    uint32_t process;    /* kiln_process (denoiser.h): how clean latent and noise mix */
    const void *options; /* the row's own struct, filled from its params              */
    kiln_latent *x;      /* the latent: sampled in place                               */
    uint64_t seed;
    void *self;

    /* out = the model's guess of the clean latent for x at noise level sigma. out may be x. */
    kiln_status (*denoise)(const struct kiln_sampling *, const kiln_latent *x, double sigma, kiln_latent *out);
    /* The unconditional guess of the last denoise(); makes every later one compute it (CFG++). */
    kiln_status (*unconditional)(const struct kiln_sampling *, kiln_latent *out);
    /* out = sum coefficient[i] * x[i]; out may be one of x. n >= 1. */
    void (*lincomb)(const struct kiln_sampling *, kiln_latent *out, size_t n, const double *coefficient,
                    kiln_latent *const *x);
    /* sqrt(mean(x^2)) */
    double (*norm)(const struct kiln_sampling *, const kiln_latent *x);
    /* Unit Gaussian noise for the step from one level to another, from the run's noise source (see the row's flags). A
     * Brownian path is evaluated at levels rounded to f32 and then to 1e-6, as torchsde does. */
    kiln_status (*noise)(const struct kiln_sampling *, double sigma_from, double sigma_to, kiln_latent *out);
    /* A latent that is kept across steps, made (zero) when first asked for. NULL: no memory. */
    kiln_latent *(*slot)(const struct kiln_sampling *, const char *name);
    /* n numbers kept across steps, zero at first. NULL: no memory. */
    double *(*scalars)(const struct kiln_sampling *, const char *name, size_t n);
    /* After step i, when x is at sigma[i + 1]: progress, preview, saved state, cancel. Return at once if it
     * is not KILN_OK. All that the next step needs is in x, slots and scalars by then. A sampler that
     * chooses its own levels gives the share of the way instead: i < n, and it never falls. */
    kiln_status (*step)(const struct kiln_sampling *, size_t i, const kiln_latent *denoised);

    /* Says in one sentence why the run cannot go on, and returns `status`. */
    kiln_status (*fail)(const struct kiln_sampling *, kiln_status status, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
    /* The noise level at a share of the way from noise to picture: 0 is above everything, 1 is 0. */
    double (*percent_to_sigma)(const struct kiln_sampling *, double percent);
    /* sqrt(mean(((a - b) / max(atol, rtol max(|a|, |before|)))^2)), element by element: what a step of
     * adaptive length is judged by. */
    double (*error)(const struct kiln_sampling *, const kiln_latent *a, const kiln_latent *b, const kiln_latent *before,
                    double atol, double rtol);
    /* Clips every element to +- deviations * the standard deviation of x's elements (about their
     * mean, over n - 1). */
    void (*clip)(const struct kiln_sampling *, kiln_latent *x, double deviations);
    /* From here on the sampling has `scale` times the size it began with, each side rounded (halves to even) and at
     * least one cell: x and every slot are scaled by `method` (kiln_resize). The row says KILN_SAMPLER_RESIZES. */
    kiln_status (*resize)(const struct kiln_sampling *, double scale, uint32_t method);
    /* More arithmetic on latents: masks, parts of pictures, sums picture by picture. */
    const kiln_latents *latents;
} kiln_sampling;

enum {
    KILN_SAMPLER_STOCHASTIC = 1,       /* asks for noise                                      */
    KILN_SAMPLER_EXTRA_STEP = 2,       /* wants steps+1 sigmas, the last but one dropped      */
    KILN_SAMPLER_FRESH_MASK_NOISE = 4, /* outside a noise mask: noise of seed + 1 (DDIM) */
    KILN_SAMPLER_UNCONDITIONAL = 8,    /* calls unconditional(): it is evaluated from the first step on */
    /* Where noise() comes from, unless the user names a source. Without any of these: white noise, drawn anew at each
     * call by a generator of the run's own (ComfyUI's default_noise_sampler). */
    KILN_SAMPLER_BROWNIAN = 16,      /* one Brownian path over the levels: equal or overlapping pairs of levels agree */
    KILN_SAMPLER_BROWNIAN_CUDA = 32, /* (with BROWNIAN) the path as a CUDA device draws it: the *_gpu names           */
    KILN_SAMPLER_CONTINUES_NOISE = 64, /* goes on where the first noise stopped (torch's global generator: churn) */
    KILN_SAMPLER_RESIZES = 128 /* calls resize()                                                                */
};

typedef struct {
    uint32_t size, flags;
    const char *name, *doc, *source; /* source: paper or formula's origin */
    uint32_t order;                  /* of convergence without noise, on smooth levels, away from the steps at either
                                      * end that are lower by definition; 0: it solves no equation                 */
    double evaluations;              /* of the network, a step; the steps at either end may need fewer             */
    const kiln_param *param;         /* options, into a struct of its own */
    uint32_t n_param, param_stride;
    size_t params_size;
    kiln_status (*run)(const kiln_sampling *);
} kiln_sampler;

/* What a schedule is made from: the training table, or a range where there is none. */
typedef struct {
    uint32_t size;
    size_t steps;
    const double *sigma; /* ascending table, or NULL */
    size_t n_sigma;
    double sigma_min, sigma_max;
    /* How this model counts: level -> timestep and back (not always inverse of each other: flow). NULL: a timestep
     * is a place in the table. */
    const void *self;
    double (*timestep)(const void *self, double sigma);
    double (*sigma_at)(const void *self, double timestep);
} kiln_schedule_input;

typedef struct {
    uint32_t size, flags;
    const char *name, *doc, *source;
    /* Writes up to `capacity` descending sigmas, the last usually 0; returns how many there are (more than `capacity`:
     * it was too small, and what was written is not used). Some make more or fewer than steps+1. */
    size_t (*make)(const kiln_schedule_input *, double *out, size_t capacity);
} kiln_schedule;

/* Registries. Rows must be static. A name already taken is an error that names both plugins.
 * Parameters of type KILN_P_NAME with from "sampler" or "schedule" choose among the rows. */
typedef struct {
    uint32_t size;
    kiln_status (*register_sampler)(const kiln_sampler *);   /* [open] */
    kiln_status (*register_schedule)(const kiln_schedule *); /* [open] */
    size_t (*sampler_count)(void);                           /* [any]  */
    const kiln_sampler *(*sampler_at)(size_t i);             /* in order of registration */
    const kiln_sampler *(*sampler)(const char *name);        /* NULL: none */
    size_t (*schedule_count)(void);
    const kiln_schedule *(*schedule_at)(size_t i);
    const kiln_schedule *(*schedule)(const char *name);
    /* 1.1 [any]: the id of the plugin whose row this is, a kiln_sampler's or a kiln_schedule's; NULL: nobody has
     * registered it. Valid as long as the row is. */
    const char *(*plugin_of)(const void *row);
} kiln_sampler_api;

#ifdef __cplusplus
}
#endif
#endif
