/* attention_multiply.h - weights of which some are multiplied by a number: the layers of attentions. W + (f - 1) W as a
 * patch (kiln/weights.h), made where weights are packed; a factor of 1 leaves the set as it is.
 */
#ifndef KILN_MODEL_PATCH_ATTENTION_MULTIPLY_H
#define KILN_MODEL_PATCH_ATTENTION_MULTIPLY_H

#include "kiln/kit.h"
#include "kiln/weights.h"

/* Tensors whose names end so, with ".weight" or ".bias" behind, and (part not NULL) have that part in them, or not. */
typedef struct {
    const char *layer; /* "attn1.to_q" */
    double factor;
    const char *part; /* ".time_stack."; NULL: any */
    int without;
} multiplied_layer;

/* *out = a reference to the set with the layers multiplied. found[n]: how many tensors each row is for. */
kiln_status weights_multiplied(const kiln_call *c, kiln_weights *set, const multiplied_layer *layer, size_t n,
                               size_t *found, kiln_weights **out);

#endif
