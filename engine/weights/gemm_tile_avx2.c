/* gemm_tile_avx2.c - sixteen columns at a time, eight lanes each. */
#define LANES 8
#define ROWS 4
#include "weights/gemm_tile.h"

TILING(gemm_tiling_avx2);
