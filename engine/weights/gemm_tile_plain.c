/* gemm_tile_plain.c - eight columns at a time, four lanes each: what every x86-64 and ARM64 processor has. */
#define LANES 4
#define ROWS 4
#include "weights/gemm_tile.h"

TILING(gemm_tiling_plain);
