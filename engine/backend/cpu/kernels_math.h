/* kernels_math.h - the part of kernels_template.h that has the elementary functions of expressions: within a few units
 * in the last place over all floats, infinities and NaN as in C. Part of that file: included by it alone, once for each
 * width of vectors. Polynomials of log, sin, cos and tanh: Cephes (Moshier); of erf near 0: Sun's fdlibm.
 */

/* 2^n p for whole numbers n from -150 to 129. */
INLINE vf scaled(vf p, vf n)
{
#if LANES == 16
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    vi whole = __builtin_convertvector(n, vi), half = whole >> 1;
    return p * (vf)((half + 127) << 23) * (vf)((whole - half + 127) << 23);
#endif
}

/* e^x with its overflow to infinity and subnormals, where vexp has neither. */
INLINE vf vexp_all(vf x)
{
    vf low = splat(-104.0f), high = splat(89.0f), magic = splat(12582912.0f);
    vf y = pick(x > high, high, pick(x < low, low, x));
    vf n = VFMA(y, splat(1.44269504f), magic) - magic;
    vf r = VFMA(n, splat(2.12194440e-4f), VFMA(n, splat(-0.693359375f), y));
    vf p = splat(1.0f / 5040);
    p = VFMA(p, r, splat(1.0f / 720));
    p = VFMA(p, r, splat(1.0f / 120));
    p = VFMA(p, r, splat(1.0f / 24));
    p = VFMA(p, r, splat(1.0f / 6));
    p = VFMA(p, r, splat(0.5f));
    p = VFMA(p, r, splat(1.0f));
    p = VFMA(p, r, splat(1.0f));
#if LANES != 16
    n = pick(visnan(x), splat(0), n); /* which is converted to a whole number */
#endif
    return pick(x == splat(-INFINITY), splat(0), scaled(p, n));
}
INLINE vf vexp2_all(vf x)
{
    vf low = splat(-151), high = splat(129), magic = splat(12582912.0f);
    vf y = pick(x > high, high, pick(x < low, low, x));
    vf n = (y + magic) - magic, r = y - n, p = splat(1.53533620e-4f);
    p = VFMA(p, r, splat(1.33988750e-3f));
    p = VFMA(p, r, splat(9.61843736e-3f));
    p = VFMA(p, r, splat(5.55033247e-2f));
    p = VFMA(p, r, splat(2.40226479e-1f));
    p = VFMA(p, r, splat(6.93147203e-1f));
    p = VFMA(p, r, splat(1.0f));
#if LANES != 16
    n = pick(visnan(x), splat(0), n);
#endif
    return scaled(p, n);
}
INLINE vf vexpm1(vf x)
{
    vf p = splat(1.0f / 5040);
    p = VFMA(p, x, splat(1.0f / 720));
    p = VFMA(p, x, splat(1.0f / 120));
    p = VFMA(p, x, splat(1.0f / 24));
    p = VFMA(p, x, splat(1.0f / 6));
    p = VFMA(p, x, splat(0.5f));
    return pick(vabs(x) < splat(0.35f), VFMA(x * x, p, x), vexp_all(x) - splat(1));
}

INLINE vf vlog(vf x)
{
    vi small = x < splat(0x1p-126f);
    vf y = pick(small, x * splat(0x1p23f), x);
    vi exponent = (((vi)y >> 23) & 255) - 126;
    vf m = (vf)(((vi)y & 0x7fffff) | 0x3f000000), e = __builtin_convertvector(exponent, vf); /* m: 0.5 to 1 */
    vi low = m < splat(0.707106781f);
    e = e - vtruth(low) - pick(small, splat(23), splat(0));
    m = pick(low, m + m, m) - splat(1);
    vf z = m * m, p = splat(7.0376836292e-2f);
    p = VFMA(p, m, splat(-1.1514610310e-1f));
    p = VFMA(p, m, splat(1.1676998740e-1f));
    p = VFMA(p, m, splat(-1.2420140846e-1f));
    p = VFMA(p, m, splat(1.4249322787e-1f));
    p = VFMA(p, m, splat(-1.6668057665e-1f));
    p = VFMA(p, m, splat(2.0000714765e-1f));
    p = VFMA(p, m, splat(-2.4999993993e-1f));
    p = VFMA(p, m, splat(3.3333331174e-1f));
    p = VFMA(e, splat(-2.12194440e-4f), p * m * z) - splat(0.5f) * z;
    vf r = VFMA(e, splat(0.693359375f), m + p);
    r = pick(x > splat(0), r, pick(x == splat(0), splat(-INFINITY), splat(NAN))); /* also of NaN */
    return pick(x == splat(INFINITY), x, r);
}
/* What 1 + x loses is made up for. */
INLINE vf vlog1p(vf x)
{
    vf u = splat(1) + x, r = vlog(u);
    vf with = r - ((u - splat(1)) - x) / u;
    with = pick(x == splat(0), x, with);
    return pick((u > splat(0)) & (u < splat(INFINITY)), with, r);
}
INLINE vf vsoftplus(vf x) { return pick(x > splat(20), x, vlog1p(vexp_all(x))); } /* torch's threshold */

/* The quadrant's sine or cosine of |x| up to 8192. */
INLINE vf vsine_of(vf x, int cosine)
{
    vf a = vabs(x);
    vi j = (__builtin_convertvector(a * splat(1.27323954f), vi) + 1) & ~1;
    vf y = __builtin_convertvector(j, vf);
    vf r = VFMA(y, splat(-3.77489497744594108e-8f),
                VFMA(y, splat(-2.4187564849853515625e-4f), VFMA(y, splat(-0.78515625f), a)));
    vf z = r * r;
    vf s =
        VFMA(VFMA(VFMA(splat(-1.9515295891e-4f), z, splat(8.3321608736e-3f)), z, splat(-1.6666654611e-1f)) * z, r, r);
    vf c = VFMA(VFMA(splat(2.443315711809948e-5f), z, splat(-1.388731625493765e-3f)), z, splat(4.166664568298827e-2f));
    c = VFMA(c * z, z, VFMA(splat(-0.5f), z, splat(1)));
    vi odd = -((j >> 1) & 1), turn = cosine ? ((j + 2) << 29) : (j << 29);
    vf v = cosine ? pick(odd, s, c) : pick(odd, c, s);
    vi sign = (turn & (int32_t)0x80000000u) ^ (cosine ? 0 & j : (vi)x & (int32_t)0x80000000u);
    return (vf)((vi)v ^ sign);
}
INLINE int any_lane(vi mask)
{
#if LANES == 16
    return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif LANES == 8
    return _mm256_movemask_ps((__m256)mask) != 0;
#else
    int any = 0;
    for (int i = 0; i < LANES; i++) any |= mask[i];
    return any;
#endif
}
/* Far from 0, and of NaN, one by one. */
INLINE vf vsine(vf x, int cosine)
{
    vi near = vabs(x) <= splat(8192);
    vf v = vsine_of(pick(near, x, splat(0)), cosine);
    if (__builtin_expect(any_lane(~near), 0))
        for (int i = 0; i < LANES; i++)
            if (!near[i]) v[i] = cosine ? cosf(x[i]) : sinf(x[i]);
    return v;
}

INLINE vf with_sign_of(vf v, vf x) { return (vf)(((vi)v & 0x7fffffff) | ((vi)x & (int32_t)0x80000000u)); }

INLINE vf vtanh(vf x)
{
    vf a = vabs(x), z = x * x, p = splat(-5.70498872745e-3f);
    p = VFMA(p, z, splat(2.06390887954e-2f));
    p = VFMA(p, z, splat(-5.37397155531e-2f));
    p = VFMA(p, z, splat(1.33314422036e-1f));
    p = VFMA(p, z, splat(-3.33332819422e-1f));
    vf far = splat(1) - splat(2) / (vexp(a + a) + splat(1));
    return pick(a < splat(0.625f), VFMA(p * z, x, x), with_sign_of(far, x));
}

INLINE vf verf(vf x)
{
    vf a = vabs(x), z = x * x;
    vf r = VFMA(VFMA(VFMA(VFMA(splat(-2.37630166e-5f), z, splat(-5.77027029e-3f)), z, splat(-2.84817495e-2f)), z,
                     splat(-3.25042107e-1f)),
                z, splat(1.28379167e-1f));
    vf s = VFMA(VFMA(VFMA(VFMA(VFMA(splat(-3.96022827e-6f), z, splat(1.32494738e-4f)), z, splat(5.08130628e-3f)), z,
                          splat(6.50222499e-2f)),
                     z, splat(3.97917223e-1f)),
                z, splat(1));
    vf t = splat(1) / VFMA(a, splat(0.3275911f), splat(1)), p = splat(1.061405429f);
    p = VFMA(p, t, splat(-1.453152027f));
    p = VFMA(p, t, splat(1.421413741f));
    p = VFMA(p, t, splat(-0.284496736f));
    p = VFMA(p, t, splat(0.254829592f));
    vf far = with_sign_of(splat(1) - p * t * vexp(-a * a), x);
    return pick(a < splat(0.84375f), VFMA(x, r / s, x), pick(visnan(x), x, far));
}

INLINE vf vroot(vf x)
{
#if LANES == 16
    return (vf)_mm512_sqrt_ps((__m512)x);
#elif LANES == 8
    return (vf)_mm256_sqrt_ps((__m256)x);
#else
    for (int i = 0; i < LANES; i++) x[i] = sqrtf(x[i]);
    return x;
#endif
}
enum { TO_NEAREST, DOWNWARDS, UPWARDS };
#if LANES == 16
#define ROUNDED(x, way) (vf) _mm512_roundscale_ps((__m512)(x), (way) | _MM_FROUND_NO_EXC)
#elif LANES == 8
#define ROUNDED(x, way) (vf) _mm256_round_ps((__m256)(x), (way) | _MM_FROUND_NO_EXC)
#endif
INLINE vf vwhole(vf x, const int way)
{
#ifdef ROUNDED
    return way == DOWNWARDS ? ROUNDED(x, DOWNWARDS) : way == UPWARDS ? ROUNDED(x, UPWARDS) : ROUNDED(x, TO_NEAREST);
#else
    for (int i = 0; i < LANES; i++) x[i] = way == DOWNWARDS ? floorf(x[i]) : way == UPWARDS ? ceilf(x[i]) : rintf(x[i]);
    return x;
#endif
}
