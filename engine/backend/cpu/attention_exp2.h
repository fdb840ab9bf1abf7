/* attention_exp2.h - powers of two for exponentials that become bf16: included where AVX-512 is compiled for.
 * Layer: backend.
 */
#ifndef KILN_BACKEND_CPU_ATTENTION_EXP2_H
#define KILN_BACKEND_CPU_ATTENTION_EXP2_H

#include <immintrin.h>

/* 2^x for x <= 8, 0 below -127: 1 + c1 r + c2 r^2 + c3 r^3 on |r| <= 1/2, fitted for least relative error, 1.02e-4.
 * NaN stays. */
static inline __attribute__((always_inline)) __m512 exp2_cubic(__m512 x)
{
    const __m512 magic = _mm512_set1_ps(12582912.0f); /* 1.5 * 2^23 */
    x = _mm512_max_ps(_mm512_set1_ps(-127), x);
    __m512 t = _mm512_add_ps(x, magic), r = _mm512_sub_ps(x, _mm512_sub_ps(t, magic));
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(0x1.c2a168p-5f), r, _mm512_set1_ps(0x1.f00c54p-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.62f5fcp-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1));
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(t), 23)));
}

#endif
