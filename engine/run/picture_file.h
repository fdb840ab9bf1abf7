/* picture_file.h - picture files in and out for the contact sheet: PNG, JPEG, WebP, through libpng's simplified
 * interface, TurboJPEG's and libwebp's, none of which jumps. Nodes have plugins/image for it.
 */
#ifndef KILN_RUN_PICTURE_FILE_H
#define KILN_RUN_PICTURE_FILE_H

#include "base/status.h"

enum { PICTURE_SIDE_MAX = 16384 };

typedef struct {
    size_t width, height;
    uint8_t *rgb; /* [height][width][3]: mem_free; NULL when only measured */
} rgb_picture;

/* By a name's ending: this can be written. NULL: no such ending; else what kind of file it is. */
const char *picture_file_kind(const char *name);

/* Reads by what is in the file; what is transparent shows `behind`. with_pixels 0: only the size. A message is without
 * the path. */
kiln_status picture_file_read(const char *path, const uint8_t behind[3], int with_pixels, rgb_picture *out, error *e);

/* The ending decides: PNG, WebP without loss, or JPEG of quality 92 with full colour. Whole or not at all. */
kiln_status picture_file_write(const char *path, const rgb_picture *p, error *e);

#endif
