/* sample_session.h - one open sampling and what its sampler sees of it: denoise, arithmetic, noise, slots, steps.
 *
 * Latents are f32 [N,H,W,C] in model space: (latent - shift) * scale of what a LATENT value has. Memory: the call's
 * scratch. sample.c opens a session and finishes it.
 */
#ifndef KILN_SAMPLER_SAMPLE_SESSION_H
#define KILN_SAMPLER_SAMPLE_SESSION_H

#include "denoise.h"
#include "kiln/store.h"
#include "noise_source.h"
#include "preview.h"
#include "sample.h"

enum { SLOTS_MAX = 64, SLOT_NAME_MAX = 32 };

/* What a sampler keeps across steps under a name: a latent, or numbers. */
typedef struct {
    char name[SLOT_NAME_MAX];
    kiln_latent latent; /* data NULL: there is none */
    double *scalar;
    size_t n; /* of scalar */
} slot_entry;

struct kiln_session {
    kiln_sampling api; /* self points back here */
    const kiln_call *call;
    const kiln_sampling_job *job;
    kiln_sampling_job given; /* what job points to: the caller's, as far as its size says */
    kiln_noise given_noise;  /* what job->noise points to */
    const kiln_sampler *row; /* the job's, or that of a loop of the node's own */
    latent_space space;
    evaluator *evaluator;         /* [job->n_guider] */
    struct pair_evaluator *pairs; /* that were asked for (pair_evaluator.h) */
    evaluation last;
    int64_t first_height, first_width; /* of the latent that was given                  */
    kiln_latent x, denoised;           /* denoised: the last guess of x0; data NULL: not wanted */
    float *start, *noise, *work;       /* on the host: the given latent, noise, numbers on their way in or out */
    float *copies;                     /* of latents, for what only the host can do */
    size_t copies_capacity;
    kiln_latent input;       /* x, while the job's own denoise() writes x     */
    kiln_latent mask;        /* of the LATENT, one channel; data NULL: none   */
    const float *mask_given; /* where the MODEL has a rule for masks, on the host: the LATENT's, what */
    float *mask_now;         /* counts at mask_level (also in `mask`), */
    double mask_level;       /* the last level asked for; NaN: none    */
    kiln_latent outside, outside_noise, masked; /* with a mask: what is kept outside it, its noise, the mix of both */
    noise_source random;
    slot_entry slot[SLOTS_MAX], number[SLOTS_MAX];
    size_t n_slot, n_number;
    const kiln_store_api *store; /* NULL: no state is kept                                     */
    preview shown;
    kiln_value *state; /* of the last step, until it is saved                        */
    int asked;         /* the sampler has called denoise()                                   */
    int misfit;        /* the state taken up does not have what the sampler asks for */
};

size_t session_count(const kiln_session *s); /* elements of a latent */
/* n floats of the host; NULL: no memory. */
float *session_floats(const kiln_session *s, size_t n);
/* Noise to begin with, [N,H,W,C], drawn from g; with a batch_index each picture's own draw. */
kiln_status session_first_noise(kiln_session *s, noise_stream *g, float *out);
/* The slot or scalars of this name, made if need be. NULL: too many, or a name that is too long. */
slot_entry *session_entry(slot_entry *entries, size_t *n, const char *name);
/* The LATENT's noise mask, if it has one (sample_mask.c). */
kiln_status session_read_mask(kiln_session *s);
/* s->mask becomes what counts at this level; there is a mask. */
kiln_status session_mask_at(kiln_session *s, double sigma);
/* Fills s->api; the rest of the session is set. */
void session_api(kiln_session *s, const void *options);
/* kiln_sampling's resize(), and what is behind it: memory for latents of that size, x being nothing yet. Slots stay as
 * they are. */
kiln_status session_resize(const kiln_sampling *, double scale, uint32_t method);
kiln_status session_set_size(kiln_session *s, int64_t height, int64_t width);
/* Its share in sample_measure.c: fail, percent_to_sigma, error, clip. */
void session_measures(kiln_sampling *api);

#endif
