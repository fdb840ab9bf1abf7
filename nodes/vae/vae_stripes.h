/* vae_stripes.h - a picture converted in stripes of rows, layer by layer: the numbers of the whole picture, the memory
 * of a few rows.
 *
 * The stages of vae_stages.h run one after the other, each stripe after stripe. What they keep lies in a file
 * (kiln_host.spill), so it costs disk and no memory; the statistics of what a group norm takes are summed up while it
 * is written. Only what looks at all of a picture, such as attention, runs on all of it at once.
 */
#ifndef KILN_NODES_VAE_STRIPES_H
#define KILN_NODES_VAE_STRIPES_H

#include "vae_stages.h"

typedef struct vae_stripes vae_stripes; /* lives as long as the call */

/* For pictures of the shape `one`. *out NULL: this autoencoder, or this host, does not do it. */
kiln_status vae_stripes_new(vae_converter *v, const vae_shape *one, vae_stripes **out);
/* Stripes as high as their ops give so many bytes together, or a band; *fits: whether memory has room for them. */
kiln_status vae_stripes_take(vae_stripes *s, size_t bytes, int *fits);
/* The highest stripes that fit; *fits 0: not even the lowest do, and those are taken. */
kiln_status vae_stripes_choose(vae_stripes *s, int *fits);
/* Rows of pixels in one of the highest stripes; how many runs a picture is; the bytes that the programs of the lowest
 * take, with what they take and give. */
int64_t vae_stripes_rows(const vae_stripes *s);
uint64_t vae_stripes_runs(const vae_stripes *s);
uint64_t vae_stripes_least(const vae_stripes *s);
/* One picture at x gives y and, where the converter wants it, the log-variance. All may be NULL in an estimate. */
kiln_status vae_stripes_run(vae_stripes *s, float *x, float *y, float *variance);

#endif
