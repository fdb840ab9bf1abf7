/* merge_nodes.h - what the nodes that merge MODELs share. */
#ifndef KILN_NODES_MERGE_NODES_H
#define KILN_NODES_MERGE_NODES_H

#include "weight_sum.h"

typedef weight_factors factors_fn(const void *self, const char *tensor);

/* The call's first input with weights that are sums of its first two inputs'. */
kiln_status merge_models(const kiln_call *c, factors_fn *factors, const void *self);

#endif
