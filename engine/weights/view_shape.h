/* view_shape.h - what a rule of a view does to a tensor's shape; for view.c alone. `from` is the tensor's name in the
 * base, for messages. Layer: weights. */
#ifndef KILN_WEIGHTS_VIEW_SHAPE_H
#define KILN_WEIGHTS_VIEW_SHAPE_H

#include "weights/set.h"

/* All that a rule says but its names and its join, in the order of the contract. */
kiln_status view_shape(kiln_weights *w, const kiln_weight_rule *r, weights_entry *x, const char *from, error *e);
/* x, the first part as it is in the base, becomes all parts one behind the other along `axis`, or along a new one
 * there.
 */
kiln_status view_join(kiln_weights *w, weights_entry *x, const weights_entry **part, size_t n, int stacked,
                      uint32_t axis, error *e);
/* [first, first + n) of dimension `axis`. */
kiln_status view_slice(kiln_weights *w, weights_entry *x, uint32_t axis, int64_t first, int64_t n, const char *from,
                       error *e);

#endif
