/* kernels_rows.h - the part of kernels_template.h that norms, softmax, rope, reductions and sorting are made of. Part
 * of that file: included by it alone, once for each width of vectors.
 */

#if LANES == 16
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30)
#define ODDS(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31)
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#define SHIFT_1(z, v) __builtin_shufflevector(z, v, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30)
#define SHIFT_2(z, v) __builtin_shufflevector(z, v, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29)
#define SHIFT_4(z, v) __builtin_shufflevector(z, v, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27)
#define SHIFT_8(z, v) __builtin_shufflevector(z, v, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
#elif LANES == 8
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14)
#define ODDS(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#define SHIFT_1(z, v) __builtin_shufflevector(z, v, 7, 8, 9, 10, 11, 12, 13, 14)
#define SHIFT_2(z, v) __builtin_shufflevector(z, v, 6, 7, 8, 9, 10, 11, 12, 13)
#define SHIFT_4(z, v) __builtin_shufflevector(z, v, 4, 5, 6, 7, 8, 9, 10, 11)
#else
#define EVENS(a, b) __builtin_shufflevector(a, b, 0, 2, 4, 6)
#define ODDS(a, b) __builtin_shufflevector(a, b, 1, 3, 5, 7)
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#define SHIFT_1(z, v) __builtin_shufflevector(z, v, 3, 4, 5, 6)
#define SHIFT_2(z, v) __builtin_shufflevector(z, v, 2, 3, 4, 5)
#endif

/* ---- norms ---- */

INLINE vf get_any(const float *p, size_t n) { return n >= LANES ? get(p) : get_part(p, n); }
INLINE void put_any(float *p, vf v, size_t n)
{
    if (n >= LANES)
        put(p, v);
    else
        put_part(p, v, n);
}

/* A loop over whole vectors, then what is left of one: `body` at place i of `left` numbers. */
#define ROWS_LOOP(n, body)                                                                                             \
    do {                                                                                                               \
        size_t i = 0;                                                                                                  \
        for (; i + LANES <= (n); i += LANES) {                                                                         \
            const size_t left = LANES;                                                                                 \
            body                                                                                                       \
        }                                                                                                              \
        if (i < (n)) {                                                                                                 \
            const size_t left = (n)-i;                                                                                 \
            body                                                                                                       \
        }                                                                                                              \
    } while (0)

static void norm_row(float *x, float mean, float factor, const float *gain, const float *bias, size_t n)
{
    const vf m = splat(mean), f = splat(factor);
    if (gain && bias)
        ROWS_LOOP(n, put_any(x + i, (get_any(x + i, left) - m) * f * get_any(gain + i, left) + get_any(bias + i, left),
                             left););
    else if (gain)
        ROWS_LOOP(n, put_any(x + i, (get_any(x + i, left) - m) * f * get_any(gain + i, left), left););
    else if (bias)
        ROWS_LOOP(n, put_any(x + i, (get_any(x + i, left) - m) * f + get_any(bias + i, left), left););
    else
        ROWS_LOOP(n, put_any(x + i, (get_any(x + i, left) - m) * f, left););
}

static void modulate(float *x, const float *scale, const float *shift, size_t n)
{
    const vf one = splat(1.0f);
    if (scale) ROWS_LOOP(n, put_any(x + i, get_any(x + i, left) * (one + get_any(scale + i, left)), left););
    if (shift) ROWS_LOOP(n, put_any(x + i, get_any(x + i, left) + get_any(shift + i, left), left););
}

/* ---- rope ---- */

static void rope_halves(float *a, float *b, const float *cosine, const float *sine, size_t n)
{
    ROWS_LOOP(n, {
        vf x = get_any(a + i, left);
        vf y = get_any(b + i, left);
        vf c = get_any(cosine + i, left);
        vf s = get_any(sine + i, left);
        put_any(a + i, x * c - y * s, left);
        put_any(b + i, y * c + x * s, left);
    });
}

static void rope_pairs(float *x, const float *cosine, const float *sine, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf low = get(x + 2 * i), high = get(x + 2 * i + LANES), c = get(cosine + i), s = get(sine + i);
        vf a = EVENS(low, high), b = ODDS(low, high), p = a * c - b * s, q = b * c + a * s;
        put(x + 2 * i, ZIP_LOW(p, q));
        put(x + 2 * i + LANES, ZIP_HIGH(p, q));
    }
    for (; i < n; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * cosine[i] - b * sine[i];
        x[2 * i + 1] = b * cosine[i] + a * sine[i];
    }
}

/* ---- reductions ---- */

INLINE vf folded(uint32_t kind, vf acc, vf x)
{
    switch (kind) {
    case KILN_REDUCE_MAX: return vmost(acc, x);
    case KILN_REDUCE_MIN: return vleast(acc, x);
    case KILN_REDUCE_PROD: return acc * x;
    case KILN_REDUCE_L2: return VFMA(x, x, acc);
    default: return acc + x;
    }
}
INLINE float fold_start(uint32_t kind)
{
    return kind == KILN_REDUCE_MAX    ? -INFINITY
           : kind == KILN_REDUCE_MIN  ? INFINITY
           : kind == KILN_REDUCE_PROD ? 1.0f
                                      : 0.0f;
}

INLINE void fold_as(const uint32_t kind, float *acc, const float *x, size_t n)
{
    ROWS_LOOP(n, put_any(acc + i, folded(kind, get_any(acc + i, left), get_any(x + i, left)), left););
}
static void fold(uint32_t kind, float *acc, const float *x, size_t n)
{
    switch (kind) {
    case KILN_REDUCE_MAX: fold_as(KILN_REDUCE_MAX, acc, x, n); break;
    case KILN_REDUCE_MIN: fold_as(KILN_REDUCE_MIN, acc, x, n); break;
    case KILN_REDUCE_PROD: fold_as(KILN_REDUCE_PROD, acc, x, n); break;
    case KILN_REDUCE_L2: fold_as(KILN_REDUCE_L2, acc, x, n); break;
    default: fold_as(KILN_REDUCE_SUM, acc, x, n); break;
    }
}

INLINE float fold_row_as(const uint32_t kind, const float *x, size_t n)
{
    const uint32_t join = kind == KILN_REDUCE_L2 ? KILN_REDUCE_SUM : kind;
    vf acc[4] = {splat(fold_start(kind)), splat(fold_start(kind)), splat(fold_start(kind)), splat(fold_start(kind))};
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES)
        for (int k = 0; k < 4; k++) acc[k] = folded(kind, acc[k], get(x + i + (size_t)k * LANES));
    for (; i + LANES <= n; i += LANES) acc[0] = folded(kind, acc[0], get(x + i));
    acc[0] = folded(join, folded(join, acc[0], acc[1]), folded(join, acc[2], acc[3]));
    vf last = splat(fold_start(kind));
    if (i < n) memcpy(&last, x + i, (n - i) * sizeof *x);
    acc[0] = kind == KILN_REDUCE_L2 ? VFMA(last, last, acc[0]) : folded(kind, acc[0], last);
#if LANES > 8
    acc[0] = folded(join, acc[0], TURN(acc[0], 8));
#endif
#if LANES > 4
    acc[0] = folded(join, acc[0], TURN(acc[0], 4));
#endif
    acc[0] = folded(join, acc[0], TURN(acc[0], 2));
    return folded(join, acc[0], TURN(acc[0], 1))[0];
}
static float fold_row(uint32_t kind, const float *x, size_t n)
{
    switch (kind) {
    case KILN_REDUCE_MAX: return fold_row_as(KILN_REDUCE_MAX, x, n);
    case KILN_REDUCE_MIN: return fold_row_as(KILN_REDUCE_MIN, x, n);
    case KILN_REDUCE_PROD: return fold_row_as(KILN_REDUCE_PROD, x, n);
    case KILN_REDUCE_L2: return fold_row_as(KILN_REDUCE_L2, x, n);
    default: return fold_row_as(KILN_REDUCE_SUM, x, n);
    }
}

static void fold_place(uint32_t least, float *best, float *place, const float *x, float at, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        vf b = get_any(best + i, n - i), v = get_any(x + i, n - i);
        vi better = ~visnan(b) & (visnan(v) | (least ? v < b : v > b));
        put_any(best + i, pick(better, v, b), n - i);
        put_any(place + i, pick(better, splat(at), get_any(place + i, n - i)), n - i);
    }
}

/* exp is that of 0 for what is infinite: the caller looks at the greatest first. */
INLINE vf finite_base(vf top) { return pick(vabs(top) == splat(INFINITY), splat(0), top); }

static void fold_exp(float *top, float *total, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += LANES) {
        vf before = get_any(top + i, n - i), v = get_any(x + i, n - i), now = vmost(before, v), base = finite_base(now);
        vf s = get_any(total + i, n - i) * vexp(before - base) + vexp(v - base);
        put_any(top + i, now, n - i);
        put_any(total + i, s, n - i);
    }
}

static float exp_row(float *to, const float *x, float base, size_t n)
{
    vf s = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf p = vexp(get(x + i) - splat(base));
        s += p;
        put(to + i, p);
    }
    float rest = 0;
    if (i < n) {
        vf p = vexp(get_part(x + i, n - i) - splat(base));
        for (size_t k = 0; k < n - i; k++) rest += p[k];
        put_part(to + i, p, n - i);
    }
    return lanes_sum(s) + rest;
}

/* The sum so far is a double, so that long rows lose nothing. */
static void prefix_row(float *to, const float *x, double *carry, size_t n)
{
    const vf zero = {0};
    double sum = *carry;
    for (size_t i = 0; i < n; i += LANES) {
        vf v = get_any(x + i, n - i);
        v += SHIFT_1(zero, v);
        v += SHIFT_2(zero, v);
#if LANES > 4
        v += SHIFT_4(zero, v);
#endif
#if LANES > 8
        v += SHIFT_8(zero, v);
#endif
        put_any(to + i, v + splat((float)sum), n - i);
        sum += (double)v[LANES - 1];
    }
    *carry = sum;
}

/* ---- pictures ---- */

static void axpy(float *to, const float *x, float w, size_t n)
{
    const vf by = splat(w);
    ROWS_LOOP(n, put_any(to + i, VFMA(get_any(x + i, left), by, get_any(to + i, left)), left););
}
static void add_product(float *to, const float *x, const float *w, size_t n)
{
    ROWS_LOOP(n, put_any(to + i, VFMA(get_any(x + i, left), get_any(w + i, left), get_any(to + i, left)), left););
}

/* ---- order ---- */

/* Numbers that compare as floats do, -0 as 0 and NaN above all; the greatest of them. */
static uint32_t order_keys(uint32_t *key, const float *x, uint32_t flip, size_t n)
{
    vu greatest = {0};
    uint32_t most = 0;
    for (size_t i = 0; i < n; i += LANES) {
        vf v = get_any(x + i, n - i) + splat(0); /* -0 becomes 0 */
        vu bits = (vu)v, sign = (vu)((vi)v >> 31);
        vu k = bits ^ (sign | 0x80000000u);
        vi nan = visnan(v);
        k = ((vu)nan | k) ^ flip;
        if (n - i >= LANES) {
            memcpy(key + i, &k, sizeof k);
            vi more = (vi)(k > greatest);
            greatest = ((vu)more & k) | (~(vu)more & greatest);
        } else {
            for (size_t j = 0; j < n - i; j++) {
                key[i + j] = k[j];
                most = k[j] > most ? k[j] : most;
            }
        }
    }
    for (int j = 0; j < LANES; j++) most = greatest[j] > most ? greatest[j] : most;
    return most;
}
