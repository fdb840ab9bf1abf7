/* vision_recorder.h - what the networks here are recorded with: linears, norms and vectors by name, whose widths follow
 * from what goes in.
 */
#ifndef KILN_VISION_RECORDER_H
#define KILN_VISION_RECORDER_H

#include "kiln/ops.h"

typedef struct {
    const kiln_ops *ops;
    kiln_program *p;
    kiln_weights *w;
} vision_recorder;

/* Dimension i of x; 0: it has none. */
int64_t vision_dim(const vision_recorder *r, kiln_t x, uint32_t i);
/* The vector NAME of n numbers. */
kiln_t vision_vector(const vision_recorder *r, const char *name, int64_t n);
/* NAME.weight [out, x's last dimension] and, with `bias`, NAME.bias. */
kiln_t vision_linear(const vision_recorder *r, const char *name, kiln_t x, int64_t out, int bias);
/* NAME.weight and NAME.bias over x's last dimension. */
kiln_t vision_norm(const vision_recorder *r, const char *name, kiln_t x, float eps);
/* A weight [1,n,width] for each of x's pictures. */
kiln_t vision_tokens(const vision_recorder *r, const char *name, kiln_t x, int64_t n, int64_t width);

#endif
