/* png_io.h - reads and writes 8-bit PNG files with libpng. */
#ifndef KILN_IMAGE_PNG_IO_H
#define KILN_IMAGE_PNG_IO_H

#include "kiln/files.h"

enum { PICTURE_SIDE_MAX = 16384 };

typedef struct {
    int64_t width, height;
    int channels;  /* 3, or 4 when the file has transparency */
    uint8_t *rgba; /* [height][width][channels], malloc()ed: free with png_picture_free */
} png_picture;

/* Reads any PNG (palette, grey, 16 bit) as 8-bit RGB or RGBA, turned upright by the Orientation of its eXIf chunk.
 * Fails with a message: not a PNG, damaged, too large. */
kiln_status png_read_file(const kiln_call *c, const char *path, png_picture *out);
void png_picture_free(png_picture *p);

typedef struct {
    const char *key, *value;
} png_note; /* value: UTF-8 */
typedef struct {
    const uint8_t *pixels; /* [height][width][channels], channels 3 or 4 */
    int64_t width, height;
    int channels, level; /* level: zlib's 0..9 */
    const png_note *note;
    int n_note;
} png_write;
/* Writes an 8-bit PNG to `f`; notes become tEXt chunks, iTXt when they are not ASCII. Reports progress and can be
 * cancelled. */
kiln_status png_write_file(const kiln_call *c, const kiln_files_api *files, kiln_file *f, const png_write *w);

#endif
