/* gligen_hook.h - the hook that records a GLIGEN's gated layers into a denoiser. */
#ifndef KILN_GLIGEN_HOOK_H
#define KILN_GLIGEN_HOOK_H

#include "kiln/model.h"

/* *out = an object of the type "NETWORK_HOOK" for the entries of a CONDITIONING, whose hook's input "boxes" is f32
 * [1,GLIGEN_BOXES,GLIGEN_ROW+text]; it keeps the GLIGEN alive. Hooks of one GLIGEN have one identity. */
kiln_status gligen_hook_new(const kiln_call *c, kiln_value *gligen, kiln_value **out);

#endif
