/* place.h - where a sampling's latents lie: on the host, on the device that programs run on, or on both.
 *
 * Whoever wants to read or write a latent says on which side; it is copied over when it is not there, so what only the
 * host can do (masks, areas, noise, states) needs nothing special, and what both can do moves nothing. Latents are f32,
 * n numbers.
 */
#ifndef KILN_SAMPLER_PLACE_H
#define KILN_SAMPLER_PLACE_H

#include "kiln/ops.h"
#include "kiln/sampler.h"

typedef enum { LIES_HERE, LIES_THERE, LIES_BOTH } latent_lies;

struct kiln_latent {
    float *data;  /* the host's: always there */
    float *there; /* the device's, or NULL: never needed */
    latent_lies lies;
    float *kept, *kept_there; /* as it was after the last step, for a saved state */
    latent_lies kept_lies;
};

typedef struct {
    const kiln_call *call;
    const kiln_ops *ops; /* NULL: everything stays on the host */
    uint32_t device;
    size_t n;
    kiln_status trouble; /* the first failure of what returns no status */
} latent_place;

/* On the device, if there is one with room for numbers; else on the host. */
void place_init(latent_place *p, const kiln_call *call);
/* n numbers on the device, for as long as the call lasts. NULL: no memory. */
float *place_floats(const latent_place *p, size_t n);

/* The host's side: as it is; to be overwritten wholly; to be changed. */
const float *place_read(latent_place *p, const kiln_latent *x);
float *place_write(latent_place *p, kiln_latent *x);
float *place_change(latent_place *p, kiln_latent *x);
/* The device's side. NULL: `trouble` says why. */
const float *place_read_there(latent_place *p, const kiln_latent *x);
float *place_write_there(latent_place *p, kiln_latent *x);

/* Notes x as it is now, on the side where it is; place_kept brings that to the host (into room, n numbers). */
void place_keep(latent_place *p, kiln_latent *x);
int place_is_kept(const kiln_latent *x);
kiln_status place_kept(latent_place *p, const kiln_latent *x, float *capacity);

#endif
