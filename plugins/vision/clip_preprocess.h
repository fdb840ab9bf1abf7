/* clip_preprocess.h - a picture as CLIP's vision encoders are shown it, as ComfyUI prepares it: the short side scaled
 * to the encoder's size (or both sides, without regard to proportions), bicubic with antialiasing as torch and PIL have
 * it; the middle square; rounded to bytes; normalised.
 */
#ifndef KILN_VISION_CLIP_PREPROCESS_H
#define KILN_VISION_CLIP_PREPROCESS_H

#include "kiln/plugin.h"

typedef struct {
    int64_t size; /* pixels along a side of the result */
    double mean[3], std[3];
    int crop; /* 0: the whole picture is squeezed into the square */
} clip_preprocessing;

/* A picture of h x w pixels with `channels` numbers each, of which the first three count. */
typedef struct {
    const float *data;
    int64_t h, w, channels;
} clip_picture;

/* out [size,size,3]. KILN_ERR_NOMEM: no scratch memory. [run] */
kiln_status clip_preprocess(const kiln_call *c, const clip_preprocessing *how, const clip_picture *from, float *out);

#endif
