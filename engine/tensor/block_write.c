/* block_write.c - floats into blocks; see block.h. Types whose blocks have one scale are here, and are what ggml makes
 * of the same floats; block_search.c has those whose sub-blocks have scales of their own.
 */
#include "tensor/block.h"
#include "tensor/block_search.h"

#include <math.h>
#include <string.h>

static void put_half(uint8_t *p, float f)
{
    uint16_t h = f16_from_f32(f);
    p[0] = (uint8_t)h, p[1] = (uint8_t)(h >> 8);
}

static float largest(const float *x, int n)
{
    float most = 0, magnitude = 0;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > magnitude) magnitude = fabsf(x[i]), most = x[i];
    return most;
}

static uint8_t clip(float v, int most) { return v >= (float)most ? (uint8_t)most : v > 0 ? (uint8_t)v : 0; }

static void put_nibbles(uint8_t *b, const uint8_t q[32])
{
    for (int j = 0; j < 16; j++) b[j] = (uint8_t)((q[j] & 15) | (q[j + 16] & 15) << 4);
}

static void put_fifth(uint8_t *b, const uint8_t q[32])
{
    memset(b, 0, 4);
    for (int j = 0; j < 32; j++) b[j / 8] = (uint8_t)(b[j / 8] | (q[j] >> 4 & 1) << j % 8);
}

static void write_symmetric(const float *x, uint8_t *b, int half)
{
    uint8_t q[32];
    float d = largest(x, 32) / (float)-half, id = d != 0 ? 1 / d : 0;
    for (int i = 0; i < 32; i++) q[i] = clip(x[i] * id + ((float)half + 0.5f), 2 * half - 1);
    put_half(b, d);
    if (half == 16) put_fifth(b + 2, q);
    put_nibbles(b + (half == 16 ? 6 : 2), q);
}

static void write_affine(const float *x, uint8_t *b, int most)
{
    uint8_t q[32];
    float low = x[0], high = x[0];
    for (int i = 1; i < 32; i++) low = fminf(low, x[i]), high = fmaxf(high, x[i]);
    float d = (high - low) / (float)most, id = d != 0 ? 1 / d : 0;
    for (int i = 0; i < 32; i++) q[i] = clip((x[i] - low) * id + 0.5f, most);
    put_half(b, d);
    put_half(b + 2, low);
    if (most == 31) put_fifth(b + 4, q);
    put_nibbles(b + (most == 31 ? 8 : 4), q);
}

static void write_q4_0(const float *x, uint8_t *b) { write_symmetric(x, b, 8); }
static void write_q5_0(const float *x, uint8_t *b) { write_symmetric(x, b, 16); }
static void write_q4_1(const float *x, uint8_t *b) { write_affine(x, b, 15); }
static void write_q5_1(const float *x, uint8_t *b) { write_affine(x, b, 31); }

static void write_q8_0(const float *x, uint8_t *b)
{
    float d = fabsf(largest(x, 32)) / 127, id = d != 0 ? 1 / d : 0;
    put_half(b, d);
    for (int i = 0; i < 32; i++) b[2 + i] = (uint8_t)(int8_t)roundf(x[i] * id);
}

/* The code of the nearest number; the first of two. */
static uint8_t nearest_e2m1(float d, float x)
{
    uint8_t best = 0;
    float least = INFINITY;
    for (uint8_t k = 0; k < 16; k++) {
        float error = fabsf(d * (float)block_e2m1[k] - x);
        if (error < least) least = error, best = k;
    }
    return best;
}

static void write_mxfp4(const float *x, uint8_t *b)
{
    uint8_t q[32];
    float most = fabsf(largest(x, 32));
    int e = 0;
    if (most > 0) {
        frexpf(most, &e); /* most = [.5, 1) 2^e */
        e += -1 - 2 + 127;
    }
    b[0] = (uint8_t)(e > 0 ? e : 0);
    for (int i = 0; i < 32; i++) q[i] = nearest_e2m1(block_e8m0(b[0]), x[i]);
    put_nibbles(b + 1, q);
}

/* The least ue4m3 whose largest code reaches `most`, or the largest there is. */
static uint8_t scale_nvfp4(float most)
{
    uint8_t v = 1;
    while (v < 0x7e && block_ue4m3(v) * 12 < most) v++;
    return most > 0 ? v : 0;
}

static float error_nvfp4(const float *x, uint8_t scale, uint8_t q[16])
{
    float d = block_ue4m3(scale), sum = 0;
    for (int i = 0; i < 16; i++) {
        q[i] = nearest_e2m1(d, x[i]);
        float off = d * (float)block_e2m1[q[i]] - x[i];
        sum += off * off;
    }
    return sum;
}

/* Of the scales around the one that reaches the largest number (the largest may become the code for 4 as well) the one
 * of least error. */
static void write_nvfp4(const float *x, uint8_t *b)
{
    for (int i = 0; i < 4; i++, x += 16) {
        uint8_t q[16], best[16] = {0}, from = scale_nvfp4(fabsf(largest(x, 16)));
        float least = INFINITY;
        b[i] = 0;
        for (uint8_t s = from > 4 ? from - 4 : 1; from && s <= from + 5 && s < 0x7f; s++) {
            float error = error_nvfp4(x, s, q);
            if (error < least) least = error, b[i] = s, memcpy(best, q, 16);
        }
        for (int j = 0; j < 8; j++) b[4 + i * 8 + j] = (uint8_t)(best[j] | best[j + 8] << 4);
    }
}

static const struct {
    uint32_t dtype;
    void (*write)(const float *x, uint8_t *block);
} writers[] = {
    {KILN_Q4_0, write_q4_0},           {KILN_Q4_1, write_q4_1},           {KILN_Q5_0, write_q5_0},
    {KILN_Q5_1, write_q5_1},           {KILN_Q8_0, write_q8_0},           {KILN_MXFP4, write_mxfp4},
    {KILN_NVFP4, write_nvfp4},         {KILN_Q2_K, block_write_q2_k},     {KILN_Q3_K, block_write_q3_k},
    {KILN_Q4_K, block_write_q4_k},     {KILN_Q5_K, block_write_q5_k},     {KILN_Q6_K, block_write_q6_k},
    {KILN_IQ4_NL, block_write_iq4_nl}, {KILN_IQ4_XS, block_write_iq4_xs},
};

kiln_status block_write(uint32_t dtype, const float *src, void *dst, size_t n)
{
    size_t elements = dtype_block(dtype), bytes = dtype_block_bytes(dtype);
    if (elements < 2 || n % elements) return KILN_ERR_UNSUPPORTED;
    for (size_t k = 0; k < sizeof writers / sizeof writers[0]; k++) {
        if (writers[k].dtype != dtype) continue;
        for (size_t i = 0; i < n / elements; i++) writers[k].write(src + i * elements, (uint8_t *)dst + i * bytes);
        return KILN_OK;
    }
    return KILN_ERR_UNSUPPORTED;
}
