/* vae_moments.h - group norms on the host: the moments of a picture's channels, gathered stripe by stripe, and what a
 * norm makes of a number with them. Numbers are f32 or, as 16-bit programs store them, bf16.
 *
 * Moments are sums of x - origin and its square, origin being the picture's first pixel: 32 pixels in f32, then in f64.
 * So a mean far from 0 costs no digits. A stripe is cut into PARTS that do not depend on how many threads there are,
 * and their sums are added in order: any number of threads gives the same bytes.
 */
#ifndef KILN_NODES_VAE_MOMENTS_H
#define KILN_NODES_VAE_MOMENTS_H

#include "kiln/plugin.h"

enum { VAE_PARTS = 16 };

typedef struct {
    size_t channels;
    int64_t pixels; /* so far */
    float *origin;  /* [channels] */
    double *sum, *squares;
    double *part; /* [VAE_PARTS][2][channels] of the stripe */
} vae_moments;

/* What a norm makes of channel c: (x - mean[c]) * scale[c] + shift[c]. */
typedef struct {
    size_t channels;
    float *mean, *scale, *shift;
} vae_norm;

/* Memory lives as long as the call. KILN_ERR_NOMEM. */
kiln_status vae_moments_new(const kiln_call *c, size_t channels, vae_moments *out);
kiln_status vae_norm_new(const kiln_call *c, size_t channels, vae_norm *out);
void vae_moments_clear(vae_moments *m);

/* A stripe that begins with these pixels: first begin, then the pixels of each part (parts at once, pieces of one in
 * order), then end with how many there were in all. */
void vae_moments_begin(vae_moments *m, const void *x, uint32_t dtype);
void vae_moments_add(vae_moments *m, size_t part, const void *x, uint32_t dtype, size_t pixels);
void vae_moments_end(vae_moments *m, int64_t pixels);

/* Population variance over a group's channels and all pixels. gamma, beta: NULL is 1 and 0. */
void vae_norm_make(const vae_moments *m, int32_t groups, float eps, const float *gamma, const float *beta,
                   vae_norm *out);
/* In place. */
void vae_norm_apply(const vae_norm *n, void *x, uint32_t dtype, size_t pixels);

#endif
