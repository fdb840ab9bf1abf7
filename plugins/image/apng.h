/* apng.h - frames of an animated PNG (APNG 1.0), cut out of its chunks as PNGs of their own for libpng to read. */
#ifndef KILN_IMAGE_APNG_H
#define KILN_IMAGE_APNG_H

#include "picture_io.h"

/* Whether a PNG says before its picture that it has several. The place in the file is where it was. */
int apng_is_one(FILE *f);

/* All frames, each as it is shown, laid over those before it; a picture beside the animation comes first, as Pillow has
 * it. 0: see fault. */
int apng_decode(const kiln_call *c, FILE *f, picture *out, picture_fault *fault);

#endif
