/* reference_only.h - attention to another picture of the batch: in self-attention every picture sees, beside its own
 * tokens, those of the first one, which is the reference and sees itself. It costs no weights.
 */
#ifndef KILN_VISION_REFERENCE_ONLY_H
#define KILN_VISION_REFERENCE_ONLY_H

#include "kiln/hook.h"

/* The hook; static. */
extern const kiln_hook reference_only;

#endif
