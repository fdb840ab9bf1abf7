/* picture_io.h - reads any picture file that kiln knows, by what is in it and not by its name: PNG, JPEG, WebP, AVIF.
 * All nodes that read pictures go through picture_read. */
#ifndef KILN_IMAGE_PICTURE_IO_H
#define KILN_IMAGE_PICTURE_IO_H

#include "kiln/plugin.h"

#include <stdio.h>

enum {
    PICTURE_SIDE_MAX = 16384,
    /* Of formats where a few bytes can stand for any number of pixels: what Pillow takes for a decompression bomb. */
    PICTURE_PIXELS_MAX = 178956970,
    PICTURE_ROWS_A_REPORT = 32
};

typedef struct {
    int64_t width, height;
    int64_t frames;  /* of an animation; all have one size */
    int channels;    /* 3, or 4 when the file has transparency */
    int depth;       /* bits of a sample: 8, or 16 (uint16_t in native order) */
    uint8_t *pixels; /* [frames][height][width][channels], malloc()ed: free with picture_free */
} picture;

/* Reads a picture as RGB or RGBA, upright as its EXIF block says. Fails with a message: of an unknown kind, damaged,
 * too large. */
kiln_status picture_read(const kiln_call *c, const char *path, picture *out);
void picture_free(picture *p);
/* For a node's check: by its first bytes the file is one that picture_read reads. */
kiln_status picture_check(const kiln_call *c, const char *path);

/* Sample number i, 0..1. */
static inline float picture_value(const picture *p, int64_t i)
{
    uint16_t wide;
    if (p->depth == 8) return (float)p->pixels[i] / 255.0f;
    memcpy(&wide, p->pixels + 2 * i, 2);
    return (float)wide / 65535.0f;
}

/* ---- for the readers of one kind ---- */

/* Why a reader failed. A status of its own message stands for itself, KILN_OK for a file that is damaged. */
typedef struct {
    const char *path;
    char message[200];
    kiln_status status;
} picture_fault;

/* One of these reads from the start of f; 0: see fault. */
int png_decode(const kiln_call *c, FILE *f, picture *out, picture_fault *fault);
int png_decode_memory(const kiln_call *c, const uint8_t *data, size_t n, picture *out, picture_fault *fault);
int jpeg_decode(const kiln_call *c, FILE *f, picture *out, picture_fault *fault);
int webp_decode(const kiln_call *c, FILE *f, picture *out, picture_fault *fault);
int avif_decode(const kiln_call *c, FILE *f, picture *out, picture_fault *fault);

/* All of a file, malloc()ed, for what reads from memory; NULL: see fault. */
uint8_t *picture_file(FILE *f, size_t *n, picture_fault *fault);

/* Turns every frame by an Orientation of 1 to 8; 0: no memory. */
int picture_turn(picture *p, int orientation);

#endif
