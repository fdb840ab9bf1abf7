/* gemm_tile_avx2.c - sixteen columns at a time, eight lanes each. */
#define LANES 8
#define NAME gemm_tile_16
#include "weights/gemm_tile.h"
