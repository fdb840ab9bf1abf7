/* png_io.h - writes PNG files, single pictures and animations, with libpng. Reading: picture_io.h. */
#ifndef KILN_IMAGE_PNG_IO_H
#define KILN_IMAGE_PNG_IO_H

#include "kiln/files.h"

typedef struct {
    const char *key, *value;
} png_note; /* value: UTF-8 */
typedef struct {
    const uint8_t *pixels; /* [height][width][channels], channels 3 or 4; of 16 bits the high byte first */
    int64_t width, height;
    int channels, level; /* level: zlib's 0..9 */
    int depth;           /* bits of a sample: 8 (or 0) or 16 */
    const png_note *note;
    int n_note;
    /* An animation (APNG), with `frames` above 1: pixels is frame 0, the others are asked for one after the other. */
    const uint8_t *(*frame)(void *self, int64_t index);
    void *self;
    int64_t frames;
    int milliseconds; /* of each frame */
} png_write;
/* Writes a PNG to `f`; notes become tEXt chunks, iTXt when they are not ASCII. Reports progress and can be
 * cancelled. */
kiln_status png_write_file(const kiln_call *c, const kiln_files_api *files, kiln_file *f, const png_write *w);

#endif
