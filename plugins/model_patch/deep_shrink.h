/* deep_shrink.h - PatchModelAddDownscale, known as Kohya's deep shrink: below a block of the way down a UNet works on
 * fewer cells, so that a picture larger than it was trained on keeps one composition; on the way up the size comes
 * back before the first skip connection that has it.
 */
#ifndef KILN_MODEL_PATCH_DEEP_SHRINK_H
#define KILN_MODEL_PATCH_DEEP_SHRINK_H

#include "model_patch.h"

typedef struct {
    int64_t block;
    double factor, start, end; /* shares of the way between which it acts */
    int after_skip;            /* 1: the block's skip connection keeps its size */
    int down, up;              /* resize.h */
} deep_shrink_settings;

/* NULL: no memory. */
model_patch *deep_shrink_new(const deep_shrink_settings *s);

/* x [N,H,W,C] -> [N,h,w,C] as resize.h does it, by products with constants. */
kiln_t program_resize(const kiln_recording *r, kiln_t x, int64_t h, int64_t w, int method);

#endif
