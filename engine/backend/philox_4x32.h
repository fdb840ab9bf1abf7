/* philox_4x32.h - kiln_ops' random(): Philox 4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
 * 2011) and the numbers that are made of it, the same on every device. C, C++ and CUDA. Layer: backend.
 *
 * Element i reads block offset / 4 of subsequence i: the counter is (offset / 4, i), each 64 bits, the key the seed;
 * this is where curand_init(seed, i, offset) puts a generator. With its four words x, from word offset % 4 on, as
 * torch's CUDA generator has it:
 *     uniform  u = (float)x0 2^-32 + 2^-33, as curand_uniform4's first; 1 becomes 0, so [0,1)
 *     normal   sqrt(-2 log u) sin(v), u as above, v = (float)x1 2^-32 2 pi + 2^-33 2 pi: the first of curand_normal4
 *              (Box and Muller 1958)
 *     gumbel   -log(-log u), the inner one -2^-24 for u >= 1 - 2^-24, as torch's exponential_()
 * Logarithm and sine are made here, of additions and products of doubles that are not contracted: good to a rounding of
 * float and equal everywhere, where libraries differ in the last bit.
 */
#ifndef KILN_BACKEND_PHILOX_4X32_H
#define KILN_BACKEND_PHILOX_4X32_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define PHILOX_FN static __device__ __forceinline__
#define PHILOX_MUL(a, b) __dmul_rn(a, b)
#define PHILOX_ADD(a, b) __dadd_rn(a, b)
#define PHILOX_DIV(a, b) __ddiv_rn(a, b)
#define PHILOX_SQRT(a) __dsqrt_rn(a)
#else
#include <math.h>
#define PHILOX_FN static inline
#define PHILOX_MUL(a, b) ((a) * (b))
#define PHILOX_ADD(a, b) ((a) + (b))
#define PHILOX_DIV(a, b) ((a) / (b))
#define PHILOX_SQRT(a) sqrt(a)
#endif

typedef struct {
    uint32_t x[4];
} philox_block;

PHILOX_FN philox_block philox_words(uint64_t block, uint64_t subsequence, uint64_t seed)
{
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = (uint32_t)subsequence,
             c3 = (uint32_t)(subsequence >> 32), k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b, c3 = (uint32_t)a, c0 = n0, c2 = n2;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    philox_block r = {{c0, c1, c2, c3}};
    return r;
}

/* Natural logarithm of a float that is above 0 and normal: m 2^n with m in [sqrt 1/2, sqrt 2), log m = 2 atanh((m - 1)
 * / (m + 1)) by its series to degree 19 (truncation 1e-16). */
PHILOX_FN double philox_log(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t up = bits + (0x3f800000u - 0x3f3504f3u); /* so that the mantissa's half goes to the next power */
    int n = (int)(up >> 23) - 127;
    bits = (up & 0x007fffffu) + 0x3f3504f3u;
    float m;
    memcpy(&m, &bits, sizeof m);
    double z = PHILOX_DIV((double)m - 1, (double)m + 1), s = PHILOX_MUL(z, z), p = 1.0 / 19;
    const double c[9] = {1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0};
    for (int k = 0; k < 9; k++) p = PHILOX_ADD(PHILOX_MUL(p, s), c[k]);
    return PHILOX_ADD(PHILOX_MUL((double)n, 0.69314718055994530942), PHILOX_MUL(PHILOX_MUL(2.0, z), p));
}

/* Sine of 0 to 2 pi: the quadrant, then the series of sine or cosine on |r| <= pi / 4 (truncation 1e-16). */
PHILOX_FN double philox_sin(double v)
{
    int quarter = (int)PHILOX_ADD(PHILOX_MUL(v, 0.63661977236758134308), 0.5);
    double r = PHILOX_ADD(v, PHILOX_MUL(-(double)quarter, 1.57079632679489661923)), s = PHILOX_MUL(r, r), p;
    const double odd[7] = {-1.0 / 210, -1.0 / 156, -1.0 / 110, -1.0 / 72, -1.0 / 42, -1.0 / 20, -1.0 / 6};
    const double even[8] = {-1.0 / 240, -1.0 / 182, -1.0 / 132, -1.0 / 90, -1.0 / 56, -1.0 / 30, -1.0 / 12, -1.0 / 2};
    p = 1;
    if (quarter & 1) {
        for (int k = 0; k < 8; k++) p = PHILOX_ADD(1.0, PHILOX_MUL(PHILOX_MUL(p, s), even[k]));
    } else {
        for (int k = 0; k < 7; k++) p = PHILOX_ADD(1.0, PHILOX_MUL(PHILOX_MUL(p, s), odd[k]));
        p = PHILOX_MUL(p, r);
    }
    return quarter & 2 ? -p : p;
}

/* kind: kiln_random. */
PHILOX_FN float philox_number(uint32_t kind, uint64_t seed, uint64_t offset, uint64_t i)
{
    uint32_t from = (uint32_t)(offset & 3), x0, x1;
    philox_block w = philox_words(offset >> 2, i, seed);
    x0 = w.x[from];
    x1 = from < 3 ? w.x[from + 1] : 0;
    if (from == 3 && kind == 1) x1 = philox_words((offset >> 2) + 1, i, seed).x[0];
    float u = (float)PHILOX_ADD((double)((float)x0 * 0x1p-32f), 0x1p-33); /* rounded once, as the float sum */
    if (kind == 0) return u < 1 ? u : 0;
    if (kind == 1) {
        float v = (float)x1 * (0x1p-32f * 6.2831855f);
        v = (float)PHILOX_ADD((double)v, (double)(0x1p-33f * 6.2831855f));
        return (float)PHILOX_MUL(PHILOX_SQRT(PHILOX_MUL(-2.0, philox_log(u))), philox_sin((double)v));
    }
    float inner = u >= 1 - 0x1p-24f ? 0x1p-24f : (float)-philox_log(u);
    return (float)-philox_log(inner);
}

#endif
