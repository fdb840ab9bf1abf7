/* text_state.h - what a model has read: keys and values of a prompt, a value of type "TEXT_PROMPT".
 *
 * Who writes behind it forks it: buffers are shared until one of the two writes. It is kept by the store, so that a
 * prompt is read once, in whichever process.
 */
#ifndef KILN_TEXT_DIFFUSION_STATE_H
#define KILN_TEXT_DIFFUSION_STATE_H

#include "text_diffusion.h"

#include "kiln/store.h"

typedef struct {
    kiln_states *states; /* or NULL and `saved`, of what comes from the store */
    kiln_value *saved;
    int64_t capacity, longest; /* tokens that there are places for; the longest pass that reads */
    int64_t length;            /* tokens read */
    char model[100];           /* its identity */
} text_state;

/* NULL with a message, these two. `capacity` of a fork is no less than that of s. */
text_state *text_state_new(kiln_ctx *, const text_diffusion_model *, int64_t capacity, int64_t longest);
text_state *text_state_fork(const kiln_call *, const text_diffusion_model *, const text_state *s, int64_t capacity);
void text_state_free(void *s);
/* Takes s, also when it fails. */
kiln_value *text_state_value(kiln_ctx *, text_state *s);
/* Room for so many tokens, rounded up so that programs are shared. */
int64_t text_capacity(int64_t tokens);

extern const kiln_stored_type stored_prompt;

#endif
