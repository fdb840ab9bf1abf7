/* unused.h - tensors that no network has asked for. */
#ifndef KILN_NODES_UNUSED_H
#define KILN_NODES_UNUSED_H

#include "kiln/weights.h"

/* Names the first of them in warnings, and counts them; those of known kinds are only counted. `path` is for messages.
 */
void report_unused(const kiln_call *c, const char *path, const kiln_weights *set);
/* As needless() of kiln/loading.h. */
int is_needless(const char *tensor);

#endif
