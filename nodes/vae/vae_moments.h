/* vae_moments.h - group norms on the host: the moments of a picture's channels, gathered row by row, and what a norm
 * makes of a number with them.
 *
 * Moments are sums of x - origin and its square, origin being the picture's first pixel: 32 pixels in f32, then in f64.
 * So a mean far from 0 costs no digits. Parts are fixed and added in order: any number of threads gives the same bytes.
 */
#ifndef KILN_NODES_VAE_MOMENTS_H
#define KILN_NODES_VAE_MOMENTS_H

#include "kiln/plugin.h"

typedef struct {
    size_t channels;
    int64_t pixels; /* so far */
    float *origin;  /* [channels] */
    double *sum, *squares;
    double *part; /* working memory */
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
/* Adds dense rows [rows, columns, channels]. */
void vae_moments_add(const kiln_call *c, vae_moments *m, const float *x, int64_t rows, int64_t columns);
/* Population variance over a group's channels and all pixels. gamma, beta: NULL is 1 and 0. */
void vae_norm_make(const vae_moments *m, int32_t groups, float eps, const float *gamma, const float *beta,
                   vae_norm *out);
/* In place. */
void vae_norm_apply(const kiln_call *c, const vae_norm *n, float *x, int64_t rows, int64_t columns);

#endif
