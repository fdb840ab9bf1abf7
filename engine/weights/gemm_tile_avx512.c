/* gemm_tile_avx512.c - thirty-two columns at a time, sixteen lanes each. */
#define LANES 16
#define NAME gemm_tile_32
#include "weights/gemm_tile.h"
