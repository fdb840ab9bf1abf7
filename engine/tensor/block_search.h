/* block_search.h - blocks whose scales are searched for; for block_write.c alone, which says what `x` and `b` are. */
#ifndef KILN_TENSOR_BLOCK_SEARCH_H
#define KILN_TENSOR_BLOCK_SEARCH_H

#include "tensor/block_scales.h"

void block_write_q2_k(const float *x, uint8_t *b);
void block_write_q3_k(const float *x, uint8_t *b);
void block_write_q4_k(const float *x, uint8_t *b);
void block_write_q5_k(const float *x, uint8_t *b);
void block_write_q6_k(const float *x, uint8_t *b);
void block_write_iq4_nl(const float *x, uint8_t *b);
void block_write_iq4_xs(const float *x, uint8_t *b);

#endif
