/* gemm.h - convolution and linear as a grid of tiles: bands of rows times blocks of columns, one product each. */
#ifndef KILN_BACKEND_CPU_PRODUCTS_H
#define KILN_BACKEND_CPU_PRODUCTS_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/onednn.h"

enum { GEMM_VARIANTS = 8 };

/* Rows of the operand that a tile reads and of the result that it writes (pixels, for convolutions). */
typedef struct {
    int64_t in, n_in, out, n_out;
    uint32_t variant; /* products of bands that differ in size or padding */
} row_tile;

/* Columns [first, first+width) of the result; n columns of the product (geglu: twice the width). */
typedef struct {
    int64_t first, width, n;
    size_t packed; /* offset of its weights, in elements */
    uint32_t variant;
} block;

typedef struct {
    uint32_t type, stored; /* of the arithmetic, of packed weights: KILN_F32 or KILN_BF16 */
    int64_t k;             /* columns of the operand */
    size_t n_row_tiles, n_column_tiles;
    row_tile *row_tiles;
    block *column_tiles;
    gemm *gemms[GEMM_VARIANTS][2];
    size_t packed_elements;
    size_t a_bytes, b_bytes, c_bytes, slot_bytes; /* of a slot's scratch; a, b 0: not needed */
} tiled_gemm;

/* Cuts `columns` (of the result) into blocks of about `width`. `s` is the product of band variant v, n filled in by
 * the grid. Fills in c's scratch, packing and run. The grid is c->plan. */
kiln_status tiled_gemm_new(cpu_kernel *c, int64_t columns, int64_t width, size_t n_row_tiles, error *e);
kiln_status tiled_gemm_variant(cpu_kernel *c, uint32_t v, const gemm_shape *s, error *e);
kiln_status tiled_gemm_finish(cpu_kernel *c, error *e);

#endif
