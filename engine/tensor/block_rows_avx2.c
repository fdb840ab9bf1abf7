/* block_rows_avx2.c - eight elements at a time. */
#define NAME block_rows_avx2
#include "tensor/block_rows.h"
