/* block.h - element types that are stored by blocks, as ggml has them in GGUF files. Layer: tensor.
 *
 * A block is a fixed number of elements (dtype.h: dtype_block) in a fixed number of bytes, little-endian: one or two
 * scales as f16 (d, and m or dmin), in some scales of sub-blocks in few bits, and a code q of each element.
 *
 *     q8_0           32   d q                     q an int8
 *     q4_0, q5_0     32   d (q - 8), d (q - 16)
 *     q4_1, q5_1     32   d q + m
 *     q2_k           256  d s q - dmin t          16 elements share s and t, 4 bits each
 *     q3_k, q6_k     256  d s (q - 4), d s (q - 32)   16 elements share s, signed
 *     q4_k, q5_k     256  d s q - dmin t          32 elements share s and t, 6 bits each
 *     iq4_nl, iq4_xs 32, 256  d k[q], d s k[q]    k: 16 numbers, closer to each other around 0
 *     mxfp4, nvfp4   32, 64   d e[q]              e: 0 .5 1 1.5 2 3 4 6 and their negatives; d a power of two, or
 *                                                 an f8 for each 16
 *
 * Products are made in f32 in the order above, left to right, so that every implementation agrees bit for bit.
 */
#ifndef KILN_TENSOR_BLOCK_H
#define KILN_TENSOR_BLOCK_H

#include "kiln/plugin.h"

/* n elements, whole blocks of a type that dtype_is_block(), from src (any alignment) into dst. The fastest loops the
 * processor has; they equal the plain ones bit for bit. KILN_ERR_UNSUPPORTED: not of such a type, or a part of a block.
 * [any] */
kiln_status block_read_f32(uint32_t dtype, const void *src, float *dst, size_t n);
/* The same by the plain loops: the specification that others are compared with. */
kiln_status block_read_plain(uint32_t dtype, const void *src, float *dst, size_t n);
/* The other way: the codes and scales that come close to n finite floats. Types without sub-blocks are rounded as ggml
 * does; for the others a few scales (and minima) are tried and the one of least squared error is taken. Deterministic.
 * A scale that f16 does not hold is stored as infinity, which block_first_nonfinite finds. */
kiln_status block_write(uint32_t dtype, const float *src, void *dst, size_t n);
/* Of n elements at p, the block whose scale is NaN or infinite; the number of blocks: none. */
size_t block_first_nonfinite(uint32_t dtype, const void *p, size_t n);

#endif
