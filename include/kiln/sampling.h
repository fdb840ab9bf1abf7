/* sampling.h - "kiln.sampling/1": sample a MODEL from a node of your own, and bring guiders of your own.
 *
 * The plugin org.kiln.sampler provides this ability; KSampler and its relatives use nothing else. Ask for it in run(),
 * or in open() of a plugin that is not kiln's own (those are opened first). NULL: that plugin is not there.
 *
 *     const kiln_sampling_api *s = c->host->ability(KILN_SAMPLING_ABILITY);
 *     kiln_sampling_job job = {.size = sizeof job, .guider = &c->in[0], .n_guider = 1, .latent = c->in[1]};
 *     kiln_session *session;
 *     double *sigma;
 *     TRY(s->sigmas(c, model, &(kiln_sigma_options){.size = ..., .schedule = "karras", .steps = 20, .denoise = 1},
 *                   &sigma, &job.n));
 *     kiln_noise noise = {.size = sizeof noise, .seed = 1};
 *     job.sigma = sigma, job.noise = &noise;
 *     TRY(s->find_sampler(c, "euler", &job.sampler));
 *     TRY(s->open(c, &job, &session));
 *     TRY(s->run(session));                                       // as KSampler does, or a loop of your own:
 *     const kiln_sampling *x = s->view(session);                  //     what a sampler's row sees (sampler.h)
 *     for (size_t i = x->first; status == KILN_OK && i < x->n; i++) {
 *         status = x->denoise(x, x->x, x->sigma[i], guess);
 *         if (status == KILN_OK) x->lincomb(x, ...), status = x->step(x, i, guess);
 *     }
 *     if (status == KILN_OK) return s->finish(session, &c->out[0], NULL);
 *     s->close(session, status);
 *
 * A run that is stopped goes on after its last step, in a loop of your own too, if all that the next step needs is in
 * x->x, slots and scalars, and the loop begins at x->first.
 *
 * Every function is [run], on the call's thread, unless said. What is handed out lives as long as the call.
 */
#ifndef KILN_SAMPLING_H
#define KILN_SAMPLING_H

#include "denoiser.h"
#include "sampler.h"
#include "value.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_SAMPLING_ABILITY "kiln.sampling/1"
#define KILN_GUIDER_SETS 8   /* the most conditionings of a guider; a limit, and no part of a layout */
#define KILN_GUIDER_MODELS 4 /* the most models                                                       */

/* ---- guiders ---- */

typedef struct kiln_guider_step kiln_guider_step;

/* One evaluation as a guider's combine() sees it. Latents have one shape and are only read. */
struct kiln_guider_step {
    uint32_t size;
    const kiln_model_sampling *sampling; /* of the first model                                 */
    const kiln_latents *latents;         /* what to compute with                                       */
    const void *params;                  /* the row's own struct                                       */
    double sigma;
    kiln_latent *x;            /* the noisy latent                                                      */
    kiln_latent *const *guess; /* [n_guess] of x0 under each conditioning; NULL: it was not evaluated   */
    uint32_t n_guess;
    void *self;
    /* out = negative + cfg (positive - negative), or what hangs on the first model in its place (RescaleCFG), then the
     * model's other guidance. negative NULL: positive as it is, and the other guidance. */
    kiln_status (*guided)(const kiln_guider_step *, kiln_latent *positive, kiln_latent *negative, double cfg,
                          kiln_latent *out);
    /* Lets the model's other guidance act on `out`, for a guider that stands for the usual sum itself. */
    kiln_status (*patch)(const kiln_guider_step *, kiln_latent *positive, kiln_latent *negative, double cfg,
                         kiln_latent *out);
};

typedef struct {
    const char *name; /* under which a GUIDER value has this MODEL */
} kiln_guider_model;

typedef struct {
    const char *name; /* under which a GUIDER value has this CONDITIONING */
    uint32_t model;   /* which of the guider's models evaluates it        */
} kiln_guider_set;

/* A kind of GUIDER. The value is a map: `kind` (the row's name), and models, conditionings and parameters under the
 * names that the row gives them. */
typedef struct {
    uint32_t size, flags;           /* flags: 0 */
    const char *name, *doc;         /* "cfg"    */
    const kiln_guider_model *model; /* the first decides latents and noise levels */
    uint32_t n_model, model_stride;
    const kiln_guider_set *set;
    uint32_t n_set, set_stride;
    int32_t unconditional;   /* the set whose guess CFG++ samplers take for the unconditional one; -1: none, and such
                                samplers are refused */
    const kiln_param *param; /* settings, into a struct of the row's own */
    uint32_t n_param, param_stride;
    size_t params_size;
    /* The sets that matter at this level, as bits. */
    uint32_t (*wants)(const void *params, double sigma);
    /* Writes what the sampler gets for x0. out is none of the step's latents. */
    kiln_status (*combine)(const kiln_guider_step *, kiln_latent *out);
} kiln_guider;

/* ---- a sampling ---- */

typedef struct kiln_session kiln_session;

/* Which of torch's generators draws (docs/samplers.md compares them). */
typedef enum { KILN_NOISE_AUTO, KILN_NOISE_CPU, KILN_NOISE_CUDA, KILN_NOISE_CUDA_ALL } kiln_noise_source;
enum { KILN_NOISE_BLOCKS_MAX = 65536 };

/* What a sampling begins with, and where its further noise comes from. */
typedef struct {
    uint32_t size;
    int32_t source; /* kiln_noise_source                                              */
    uint64_t seed;
    int64_t blocks;            /* size of the CUDA device that is followed; 0: large enough      */
    int32_t none;              /* 1: none is added, the latent carries its own                   */
    const kiln_value *samples; /* this noise and no other: f32 of the latent's shape; NULL: drawn */
} kiln_noise;

/* The levels of a schedule for a model. */
typedef struct {
    uint32_t size;
    const char *schedule; /* a row's name */
    int64_t steps;
    double denoise;            /* below 1: the last part of int(steps / denoise) steps                   */
    int32_t drop_last_but_one; /* one more, and the last but one dropped (KILN_SAMPLER_EXTRA_STEP)       */
    int32_t at_most_steps;     /* also cut a schedule that makes more than steps + 1, as BasicScheduler does */
    const kiln_value *latent;  /* the LATENT that will be sampled, where levels follow from its size (kiln_run_facts);
                                  NULL: not known */
} kiln_sigma_options;

typedef struct {
    uint32_t size;
    kiln_value *const *guider; /* GUIDER values; the first decides latents and levels. Latents of all their models have
                                  the same channels */
    size_t n_guider;
    const kiln_value *latent; /* LATENT: samples, noise_mask?, batch_index?                            */
    const double *sigma;      /* [n + 1]; n 0: the latent comes back as it is                          */
    size_t n;
    const kiln_sampler *sampler; /* NULL: you write the loop                                            */
    const void *options;         /* the row's struct; NULL: its defaults                                */
    const kiln_noise *noise;     /* NULL: drawn with the seed 0                                         */
    int32_t wants_denoised;      /* 1: finish() gives the last guess of x0 as well                           */
    /* What the sampler's denoise() does in place of the first guider's guess, inside the noise mask: call the ability's
     * denoise(), as often as need be, and write `out`, which is not x. NULL: the first guider's guess. */
    kiln_status (*denoise)(void *self, kiln_session *, kiln_latent *x, double sigma, kiln_latent *out);
    void *self;
} kiln_sampling_job;

/* One evaluation by a guider: of the whole picture, or of a part of it that begins at `place` and has x's height and
 * width. Areas and masks of conditionings are those of the whole picture. */
typedef struct {
    uint32_t size;
    uint32_t guider; /* which of the job's */
    kiln_latent *x;
    kiln_latent_place place;
    double sigma;
} kiln_evaluation;

/* One evaluation of a model under a conditioning, whoever guides: a part as in kiln_evaluation. */
typedef struct {
    uint32_t size;
    uint32_t unconditional;         /* 1: hooks take their unconditional values                     */
    const kiln_value *model;        /* MODEL with latents of the job's; NULL: the first guider's    */
    const kiln_value *conditioning; /* all its entries: areas, masks and ranges act                 */
    kiln_latent *x;
    kiln_latent_place place;
    double sigma;
} kiln_model_evaluation;

typedef struct {
    uint32_t size;

    /* ---- guiders ---- */
    /* [open] The row must be static. A name already taken is an error that names both plugins. */
    kiln_status (*register_guider)(const kiln_guider *);
    size_t (*guider_count)(void);                   /* [any] */
    const kiln_guider *(*guider_at)(size_t i);      /* [any] in order of registration */
    const kiln_guider *(*guider)(const char *name); /* [any] NULL: none */
    /* A GUIDER of `kind`. parts: a map of its models, conditionings and settings by name; settings that are left out
     * have their defaults. Takes the caller's reference to parts, also when it fails; NULL is no memory. */
    kiln_status (*guider_new)(const kiln_call *, const char *kind, kiln_value *parts, kiln_value **out);

    /* ---- other values ---- */
    kiln_status (*noise_new)(const kiln_call *, const kiln_noise *, kiln_value **out);
    /* Set out->size first. */
    kiln_status (*noise_read)(const kiln_call *, const kiln_value *noise, kiln_noise *out);
    /* The sampler of that name; fails with the nearest one. */
    kiln_status (*find_sampler)(const kiln_call *, const char *name, const kiln_sampler **out);
    /* A SAMPLER value; `options` as guider_new's parts. */
    kiln_status (*sampler_new)(const kiln_call *, const kiln_sampler *, kiln_value *options, kiln_value **out);
    kiln_status (*sampler_read)(const kiln_call *, const kiln_value *, const kiln_sampler **, const void **options);
    /* The levels of a SIGMAS value, in the call's scratch; n may be 0. In an estimate, where they are not known, as
     * many that fall evenly from `model`'s first level (NULL: from 1) to 0. */
    kiln_status (*sigmas_read)(const kiln_call *, const kiln_value *sigmas, const kiln_value *model, double **sigma,
                               size_t *n);
    /* A SIGMAS value of n levels: one more than steps. */
    kiln_status (*sigmas_new)(const kiln_call *, const double *sigma, size_t n, kiln_value **out);

    /* ---- noise levels ---- */
    /* In the call's scratch, n + 1 of them; n 0 and NULL when denoise is 0. */
    kiln_status (*sigmas)(const kiln_call *, const kiln_value *model, const kiln_sigma_options *, double **sigma,
                          size_t *n);
    /* How the model counts noise: its table, its ends, level to timestep and back. Set out->size first. */
    kiln_status (*schedule_input)(const kiln_call *, const kiln_value *model, size_t steps, kiln_schedule_input *out);
    /* The level at a share of the way: 0 is above everything (infinity), 1 is 0. */
    kiln_status (*percent_to_sigma)(const kiln_call *, const kiln_value *model, double percent, double *sigma);
    /* A LATENT like the one given with noise of level sigma added (a flow: blended in). Works on the host. */
    kiln_status (*add_noise)(const kiln_call *, const kiln_value *model, const kiln_noise *, double sigma,
                             const kiln_value *latent, kiln_value **out);

    /* ---- a sampling ---- */
    /* Reads the job, draws the noise, and takes up the state that a stopped call of the same key left. Refuses levels
     * that make no sense (0 before the end; rising ones for a sampler that adds noise). The job and what it points to
     * have to live until finish(). */
    kiln_status (*open)(const kiln_call *, const kiln_sampling_job *, kiln_session **out);
    /* What the sampler's row sees: for a loop of your own. Its latents are `view(s)->latents`. */
    const kiln_sampling *(*view)(kiln_session *);
    /* The job's sampler from beginning (or the saved state) to end. */
    kiln_status (*run)(kiln_session *);
    /* out = a guider's guess of x0. out is not x. */
    kiln_status (*denoise)(kiln_session *, const kiln_evaluation *, kiln_latent *out);
    /* A LATENT like the job's with x, and (denoised not NULL) one with the last guess. */
    kiln_status (*finish)(kiln_session *, kiln_value **out, kiln_value **denoised);
    /* Ends a loop of your own that cannot go on: when the run is being stopped, the state of the last whole step is
     * kept. run() and finish() do so themselves. */
    void (*close)(kiln_session *, kiln_status status);
    /* out = the model's guess of x0 under the conditioning; no guidance acts. out is not x. The values have to live
     * until finish(); pairs are read once. */
    kiln_status (*evaluate)(kiln_session *, const kiln_model_evaluation *, kiln_latent *out);

    /* Unit Gaussian noise as torch's CPU generator draws it from this seed for [N,C,...], into host memory of a tensor
     * [N,...,C] of 3 to 5 dimensions. */
    kiln_status (*random)(const kiln_call *, uint64_t seed, uint32_t rank, const int64_t *dim, float *out);
} kiln_sampling_api;

#ifdef __cplusplus
}
#endif
#endif
