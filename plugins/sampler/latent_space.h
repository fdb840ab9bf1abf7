/* latent_space.h - the latents of a sampling: memory where programs run, and kiln/latent.h's arithmetic on it.
 *
 * Everything goes through kiln_ops' vector ops, so there is one body of code for the host and for devices. Memory is
 * the call's scratch.
 */
#ifndef KILN_SAMPLER_LATENT_SPACE_H
#define KILN_SAMPLER_LATENT_SPACE_H

#include "kiln/latent.h"
#include "kiln/ops.h"

enum { STREAMS_MAX = 4 };

typedef struct {
    const kiln_call *call;
    const kiln_ops *ops;
    uint32_t device;                       /* where latents are: KILN_CPU, or the device that programs run on */
    kiln_latent_shape shape;               /* of the sampling */
    kiln_latent_shape stream[STREAMS_MAX]; /* further tensors of a latent, behind the first */
    size_t n_stream, more;                 /* more: their numbers */
    kiln_latents algebra;                  /* self points back here */
    kiln_status failed;                    /* the first failure of what returns no status */
    struct {
        float *data;
        size_t capacity;
    } spare[4]; /* working memory of paste and roll (on the device), resize and random (on the host) */
} latent_space;

struct kiln_latent {
    const latent_space *space;
    kiln_latent_shape shape;
    size_t more; /* numbers of further streams, behind the first's */
    float *data; /* on space->device */
    float *kept; /* as it was after the last step, for a saved state; NULL: never kept */
};

kiln_status latent_space_init(latent_space *s, const kiln_call *call);

size_t latent_shape_count(const kiln_latent_shape *s);
/* The dimensions as programs see them, with so many channels; returns the rank. */
uint32_t latent_dims(const kiln_latent_shape *s, int64_t channels, int64_t dim[5]);
static inline size_t latent_count(const kiln_latent *x) { return latent_shape_count(&x->shape) + x->more; }
/* What lies behind the first stream of a latent of this shape: the further streams, if it is the sampling's. */
size_t latent_more(const latent_space *s, const kiln_latent_shape *shape);

/* n pictures [n,C,cells], as torch draws them, -> [n,cells,C]. */
void latent_pictures_last(const kiln_latent_shape *shape, int64_t n, const float *drawn, float *out);
/* The same for all of a latent like that one: its streams one after the other. */
void latent_channels_last(const kiln_latent *like, const float *drawn, float *out);

/* n floats on the device, not cleared. NULL: no memory. */
float *latent_floats(const latent_space *s, size_t n);
/* x becomes a latent of that shape whose elements are anything. */
kiln_status latent_init(latent_space *s, kiln_latent *x, const kiln_latent_shape *shape);
/* Host memory to a new latent; channels 1: a mask. */
kiln_status latent_from_host(latent_space *s, kiln_latent *x, const kiln_latent_shape *shape, const float *data);
kiln_status latent_copy(latent_space *s, kiln_latent *out, const kiln_latent *x);
/* kiln_latents.lincomb with a status. */
kiln_status latent_combine(latent_space *s, kiln_latent *out, size_t n, const double *coefficient,
                           kiln_latent *const *x);
kiln_status latent_upload(latent_space *s, kiln_latent *x, const float *data);
kiln_status latent_download(latent_space *s, const kiln_latent *x, float *data);
/* *finite: 1 if every element is. */
kiln_status latent_is_finite(latent_space *s, const kiln_latent *x, int *finite);

/* Notes x as it is now; latent_kept brings that to the host. */
void latent_keep(latent_space *s, kiln_latent *x);
kiln_status latent_kept(const latent_space *s, const kiln_latent *x, float *out);

#endif
