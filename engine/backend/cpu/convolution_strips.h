/* convolution_strips.h - products by AMX's tiles: of 32 pixels of a convolution, or rows of a linear, by 32 outputs.
 * Layer: backend.
 *
 * A tile of pixels is 16 lines, each a pixel's 32 channels of bf16, one behind the other; so the tile of another tap is
 * some lines further on. A tile of a filter is [16 pairs of channels][16 outputs][2]. A tile of
 * sums is [16 pixels][16 outputs] floats. Only called where AMX_BF16 is (instructions.h); products between
 * tiles_begin() and tiles_end() (attention_tiles.h).
 */
#ifndef KILN_BACKEND_CPU_CONVOLUTION_STRIPS_H
#define KILN_BACKEND_CPU_CONVOLUTION_STRIPS_H

#include <stddef.h>
#include <stdint.h>

enum { STRIP_PIXELS = 16, PANEL_OUTPUTS = 16, STRIP_CHANNELS = 32, LINE_NUMBERS = 32, TILE_SUMS = 256 };

typedef struct {
    const uint16_t *pixels[2]; /* first lines of two tiles, for the first tap of the first channels */
    const uint16_t *filter[2]; /* of 16 outputs each: [channels / 32][taps] tiles */
    size_t depth, high, wide;  /* channels / 32; taps */
    size_t plane, row, column; /* lines from one 32 channels to the next, from one row of taps to the next, one tap */
    float *sums;               /* [2 pixels][2 outputs] tiles */
    int more;                  /* to what the sums hold */
    const char *ahead[2];      /* `lines` are fetched from each meanwhile, for each tap */
    size_t lines;
} strip_products;

void strips_multiply(const strip_products *p);
/* The same of 32 rows that lie `ld` bytes apart, by one tap, into [2 rows][2 outputs] tiles. */
typedef struct {
    const uint16_t *rows, *filter[2];
    size_t ld, depth;
    float *sums;
} row_products;

/* What becomes of such tiles: plus 16 numbers each; where they are gated value * gelu(gate), 16 outputs, else 32; plus
 * those of another tensor or NULL; as bf16. */
typedef struct {
    const float *sums, *bias[2]; /* NULL: none */
    int gated;
    const uint16_t *added;
    uint16_t *to;
    size_t added_ld, ld, rows; /* rows: up to 32 of them; 0: nothing is to be done */
} rows_result;

/* While products are made, what was made before them is finished; its sums are others. */
void rows_multiply(const row_products *p, const rows_result *before);
void rows_finish(const rows_result *);

/* Two tiles of sums, plus 16 numbers each. */
void strips_add_bias(float *sums, const float *low, const float *high);

/* One or two tiles of sums of up to 16 pixels as bf16, side by side, plus those of another tensor or NULL. */
typedef struct {
    const float *sums;
    size_t panels;
    const uint16_t *added;
    uint16_t *to;
    size_t added_ld, ld, pixels;
} strip_result;

void strips_store(const strip_result *r);

#endif
