/* latent.h - arithmetic on the latents of a running sampling, wherever their memory is.
 *
 * A kiln_latent is f32 [pictures, frames, height, width, channels] in model space, in memory of the device that
 * programs run on. A picture has one frame, a sound one frame and one row. Samplers, guiders and guidance that hangs on
 * a MODEL work on latents through these functions alone, so that nothing crosses the link to the device, and what they
 * compute is the same everywhere.
 *
 *     const kiln_latents *l = s->latents;                             // of a kiln_sampling (sampler.h)
 *     kiln_latent *mean = l->create(l, NULL);
 *     l->lincomb(l, mean, 2, (double[]){0.5, 0.5}, (kiln_latent *[]){a, b});
 *
 * A latent of several streams (video and audio) is one kiln_latent: what is said of shapes, masks and parts is said of
 * the first; sums, norms and products are over all; blend() keeps a's further streams; crop, paste, roll and the like
 * are refused.
 *
 * All functions are [run], on the sampling's thread. Latents live as long as the call and belong to the sampling that
 * made them. Latents that are combined have one shape. A function without a status notes the first failure, and what
 * returns a status next (denoise, step, finish) returns it.
 */
#ifndef KILN_LATENT_H
#define KILN_LATENT_H

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kiln_latent kiln_latent;
typedef struct kiln_latents kiln_latents;

/* In a request a member that is 0 stands for the sampling's own. `rank` says which of these the network sees: 4 is
 * [pictures, height, width, channels], 5 has frames too, 3 is [pictures, width, channels]. It goes by value and does
 * not grow. */
typedef struct {
    int64_t pictures, frames, height, width, channels;
    int64_t rank;
} kiln_latent_shape;

/* The cell where a part of a picture begins. It goes by value and does not grow. */
typedef struct {
    int64_t y, x;
} kiln_latent_place;

/* The inner product of two linear combinations of the same latents, for each picture:
 * sum over its elements i of (sum over k of a[k] x[k][i] + shift) (sum over k of b[k] x[k][i] + shift), in f64. */
typedef struct {
    uint32_t size;
    size_t n;              /* 1 to 64 latents            */
    const double *a, *b;   /* [n]; b NULL: the second factor is 1 */
    const double *shift;   /* [pictures]; NULL: 0        */
    kiln_latent *const *x; /* [n]                        */
} kiln_latent_dot;

struct kiln_latents {
    uint32_t size;
    void *self;
    /* A new latent of zeros. NULL shape: the sampling's. NULL: no memory. A mask, a weight or a total is a latent of
     * one channel; one picture of it then stands for all. */
    kiln_latent *(*create)(const kiln_latents *, const kiln_latent_shape *);
    kiln_latent_shape (*shape)(const kiln_latents *, const kiln_latent *);
    /* out = sum coefficient[k] * x[k], summed in f64 in this order, rounded once; out may be one of x. n up to 64; one
     * term with coefficient 1 is a copy, no term zeros. */
    void (*lincomb)(const kiln_latents *, kiln_latent *out, size_t n, const double *coefficient, kiln_latent *const *x);
    /* The same with coefficients of its own for each picture: coefficient[pictures][n]. */
    void (*lincomb_each)(const kiln_latents *, kiln_latent *out, size_t n, const double *coefficient,
                         kiln_latent *const *x);
    /* out = x + t (a - b) in f64, rounded once: guidance by a difference. */
    void (*add_difference)(const kiln_latents *, kiln_latent *out, const kiln_latent *x, double t, const kiln_latent *a,
                           const kiln_latent *b);
    /* sqrt(mean(x^2)). */
    double (*norm)(const kiln_latents *, const kiln_latent *x);
    /* out[pictures]. */
    void (*dot)(const kiln_latents *, const kiln_latent_dot *, double *out);
    /* out = a * mask + b * (1 - mask), cell by cell. */
    void (*blend)(const kiln_latents *, kiln_latent *out, const kiln_latent *a, const kiln_latent *b,
                  const kiln_latent *mask);
    /* out = the part of x, of out's height and width, that begins there; all frames. */
    void (*crop)(const kiln_latents *, kiln_latent *out, const kiln_latent *x, kiln_latent_place from);
    /* Adds `part` there: sum += weight * part, total += weight. weight NULL: 1 everywhere. */
    void (*accumulate)(const kiln_latents *, kiln_latent *sum, kiln_latent *total, const kiln_latent *part,
                       const kiln_latent *weight, kiln_latent_place to);
    /* x /= total, cell by cell; cells whose total is 0 or 1 stay as they are. */
    void (*divide)(const kiln_latents *, kiln_latent *x, const kiln_latent *total);
    /* All elements, from and to host memory. In an estimate nothing is moved. */
    void (*upload)(const kiln_latents *, kiln_latent *x, const float *data);
    void (*download)(const kiln_latents *, const kiln_latent *x, float *data);
    /* Puts `part` into x there, over what was there. */
    void (*paste)(const kiln_latents *, kiln_latent *x, const kiln_latent *part, kiln_latent_place to);
    /* out = x moved by so many cells down and right; what leaves comes in at the other side. out is not x. */
    void (*roll)(const kiln_latents *, kiln_latent *out, const kiln_latent *x, kiln_latent_place by);
    /* out = x scaled to out's height and width by a kiln_resize method (sampler.h). Works on the host. */
    void (*resize)(const kiln_latents *, kiln_latent *out, const kiln_latent *x, uint32_t method);
    /* Unit Gaussian noise as torch's CPU generator draws it from this seed for a tensor [pictures, channels, (frames,)
     * height, width]. */
    void (*random)(const kiln_latents *, kiln_latent *out, uint64_t seed);
    /* How many numbers upload() and download() move: all streams. */
    size_t (*count)(const kiln_latents *, const kiln_latent *);
};

#ifdef __cplusplus
}
#endif
#endif
