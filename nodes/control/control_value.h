/* control_value.h - what nodes ask a CONTROL_NET, and CONTROL_NETs made from another one. */
#ifndef KILN_NODES_CONTROL_VALUE_H
#define KILN_NODES_CONTROL_VALUE_H

#include "kiln/kit.h"
#include "kiln/model.h"

/* The width of its input of that name; 0: it has none. */
int64_t control_input_width(const kiln_net *net, const char *name);
/* One of its facts; NULL: it has none of that name. */
const kiln_value *control_fact(const kiln_call *c, const kiln_net *net, const char *name);
/* *out = the same network with one fact more (`fact` NULL: one less), over these weights. Takes references of its own.
 */
kiln_status control_with_fact(const kiln_call *c, kiln_value *control, kiln_weights *weights, const char *key,
                              kiln_value *fact, kiln_value **out);

#endif
