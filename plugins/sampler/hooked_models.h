/* hooked_models.h - a model over the weights that an entry's hooks make of its own.
 *
 * Weights at a strength are patches of the model's: what no hook touches is shared, in memory too. One whose hooks
 * never change is found again by later samplings, as its programs are the engine's to keep. One whose hooks follow
 * keyframes has programs of its own: when a strength is over, it goes with its weights, after the next one has run
 * once (until then that one finds in memory what both share). So of each set of hooks two are there at most.
 */
#ifndef KILN_SAMPLER_HOOKED_MODELS_H
#define KILN_SAMPLER_HOOKED_MODELS_H

#include "entry_hooks.h"
#include "own_programs.h"

typedef struct hooked_model hooked_model;

/* Those of a sampling; its memory has to last until the call's end, where references go. */
typedef struct {
    const kiln_weights_api *w; /* NULL: there was none yet */
    const kiln_ops *ops;
    hooked_model *first;
} hooked_models;

/* What evaluates an entry. */
typedef struct {
    const kiln_model *model; /* with `of`'s denoiser, hooks and inputs */
    own_programs *own;       /* its programs; NULL: the engine keeps them */
} hooked;

/* `of` where no hook acts. Valid until hooked_models_let_go(). */
kiln_status hooked_models_find(hooked_models *, const kiln_call *c, const kiln_model *of, const entry_hooks *hooks,
                               const kiln_sampling *session, hooked *out);
/* Lets go of those whose hooks have another strength by now. */
void hooked_models_let_go(hooked_models *);

#endif
