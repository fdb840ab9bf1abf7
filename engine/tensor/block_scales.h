/* block_scales.h - the parts that blocks are made of: how scales are packed, and the tables behind codes. For the files
 * of block.h, and for kernels that multiply blocks as they are. Layer: tensor.
 */
#ifndef KILN_TENSOR_BLOCK_SCALES_H
#define KILN_TENSOR_BLOCK_SCALES_H

#include "tensor/dtype.h"

#if defined __F16C__
#include <immintrin.h>
#endif

/* What the codes of iq4_nl and iq4_xs stand for, and twice what those of mxfp4 and nvfp4 do. */
static const int8_t block_iq4[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
static const int8_t block_e2m1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static inline uint16_t block_u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t block_u32(const uint8_t *p) { return block_u16(p) | (uint32_t)block_u16(p + 2) << 16; }
static inline float block_half(const uint8_t *p)
{
#if defined __F16C__
    return _cvtsh_ss(block_u16(p)); /* the same bits */
#else
    return f16_to_f32(block_u16(p));
#endif
}

/* Six bits each of 8 scales and 8 minima, in 12 bytes: the first four of each lie in the low bits of bytes 0 to 7, of
 * the others four bits in bytes 8 to 11, and two above the first ones. */
static inline void block_scales_q4_k(const uint8_t b[12], uint8_t scale[8], uint8_t min[8])
{
    for (int j = 0; j < 4; j++) {
        scale[j] = b[j] & 63;
        min[j] = b[j + 4] & 63;
        scale[j + 4] = (uint8_t)((b[j + 8] & 15) | b[j] >> 6 << 4);
        min[j + 4] = (uint8_t)(b[j + 8] >> 4 | b[j + 4] >> 6 << 4);
    }
}

/* Six bits each of 16 scales, less 32: four in bytes 0 to 7 (scale 8 and above in the high ones), two in bytes 8 to
 * 11. */
static inline void block_scales_q3_k(const uint8_t b[12], int8_t scale[16])
{
    for (int j = 0; j < 16; j++) {
        int low = b[j % 8] >> (j / 8 * 4) & 15, high = b[8 + j % 4] >> (j / 4 * 2) & 3;
        scale[j] = (int8_t)((low | high << 4) - 32);
    }
}

static inline int block_scale_iq4_xs(const uint8_t *b, int i)
{
    int low = b[4 + i / 2] >> (i % 2 * 4) & 15, high = block_u16(b + 2) >> (2 * i) & 3;
    return (low | high << 4) - 32;
}

/* Half of 2^(e - 127), for numbers that are twice as large as they should be. */
static inline float block_e8m0(uint8_t e)
{
    union {
        uint32_t u;
        float f;
    } x = {.u = e < 2 ? 0x200000u << e : (uint32_t)(e - 1) << 23};
    return x.f;
}

/* Half of an f8 e4m3 without a sign; NaN counts as 0, as in ggml. */
static inline float block_ue4m3(uint8_t v) { return v == 0x7f ? 0.0f : f8_e4m3_to_f32(v & 0x7f) * 0.5f; }

#endif
