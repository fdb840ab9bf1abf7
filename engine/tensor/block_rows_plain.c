/* block_rows_plain.c - for every processor, and the specification. */
#define NAME block_rows_plain
#include "tensor/block_rows.h"
