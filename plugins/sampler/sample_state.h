/* sample_state.h - what of a running sampling has to survive so that another process can go on with it.
 *
 * A state is a map of plain data, made after every step:
 *     version 1; sampler, sigmas f64 [n+1], seed: the run it belongs to; first: the step that comes next;
 *     x, denoised: f32 [N,H,W,C]; slots: {name: f32 [N,H,W,C]}; scalars: {name: f64 [n]};
 *     noise: {source, words i32 [624], at, spare} or {source, offset}; always: 1 when
 *     the unconditional guess is evaluated at every step
 * A Brownian path has no state. It goes to "kiln.store/1" when that says one is due, also when the call is told to
 * stop; what is not due is kept in memory until the next step, so that a call that ends in the middle of a step leaves
 * the last whole one.
 */
#ifndef KILN_SAMPLER_SAMPLE_STATE_H
#define KILN_SAMPLER_SAMPLE_STATE_H

#include "sample_session.h"

enum { STATE_NONE, STATE_TAKEN, STATE_UNUSABLE };

/* Loads and restores: s->api.first is where to go on. STATE_UNUSABLE (one warning was logged): s is half filled and has
 * to be set up again. */
int state_take_up(kiln_session *s);
/* x is at the level where step `next` begins. */
void state_after_step(kiln_session *s, size_t next);
/* The sampler is done: a call that failed or was stopped leaves the last state if one is due. */
void state_finish(kiln_session *s, kiln_status status);
/* Logs that the state there is not used, and why. */
void state_refused(const kiln_session *s, const char *why);

#endif
