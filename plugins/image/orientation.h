/* orientation.h - reads EXIF's Orientation, and turns pixels upright. */
#ifndef KILN_IMAGE_ORIENTATION_H
#define KILN_IMAGE_ORIENTATION_H

#include <stddef.h>
#include <stdint.h>

/* Orientation, 1 to 8, of the TIFF block in an eXIf chunk (EXIF 2.32, 4.6.4 A); 1 (upright) when it is missing or
 * malformed. */
int orientation_of(const uint8_t *exif, size_t n);

/* Turns pixels of `channels` bytes upright, into `to`, which has the size of `from`. 5 to 8 exchange width and height.
 */
void orientation_apply(int orientation, const uint8_t *from, int64_t width, int64_t height, int channels, uint8_t *to);

#endif
