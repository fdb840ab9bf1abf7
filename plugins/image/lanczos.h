/* lanczos.h - resizes pictures with a Lanczos window of 3, as Pillow's Image.resize does.
 *
 * Pillow works on 8-bit samples: it truncates the picture to bytes, resizes horizontally, rounds, resizes vertically
 * and rounds, with 22-bit fixed-point weights (Pillow, src/libImaging/Resample.c). For pictures without transparency
 * the result here is the same, byte for byte. An alpha channel is resized like the others, without premultiplication.
 */
#ifndef KILN_IMAGE_LANCZOS_H
#define KILN_IMAGE_LANCZOS_H

#include "kiln/plugin.h"
#include "kiln/resize.h"

/* Resizes picture s, values 0..1, to dst [h][w][s.c], multiples of 1/255. Uses the call's scratch memory. */
kiln_status lanczos_resize(const kiln_call *c, resize_source s, float *dst, int64_t h, int64_t w);

#endif
