/* panel_product.h - products in f32 by kernels of kiln's own: c[m][n] = a[m][k] b. Weights lie in panels of 16 outputs,
 * input after input, so that what is read lies in a line; the library's product by AVX2 reads them as a matrix, which
 * takes up to 1.7 times as long. Every number is one sum from the first input to the last, whatever stands beside it.
 * Layer: backend.
 */
#ifndef KILN_BACKEND_CPU_PANEL_PRODUCT_H
#define KILN_BACKEND_CPU_PANEL_PRODUCT_H

#include <stddef.h>

enum { PANEL_OUTPUTS = 16 };

size_t panel_product_weight_bytes(size_t n, size_t k);
/* b [n][k], or with `columns` [k][n]; what fills up the last panel is 0. */
void panel_product_pack(const float *b, int columns, size_t n, size_t k, float *packed);
size_t panel_product_scratch_bytes(size_t m, size_t n);
/* Rows are dense; bias [n] or NULL. From any thread. */
void panel_product_run(size_t m, size_t n, size_t k, const float *a, const float *packed, const float *bias, float *c,
                       float *scratch);

#endif
