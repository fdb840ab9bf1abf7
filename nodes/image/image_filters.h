/* image_filters.h - Gauss over a picture, for the nodes that are made of it. */
#ifndef KILN_NODES_IMAGE_FILTERS_H
#define KILN_NODES_IMAGE_FILTERS_H

#include "kiln/plugin.h"

/* Row or column i of n with the edges reflected (the outermost is not repeated), as often as need be. */
static inline int64_t filter_reflected(int64_t i, int64_t n)
{
    int64_t period = n > 1 ? 2 * (n - 1) : 1;
    i %= period;
    if (i < 0) i += period;
    return i < n ? i : period - i;
}

typedef struct {
    int64_t h, w, channels;
} filter_size;

/* to = from under the weights [2 radius + 1] along rows and columns, edges reflected. between, from and to are of one
 * size and different. Sums are f32, in order, each product fused with its sum: Canny asks which of two is greater, and
 * torch does it so. Uses all cores, and says how far it is. */
kiln_status filter_separable(const kiln_call *c, filter_size size, const float *weight, int64_t radius,
                             const float *from, float *between, float *to);

#endif
