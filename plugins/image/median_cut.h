/* median_cut.h - a palette for a picture, and the colour of a palette that is nearest to another: as Pillow has them,
 * bit for bit, so that a picture of few colours is the same there and here. */
#ifndef KILN_IMAGE_MEDIAN_CUT_H
#define KILN_IMAGE_MEDIAN_CUT_H

#include <stddef.h>
#include <stdint.h>

enum { PALETTE_MAX = 256 };

typedef struct {
    uint8_t rgb[PALETTE_MAX][3];
    int n;
} palette;

/* At most `colours` (1..256) for pixels[n][3], n > 0, by median cut (Heckbert 1982). 0: no memory. */
int median_cut(const uint8_t *pixels, size_t n, int colours, palette *out);

/* What is nearest in a palette, found once for each cube of 4 x 4 x 4 colours. */
typedef struct {
    const palette *of;
    int16_t slot[64][64][64];
} palette_map;
void palette_map_begin(palette_map *m, const palette *of);
int palette_nearest(palette_map *m, const uint8_t rgb[3]);

#endif
