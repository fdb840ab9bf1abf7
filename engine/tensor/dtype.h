/* dtype.h - element types: names, sizes, conversions. Layer: tensor (needs base only). */
#ifndef KILN_TENSOR_DTYPE_H
#define KILN_TENSOR_DTYPE_H

#include "kiln/plugin.h"

size_t dtype_size(uint32_t dtype);          /* bytes of an element; 0 for an unknown one and for one stored by blocks */
const char *dtype_name(uint32_t dtype);     /* "f32"; "?" for an unknown one */
uint32_t dtype_from_name(const char *name); /* "f32", "bf16", ...; 0: unknown */

/* Types of weights that are stored by blocks (block.h), and all others as blocks of one element. A row of a tensor is
 * whole blocks. */
int dtype_is_block(uint32_t dtype);
size_t dtype_block(uint32_t dtype);       /* elements; 0 for an unknown type */
size_t dtype_block_bytes(uint32_t dtype); /* likewise */
/* Bytes of n elements, which are whole blocks. 0: they are not, the type is unknown, or it overflows. */
int dtype_bytes(uint32_t dtype, size_t n, size_t *bytes);

/* Rows of n elements; src may have any alignment. Rounding is to nearest even, NaN stays NaN. The
 * fast paths are chosen by what the processor has and equal the plain ones bit for bit. [any] */
kiln_status dtype_convert(void *dst, uint32_t dst_dtype, const void *src, uint32_t src_dtype, size_t n);

static inline float bf16_to_f32(uint16_t v)
{
    union {
        uint32_t u;
        float f;
    } x = {.u = (uint32_t)v << 16};
    return x.f;
}
static inline uint16_t bf16_from_f32(float f)
{
    union {
        float f;
        uint32_t u;
    } x = {.f = f};
    if ((x.u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((x.u >> 16) | 0x40u); /* quiet NaN */
    return (uint16_t)((x.u + 0x7fffu + ((x.u >> 16) & 1u)) >> 16);
}
float f16_to_f32(uint16_t v);
float f8_e4m3_to_f32(uint8_t v);
/* f16 without its last eight bits: bias 15, infinity and NaN as there. */
static inline float f8_e5m2_to_f32(uint8_t v) { return f16_to_f32((uint16_t)(v << 8)); }
/* Of weights as they are stored: read from, never written to, and of no value. */
int dtype_is_f8(uint32_t dtype);
uint16_t f16_from_f32(float f);
/* 1 when none of n f16 is infinite or NaN. */
int f16_all_finite(const uint16_t *v, size_t n);
/* Of n elements that are finite in src's type the one of largest magnitude. */
float dtype_largest(const void *src, uint32_t src_dtype, size_t n);

#endif
