/* model.h - "kiln.model/1": what a model is to the rest of the engine.
 *
 * A denoiser, a text encoder and an autoencoder are constant tables with a record
 * function: they write their network into a program (ops.h) and do nothing else. MODEL,
 * CLIP and VAE values have such a table, the weights it reads, and settings; a node like
 * LoraLoader returns the same table with other weights, FreeU the same with one more hook.
 *
 * A model family registers a row (name, detect, open): which family a checkpoint
 * belongs to is decided by what is in the file. Another plugin's family is found the same way.
 *
 * Ownership: tables, and what hangs on them, live as long as the value that was made from
 * them; the values are reference counted. Rows given to register_family() must be static.
 */
#ifndef KILN_MODEL_H
#define KILN_MODEL_H

#include "latent.h"
#include "ops.h"
#include "value.h"
#include "weights.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_MODEL_ABILITY "kiln.model/1"
#define KILN_MAX_LATENT_CHANNELS 32

/* ---- hooks: more ops at a named place, while recording ---- */

typedef struct {
    uint32_t size;
    const char *place;     /* "input.4.attn1.out", "middle.0", "output.3.skip", ...        */
    int32_t heads;         /* at attention places                                          */
    kiln_t query, context; /* at attention places: queries after to_q, and what is attended */
    kiln_t timestep_embedding;
} kiln_hook_info;

typedef struct {
    uint32_t size;
    void *self;
    const char *identity; /* all that decides what at() records: part of the result's key */
    /* Returns `x`, or what shall take its place (same shape). */
    kiln_t (*at)(void *self, const kiln_ops *, kiln_program *, kiln_t x, const kiln_hook_info *);
} kiln_hook;

/* ---- denoiser ---- */

/* What the network's answer p means at level s, with d = sigma_data (1 but for EDM):
 *   EPS   x0 = x - s p                                                         Ho et al. 2020
 *   V     x0 = d^2/(s^2+d^2) x - s d/sqrt(s^2+d^2) p                           Salimans and Ho 2022, appendix D
 *   X0    x0 = p
 *   FLOW  x0 = x - s p, where x = (1-s) x0 + s noise and the network sees x    Lipman et al. 2022
 *   EDM   as V, with p of the other sign                                       Karras et al. 2022, eq. 7
 *   LCM   x0 = d^2/(u^2+d^2) x + u/sqrt(u^2+d^2) (x - s p), u = 10 timesteps, here d = 1/2   Luo et al. 2023
 *   IMAGE x0 = p, and the network sees x as it is (picture to picture)
 *   IMAGE_FLOW as IMAGE, of a latent that is given no noise; what it ends with is 1 - x. To samplers it is a flow
 *   RFLOW x0 = (x - s p)/(1+s), and the network sees x/(1+s): a rectified flow at time s/(1+s), in these numbers
 *                                                                               NVIDIA 2025 (Cosmos-Predict2)
 * All but FLOW, IMAGE, IMAGE_FLOW and RFLOW scale what the network sees by 1/sqrt(s^2 + sigma_data^2). */
typedef enum {
    KILN_PREDICT_EPS = 1,
    KILN_PREDICT_V,
    KILN_PREDICT_X0,
    KILN_PREDICT_FLOW,
    KILN_PREDICT_EDM,
    KILN_PREDICT_LCM,
    KILN_PREDICT_IMAGE,
    KILN_PREDICT_RFLOW,
    KILN_PREDICT_IMAGE_FLOW
} kiln_prediction;

typedef struct {
    uint32_t size;
    int32_t channels, factor;               /* factor: pixels per latent cell, each way         */
    double scale, shift;                    /* model space = (latent - shift) * scale; SD1: .18215, 0 */
    float rgb[KILN_MAX_LATENT_CHANNELS][3]; /* latent -> preview colour -1..1     */
    uint32_t has_rgb;
} kiln_latent_format;

/* A scale and a shift for each channel, in the place of a format's one. */
typedef struct {
    uint32_t size, channels;
    const double *scale, *shift; /* [channels]: model space = (latent - shift[k]) * scale[k] */
} kiln_latent_scaling;

/* How a noise level becomes the timestep the network is given. */
typedef enum {
    KILN_TIME_INTERPOLATED = 0, /* multiplier * place + offset, the place interpolated in log sigma (k-diffusion) */
    KILN_TIME_NEAREST,          /* the same of the nearest entry (ComfyUI)                                        */
    KILN_TIME_LOG,              /* log(sigma) / 4                                (Karras et al. 2022)             */
    KILN_TIME_ANGLE,            /* 2/pi atan(sigma)                              (Salimans and Ho 2022)           */
    KILN_TIME_FLOW,             /* multiplier * sigma; the level at share u of the way is
                                   shift u / (1 + (shift-1) u)                   (Esser et al. 2024, eq. 23)      */
    KILN_TIME_RATIO             /* sigma / (1 + sigma)                                                            */
} kiln_time;

/* The noise parameterisation of a model: its levels, what it predicts and which timestep it is given. A member that
 * is 0 has its default. */
typedef struct {
    uint32_t size;
    uint32_t prediction;       /* kiln_prediction                                             */
    uint32_t time;             /* kiln_time                                                   */
    uint32_t n_sigma;          /* 2 or more                                                   */
    const double *sigma;       /* [n_sigma] ascending training sigmas; they live as long as the MODEL */
    double multiplier, offset; /* of the timestep; multiplier 1 by default                    */
    double shift;              /* of FLOW, 1 by default                                       */
    double sigma_data;         /* standard deviation of the data in model space, 1 by default */
} kiln_model_sampling;

typedef struct {
    uint32_t size;
    kiln_t x;        /* [N,H,W,C], already scaled by c_in             */
    kiln_t timestep; /* f32 [N]                                       */
    kiln_t context;  /* [N,T,context_dim]                             */
    kiln_t pooled;   /* [N,pooled_dim] or {0}                         */
    const kiln_hook *const *hook;
    size_t n_hook;
} kiln_denoise_inputs;

typedef struct kiln_denoiser {
    uint32_t size;
    const char *family;
    void *self;
    kiln_latent_format latent;
    kiln_model_sampling sampling; /* the model's own; a MODEL may override it     */
    int64_t context_dim, pooled_dim, in_channels;
    /* Records one evaluation -> [N,H,W,C]. Every tensor of `weights` is asked for. */
    kiln_t (*record)(const struct kiln_denoiser *, const kiln_ops *, kiln_program *, kiln_weights *weights,
                     const kiln_denoise_inputs *);
    /* Calls fn for each named place a hook may act at, in order. */
    void (*places)(const struct kiln_denoiser *, void (*fn)(void *arg, const char *place), void *arg);
} kiln_denoiser;

/* ---- guidance: what is made of the guesses at each level ---- */

/* One evaluation, in model space. All latents have one shape; all but x0 are only read. */
typedef struct {
    uint32_t size;
    uint32_t prediction;         /* kiln_prediction of the model                                     */
    const kiln_latents *latents; /* what to compute with                                             */
    double sigma, cfg;
    kiln_latent *x;        /* the noisy latent                                                 */
    kiln_latent *positive; /* the guess of x0 under the positive conditioning                  */
    kiln_latent *negative; /* under the negative one; NULL: it was not evaluated (cfg 1)       */
    kiln_latent *extra;    /* under `conditioning` of this guidance; NULL: it has none         */
    kiln_latent *x0;       /* what the sampler will get; to be changed in place                */
} kiln_guesses;

enum {
    KILN_GUIDANCE_REPLACE = 1,      /* stands for negative + cfg (positive - negative): of several on a model only
                                       the last acts, and it is not called where there is no negative guess */
    KILN_GUIDANCE_UNCONDITIONAL = 2 /* wants the negative guess even at cfg 1 */
};

/* RescaleCFG and its like: hangs on a MODEL and acts in whatever samples it. Those without REPLACE act in order,
 * after the guesses were combined. */
typedef struct {
    uint32_t size, flags;
    void *self;
    const char *identity;           /* all that decides what apply() does, its `conditioning` aside */
    const kiln_value *conditioning; /* a CONDITIONING to be evaluated as well, or NULL              */
    kiln_status (*apply)(void *self, const kiln_guesses *); /* [run] */
} kiln_guidance;

/* sampling.sigma, guidance, latent and what they point to live as long as the value: `owned` or `base` keeps them. */
typedef struct {
    uint32_t size;
    const kiln_denoiser *denoiser;
    kiln_weights *weights;
    const kiln_hook *const *hook;
    size_t n_hook;
    kiln_model_sampling sampling;
    void *owned; /* what release() frees when the last value goes */
    void (*release)(void *owned);
    kiln_value *base; /* or the value this one was made from, kept alive */
    const kiln_guidance *const *guidance;
    size_t n_guidance;
    const kiln_latent_scaling *latent; /* NULL: the denoiser's latent.scale and .shift */
} kiln_model;

/* ---- text encoder ---- */

/* Weighted token chunks, all of one length, BOS/EOS/padding in place. Memory: the call's scratch. */
typedef struct {
    uint32_t size;
    uint32_t n_chunk, length;
    int32_t *id;   /* [n_chunk][length]                                  */
    float *weight; /* [n_chunk][length], 1 where nothing was said        */
    int32_t *end;  /* [n_chunk] place of the first end-of-text token     */
} kiln_tokens;

typedef struct {
    kiln_t tokens; /* [N,length,width]: hidden states that condition the denoiser */
    kiln_t pooled; /* [N,pooled width] or {0}                                    */
} kiln_text_features;

typedef struct kiln_text_encoder {
    uint32_t size;
    const char *family;
    void *self;
    int64_t width, pooled_width, length; /* length: tokens a chunk, BOS and EOS included */
    int32_t layers;
    int32_t default_layer; /* -1 = last, -2 = the one before, ... when the user says nothing */
    /* Text with (weights:1.2) -> chunks. Escapes and chunking as ComfyUI's. [run] */
    kiln_status (*tokenise)(const struct kiln_text_encoder *, const kiln_host *, kiln_ctx *, const char *text,
                            kiln_tokens *out);
    /* ids i32 [N,length], end i32 [N]; layer -1 = last. */
    kiln_text_features (*record)(const struct kiln_text_encoder *, const kiln_ops *, kiln_program *,
                                 kiln_weights *weights, kiln_t ids, kiln_t end, int32_t layer);
} kiln_text_encoder;

typedef struct {
    uint32_t size;
    const kiln_text_encoder *encoder;
    kiln_weights *weights;
    int32_t layer; /* 0 = the encoder's default */
    void *owned;
    void (*release)(void *owned);
    kiln_value *base;
} kiln_clip;

/* ---- autoencoder ---- */

typedef struct kiln_autoencoder {
    uint32_t size;
    const char *family;
    void *self;
    kiln_latent_format latent;
    /* image [N,H,W,3] in -1..1, H and W multiples of latent.factor -> mean [N,H/f,W/f,C], unscaled */
    kiln_t (*record_encode)(const struct kiln_autoencoder *, const kiln_ops *, kiln_program *, kiln_weights *weights,
                            kiln_t image);
    /* latent [N,h,w,C], unscaled -> image [N,h*f,w*f,3] about -1..1, not clamped */
    kiln_t (*record_decode)(const struct kiln_autoencoder *, const kiln_ops *, kiln_program *, kiln_weights *weights,
                            kiln_t latent);
} kiln_autoencoder;

typedef struct {
    uint32_t size;
    const kiln_autoencoder *autoencoder;
    kiln_weights *weights;
    void *owned;
    void (*release)(void *owned);
    kiln_value *base;
} kiln_vae;

/* ---- families ---- */

typedef enum { KILN_FAMILY_DENOISER = 1, KILN_FAMILY_TEXT_ENCODER, KILN_FAMILY_AUTOENCODER } kiln_family_kind;

typedef struct {
    uint32_t size;
    uint32_t kind;
    const char *name, *doc; /* "sd1-unet" */
    /* 0 = not mine; the highest score wins, 100 = certain. Looks at names, shapes and texts only. */
    int (*detect)(const kiln_weights_api *, const kiln_weights *set);
    /* Returns a MODEL, CLIP or VAE value over `set` (it takes references of its own), or NULL with a
     * message. Reads configuration and headers, no weights. [run] */
    kiln_value *(*open)(const kiln_host *, kiln_ctx *, kiln_weights *set);
} kiln_model_family;

typedef struct {
    uint32_t size;
    kiln_status (*register_family)(const kiln_model_family *); /* [open] */
    size_t (*family_count)(uint32_t kind);                     /* [any]  */
    const kiln_model_family *(*family_at)(uint32_t kind, size_t i);
    /* The family with the highest score, or NULL. */
    const kiln_model_family *(*detect)(uint32_t kind, const kiln_weights *set);

    /* Values. The struct is copied; weights and base get a reference of the value's own; release is
     * called with owned when the value dies. On failure (NULL) nothing was taken. */
    kiln_value *(*model_new)(kiln_ctx *, const kiln_model *);
    kiln_value *(*clip_new)(kiln_ctx *, const kiln_clip *);
    kiln_value *(*vae_new)(kiln_ctx *, const kiln_vae *);
    /* NULL with a message when the value is something else. Lives as long as the value. */
    const kiln_model *(*model)(kiln_ctx *, const kiln_value *);
    const kiln_clip *(*clip)(kiln_ctx *, const kiln_value *);
    const kiln_vae *(*vae)(kiln_ctx *, const kiln_value *);
} kiln_model_api;

#ifdef __cplusplus
}
#endif
#endif
