/* kernels_short.h - the part of kernels_template.h for results that are stored in bf16, of 8 bits: elementary functions
 * within 2^-11 of their value, most within 2^-13, which changes few of the roundings, and rows that are read, computed
 * on and stored in one pass. Part of that file: included by it alone, once for each width of vectors.
 *
 * Polynomials and quotients are fits of least relative error, made for these intervals. Where vectors have 16 lanes
 * there are instructions for 2^x, mantissas and reciprocals; where they have 4 the functions are those of
 * kernels_math.h.
 */

#if LANES == 16
/* 2^x = 2^floor(x) 2^r, r in [0, 1): 2.6e-6. Infinite and 0 as it should be; NaN stays. */
INLINE vf short_exp2(vf x)
{
    vf r = (vf)_mm512_reduce_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    vf p = VFMA(splat(1.35340206e-2f), r, splat(5.20117469e-2f));
    p = VFMA(p, r, splat(2.41442576e-1f));
    p = VFMA(p, r, splat(6.93003893e-1f));
    p = VFMA(p, r, splat(1.0000026f));
    return (vf)_mm512_scalef_ps((__m512)p, (__m512)x);
}
INLINE vf short_over(vf x, vf y) { return x * (vf)_mm512_rcp14_ps((__m512)y); } /* 2^-14 */
INLINE vf short_most(vf x, float high) { return (vf)_mm512_min_ps((__m512)splat(high), (__m512)x); }

/* By the reciprocal, where that is no subnormal number and of none. */
INLINE vf short_quotient(vf x, vf y)
{
    const __m512i least = _mm512_set1_epi32(2 << 23), most = _mm512_set1_epi32((int32_t)(252u << 23));
    __m512i far = _mm512_and_si512((__m512i)y, _mm512_set1_epi32(0x7fffffff));
    __mmask16 rare = _mm512_cmp_epu32_mask(_mm512_sub_epi32(far, least), _mm512_sub_epi32(most, least), _MM_CMPINT_NLT);
    if (__builtin_expect(rare != 0, 0)) return x / y;
    return x * (vf)_mm512_rcp14_ps((__m512)y);
}
INLINE vf short_root_inverse(vf x) { return (vf)_mm512_rsqrt14_ps((__m512)x); }
INLINE vf short_root(vf x)
{
    enum { POSITIVE_ZERO = 2, NEGATIVE_ZERO = 4, POSITIVE_INFINITY = 8 }; /* which are their own roots */
    __mmask16 own = _mm512_fpclass_ps_mask((__m512)x, POSITIVE_ZERO | NEGATIVE_ZERO | POSITIVE_INFINITY);
    return (vf)_mm512_mask_mul_ps((__m512)x, (__mmask16)~own, (__m512)x, _mm512_rsqrt14_ps((__m512)x));
}
/* m 2^e with m in [3/4, 3/2); of less than 0 NaN. */
INLINE vf short_log(vf x)
{
    vf m = (vf)_mm512_getmant_ps((__m512)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan), f = m - splat(1);
    vf e = (vf)_mm512_getexp_ps((__m512)x);
    e = (vf)_mm512_mask_add_ps((__m512)e, _mm512_cmp_ps_mask((__m512)f, (__m512)splat(0), _CMP_LT_OQ), (__m512)e,
                               (__m512)splat(1));
    vf p = VFMA(splat(8.29037079e-2f), f, splat(-1.68073744e-1f));
    p = VFMA(p, f, splat(2.06753120e-1f));
    p = VFMA(p, f, splat(-2.50623047e-1f));
    p = VFMA(p, f, splat(3.33144575e-1f));
    p = VFMA(p, f, splat(-4.99986291e-1f));
    p = VFMA(p, f, splat(1.00000083f));
    return VFMA(e, splat(0.693147181f), p * f);
}
#elif LANES == 8
INLINE vf short_most(vf x, float high) { return (vf)_mm256_min_ps((__m256)splat(high), (__m256)x); }
/* 2^x = 2^n 2^r, |r| <= 1/2: 2.9e-6. Infinite from 128 on, 0 from -127 down; NaN stays: its n is
 * 0x80000000, of which the shift leaves nothing. */
INLINE vf short_exp2(vf x)
{
    vf y = vmax(splat(-127), short_most(x, 128));
    vi n = (vi)_mm256_cvtps_epi32((__m256)y);
    vf r = y - (vf)_mm256_cvtepi32_ps((__m256i)n);
    vf p = VFMA(splat(9.58285294e-3f), r, splat(5.59064262e-2f));
    p = VFMA(p, r, splat(2.40240991e-1f));
    p = VFMA(p, r, splat(6.93124175e-1f));
    p = VFMA(p, r, splat(1));
    return (vf)((vu)p + ((vu)n << 23));
}
INLINE vf short_over(vf x, vf y) { return x / y; } /* reciprocals differ from one maker's processor to another's */
INLINE vf short_quotient(vf x, vf y) { return x / y; }
INLINE vf short_root(vf x) { return vroot(x); }
INLINE vf short_root_inverse(vf x) { return splat(1) / vroot(x); }
INLINE vf short_log(vf x) { return vlog(x); }
#endif

#if LANES >= 8
INLINE vf short_within(vf x, float end) { return vmax(splat(-end), short_most(x, end)); } /* NaN stays */

INLINE vf short_exp(vf x) { return short_exp2(x * splat(1.44269504f)); }
INLINE vf short_sigmoid(vf x) { return short_over(splat(1), splat(1) + short_exp2(x * splat(-1.44269504f))); }
INLINE vf short_silu(vf x) { return short_over(x, splat(1) + short_exp2(x * splat(-1.44269504f))); }
INLINE vf short_quick_gelu(vf x) { return short_over(x, splat(1) + short_exp2(x * splat(-2.45546696f))); }
INLINE vf short_gelu_tanh(vf x) /* -2 log2(e) sqrt(2 / pi) (x + 0.044715 x^3) */
{
    vf u = x * VFMA(x * x, splat(-0.102943240f), splat(-2.30220819f));
    return short_over(x, splat(1) + short_exp2(u));
}
/* x Phi(x) = max(x, 0) - |x| erfc(z) / 2, z = |x| / sqrt 2; erfc(z) e^(z^2) by powers of t = 1 / (1 + z / 2) */
INLINE vf short_gelu(vf x)
{
    vf a = short_most(vabs(x), 32), t = short_over(splat(1), VFMA(a, splat(0.353553391f), splat(1)));
    vf p = VFMA(splat(-0.0915503204f), t, splat(0.250958115f));
    p = VFMA(p, t, splat(0.0409456789f));
    p = VFMA(p, t, splat(0.160314173f));
    p = VFMA(p, t, splat(0.139350206f));
    vf tail = p * t * short_exp2(a * a * splat(-0.721347520f));
    return vmax(splat(0), x) - a * tail; /* NaN stays */
}
/* x P(x^2) / Q(x^2) up to where 1 is the next number of bf16: 1.1e-6, and of erf 1.6e-6. */
INLINE vf short_tanh(vf x)
{
    vf y = short_within(x, 4.6f), z = y * y;
    vf p = VFMA(VFMA(splat(1.68520166e-3f), z, splat(1.17270872e-1f)), z, splat(0.999998927f));
    vf q = VFMA(VFMA(VFMA(splat(6.78862853e-5f), z, splat(1.85635798e-2f)), z, splat(4.50594872e-1f)), z, splat(1));
    return short_over(y * p, q);
}
INLINE vf short_erf(vf x)
{
    vf y = short_within(x, 3.1f), z = y * y;
    vf p = VFMA(VFMA(VFMA(splat(7.54053413e-4f), z, splat(4.32813056e-2f)), z, splat(1.53974026e-1f)), z,
                splat(1.12838101f));
    vf q = VFMA(VFMA(VFMA(splat(9.32886079e-3f), z, splat(9.48169827e-2f)), z, splat(4.69827563e-1f)), z, splat(1));
    return short_over(y * p, q);
}
/* max(x, 0) + log(1 + e^-|x|) */
INLINE vf short_softplus(vf x)
{
    vf w = short_exp2(vabs(x) * splat(-1.44269504f));
    vf p = VFMA(splat(1.41408360e-2f), w, splat(-6.64015189e-2f));
    p = VFMA(p, w, splat(1.49223939e-1f));
    p = VFMA(p, w, splat(-2.35038891e-1f));
    p = VFMA(p, w, splat(3.31094652e-1f));
    p = VFMA(p, w, splat(-4.99869674e-1f));
    p = VFMA(p, w, splat(0.999998748f));
    return VFMA(p, w, vmax(splat(0), x));
}
/* x = n pi + r, of the cosine (n + 1/2) pi + r; |r| <= pi / 2. */
INLINE vf short_wave(vf x, const int cosine)
{
    vf magic = splat(12582912.0f), t = VFMA(x, splat(0.318309886f), splat(cosine ? -0.5f : 0)) + magic;
    vf n = t - magic, turn = (vf)((vu)t << 31);
    if (cosine) n += splat(0.5f), turn = (vf)((vu)turn ^ 0x80000000u);
    vf r = VFMA(n, splat(-3.140625f), x);
    r = VFMA(n, splat(-9.67025757e-4f), r), r = VFMA(n, splat(-6.27833015e-7f), r);
    vf z = r * r, p = VFMA(splat(-1.84881050e-4f), z, splat(8.31189845e-3f));
    p = VFMA(VFMA(p, z, splat(-1.66655540e-1f)), z, splat(0.999999046f));
    return (vf)((vu)(p * r) ^ (vu)turn);
}
INLINE vf short_sine(vf x, const int cosine)
{
    return any_lane(~(vabs(x) <= splat(1024))) ? vsine(x, cosine) : short_wave(x, cosine);
}
#else
INLINE vf short_exp2(vf x) { return vexp2_all(x); }
INLINE vf short_exp(vf x) { return vexp_all(x); }
INLINE vf short_quotient(vf x, vf y) { return x / y; }
INLINE vf short_root(vf x) { return vroot(x); }
INLINE vf short_root_inverse(vf x) { return splat(1) / vroot(x); }
INLINE vf short_sigmoid(vf x) { return vsigmoid(x); }
INLINE vf short_silu(vf x) { return vsilu(x); }
INLINE vf short_quick_gelu(vf x) { return vquick_gelu(x); }
INLINE vf short_gelu_tanh(vf x) { return vgelu_tanh(x); }
INLINE vf short_gelu(vf x) { return vgelu(x); }
INLINE vf short_tanh(vf x) { return vtanh(x); }
INLINE vf short_erf(vf x) { return verf(x); }
INLINE vf short_log(vf x) { return vlog(x); }
INLINE vf short_softplus(vf x) { return vsoftplus(x); }
INLINE vf short_sine(vf x, const int cosine) { return vsine(x, cosine); }
#endif

/* ---- rows of bf16, in one pass ---- */

INLINE void put_two(uint16_t *to, vf a, vf b, int past)
{
#if LANES == 16
    put_line(to, (vu)narrowed_two(a, b), past);
#elif LANES == 8
    if (past)
        _mm256_stream_si256((__m256i *)(void *)to, narrowed_two(a, b));
    else
        narrow_two(to, a, b);
#else
    vh low = narrow(a), high = narrow(b);
    memcpy(to, &low, sizeof low), memcpy(to + LANES, &high, sizeof high);
    (void)past;
#endif
}
INLINE vf half_part(const uint16_t *p, size_t n)
{
    uint16_t part[LANES] = {0};
    memcpy(part, p, n * sizeof *p);
    return widen(part);
}
INLINE void put_half_part(uint16_t *p, vf v, size_t n)
{
    vh h = narrow(v);
    memcpy(p, &h, n * sizeof *p);
}

/* expr of `v`, the number at place i + at of x, of which `left` are left; fetch: said of each line. */
#define HALF_ROWS(expr) HALF_ROWS_AND(expr, __builtin_prefetch((const char *)(from + i) + AHEAD))
#define HALF_ROWS_AND(expr, fetch)                                                                                     \
    do {                                                                                                               \
        uint16_t *half = to;                                                                                           \
        const uint16_t *from = x;                                                                                      \
        size_t i = 0;                                                                                                  \
        past = past && to_line(to) == 0;                                                                               \
        for (; i + 2 * LANES <= n; i += 2 * LANES) {                                                                   \
            const size_t left = LANES;                                                                                 \
            vf two[2];                                                                                                 \
            fetch;                                                                                                     \
            UNROLL for (size_t at = i; at < i + 2 * LANES; at += LANES)                                                \
            {                                                                                                          \
                vf v = widen(from + at);                                                                               \
                (void)left, two[(at - i) / LANES] = (expr);                                                            \
            }                                                                                                          \
            put_two(half + i, two[0], two[1], past);                                                                   \
        }                                                                                                              \
        for (size_t at = i; at < n; at += LANES) {                                                                     \
            const size_t left = n - at < LANES ? n - at : LANES;                                                       \
            vf v = half_part(from + at, left);                                                                         \
            put_half_part(half + at, expr, left);                                                                      \
        }                                                                                                              \
    } while (0)

static void act_short(float *x, uint32_t kind, size_t n)
{
    switch (kind) {
    case KILN_ACT_SILU: MAP(x, n, short_silu(v)); break;
    case KILN_ACT_GELU: MAP(x, n, short_gelu(v)); break;
    case KILN_ACT_GELU_TANH: MAP(x, n, short_gelu_tanh(v)); break;
    case KILN_ACT_QUICK_GELU: MAP(x, n, short_quick_gelu(v)); break;
    case KILN_ACT_RELU: MAP(x, n, vrelu(v)); break;
    case KILN_ACT_SIGMOID: MAP(x, n, short_sigmoid(v)); break;
    case KILN_ACT_TANH: MAP(x, n, short_tanh(v)); break;
    default: break;
    }
}
static void geglu_short(float *value, const float *gate, size_t n) { MAP(value, n, v * short_gelu(OTHER(gate, n))); }

static void act_half(void *to, const void *x, uint32_t kind, size_t n, int past)
{
    switch (kind) {
    case KILN_ACT_SILU: HALF_ROWS(short_silu(v)); break;
    case KILN_ACT_GELU: HALF_ROWS(short_gelu(v)); break;
    case KILN_ACT_GELU_TANH: HALF_ROWS(short_gelu_tanh(v)); break;
    case KILN_ACT_QUICK_GELU: HALF_ROWS(short_quick_gelu(v)); break;
    case KILN_ACT_RELU: HALF_ROWS(vrelu(v)); break;
    case KILN_ACT_SIGMOID: HALF_ROWS(short_sigmoid(v)); break;
    case KILN_ACT_TANH: HALF_ROWS(short_tanh(v)); break;
    default: HALF_ROWS(v); break;
    }
}

INLINE vf half_at(const void *p, size_t at, size_t n)
{
    return n >= LANES ? widen((const uint16_t *)p + at) : half_part((const uint16_t *)p + at, n);
}
static void join_half(void *to, const void *x, const void *y, uint32_t how, size_t n, int past)
{
    switch (how) {
    case HALF_ADD: HALF_ROWS(v + half_at(y, at, left)); break;
    case HALF_MUL: HALF_ROWS(v * half_at(y, at, left)); break;
    default: /* rows of x and y lie in one row, so that both together are all that is read */
        HALF_ROWS_AND(v * short_gelu(half_at(y, at, left)), (__builtin_prefetch((const char *)(from + i) + 2 * AHEAD),
                                                             __builtin_prefetch((const char *)y + 2 * i + 2 * AHEAD)));
        break;
    }
}

static void affine_half(void *to, const void *x, float scale, float shift, size_t n, int past)
{
    HALF_ROWS(v * splat(scale) + splat(shift));
}
static void shift_half(void *to, const void *x, float a, float b, size_t n, int past)
{
    HALF_ROWS((v - splat(a)) - splat(b));
}

static void normalise_half(void *to, const void *x, const float *scale, const float *shift, uint32_t kind, size_t n,
                           int past)
{
    if (kind == KILN_ACT_SILU)
        HALF_ROWS(short_silu(VFMA(v, get_any(scale + at, left), get_any(shift + at, left))));
    else
        HALF_ROWS(VFMA(v, get_any(scale + at, left), get_any(shift + at, left)));
}

/* expr of `v`, the float at place `at` of x, of which `left` are left, as bf16. */
#define FLOATS_TO_HALF(expr)                                                                                           \
    do {                                                                                                               \
        uint16_t *half = to;                                                                                           \
        size_t i = 0;                                                                                                  \
        past = past && to_line(to) == 0;                                                                               \
        for (; i + 2 * LANES <= n; i += 2 * LANES) {                                                                   \
            const size_t left = LANES;                                                                                 \
            vf two[2];                                                                                                 \
            __builtin_prefetch((const uint16_t *)next + i);                                                            \
            UNROLL for (size_t at = i; at < i + 2 * LANES; at += LANES)                                                \
            {                                                                                                          \
                vf v = get(x + at);                                                                                    \
                (void)left, two[(at - i) / LANES] = (expr);                                                            \
            }                                                                                                          \
            put_two(half + i, two[0], two[1], past);                                                                   \
        }                                                                                                              \
        for (size_t at = i; at < n; at += LANES) {                                                                     \
            const size_t left = n - at < LANES ? n - at : LANES;                                                       \
            vf v = get_any(x + at, left);                                                                              \
            put_half_part(half + at, expr, left);                                                                      \
        }                                                                                                              \
    } while (0)

/* layer_row() and norm_row() with modulate(), in their order, of bf16. */
static void layer_half(void *to, const float *x, float mean, float factor, const float *gain, const float *bias,
                       const void *next, size_t n, int past)
{
    const vf m = splat(mean), f = splat(factor);
    if (gain && bias)
        FLOATS_TO_HALF((v - m) * (f * get_any(gain + at, left)) + get_any(bias + at, left));
    else if (gain)
        FLOATS_TO_HALF((v - m) * (f * get_any(gain + at, left)));
    else if (bias)
        FLOATS_TO_HALF((v - m) * f + get_any(bias + at, left));
    else
        FLOATS_TO_HALF((v - m) * f);
}
static void norm_half(void *to, const float *x, float mean, float factor, const float *const more[4], const void *next,
                      size_t n, int past)
{
    const float *gain = more[0], *bias = more[1], *scale = more[2], *shift = more[3];
    const vf m = splat(mean), f = splat(factor), one = splat(1);
    if (!scale && !shift)
        layer_half(to, x, mean, factor, gain, bias, next, n, past);
    else if (scale && shift && !gain && !bias)
        FLOATS_TO_HALF((v - m) * f * (one + get_any(scale + at, left)) + get_any(shift + at, left));
    else
        FLOATS_TO_HALF(
            VFMA((v - m) * f * (gain ? get_any(gain + at, left) : one) + (bias ? get_any(bias + at, left) : splat(0)),
                 one + (scale ? get_any(scale + at, left) : splat(0)), shift ? get_any(shift + at, left) : splat(0)));
}

/* Mean of a row of bf16, and the sum of squares about it: by one pass about the row's first number, and by another one
 * about the mean where that is so far from it that the first has lost digits. */
INLINE void row_moments(const uint16_t *x, size_t n, double *mean, double *spread)
{
    enum { DIGITS = 64 };
    const float first = bf16_to_f32(x[0]);
    float origin = first, total = 0, square = 0;
    for (int pass = 0; pass < 2; pass++) {
        const vf o = splat(origin);
        vf s[4] = {{0}}, q[4] = {{0}};
        size_t i = 0;
        for (; i + 4 * LANES <= n; i += 4 * LANES) {
            __builtin_prefetch((const char *)(x + i) + AHEAD), __builtin_prefetch((const char *)(x + i) + AHEAD + 64);
            UNROLL for (size_t k = 0; k < 4; k++)
            {
                vf d = widen(x + i + k * LANES) - o;
                s[k] += d, q[k] = VFMA(d, d, q[k]);
            }
        }
        total = lanes_sum((s[0] + s[1]) + (s[2] + s[3])), square = lanes_sum((q[0] + q[1]) + (q[2] + q[3]));
        for (; i < n; i++) {
            float d = bf16_to_f32(x[i]) - origin;
            total += d, square += d * d;
        }
        *mean = (double)origin + (double)total / (double)n;
        *spread = (double)square - (double)total * (double)total / (double)n;
        if (*spread < 0) *spread = 0;
        if (!((double)square > DIGITS * *spread)) return;
        origin = (float)*mean;
    }
}

/* (x - mean) / sigma gain + bias; or NULL */
static void layer_stored(void *to, const void *x, double eps, const float *gain, const float *bias, size_t n, int past)
{
    double mean, spread;
    row_moments(x, n, &mean, &spread);
    const vf m = splat((float)mean), f = splat((float)(1 / sqrt(spread / (double)n + eps)));
    if (gain && bias)
        HALF_ROWS_AND(VFMA(v - m, f * get_any(gain + at, left), get_any(bias + at, left)), (void)0);
    else if (gain)
        HALF_ROWS_AND((v - m) * (f * get_any(gain + at, left)), (void)0);
    else if (bias)
        HALF_ROWS_AND(VFMA(v - m, f, get_any(bias + at, left)), (void)0);
    else
        HALF_ROWS_AND((v - m) * f, (void)0);
}

INLINE double norm_factor(uint32_t how, double square, double n, double eps)
{
    if (how == NORM_MEAN_SQUARE) return 1 / sqrt(square / n + eps);
    return how == NORM_SQUARES ? 1 / sqrt(square + eps) : 1 / fmax(sqrt(square), eps);
}
static void groups_stored(void *to, const void *x, uint32_t how, double eps, const float *gain, const float *bias,
                          size_t n, size_t groups, int past)
{
    for (size_t g = 0; g < groups; g++, x = (const uint16_t *)x + n, to = (uint16_t *)to + n) {
        const float *own = gain ? gain + g * n : NULL, *more = bias ? bias + g * n : NULL;
        double square = (double)fold_row_as(KILN_REDUCE_L2, KILN_BF16, x, n);
        const vf f = splat((float)norm_factor(how, square, (double)n, eps));
        if (own && more)
            HALF_ROWS_AND(VFMA(v, f * get_any(own + at, left), get_any(more + at, left)), (void)0);
        else if (own)
            HALF_ROWS_AND(v * f * get_any(own + at, left), (void)0);
        else if (more)
            HALF_ROWS_AND(VFMA(v, f, get_any(more + at, left)), (void)0);
        else
            HALF_ROWS_AND(v * f, (void)0);
    }
}

/* The sum of e^(x - base); those too, unless `to` is NULL. */
static float exp_half(float *to, const void *x, float base, size_t n)
{
    const uint16_t *from = x;
    const vf log2_e = splat(1.44269504f), shift = splat(-base) * log2_e;
    const size_t ahead = 2 * n > AHEAD ? 2 * n : AHEAD; /* this piece was looked at for its greatest before */
    vf sum = {0}, other = {0};
    float rest = 0;
    size_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        vf p = short_exp2(VFMA(widen(from + i), log2_e, shift)),
           q = short_exp2(VFMA(widen(from + i + LANES), log2_e, shift));
        __builtin_prefetch((const char *)(from + i) + ahead);
        sum += p, other += q;
        if (to) put(to + i, p), put(to + i + LANES, q);
    }
    for (; i + LANES <= n; i += LANES) {
        vf p = short_exp2(VFMA(widen(from + i), log2_e, shift));
        sum += p;
        if (to) put(to + i, p);
    }
    if (i < n) {
        vf p = short_exp2(VFMA(half_part(from + i, n - i), log2_e, shift));
        for (size_t k = 0; k < n - i; k++) rest += p[k];
        if (to) put_part(to + i, p, n - i);
    }
    return lanes_sum(sum + other) + rest;
}

static void store_scaled(void *to, const float *x, float scale, size_t n, int past)
{
    const void *next = x; /* which is near */
    const vf by = splat(scale);
    FLOATS_TO_HALF(v * by);
}

#if LANES == 16
static const uint16_t zipped[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                    8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
#endif
/* Pairs are the halves of words. */
static void rope_pairs_half(void *to, const void *x, const float *cosine, const float *sine, size_t n, int past)
{
    const char *from = x;
    size_t i = 0;
    past = past && to_line(to) == 0;
    for (; i + LANES <= n; i += LANES) {
        vu w = words_at(from + 4 * i);
        __builtin_prefetch(from + 4 * i + AHEAD);
        vf a = (vf)(w << 16), b = (vf)(w & 0xffff0000u), c = get(cosine + i), s = get(sine + i);
#if LANES == 16
        const __m512i order = _mm512_loadu_si512(zipped);
        __m512i both = _mm512_permutexvar_epi16(order, narrowed_two(a * c - b * s, b * c + a * s));
        put_line((char *)to + 4 * i, (vu)both, past);
#else
        w = rounded(a * c - b * s) >> 16 | (rounded(b * c + a * s) & 0xffff0000u);
        put_words((char *)to + 4 * i, w);
#endif
    }
    for (; i < n; i++) {
        uint16_t *t = (uint16_t *)to + 2 * i;
        float a = bf16_to_f32(((const uint16_t *)x)[2 * i]), b = bf16_to_f32(((const uint16_t *)x)[2 * i + 1]);
        t[0] = bf16_from_f32(a * cosine[i] - b * sine[i]), t[1] = bf16_from_f32(b * cosine[i] + a * sine[i]);
    }
}
static void rope_halves_half(void *to, const void *x, const float *cosine, const float *sine, size_t n, int past)
{
    const uint16_t *a = x, *b = a + n;
    uint16_t *p = to, *q = p + n;
    size_t i = 0;
    past = past && to_line(p) == 0 && to_line(q) == 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        vf first[2], second[2];
        __builtin_prefetch((const char *)(a + i) + AHEAD), __builtin_prefetch((const char *)(b + i) + AHEAD);
        UNROLL for (size_t k = 0; k < 2; k++)
        {
            size_t at = i + k * LANES;
            vf u = widen(a + at), v = widen(b + at), c = get(cosine + at), s = get(sine + at);
            first[k] = u * c - v * s, second[k] = v * c + u * s;
        }
        put_two(p + i, first[0], first[1], past), put_two(q + i, second[0], second[1], past);
    }
    for (; i < n; i++) {
        float u = bf16_to_f32(a[i]), v = bf16_to_f32(b[i]);
        p[i] = bf16_from_f32(u * cosine[i] - v * sine[i]), q[i] = bf16_from_f32(v * cosine[i] + u * sine[i]);
    }
}

/* e^(x - base), `by` is -base, in bf16 times log2(e). */
INLINE vf exp_less(const uint32_t type, vf x, vf by)
{
    return type == KILN_BF16 ? short_exp2(VFMA(x, splat(1.44269504f), by)) : vexp(x + by);
}
/* Where the greatest of some columns is `now` and was `before`: what is taken from each from here on. */
INLINE void raise_top(const uint32_t type, float *top, float *total, float *bases, vf before, vf now, size_t left)
{
    vf base = finite_base(now);
    vf by = type == KILN_BF16 ? -(base * splat(1.44269504f)) : -base;
    put_any(bases, by, left);
    put_any(total, get_any(total, left) * exp_less(type, before, by), left);
    put_any(top, now, left);
}
enum { EXP_STRIP = 256, FOLDED_EXP = 2 * FOLDED };
/* The greatest of all rows first, then the sums: no exponential waits for what is found just before it. n in whole
 * vectors. */
INLINE void fold_exp_rows(const uint32_t type, float *top, float *total, const void *const *x, rows_ahead next,
                          size_t from, const size_t rows, size_t n)
{
    const size_t size = type == KILN_F32 ? 4 : 2;
    float bases[EXP_STRIP];
    for (size_t i = 0; i < n; i += LANES) {
        vf before = get(top + i);
        vf now = before;
        UNROLL for (size_t r = 0; r < rows; r++) now = vmax(now, /* NaN is seen in the sum */
                                                            get_as(type, x[r], from + i, LANES));
        raise_top(type, top + i, total + i, bases + i, before, now, LANES);
    }
    for (size_t i = 0; i < n; i += LANES) {
        vf by = get(bases + i);
        vf added = {0};
        UNROLL for (size_t r = 0; r < rows; r++)
        {
            fetch_behind(&next, x, rows, r, (from + i) * size, LANES * size);
            added += exp_less(type, get_as(type, x[r], from + i, LANES), by);
        }
        put(total + i, get(total + i) + added);
    }
}
/* The same of the n < LANES columns that are left. */
INLINE void fold_exp_rest(const uint32_t type, float *top, float *total, const void *const *x, size_t from, size_t rows,
                          size_t n)
{
    float bases[LANES];
    vf before = get_part(top, n), now = before, added = {0};
    for (size_t r = 0; r < rows; r++) now = vmax(now, get_as(type, x[r], from, n));
    raise_top(type, top, total, bases, before, now, n);
    vf by = get_part(bases, n);
    for (size_t r = 0; r < rows; r++) added += exp_less(type, get_as(type, x[r], from, n), by);
    put_part(total, get_part(total, n) + added, n);
}
#if LANES == 16
/* Of 32 columns of bf16, those of even places and those of odd ones, which are the halves of words. Whole numbers with
 * signs have the order of what is not negative, without signs the opposite one of what is; of a NaN the sum tells. */
INLINE void greatest_halves(vf most[2], const void *const *x, const size_t rows, size_t i)
{
    __m512i up = _mm512_loadu_si512((const uint16_t *)x[0] + i), down = up;
    UNROLL for (size_t r = 1; r < rows; r++)
    {
        __m512i v = _mm512_loadu_si512((const uint16_t *)x[r] + i);
        up = _mm512_max_epi16(up, v), down = _mm512_min_epu16(down, v);
    }
    vu words = (vu)_mm512_mask_mov_epi16(up, _mm512_movepi16_mask(up), down);
    most[0] = (vf)(words << 16), most[1] = (vf)(words & 0xffff0000u);
}
/* fold_exp_rows() of bf16, n in multiples of 32: words are read and their halves added apart. */
INLINE void fold_exp_halves(float *top, float *total, const void *const *x, rows_ahead next, size_t from,
                            const size_t rows, size_t n)
{
    float bases[EXP_STRIP], sums[EXP_STRIP];
    for (size_t i = 0; i < n; i += 2 * LANES) {
        vf a = get(top + i), b = get(top + i + LANES), c = get(total + i), d = get(total + i + LANES), most[2];
        const vf before[2] = {EVENS(a, b), ODDS(a, b)};
        put(sums + i, EVENS(c, d)), put(sums + i + LANES, ODDS(c, d));
        greatest_halves(most, x, rows, from + i);
        UNROLL for (size_t k = 0; k < 2; k++)
        {
            size_t at = i + k * LANES;
            most[k] = vmax(before[k], most[k]);
            raise_top(KILN_BF16, top + at, sums + at, bases + at, before[k], most[k], LANES);
        }
        put(top + i, ZIP_LOW(most[0], most[1])), put(top + i + LANES, ZIP_HIGH(most[0], most[1]));
    }
    for (size_t i = 0; i < n; i += 2 * LANES) {
        const vf low = get(bases + i), high = get(bases + i + LANES);
        vf a = {0}, b = {0};
        UNROLL for (size_t r = 0; r < rows; r++)
        {
            vu words = words_at((const uint16_t *)x[r] + from + i);
            fetch_behind(&next, x, rows, r, (from + i) * 2, 4 * LANES);
            a += exp_less(KILN_BF16, (vf)(words << 16), low);
            b += exp_less(KILN_BF16, (vf)(words & 0xffff0000u), high);
        }
        a = get(sums + i) + a, b = get(sums + i + LANES) + b;
        put(total + i, ZIP_LOW(a, b)), put(total + i + LANES, ZIP_HIGH(a, b));
    }
}
#endif
INLINE void fold_exp_strip(const uint32_t type, float *top, float *total, const void *const *x, rows_ahead next,
                           size_t from, const size_t rows, size_t n)
{
    size_t done = 0;
#if LANES == 16
    if (type == KILN_BF16) {
        done = n / (2 * LANES) * (2 * LANES);
        fold_exp_halves(top, total, x, next, from, rows, done);
    }
#endif
    fold_exp_rows(type, top + done, total + done, x, next, from + done, rows, n - done);
}
INLINE void fold_exp_as(const uint32_t type, float *top, float *total, const void *const *x, size_t rows, size_t n)
{
    const rows_ahead next = rows_behind(x, rows, n * (type == KILN_F32 ? 4 : 2));
    const size_t whole = n / LANES * LANES;
    for (size_t i = 0; i < whole; i += EXP_STRIP) {
        size_t some = whole - i < EXP_STRIP ? whole - i : EXP_STRIP;
        if (rows == FOLDED_EXP) /* what was summed is brought forward half as often */
            fold_exp_strip(type, top + i, total + i, x, next, i, FOLDED_EXP, some);
        else if (rows == FOLDED)
            fold_exp_strip(type, top + i, total + i, x, next, i, FOLDED, some);
        else
            for (size_t r = 0; r < rows; r++) fold_exp_strip(type, top + i, total + i, x + r, next, i, 1, some);
    }
    const size_t together = rows == FOLDED_EXP || rows == FOLDED ? rows : 1;
    for (size_t r = 0; r < rows && whole < n; r += together)
        fold_exp_rest(type, top + whole, total + whole, x + r, whole, together, n - whole);
}
static void fold_exp_stored(float *top, float *total, const void *const *x, size_t rows, uint32_t type, size_t n)
{
    switch (type) {
    case KILN_F32: fold_exp_as(KILN_F32, top, total, x, rows, n); break;
    case KILN_BF16: fold_exp_as(KILN_BF16, top, total, x, rows, n); break;
    default: fold_exp_as(KILN_F16, top, total, x, rows, n); break;
    }
}

/* ---- more rows as they are stored ---- */

/* `count` groups of n numbers, one after the other: fold_row() of each. */
static void fold_groups(uint32_t kind, float *to, const float *x, size_t n, size_t count)
{
    for (size_t g = 0; g < count; g++)
        to[g] = kind == KILN_REDUCE_L2 ? fold_row_as(KILN_REDUCE_L2, KILN_F32, x + g * n, n)
                                       : fold_row_as(KILN_REDUCE_SUM, KILN_F32, x + g * n, n);
}
