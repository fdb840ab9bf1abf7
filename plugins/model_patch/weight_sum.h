/* weight_sum.h - two sets of weights as one: own W + other V, tensor by tensor, as a patch (kiln/weights.h): nothing is
 * computed before weights are packed, and neither set is changed.
 */
#ifndef KILN_MODEL_PATCH_WEIGHT_SUM_H
#define KILN_MODEL_PATCH_WEIGHT_SUM_H

#include "kiln/kit.h"
#include "kiln/weights.h"

/* The factors of the tensor of that name. Where own is 1 and other 0 it stays as it is. */
typedef struct {
    double own, other;
} weight_factors;

typedef struct {
    kiln_weights *base, *other;
    const char *name, *other_name; /* of the node's inputs: "model1", "model2" */
    weight_factors (*factors)(const void *self, const char *tensor);
    const void *self;
} weight_sum;

/* *out = a reference to the sum. Tensors that the other set has not, or not as floating-point numbers, stay; one of
 * another shape keeps its own part alone, which is logged, as ComfyUI does. No tensor in common is an error. */
kiln_status weights_summed(const kiln_call *c, const weight_sum *s, kiln_weights **out);

#endif
