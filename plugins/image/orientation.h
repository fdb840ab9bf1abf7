/* orientation.h - how a camera was held: EXIF's Orientation, and pixels put the right way up. */
#ifndef KILN_IMAGE_ORIENTATION_H
#define KILN_IMAGE_ORIENTATION_H

#include <stddef.h>
#include <stdint.h>

/* Orientation, 1 to 8, of the TIFF block in an eXIf chunk (EXIF 2.32, 4.6.4 A); 1, which is upright, when there is
 * none, or anything about it is wrong. */
int orientation_of(const uint8_t *exif, size_t n);

/* Pixels of `channels` bytes. 5 to 8 exchange width and height. to: as large as from. */
void orientation_apply(int orientation, const uint8_t *from, int64_t width, int64_t height, int channels, uint8_t *to);

#endif
