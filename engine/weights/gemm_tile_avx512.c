/* gemm_tile_avx512.c - thirty-two columns at a time, sixteen lanes each. */
#define LANES 16
#define ROWS 8
#include "weights/gemm_tile.h"

TILING(gemm_tiling_avx512);
