/* kernels_vector.h - vectors of LANES floats, the exponential, and the activations that are made of it: what
 * kernels_template.h's files share with kernels that have one set of instructions. Who includes it defines LANES and
 * VFMA(a, b, c) = a*b + c. No include guard: once per file.
 */
#include <stdint.h>
#include <string.h>

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(LANES * 4)));
typedef uint16_t vh __attribute__((vector_size(LANES * 2)));
#define INLINE static inline __attribute__((always_inline))

INLINE vf splat(float x)
{
    const vf zero = {0};
    return x - zero; /* which is x, also for -0, and costs nothing */
}
INLINE vf get(const float *p)
{
    vf v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void put(float *p, vf v) { memcpy(p, &v, sizeof v); }
/* The first n < LANES values; the rest is 0. */
#if LANES == 16
INLINE __mmask16 first_of(size_t n) { return (__mmask16)((1u << n) - 1); }
INLINE vf get_part(const float *p, size_t n) { return (vf)_mm512_maskz_loadu_ps(first_of(n), p); }
INLINE void put_part(float *p, vf v, size_t n) { _mm512_mask_storeu_ps(p, first_of(n), (__m512)v); }
#else /* for the ends of rows; inlined they would be longer than the loops */
static __attribute__((noinline, unused)) vf get_part(const float *p, size_t n)
{
    vf v = {0};
    memcpy(&v, p, n * sizeof *p);
    return v;
}
static __attribute__((noinline, unused)) void put_part(float *p, vf v, size_t n) { memcpy(p, &v, n * sizeof *p); }
#endif
INLINE vf pick(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }
/* a > b ? a : b, so of a NaN and a number the second: one instruction, where the compiler makes two of that. */
#if LANES == 16
INLINE vf vmax(vf a, vf b) { return (vf)_mm512_max_ps((__m512)a, (__m512)b); }
#elif LANES == 8
INLINE vf vmax(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
#else
INLINE vf vmax(vf a, vf b) { return pick(a > b, a, b); }
#endif
/* Lanes moved down by n, round the end. */
#if LANES == 16
#define TURN(v, n)                                                                                                     \
    __builtin_shufflevector(v, v, (n), ((n) + 1) & 15, ((n) + 2) & 15, ((n) + 3) & 15, ((n) + 4) & 15, ((n) + 5) & 15, \
                            ((n) + 6) & 15, ((n) + 7) & 15, ((n) + 8) & 15, ((n) + 9) & 15, ((n) + 10) & 15,           \
                            ((n) + 11) & 15, ((n) + 12) & 15, ((n) + 13) & 15, ((n) + 14) & 15, ((n) + 15) & 15)
#elif LANES == 8
#define TURN(v, n)                                                                                                     \
    __builtin_shufflevector(v, v, (n), ((n) + 1) & 7, ((n) + 2) & 7, ((n) + 3) & 7, ((n) + 4) & 7, ((n) + 5) & 7,      \
                            ((n) + 6) & 7, ((n) + 7) & 7)
#else
#define TURN(v, n) __builtin_shufflevector(v, v, (n), ((n) + 1) & 3, ((n) + 2) & 3, ((n) + 3) & 3)
#endif
INLINE float lanes_sum(vf v)
{
#if LANES > 8
    v += TURN(v, 8);
#endif
#if LANES > 4
    v += TURN(v, 4);
#endif
    v += TURN(v, 2);
    v += TURN(v, 1);
    return v[0];
}

/* ---- exp and what is made of it ---- */

/* e^x = 2^n e^r, |r| <= ln2/2, Taylor to degree 7 (truncation 3e-9). Below -87.3 the result is 0, above 88 it is
 * that of 88; NaN stays NaN. */
INLINE vf vexp(vf x)
{
    vf low = splat(-87.3f), high = splat(88.0f), magic = splat(12582912.0f); /* 1.5 * 2^23 */
#if LANES == 16 /* of a NaN and a number the second operand */
    vf y = (vf)_mm512_min_ps((__m512)high, _mm512_max_ps((__m512)low, (__m512)x));
#else
    vi tiny = x < low;
    vf y = pick(x > high, high, pick(tiny, low, x));
#endif
    vf t = VFMA(y, splat(1.44269504f), magic);
    vf n = t - magic;
    vf r = VFMA(n, splat(-0.693359375f), y);
    r = VFMA(n, splat(2.12194440e-4f), r);
    vf p = splat(1.0f / 5040);
    p = VFMA(p, r, splat(1.0f / 720));
    p = VFMA(p, r, splat(1.0f / 120));
    p = VFMA(p, r, splat(1.0f / 24));
    p = VFMA(p, r, splat(1.0f / 6));
    p = VFMA(p, r, splat(0.5f));
    p = VFMA(p, r, splat(1.0f));
    p = VFMA(p, r, splat(1.0f));
#if LANES == 16
    return (vf)_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask((__m512)x, (__m512)low, _CMP_NLT_UQ), (__m512)p, (__m512)n);
#else
    vf power = (vf)(((vu)t + 127u) << 23);
    return pick(tiny, splat(0), p * power);
#endif
}
/* 2^x for x <= 0, 0 for -infinity, NaN stays: polynomial of degree 6 on |r| <= 1/2 fitted for least relative error
 * (2e-9; with rounding 1e-7). */
INLINE vf vexp2_low(vf x)
{
#if LANES == 16
    x = vmax(splat(-200), x);
    vf n = (vf)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    vf magic = splat(12582912.0f); /* 1.5 * 2^23 */
    vi tiny = x < splat(-126);
    x = vmax(splat(-126), x);
    vf t = x + magic, n = t - magic;
#endif
    vf r = x - n, p = splat(1.53533620e-4f);
    p = VFMA(p, r, splat(1.33988750e-3f));
    p = VFMA(p, r, splat(9.61843736e-3f));
    p = VFMA(p, r, splat(5.55033247e-2f));
    p = VFMA(p, r, splat(2.40226479e-1f));
    p = VFMA(p, r, splat(6.93147203e-1f));
    p = VFMA(p, r, splat(1.0f));
#if LANES == 16
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    return pick(tiny, splat(0), p * (vf)(((vu)t + 127u) << 23));
#endif
}
INLINE vf vsigmoid(vf x) { return splat(1.0f) / (splat(1.0f) + vexp(-x)); }

/* x * Phi(x), Phi by erfc (Abramowitz and Stegun 7.1.26) so that the far left keeps its digits */
INLINE vf vgelu(vf x)
{
    vf z = x * splat(0.70710678f);
    z = pick(z < splat(0), -z, z);
    vf t = splat(1.0f) / VFMA(z, splat(0.3275911f), splat(1.0f));
    vf p = splat(1.061405429f);
    p = VFMA(p, t, splat(-1.453152027f));
    p = VFMA(p, t, splat(1.421413741f));
    p = VFMA(p, t, splat(-0.284496736f));
    p = VFMA(p, t, splat(0.254829592f));
    vf tail = splat(0.5f) * p * t * vexp(-z * z);
    return x * pick(x < splat(0), tail, splat(1.0f) - tail);
}
INLINE vf vgelu_tanh(vf x) /* (1 + tanh u)/2 = sigmoid(2u) */
{
    vf u = splat(1.59576912f) * VFMA(x * x * x, splat(0.044715f), x);
    return x * vsigmoid(u);
}
INLINE vf vsilu(vf x) { return x * vsigmoid(x); }
INLINE vf vquick_gelu(vf x) { return x * vsigmoid(splat(1.702f) * x); }
INLINE vf vrelu(vf x) { return pick(x > splat(0), x, pick(x == x, splat(0), x)); } /* NOLINT: NaN */
