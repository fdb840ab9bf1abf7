/* int8_cases.h - what kernels of integer products (int8_kernels.h) are held to. Each check fails the running case. */
#ifndef KILN_TESTS_INT8_CASES_H
#define KILN_TESTS_INT8_CASES_H

#include "backend/cpu/int8_kernels.h"

/* The bits of the plain ones: of rows, and of their products with every type, for numbers of rows on either side of
 * what is multiplied together. */
void int8_check_bits(const int8_kernels *k);
/* Of columns, rounded, and of columns of blocks. */
void int8_check_columns(const int8_kernels *k);
void int8_check_blocks(const int8_kernels *k);
/* Against sums in double (test_block_int8.c says what may be off). */
void int8_check_errors(const int8_kernels *k);

#endif
