/* sample_session.h - one running sampling and what its sampler sees of it: denoise, linear algebra, noise, slots,
 * steps.
 *
 * Latents are f32 [N,H,W,C] in model space: (latent - shift) * scale of what a LATENT value holds. Memory: the call's
 * scratch. sample.c sets a session up and finishes it.
 */
#ifndef KILN_SAMPLER_SAMPLE_SESSION_H
#define KILN_SAMPLER_SAMPLE_SESSION_H

#include "guide.h"
#include "kiln/store.h"
#include "sample.h"

enum { SLOTS_MAX = 64, SLOT_NAME_MAX = 32 };

typedef struct {
    char name[SLOT_NAME_MAX];
    kiln_latent latent;
    double *scalar;
    size_t n; /* of scalar */
} slot_entry;

typedef struct {
    kiln_sampling api; /* self points back here */
    const sample_job *job;
    const kiln_model *model;
    guide guide;
    size_t count;
    int64_t first_height, first_width; /* of the latent that was given */
    kiln_latent x;
    float *noise, *start, *mask, *masked; /* mask [N,H,W] or NULL; start: the latent in model space */
    kiln_latent denoised;                 /* the last guess of x0, where it is wanted; else no data */
    latent_place place;
    noise_source random;
    slot_entry slot[SLOTS_MAX], number[SLOTS_MAX];
    size_t n_slot, n_number;
    const kiln_store_api *store; /* NULL: no state is kept                                          */
    kiln_value *last;            /* the state after the last step, where one is kept                */
    int misfit;                  /* the state taken up does not have what the sampler asks for      */
} session;

/* n floats of scratch; NULL: no memory. */
float *session_floats(const session *s, size_t n);
/* Noise to begin with, [N,H,W,C], drawn from g; with a batch_index each picture's own draw. */
kiln_status session_first_noise(session *s, noise_stream *g, float *out);
/* The slot or scalars of this name, made if need be. NULL: no memory, too many, or a name that is too long. */
slot_entry *session_entry(slot_entry *entries, size_t *n, const char *name);
/* out = of_noise * noise + of_latent * latent */
void session_add_noise(const session *s, level_blend blend, const float *latent, float *out);
/* Fills s->api; the rest of the session is set. */
void session_api(session *s, const void *options);
/* kiln_sampling's resize(), and what is behind it: room for a latent of that size, x being nothing yet. Slots stay as
 * they are. */
kiln_status session_resize(const kiln_sampling *, double scale, uint32_t method);
kiln_status session_set_size(session *s, int64_t height, int64_t width);
/* Its share in sample_measure.c: fail, percent_to_sigma, error, clip. */
void session_measures(kiln_sampling *api);

#endif
