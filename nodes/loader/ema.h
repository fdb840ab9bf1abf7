/* ema.h - the averaged weights of a checkpoint in place of its last ones. */
#ifndef KILN_NODES_EMA_H
#define KILN_NODES_EMA_H

#include "kiln/weights.h"

/* A view of `set` in which each "model.X" with an average is that average; a reference of the caller's. NULL with a
 * message: the file has no averages, or no memory. `path` is for messages. [run] */
kiln_weights *ema_view(const kiln_call *c, kiln_weights *set, const char *path);

#endif
