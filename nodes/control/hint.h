/* hint.h - the picture that a control follows, with the channels that it was trained with. */
#ifndef KILN_NODES_CONTROL_HINT_H
#define KILN_NODES_CONTROL_HINT_H

#include "control_value.h"

/* *out = the IMAGE with `channels` channels, a reference of the caller's. Transparency is left out, grey is repeated,
 * colours become their mean; every other change is refused. */
kiln_status hint_of(const kiln_call *c, kiln_value *image, int64_t channels, kiln_value **out);

#endif
