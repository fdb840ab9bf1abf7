/* kernels_random.h - the part of kernels_template.h that makes LANES numbers of philox_4x32.h at once, with the same
 * operations in the same order, so with the same bytes. Part of that file: included by it alone, once for each width of
 * vectors.
 */
typedef double vd __attribute__((vector_size(LANES * 4)));
typedef int64_t vl __attribute__((vector_size(LANES * 4)));
typedef int32_t vi_half __attribute__((vector_size(LANES * 2)));
typedef float vf_half __attribute__((vector_size(LANES * 2)));
enum { HALVES = LANES / 2 };

INLINE vd dsplat(double x)
{
    const vd zero = {0};
    return x - zero;
}
INLINE vd dpick(vl mask, vd a, vd b) { return (vd)((mask & (vl)a) | (~mask & (vl)b)); }
INLINE vd droot(vd x)
{
#if LANES == 16
    return (vd)_mm512_sqrt_pd((__m512d)x);
#elif LANES == 8
    return (vd)_mm256_sqrt_pd((__m256d)x);
#else
    for (int i = 0; i < HALVES; i++) x[i] = sqrt(x[i]);
    return x;
#endif
}

#if LANES == 16
#define LOW_HALF(v) __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7)
#define HIGH_HALF(v) __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)
#define JOIN_HALVES(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#elif LANES == 8
#define LOW_HALF(v) __builtin_shufflevector(v, v, 0, 1, 2, 3)
#define HIGH_HALF(v) __builtin_shufflevector(v, v, 4, 5, 6, 7)
#define JOIN_HALVES(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7)
#else
#define LOW_HALF(v) __builtin_shufflevector(v, v, 0, 1)
#define HIGH_HALF(v) __builtin_shufflevector(v, v, 2, 3)
#define JOIN_HALVES(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3)
#endif

/* Lanes of doubles of which something is true. */
#if LANES == 16
typedef __mmask8 lanes_true;
INLINE lanes_true odd_lanes(vl whole) { return _mm512_test_epi64_mask((__m512i)whole, _mm512_set1_epi64(1)); }
INLINE vd choose(lanes_true of, vd a, vd b) { return (vd)_mm512_mask_blend_pd(of, (__m512d)b, (__m512d)a); }
#else
typedef vl lanes_true;
INLINE lanes_true odd_lanes(vl whole) { return -(whole & 1); }
INLINE vd choose(lanes_true of, vd a, vd b) { return dpick(of, a, b); }
#endif
/* -v where bit 1 is set. */
INLINE vd turned(vd v, vl quarter) { return (vd)((vw)v ^ ((vw)quarter << 62 & (uint64_t)1 << 63)); }

/* ---- Philox: numbers of even and of odd places apart, each in a word of 64 bits whose upper half means nothing, as it
 * means nothing to the product. Two vectors together: none waits for a result of its own. ---- */

enum { VECTORS = 2, SETS = 2 * VECTORS, ROUNDS = 10 };
#define EACH_SET(body)                                                                                                 \
    UNROLL for (int h = 0; h < SETS; h++) { body }

INLINE vw wide_products(vw x, uint32_t k)
{
#if LANES == 16 /* a compiler multiplies 64 bits by 64 */
    return (vw)_mm512_mul_epu32((__m512i)x, _mm512_set1_epi64((int64_t)k));
#elif LANES == 8
    return (vw)_mm256_mul_epu32((__m256i)x, _mm256_set1_epi64x((int64_t)k));
#else
    return (x & 0xffffffffu) * (uint64_t)k;
#endif
}
/* Four words of each of the subsequences low, high. */
INLINE void philox_sets(vw to[4][SETS], uint64_t block, const vw low[SETS], const vw high[SETS], const uint64_t *key)
{
    const vw zero = {0};
    vw c0[SETS], c1[SETS], c2[SETS], c3[SETS];
    EACH_SET(c0[h] = zero + (block & 0xffffffffu); c1[h] = zero + (block >> 32); c2[h] = low[h]; c3[h] = high[h];)
    _Pragma("GCC unroll 10") for (int round = 0; round < ROUNDS; round++)
    {
        const vw k0 = zero + key[2 * round], k1 = zero + key[2 * round + 1];
        EACH_SET(vw a = wide_products(c0[h], 0xD2511F53u); vw b = wide_products(c2[h], 0xCD9E8D57u);
                 c0[h] = b >> 32 ^ c1[h] ^ k0; c2[h] = a >> 32 ^ c3[h] ^ k1; c1[h] = b; c3[h] = a;)
    }
    EACH_SET(to[0][h] = c0[h]; to[1][h] = c1[h]; to[2][h] = c2[h]; to[3][h] = c3[h];)
}
static void philox_keys(uint64_t *key, uint64_t seed)
{
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < ROUNDS; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        key[2 * round] = k0, key[2 * round + 1] = k1;
}
INLINE vu joined_words(const vw *set) { return (vu)((set[0] & 0xffffffffu) | set[1] << 32); }

INLINE void log_sets(vd to[SETS], const vf x[VECTORS])
{
    const double c[9] = {1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0};
    vd z[SETS], s[SETS], p[SETS], power[SETS];
    UNROLL for (int v = 0; v < VECTORS; v++)
    {
        vi up = (vi)x[v] + (int32_t)(0x3f800000u - 0x3f3504f3u), n = (up >> 23) - 127;
        vf m = (vf)((up & 0x007fffff) + 0x3f3504f3);
        z[2 * v] = __builtin_convertvector(LOW_HALF(m), vd), z[2 * v + 1] = __builtin_convertvector(HIGH_HALF(m), vd);
        power[2 * v] = __builtin_convertvector(LOW_HALF(n), vd);
        power[2 * v + 1] = __builtin_convertvector(HIGH_HALF(n), vd);
    }
    EACH_SET(z[h] = (z[h] - 1) / (z[h] + 1); s[h] = z[h] * z[h]; p[h] = dsplat(1.0 / 19);)
    _Pragma("GCC unroll 9") for (int k = 0; k < 9; k++) EACH_SET(p[h] = p[h] * s[h] + c[k];)
        EACH_SET(to[h] = power[h] * 0.69314718055994530942 + (z[h] * 2.0) * p[h];)
}
/* The series of the sine takes a step less than that of the cosine: its first one adds nothing. */
INLINE void sine_sets(vd to[SETS], const vf_half of[SETS])
{
    const double odd[8] = {0, -1.0 / 210, -1.0 / 156, -1.0 / 110, -1.0 / 72, -1.0 / 42, -1.0 / 20, -1.0 / 6};
    const double even[8] = {-1.0 / 240, -1.0 / 182, -1.0 / 132, -1.0 / 90, -1.0 / 56, -1.0 / 30, -1.0 / 12, -1.0 / 2};
    vd r[SETS], s[SETS], p[SETS];
    vl turn[SETS];
    lanes_true cosine[SETS];
    EACH_SET(vd v = __builtin_convertvector(of[h], vd);
             vi_half quarter = __builtin_convertvector(v * 0.63661977236758134308 + 0.5, vi_half);
             r[h] = v + -__builtin_convertvector(quarter, vd) * 1.57079632679489661923; s[h] = r[h] * r[h];
             p[h] = dsplat(1); turn[h] = __builtin_convertvector(quarter, vl); cosine[h] = odd_lanes(turn[h]);)
    UNROLL for (int k = 0; k < 8; k++)
        EACH_SET(p[h] = (p[h] * s[h]) * choose(cosine[h], dsplat(even[k]), dsplat(odd[k])) + 1.0;)
            EACH_SET(to[h] = turned(choose(cosine[h], p[h], p[h] * r[h]), turn[h]);)
}
INLINE vu vu_places(void)
{
    vu v = {0};
    for (uint32_t i = 1; i < LANES; i++) v[i] = i;
    return v;
}
INLINE void make_normal(vf to[VECTORS], const vf u[VECTORS], const vu word[VECTORS])
{
    vd natural[SETS], sine[SETS];
    vf_half of[SETS];
    UNROLL for (int v = 0; v < VECTORS; v++)
    {
        vf b = __builtin_convertvector(word[v], vf) * splat(0x1p-32f * 6.2831855f);
        of[2 * v] = LOW_HALF(b), of[2 * v + 1] = HIGH_HALF(b);
    }
    EACH_SET(vd sum = __builtin_convertvector(of[h], vd) + (double)(0x1p-33f * 6.2831855f);
             of[h] = __builtin_convertvector(sum, vf_half);)
    log_sets(natural, u), sine_sets(sine, of);
    EACH_SET(of[h] = __builtin_convertvector(droot(natural[h] * -2.0) * sine[h], vf_half);)
    UNROLL for (int v = 0; v < VECTORS; v++) to[v] = JOIN_HALVES(of[2 * v], of[2 * v + 1]);
}
INLINE void minus_logs(vf to[VECTORS], const vf of[VECTORS])
{
    vd natural[SETS];
    vf_half part[SETS];
    log_sets(natural, of);
    EACH_SET(part[h] = __builtin_convertvector(-natural[h], vf_half);)
    UNROLL for (int v = 0; v < VECTORS; v++) to[v] = JOIN_HALVES(part[2 * v], part[2 * v + 1]);
}
/* Words `first` and the one behind it of numbers i .. of VECTORS vectors. */
INLINE void random_words(vu x0[VECTORS], vu x1[VECTORS], uint64_t offset, const int two_blocks, uint64_t i,
                         const uint64_t *key)
{
    vw words[5][SETS], low[SETS], high[SETS];
    const uint32_t from = (uint32_t)(offset & 3);
    UNROLL for (int v = 0; v < VECTORS; v++)
    {
        const vu zero = {0}, start = zero + (uint32_t)(i + (uint64_t)v * LANES), l = start + vu_places();
        const vu up = zero + (uint32_t)((i + (uint64_t)v * LANES) >> 32) - (vu)(l < start); /* true is -1 */
        low[2 * v] = (vw)l, low[2 * v + 1] = (vw)l >> 32, high[2 * v] = (vw)up, high[2 * v + 1] = (vw)up >> 32;
    }
    philox_sets(words, offset >> 2, low, high, key);
    memcpy(words[4], words[0], sizeof words[4]);
    if (two_blocks) {
        vw next[4][SETS];
        philox_sets(next, (offset >> 2) + 1, low, high, key);
        memcpy(words[4], next[0], sizeof words[4]);
    }
    UNROLL for (int v = 0; v < VECTORS; v++) x0[v] = joined_words(&words[from][2 * v]),
                                             x1[v] = joined_words(&words[from + 1][2 * v]);
}
/* u is the word 2^-32 + 2^-33, rounded once: the product is exact. */
INLINE void random_sets(vf to[VECTORS], const uint32_t kind, uint64_t offset, uint64_t i, const uint64_t *key)
{
    vu x0[VECTORS], x1[VECTORS];
    vf u[VECTORS];
    if (kind == 1 && (offset & 3) == 3)
        random_words(x0, x1, offset, 1, i, key);
    else
        random_words(x0, x1, offset, 0, i, key);
    UNROLL for (int v = 0; v < VECTORS; v++) u[v] =
        __builtin_convertvector(x0[v], vf) * splat(0x1p-32f) + splat(0x1p-33f);
    if (kind == 1) {
        make_normal(to, u, x1);
        return;
    }
    if (kind == 0) {
        UNROLL for (int v = 0; v < VECTORS; v++) to[v] = pick(u[v] < splat(1), u[v], splat(0));
        return;
    }
    minus_logs(to, u);
    UNROLL for (int v = 0; v < VECTORS; v++) to[v] = pick(u[v] >= splat(1 - 0x1p-24f), splat(0x1p-24f), to[v]);
    minus_logs(to, to);
}

/* ---- sines and cosines of doubles, to be rounded to float: within 2^-37 of their value ---- */

INLINE vd dfma(vd a, vd b, vd c)
{
#if LANES == 16
    return (vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif LANES == 8
    return (vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}
/* x - n pi / 2, n up to 2^20 */
INLINE vd less_quarters(vd x, vd n)
{
#if LANES >= 8
    x = dfma(n, dsplat(-1.57079632679489655800e+00), x);
    return dfma(n, dsplat(-6.12323399573676603587e-17), x);
#else /* products of 33 bits and 20 are exact */
    x = dfma(n, dsplat(-1.57079632673412561417e+00), x);
    x = dfma(n, dsplat(-6.07710050630396597660e-11), x);
    return dfma(n, dsplat(-2.02226624879595063154e-21), x);
#endif
}
/* By name, since a compiler converts halves of halves. */
INLINE void widened_set(vd to[2], vf v)
{
#if LANES == 16
    to[0] = (vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)v));
    to[1] = (vd)_mm512_cvtps_pd(_mm256_castpd_ps(_mm512_extractf64x4_pd((__m512d)v, 1)));
#else
    to[0] = __builtin_convertvector(LOW_HALF(v), vd), to[1] = __builtin_convertvector(HIGH_HALF(v), vd);
#endif
}
INLINE vf narrowed_set(const vd v[2])
{
#if LANES == 16
    __m512d low = _mm512_castps_pd(_mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)v[0])));
    return (vf)_mm512_insertf64x4(low, _mm256_castps_pd(_mm512_cvtpd_ps((__m512d)v[1])), 1);
#else
    return JOIN_HALVES(__builtin_convertvector(v[0], vf_half), __builtin_convertvector(v[1], vf_half));
#endif
}

enum { WAVES = 4, WAVE_SETS = 2 * WAVES, WAVE_NUMBERS = WAVES * LANES };
#define EACH_WAVE(body)                                                                                                \
    UNROLL for (int h = 0; h < WAVE_SETS; h++) { body }
/* Of x up to 2^20. Polynomials are fits of least relative error for angles up to pi / 4. */
INLINE void wave_sets(vd sine[WAVE_SETS], vd cosine[WAVE_SETS], const vd x[WAVE_SETS])
{
    const double sines[3] = {-1.9839311485723958659e-4, 8.3333293024182392743e-3, -1.6666666640776244577e-1};
    const double cosines[3] = {2.4799459309194137477e-5, -1.3888883496856337208e-3, 4.1666666619453695001e-2};
    vd t[WAVE_SETS], r[WAVE_SETS], z[WAVE_SETS], s[WAVE_SETS], c[WAVE_SETS];
    EACH_WAVE(t[h] = dfma(x[h], dsplat(6.36619772367581382433e-01), dsplat(6755399441055744.0)); /* 1.5 * 2^52 */
              r[h] = less_quarters(x[h], t[h] - dsplat(6755399441055744.0)); z[h] = r[h] * r[h];
              s[h] = dsplat(2.7181141204755112894e-6); c[h] = dsplat(-2.7205684557029432219e-7);)
    UNROLL for (int k = 0; k < 3; k++)
        EACH_WAVE(s[h] = dfma(s[h], z[h], dsplat(sines[k])); c[h] = dfma(c[h], z[h], dsplat(cosines[k]));)
            EACH_WAVE(s[h] = dfma(s[h] * z[h], r[h], r[h]);
                      c[h] = dfma(c[h] * z[h], z[h], dfma(z[h], dsplat(-0.5), dsplat(1))); vl quarter = (vl)t[h];
                      lanes_true odd = odd_lanes(quarter); sine[h] = turned(choose(odd, c[h], s[h]), quarter);
                      cosine[h] = turned(choose(odd, s[h], c[h]), quarter + 1);)
}
/* WAVE_NUMBERS of them. */
INLINE void wave_block(const uint32_t type, void *sines, void *cosines, const float *x, float by)
{
    const vf limit = splat(0x1p20f);
    vd of[WAVE_SETS], sine[WAVE_SETS], cosine[WAVE_SETS];
    vi far = {0};
    UNROLL for (size_t v = 0; v < WAVES; v++)
    {
        vf angle = get(x + v * LANES) * splat(by);
        far |= ~(vabs(angle) < limit);
        widened_set(of + 2 * v, angle);
    }
    if (__builtin_expect(any_lane(far), 0)) {
        for (int h = 0; h < WAVE_SETS; h++) {
            vd s = of[h], c = of[h];
            for (int k = 0; k < HALVES; k++) s[k] = sin(s[k]), c[k] = cos(c[k]);
            sine[h] = s, cosine[h] = c;
        }
    } else
        wave_sets(sine, cosine, of);
    UNROLL for (size_t v = 0; v < WAVES && type != KILN_BF16; v++)
    {
        put_one(type, sines, v * LANES, narrowed_set(sine + 2 * v), LANES, 0);
        put_one(type, cosines, v * LANES, narrowed_set(cosine + 2 * v), LANES, 0);
    }
    UNROLL for (size_t v = 0; v < WAVES && type == KILN_BF16; v += 2)
    {
        put_two((uint16_t *)sines + v * LANES, narrowed_set(sine + 2 * v), narrowed_set(sine + 2 * v + 2), 0);
        put_two((uint16_t *)cosines + v * LANES, narrowed_set(cosine + 2 * v), narrowed_set(cosine + 2 * v + 2), 0);
    }
}
INLINE void waves_as(const uint32_t type, void *sines, void *cosines, const float *x, float by, size_t n)
{
    const size_t size = type == KILN_F32 ? 4 : 2;
    float angles[WAVE_NUMBERS] = {0}, sine[WAVE_NUMBERS], cosine[WAVE_NUMBERS];
    size_t i = 0;
    for (; i + WAVE_NUMBERS <= n; i += WAVE_NUMBERS)
        wave_block(type, (char *)sines + i * size, (char *)cosines + i * size, x + i, by);
    if (i == n) return;
    memcpy(angles, x + i, (n - i) * sizeof *x);
    wave_block(KILN_F32, sine, cosine, angles, by);
    for (size_t k = 0; i + k < n; k += LANES) {
        put_one(type, sines, i + k, get(sine + k), n - i - k, 0);
        put_one(type, cosines, i + k, get(cosine + k), n - i - k, 0);
    }
}
static void waves(void *sines, void *cosines, uint32_t type, const float *x, float by, size_t n)
{
    if (type == KILN_F32)
        waves_as(KILN_F32, sines, cosines, x, by, n);
    else
        waves_as(KILN_BF16, sines, cosines, x, by, n);
}

INLINE void random_row_of(const uint32_t kind, float *to, uint64_t offset, uint64_t first, size_t n,
                          const uint64_t *key)
{
    for (size_t i = 0; i < n; i += VECTORS * LANES) {
        vf made[VECTORS];
        random_sets(made, kind, offset, first + i, key);
        for (size_t v = 0; v < VECTORS && i + v * LANES < n; v++)
            put_any(to + i + v * LANES, made[v], n - i - v * LANES);
    }
}
static void random_row(uint32_t kind, float *to, uint64_t seed, uint64_t offset, uint64_t first, size_t n)
{
    uint64_t key[2 * ROUNDS];
    philox_keys(key, seed);
    if (kind == 0)
        random_row_of(0, to, offset, first, n, key);
    else if (kind == 1)
        random_row_of(1, to, offset, first, n, key);
    else
        random_row_of(2, to, offset, first, n, key);
}
