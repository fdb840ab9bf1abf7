/* vae_parts.h - a video converted part by part in time (kiln_autoencoder.part_cells): the memory of a part, however long
 * the video.
 */
#ifndef KILN_NODES_VAE_PARTS_H
#define KILN_NODES_VAE_PARTS_H

#include "vae_convert.h"

/* The autoencoder goes in parts, and a video of the shape `one` is more than one of them. */
int vae_has_parts(const vae_converter *v, const vae_shape *one);
/* Cells of a later part: as many as the autoencoder says, half of them and so on where these do not fit; *fits 0: not
 * even one does. */
kiln_status vae_parts_choose(vae_converter *v, const vae_shape *one, int64_t *cells, int *fits);
/* How many runs a video is. */
uint64_t vae_parts_runs(const vae_converter *v, const vae_shape *one, int64_t cells);
/* One video at x gives y and, where the converter wants it, the log-variance. All may be NULL in an estimate. */
kiln_status vae_run_in_parts(vae_converter *v, int64_t cells, const vae_shape *in, float *x, float *y, float *variance);

#endif
