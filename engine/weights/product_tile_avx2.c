/* product_tile_avx2.c - sixteen columns at a time, eight lanes each. */
#define LANES 8
#define NAME product_tile_16
#include "weights/product_tile.h"
