/* row_forms.h - weights that are kept as they come, row by row, in their own type: what embedding() reads a row of and
 * products widen a tile of, so that one copy of a table serves all of them. Layer: backend.
 */
#ifndef KILN_BACKEND_CPU_ROW_FORMS_H
#define KILN_BACKEND_CPU_ROW_FORMS_H

#include "backend/cpu/cpu.h"

enum { PRODUCT_FEW = 8 }; /* rows that product.c multiplies by rows as they are */

typedef struct {
    uint32_t type;
    uint32_t coding;                      /* weights_coding: blocks, f8, int8, nibbles; 0: numbers of `type` */
    size_t block, block_bytes, row_bytes; /* elements and bytes of a block, 1 element where there are none */
    size_t scales, scale_columns;         /* of a row of codes; 0: it has none beside it */
    size_t scales_at, codebook_at;        /* bytes from the beginning of the data */
} row_form;

/* Elements of a row: the last dimension; of a convolution's filter all but the first. */
int64_t rows_width(const op_desc *op, uint32_t operand);
row_form rows_form(const op_desc *op, uint32_t operand);
/* Does it lie in files as codes that a kernel can read row by row? A stored_rows of blocks is `dtype` by then. */
int rows_are_coded(const op_desc *op, uint32_t operand);
/* The operand is packed so: bytes, text, and a pack() for the kernel. */
void rows_keep(cpu_kernel *c, uint32_t operand);
kiln_status rows_pack(const kernel *, uint32_t operand, const void *src, uint32_t src_dtype, void *dst, pool *,
                      error *); /* that pack() */
/* As vocabulary x width: used by more than one op as a rule. */
int rows_is_table(const operand_desc *d);
/* out[i] += a coded row of n elements times row i of x, for i < m. */
void row_form_dots(const cpu_kernels *k, const row_form *f, const void *data, int64_t row, float *out, const float *x,
                   size_t ldx, size_t m, size_t n);
/* n elements of a row, coded or of f32, bf16 or f16, as f32 or bf16. */
void row_form_codes(const cpu_kernels *k, const row_form *f, const void *data, int64_t row, int64_t column, void *to,
                    uint32_t as, size_t n);
/* n elements from (row, column) on as f32; column and n are whole blocks. */
void row_form_read(const cpu_kernels *k, const row_form *f, const void *data, int64_t row, int64_t column, float *to,
                   size_t n);

#endif
