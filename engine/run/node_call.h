/* node_call.h - one call of a node of a batch, computing or estimating, with another try when there was no memory. */
#ifndef KILN_RUN_NODE_CALL_H
#define KILN_RUN_NODE_CALL_H

#include "plugin/ctx.h"
#include "run/batch.h"

/* As ctx_call. KILN_ERR_NOMEM means: evict what can go and call once more; and, while nodes beside this one have
 * tensors on the same budget, as soon as they let go of some. */
kiln_status node_call(batch *b, const call_environment *env, size_t i, const void *params, kiln_value *const *in,
                      kiln_value **out, error *e);

#endif
