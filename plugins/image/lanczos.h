/* lanczos.h - scaling pictures with a Lanczos window of 3, as Pillow's Image.resize does.
 *
 * Pillow works on 8-bit samples: the picture is cut to bytes, scaled across, rounded, scaled down, rounded; the weights
 * are fixed-point numbers of 22 bits (Pillow, src/libImaging/Resample.c). The same numbers come out here, byte for
 * byte, for pictures without transparency; an alpha channel is scaled like the others, not multiplied in first.
 */
#ifndef KILN_IMAGE_LANCZOS_H
#define KILN_IMAGE_LANCZOS_H

#include "kiln/plugin.h"
#include "kiln/resize.h"

/* One picture s, values 0..1, to dst [h][w][s.c], multiples of 1/255. Takes scratch memory of the call. */
kiln_status lanczos_resize(const kiln_call *c, resize_source s, float *dst, int64_t h, int64_t w);

#endif
