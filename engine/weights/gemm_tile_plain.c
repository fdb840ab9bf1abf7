/* gemm_tile_plain.c - eight columns at a time, four lanes each: what every x86-64 and ARM64 processor has. */
#define LANES 4
#define NAME gemm_tile_8
#include "weights/gemm_tile.h"
