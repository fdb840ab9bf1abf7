/* denoiser.h - what a denoiser is: its latents, how it counts noise, its inputs, and the MODEL value that has it.
 *
 * A denoiser is a constant table with a record function: it writes its network into a program (ops.h) and does nothing
 * else. A MODEL is that table with weights and settings; a node like LoraLoader returns the same table with other
 * weights, FreeU the same with one more hook. Several MODELs may share one value: see kiln_model_range.
 */
#ifndef KILN_DENOISER_H
#define KILN_DENOISER_H

#include "hook.h"
#include "latent.h"
#include "saving.h"
#include "weights.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- latents ---- */

/* model space = (latent - shift) * scale. */
typedef struct {
    uint32_t size;
    uint32_t n;                  /* 1: for all channels; else one a channel */
    const double *scale, *shift; /* [n]; shift NULL: 0                      */
} kiln_latent_scaling;

/* Samples are [N,...,channels]: rank 3 is [N,L,C], 4 [N,H,W,C], 5 [N,T,H,W,C]. Of P pixels along a dimension there are
 * (P - first) / factor + (first != 0) cells, rounded down; a causal video has first 1 in time. */
typedef struct {
    uint32_t size;
    int32_t rank;     /* 0: 4 */
    int32_t channels; /* of the first stream */
    int32_t factor;   /* pixels a cell, height and width; 0: 1 */
    int32_t time_factor, time_first;
    const kiln_latent_scaling *scaling;
    const float (*rgb)[3]; /* [channels]: latent -> preview colour -1..1; NULL: none */
    /* Cells that a network takes together: height and width (and frames) have to be multiples of them, and areas are
     * widened to such. 0: 1. */
    int32_t patch, time_patch;
    const float *rgb_bias; /* 1.1: [3], is added to what rgb makes; NULL: 0 */
} kiln_latent_format;

/* ---- noise ---- */

/* How a clean latent and noise mix. Samplers that add noise ask. */
typedef enum {
    KILN_PROCESS_DIFFUSION = 1, /* x = clean + sigma noise                                       */
    KILN_PROCESS_FLOW,          /* x = (1 - sigma) clean + sigma noise, sigma 0..1               */
    KILN_PROCESS_IMAGE          /* no noise: picture to picture; a flow to what asks for nothing else */
} kiln_process;

/* Everything affine about level sigma: x0 = of_x x + of_prediction p, p what the network says of input x; a latent at
 * this level is clean x0 + noise n. Whoever fills one keeps its size, and sets no member that lies behind it. */
typedef struct {
    uint32_t size;
    double input, of_x, of_prediction, clean, noise;
} kiln_level;

/* What a run knows: where the levels follow from it (shifts by the number of tokens). 0: not known. */
typedef struct {
    uint32_t size;
    int64_t cells; /* of one latent: frames x height x width */
    int64_t steps;
} kiln_run_facts;

typedef struct kiln_model_sampling kiln_model_sampling;

/* How a model counts noise. All functions are [any], pure, and live as long as the MODEL. standard_sampling.h has the
 * known ones ready. */
struct kiln_model_sampling {
    uint32_t size;
    uint32_t process;     /* kiln_process                                                                     */
    const void *self;     /* of the maker's                                                                   */
    const char *identity; /* all that decides what the functions give: part of results' keys                  */
    double sigma_min, sigma_max;
    /* Ascending training levels for schedules that want a table; sigma NULL: level i of n_sigma
     * is percent_to_sigma(1 - (i + 1) / n_sigma). */
    const double *sigma;
    uint32_t n_sigma; /* 2 or more */
    void (*level)(const kiln_model_sampling *, double sigma, kiln_level *out);
    /* What the network is given at a level, and back. */
    double (*timestep)(const kiln_model_sampling *, double sigma);
    double (*sigma_at)(const kiln_model_sampling *, double timestep, const kiln_run_facts *);
    /* The level at a share of the way: 0 is above everything (infinity, a flow: 1), 1 is 0. */
    double (*percent_to_sigma)(const kiln_model_sampling *, double percent, const kiln_run_facts *);
    /* Optional. Where a sampling begins, if that differs from level(): x = clean latent + noise n. */
    void (*start)(const kiln_model_sampling *, double sigma, double *clean, double *noise);
    /* Optional. What is handed on where a sampling ends: scale x + shift. Without it: x / level().clean, where that is
     * neither 0 nor 1. */
    void (*end)(const kiln_model_sampling *, double sigma, double *scale, double *shift);
};

/* ---- the denoiser ---- */

typedef enum {
    KILN_TIMESTEP_PICTURE = 0, /* f32 [N]                                                                */
    KILN_TIMESTEP_FRAME,       /* f32 [N,T]: a frame that the noise mask keeps has timestep 0, others a share by the
                                  mask's mean over the frame. What is kept is shown without noise then */
    KILN_TIMESTEP_TOKEN        /* f32 [N,cells]: the same cell by cell, in memory order (frames, rows, columns) */
} kiln_timestep_kind;

/* What a denoiser may make inputs of. */
typedef struct kiln_derivation {
    uint32_t size;
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_value *conditioning; /* the entry: a map                            */
    const kiln_value *latent;       /* the LATENT that is sampled                  */
    const int64_t *dim;             /* [rank] of x                                 */
    uint32_t rank;
    uint32_t estimate;      /* as kiln_call.estimate                                           */
    uint32_t unconditional; /* 1: the conditioning is the guider's unconditional one (negative) */
    void *self;
    /* Gives the input of this name. The tensor's data and dim are the call's scratch, dim[0] is how many pictures it
     * has; in an estimate it has no data. */
    void (*add)(const struct kiln_derivation *, const char *name, const kiln_tensor *);
    uint64_t seed; /* of the sampling's noise */
    /* out[n] = torch.randn(n, generator=torch.manual_seed(seed)), torch's generator of the CPU. */
    void (*randn)(const struct kiln_derivation *, uint64_t seed, float *out, size_t n);
} kiln_derivation;

struct kiln_model;

typedef struct kiln_denoiser {
    uint32_t size;
    const char *family; /* all that decides what record() records but shapes and weights: part of programs' keys */
    void *self;
    const kiln_latent_format *latent;
    const kiln_model_sampling *sampling; /* the model's own; a MODEL may override it         */
    uint32_t timestep;                   /* kiln_timestep_kind                                */
    uint32_t n_input, input_stride;
    const kiln_input_spec *input;
    /* Records one evaluation -> x's shape with the latent's channels. Every tensor of `weights` is asked for. */
    kiln_t (*record)(const struct kiln_denoiser *, const kiln_ops *, kiln_program *, kiln_weights *weights,
                     const kiln_denoise_inputs *);
    /* Calls fn for each named place a hook may act at, in order, with its KILN_PLACE_... kind. NULL: there are none. */
    void (*places)(const struct kiln_denoiser *, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg);
    /* Optional [run]: inputs that do not stand in the entry as they are needed: a mask and a masked latent beside one
     * another, an embedding with noise on it. What it adds goes before what the entry has. */
    kiln_status (*derive)(const struct kiln_denoiser *, const kiln_derivation *);
    const char *const *derive_key; /* the entry's keys that derive() reads, ends with NULL; NULL: any of them */
    /* Optional: the further streams of x after the first (audio beside video): their formats. In a LATENT they are its
     * "streams", a list of tensors; record() adds its predictions of them to the inputs' `out` as "1", "2", ... */
    const kiln_latent_format *stream;
    uint32_t n_stream, stream_stride;
    const char *architecture; /* what people call it: "SDXL refiner"; NULL: the family's name */
    /* Bit KILN_BF16, KILN_F16, KILN_F32: types wide enough for its activations; 0: all. A run in another type takes
     * the next wider one for this network (bf16 or f32 in place of f16). */
    uint32_t precisions;
    /* Optional [run]: how its tensors are called in a file (saving.h), and what else that has to say. The MODEL has
     * this denoiser, with weights, sampling and latents that others may have changed. */
    kiln_status (*save)(const struct kiln_denoiser *, const struct kiln_model *, const kiln_saving *);
} kiln_denoiser;

/* ---- guidance: what is made of the guesses at each level ---- */

/* A guess of x0 that guidance asks for beside those of the guider: kiln_guesses.evaluate(). */
typedef struct {
    uint32_t size;
    uint32_t unconditional;       /* 1: under the conditioning of `negative`, 0: of `positive`    */
    kiln_latent *x;               /* of x's shape; NULL: x                                        */
    const kiln_hook *const *hook; /* act in it after the MODEL's own; they have no inputs         */
    size_t n_hook;
} kiln_further_guess;

/* One evaluation, in model space. All latents have one shape; all but x0 and memory are only read. */
typedef struct kiln_guesses kiln_guesses;
struct kiln_guesses {
    uint32_t size;
    const kiln_model_sampling *sampling; /* of the model                                                 */
    const kiln_latents *latents;         /* what to compute with                                         */
    double sigma, cfg;
    kiln_latent *x;        /* the noisy latent                                                 */
    kiln_latent *positive; /* the guess of x0 under the positive conditioning                  */
    kiln_latent *negative; /* under the negative one; NULL: it was not evaluated (cfg 1)       */
    kiln_latent *extra;    /* under `conditioning` of this guidance; NULL: it has none         */
    kiln_latent *x0;       /* what the sampler will get; to be changed in place                */
    /* With KILN_GUIDANCE_REMEMBERS: what apply() left here at the evaluation before, and that one's level; zeros at the
     * sampling's first. NULL: a part of a picture is evaluated, of which nothing is kept. */
    kiln_latent *memory;
    double memory_sigma;
    void *self;
    /* *out = one more guess of x0 at this level, there until the next is asked for. It costs an evaluation. */
    kiln_status (*evaluate)(const kiln_guesses *, const kiln_further_guess *, kiln_latent **out);
    /* Says in one sentence why it cannot be done, and returns `status`. */
    kiln_status (*fail)(const kiln_guesses *, kiln_status status, const char *fmt, ...)
        __attribute__((format(printf, 3, 4)));
    /* *out = what a hook on the model gave beside the guess (kiln_hook.output), under the conditioning of `negative`
     * (unconditional 1) or of `positive`: of x's shape, with one channel; there until the next evaluation. Fails with a
     * sentence where the guess is made of several: entries with areas, masks or strengths. */
    kiln_status (*output)(const kiln_guesses *, const kiln_hook *, const char *name, uint32_t unconditional,
                          kiln_latent **out);
};

enum {
    KILN_GUIDANCE_REPLACE = 1,       /* stands for negative + cfg (positive - negative): of several on a model only
                                        the last acts, and it is not called where there is no negative guess */
    KILN_GUIDANCE_UNCONDITIONAL = 2, /* wants the negative guess even at cfg 1 */
    KILN_GUIDANCE_BEFORE = 4,        /* acts before the guesses are combined: x0 is NULL, and positive and negative may
                                        be changed in place. It is not called where there is no negative guess */
    KILN_GUIDANCE_REMEMBERS = 8      /* wants kiln_guesses.memory */
};

/* RescaleCFG and its like: hangs on a MODEL and acts in whatever samples it. Those without REPLACE and BEFORE act in
 * order, after the guesses were combined. */
typedef struct {
    uint32_t size, flags;
    void *self;
    const char *identity;           /* all that decides what apply() does, its `conditioning` aside */
    const kiln_value *conditioning; /* a CONDITIONING to be evaluated as well, or NULL              */
    kiln_status (*apply)(void *self, const kiln_guesses *); /* [run] */
} kiln_guidance;

/* ---- noise masks ---- */

/* What a noise mask (1: drawn, 0: kept) is at a level, for methods that let parts of a picture begin later. Without a
 * rule it is the same at all levels. */
typedef struct {
    uint32_t size;
    const char *identity; /* all that decides what at() gives */
    const void *self;
    /* The mask's number -> what counts at this level. first, last: the levels a run begins with and ends at (its last
     * sigma). [any], pure. */
    double (*at)(const void *self, const kiln_model_sampling *, double sigma, double first, double last, double mask);
} kiln_mask_rule;

/* ---- windows ---- */

/* Some pictures of a batch, to be evaluated by themselves. Arrays: room for one more than the batch has pictures. */
typedef struct {
    uint32_t size;
    uint32_t n;      /* pictures in the window                                                   */
    int64_t *x;      /* [n] whose latent is seen                                                 */
    int64_t *inputs; /* [n] whose inputs (an input of one picture is everybody's)                */
    int64_t *to; /* [n] whose guess it is a part of, each picture's at most once; -1: it is only seen by the others */
    double *weight; /* [n] its share there, above 0: guesses are weighted means                 */
} kiln_window;

/* How a batch of pictures is evaluated a window at a time, and what of their noise is one another's (context windows).
 * Hangs on a MODEL; every evaluation of its guider's conditionings goes by it. */
typedef struct {
    uint32_t size;
    uint32_t split;       /* 1: of several entries of a conditioning each window takes one, by where its middle is */
    const char *identity; /* all that decides what the functions do */
    const void *self;
    /* Fills window `i` of a batch at a step of the sampling, counted from 0: 1; 0: there are no more (i 0: the batch is
     * evaluated whole); -1: these windows make no sense for so many pictures. [any], pure */
    int (*at)(const void *self, int64_t pictures, int64_t step, size_t i, kiln_window *out);
    /* NULL, or from[pictures] = whose drawn noise each picture begins with. 0: no memory. [any], pure */
    int (*noise)(const void *self, int64_t pictures, uint64_t seed, int64_t *from);
} kiln_windows;

/* ---- MODEL ---- */

/* Another MODEL that evaluates levels below `below` in this one's place, with its own weights, hooks and inputs (a
 * refiner, the low-noise half of a pair). Latents are of one format. An entry of a CONDITIONING with the key
 * "model_range" and this name is for this range alone; one without it is for all. */
typedef struct {
    uint32_t size;
    const char *name; /* "refiner" */
    double below;     /* a level */
    const kiln_value *model;
} kiln_model_range;

/* What all pointers point to lives as long as the value: `owned` or `base` keeps it. */
typedef struct kiln_model {
    uint32_t size;
    const kiln_denoiser *denoiser;
    kiln_weights *weights;
    const kiln_hook *const *hook;
    size_t n_hook;
    const kiln_model_sampling *sampling; /* NULL: the denoiser's */
    const kiln_guidance *const *guidance;
    size_t n_guidance;
    const kiln_latent_scaling *latent; /* NULL: the denoiser's */
    const kiln_model_range *range;     /* by falling `below`; n_range structs of the first's size */
    size_t n_range;
    const char *name; /* of the range this one stands for, to which entries may be bound ("base"); NULL: none */
    void *owned;      /* what release() frees when the last value goes */
    void (*release)(void *owned);
    kiln_value *base;                /* or the value this one was made from, kept alive */
    const kiln_mask_rule *mask_rule; /* NULL: noise masks stay as they are */
    const kiln_windows *windows;     /* NULL: batches are evaluated whole */
} kiln_model;

#ifdef __cplusplus
}
#endif
#endif
