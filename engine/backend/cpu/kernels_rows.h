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

/* A loop over whole vectors, then what is left of one: the body at place i of `left` numbers. */
#define ROWS_LOOP(n, ...)                                                                                              \
    do {                                                                                                               \
        size_t i = 0;                                                                                                  \
        for (; i + LANES <= (n); i += LANES) {                                                                         \
            const size_t left = LANES;                                                                                 \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
        if (i < (n)) {                                                                                                 \
            const size_t left = (n)-i;                                                                                 \
            __VA_ARGS__                                                                                                \
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

#if LANES < 16 /* for the ends of rows; inlined they would be longer than the loops */
static __attribute__((noinline)) vf get_part_half(uint32_t type, const uint16_t *p, size_t n)
{
    uint16_t part[LANES] = {0};
    for (size_t k = 0; k < n; k++) part[k] = p[k];
    return type == KILN_BF16 ? widen(part) : widen_f16(part);
}
static __attribute__((noinline)) void put_part_half(uint32_t type, uint16_t *p, vf v, size_t n)
{
    uint16_t part[LANES];
    vh h;
    if (type == KILN_BF16)
        h = narrow(v), memcpy(part, &h, sizeof part);
    else
        narrow_f16(part, v);
    for (size_t k = 0; k < n; k++) p[k] = part[k];
}
#endif
/* f32, bf16 or f16, the first n < LANES of them or all. */
INLINE vf get_as(const uint32_t type, const void *p, size_t i, size_t n)
{
    const uint16_t *half = (const uint16_t *)p + i;
    if (type == KILN_F32) return get_any((const float *)p + i, n);
    if (n >= LANES) return type == KILN_BF16 ? widen(half) : widen_f16(half);
#if LANES == 16
    uint16_t part[LANES];
    _mm256_storeu_si256((__m256i *)(void *)part, _mm256_maskz_loadu_epi16(first_of(n), half));
    return type == KILN_BF16 ? widen(part) : widen_f16(part);
#else
    return get_part_half(type, half, n);
#endif
}

INLINE float fold_row_as(const uint32_t kind, const uint32_t type, const void *x, size_t n)
{
    const uint32_t join = kind == KILN_REDUCE_L2 ? KILN_REDUCE_SUM : kind;
    vf acc[4] = {splat(fold_start(kind)), splat(fold_start(kind)), splat(fold_start(kind)), splat(fold_start(kind))};
    size_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        for (size_t b = 0; b < 4 * LANES * (type == KILN_F32 ? 4 : 2); b += 64)
            __builtin_prefetch((const char *)x + i * (type == KILN_F32 ? 4 : 2) + b + AHEAD);
        UNROLL for (int k = 0; k < 4; k++) acc[k] = folded(kind, acc[k], get_as(type, x, i + (size_t)k * LANES, LANES));
    }
    for (; i + LANES <= n; i += LANES) acc[0] = folded(kind, acc[0], get_as(type, x, i, LANES));
    acc[0] = folded(join, folded(join, acc[0], acc[1]), folded(join, acc[2], acc[3]));
    vf last = splat(fold_start(kind));
    if (i < n) {
        vf part = get_as(type, x, i, n - i);
        for (size_t k = 0; k < n - i; k++) last[k] = part[k];
    }
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
INLINE float fold_row_of(const uint32_t type, uint32_t kind, const void *x, size_t n)
{
    switch (kind) {
    case KILN_REDUCE_MAX: return fold_row_as(KILN_REDUCE_MAX, type, x, n);
    case KILN_REDUCE_MIN: return fold_row_as(KILN_REDUCE_MIN, type, x, n);
    case KILN_REDUCE_PROD: return fold_row_as(KILN_REDUCE_PROD, type, x, n);
    case KILN_REDUCE_L2: return fold_row_as(KILN_REDUCE_L2, type, x, n);
    default: return fold_row_as(KILN_REDUCE_SUM, type, x, n);
    }
}
#if LANES == 16
/* Whole numbers in the order of bf16, by their sign turned or not; the greatest magnitude tells of a NaN. */
INLINE __m512i half_keys(__m512i x)
{
    const __m512i magnitude = _mm512_set1_epi16(0x7fff);
    return _mm512_ternarylogic_epi64(x, _mm512_srai_epi16(x, 15), magnitude, 0x78); /* x ^ (sign & magnitude) */
}
static float most_of_half(const void *x, size_t n)
{
    const uint16_t *p = x;
    const __m512i magnitude = _mm512_set1_epi16(0x7fff), least = _mm512_set1_epi16((int16_t)0x807f); /* -infinity */
    __m512i key[2] = {least, least}, far[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    for (size_t i = 0; i < n; i += 64) UNROLL for (size_t k = 0; k < 2; k++)
        {
            size_t at = i + 32 * k;
            __mmask32 own = at >= n ? 0 : n - at >= 32 ? (__mmask32)-1 : ((__mmask32)1 << (n - at)) - 1;
            __m512i v = _mm512_mask_loadu_epi16(_mm512_set1_epi16((int16_t)0xff80), own, p + at);
            __builtin_prefetch((const char *)(p + at) + AHEAD);
            key[k] = _mm512_max_epi16(key[k], half_keys(v));
            far[k] = _mm512_max_epi16(far[k], _mm512_and_si512(v, magnitude));
        }
    int16_t keys[32], magnitudes[32], most = INT16_MIN, farthest = 0;
    _mm512_storeu_si512(keys, _mm512_max_epi16(key[0], key[1]));
    _mm512_storeu_si512(magnitudes, _mm512_max_epi16(far[0], far[1]));
    for (int i = 0; i < 32; i++) {
        most = keys[i] > most ? keys[i] : most;
        farthest = magnitudes[i] > farthest ? magnitudes[i] : farthest;
    }
    return farthest > 0x7f80 ? NAN : bf16_to_f32((uint16_t)(most ^ (most < 0 ? 0x7fff : 0)));
}
#else
static float most_of_half(const void *x, size_t n) { return fold_row_of(KILN_BF16, KILN_REDUCE_MAX, x, n); }
#endif
static float fold_row(uint32_t kind, const float *x, size_t n) { return fold_row_of(KILN_F32, kind, x, n); }
static float fold_row_stored(uint32_t kind, const void *x, uint32_t type, size_t n)
{
    switch (type) {
    case KILN_F32: return fold_row_of(KILN_F32, kind, x, n);
    case KILN_BF16: return kind == KILN_REDUCE_MAX ? most_of_half(x, n) : fold_row_of(KILN_BF16, kind, x, n);
    default: return fold_row_of(KILN_F16, kind, x, n);
    }
}

/* The first of n numbers that is v or NaN; n: none is. */
static size_t find(const float *x, float v, size_t n)
{
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf own = get(x + i);
        if (any_lane((own == splat(v)) | visnan(own))) break;
    }
    while (i < n && x[i] != v && x[i] == x[i]) i++; /* NOLINT: NaN */
    return i;
}

/* exp is that of 0 for what is infinite: the caller looks at the greatest first. */
INLINE vf finite_base(vf top) { return pick(vabs(top) == splat(INFINITY), splat(0), top); }

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

static void shift_row(float *to, const float *x, float a, float b, size_t n, int past)
{
    const vf first = splat(a), second = splat(b);
    size_t i = 0;
    (void)past;
#if LANES == 16
    if (past && to_line(to) == 0)
        for (; i + LANES <= n; i += LANES) put_line(to + i, (vu)((get(x + i) - first) - second), 1);
#endif
    for (; i < n; i += LANES) put_any(to + i, (get_any(x + i, n - i) - first) - second, n - i);
}

static void scale_row(float *to, const float *x, float by, size_t n, int past)
{
    const vf factor = splat(by);
    size_t i = 0;
    (void)past;
#if LANES == 16
    if (past && to_line(to) == 0)
        for (; i + LANES <= n; i += LANES) put_line(to + i, (vu)(get(x + i) * factor), 1);
#endif
    for (; i < n; i += LANES) put_any(to + i, get_any(x + i, n - i) * factor, n - i);
}

/* Rows of n numbers, `ld` apart, up to 4: each sum in the order of sum() and squares(). */
static void sum_rows(float *to, const float *x, size_t ld, size_t rows, size_t n)
{
    if (rows < 4) {
        for (size_t r = 0; r < rows; r++) to[r] = sum(x + r * ld, n);
        return;
    }
    vf s[4] = {{0}};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t r = 0; r < 4; r++) s[r] += get(x + r * ld + i);
    for (size_t r = 0; r < 4; r++) {
        if (i < n) s[r] += get_part(x + r * ld + i, n - i);
        to[r] = lanes_sum(s[r]);
    }
}
static void squares_rows(float *to, const float *mean, const float *x, size_t ld, size_t rows, size_t n)
{
    if (rows < 4) {
        for (size_t r = 0; r < rows; r++) to[r] = squares(x + r * ld, mean[r], n);
        return;
    }
    vf s[4] = {{0}};
    const vf m[4] = {splat(mean[0]), splat(mean[1]), splat(mean[2]), splat(mean[3])};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        for (size_t r = 0; r < 4; r++) {
            vf d = get(x + r * ld + i) - m[r];
            s[r] += d * d;
        }
    for (size_t r = 0; r < 4; r++) {
        float rest = 0;
        for (size_t k = i; k < n; k++) rest += (x[r * ld + k] - mean[r]) * (x[r * ld + k] - mean[r]);
        to[r] = lanes_sum(s[r]) + rest;
    }
}

/* (x - mean) (factor gain) + bias, in this order */
static void layer_row(float *x, float mean, float factor, const float *gain, const float *bias, size_t n)
{
    const vf m = splat(mean), f = splat(factor), none = {0};
    ROWS_LOOP(n, {
        vf scale = gain ? f * get_any(gain + i, left) : f;
        put_any(x + i, (get_any(x + i, left) - m) * scale + (bias ? get_any(bias + i, left) : none), left);
    });
}

/* ---- rows as they are stored ---- */

enum { SIDE_BY_SIDE = 4 };

/* The sums of the lanes of four vectors. */
INLINE void four_sums(float *to, const vf v[4])
{
    vf a = ZIP_LOW(v[0], v[1]) + ZIP_HIGH(v[0], v[1]), b = ZIP_LOW(v[2], v[3]) + ZIP_HIGH(v[2], v[3]);
    vf all = ZIP_LOW(a, b) + ZIP_HIGH(a, b); /* 0 2 1 3 0 2 1 3 .. */
#if LANES > 8
    all += TURN(all, 8);
#endif
#if LANES > 4
    all += TURN(all, 4);
#endif
    to[0] = all[0], to[1] = all[2], to[2] = all[1], to[3] = all[3];
}

INLINE void weigh_as(const uint32_t type, const size_t rows, float *to, size_t ld, size_t m, const float *w, size_t ldw,
                     const void *const *x, size_t n)
{
    ROWS_LOOP(n, {
        vf v[SIDE_BY_SIDE];
        UNROLL for (size_t r = 0; r < rows; r++) v[r] = get_as(type, x[r], i, left);
        for (size_t b = 0; b < LANES * rows * (type == KILN_F32 ? 4 : 2); b += 64)
            __builtin_prefetch((const char *)x[rows - 1] + i * (type == KILN_F32 ? 4 : 2) * rows + b + AHEAD);
        for (size_t g = 0; g < m; g++) {
            vf sum = get_any(to + g * ld + i, left);
            UNROLL for (size_t r = 0; r < rows; r++) sum = VFMA(splat(w[r * ldw + g]), v[r], sum);
            put_any(to + g * ld + i, sum, left);
        }
    });
}
INLINE void weigh_all(const uint32_t type, float *to, size_t ld, size_t m, const float *w, size_t ldw,
                      const void *const *x, size_t rows, size_t n)
{
    if (rows == SIDE_BY_SIDE)
        weigh_as(type, SIDE_BY_SIDE, to, ld, m, w, ldw, x, n);
    else if (rows == 2)
        weigh_as(type, 2, to, ld, m, w, ldw, x, n);
    else
        for (size_t r = 0; r < rows; r++) weigh_as(type, 1, to, ld, m, w + r * ldw, ldw, x + r, n);
}
static void weigh_stored(float *to, size_t ld, size_t m, const float *w, size_t ldw, const void *const *x, size_t rows,
                         uint32_t type, size_t n)
{
    switch (type) {
    case KILN_F32: weigh_all(KILN_F32, to, ld, m, w, ldw, x, rows, n); break;
    case KILN_BF16: weigh_all(KILN_BF16, to, ld, m, w, ldw, x, rows, n); break;
    default: weigh_all(KILN_F16, to, ld, m, w, ldw, x, rows, n); break;
    }
}

INLINE void sum_weighed_as(const uint32_t type, const size_t rows, float *to, const float *w, const void *const *x,
                           size_t n)
{
    ROWS_LOOP(n, {
        UNROLL for (size_t r = 0; r < rows; r++)
            __builtin_prefetch((const char *)x[r] + i * (type == KILN_F32 ? 4 : 2) + AHEAD, 0, SECOND_LEVEL);
        vf sum = splat(w[0]) * get_as(type, x[0], i, left);
        UNROLL for (size_t r = 1; r < rows; r++) sum = VFMA(splat(w[r]), get_as(type, x[r], i, left), sum);
        put_any(to + i, sum, left);
    });
}
INLINE void sum_weighed_of(const uint32_t type, float *to, const float *w, const void *const *x, size_t rows, size_t n)
{
    switch (rows) {
    case 1: sum_weighed_as(type, 1, to, w, x, n); break;
    case 2: sum_weighed_as(type, 2, to, w, x, n); break;
    case 3: sum_weighed_as(type, 3, to, w, x, n); break;
    default: sum_weighed_as(type, 4, to, w, x, n); break;
    }
}
static void sum_weighed(float *to, const float *w, const void *const *x, size_t rows, uint32_t type, size_t n)
{
    switch (type) {
    case KILN_F32: sum_weighed_of(KILN_F32, to, w, x, rows, n); break;
    case KILN_BF16: sum_weighed_of(KILN_BF16, to, w, x, rows, n); break;
    default: sum_weighed_of(KILN_F16, to, w, x, rows, n); break;
    }
}

/* ---- pictures ---- */

static void axpy(float *to, const float *x, float w, size_t n)
{
    const vf by = splat(w);
    ROWS_LOOP(n, put_any(to + i, VFMA(get_any(x + i, left), by, get_any(to + i, left)), left););
}
/* Rows that come after these: `bytes` from each, which lie as far from each other; or behind the last, 0. */
typedef struct {
    ptrdiff_t bytes;
} rows_ahead;
INLINE rows_ahead rows_behind(const void *const *x, size_t rows, size_t row_bytes)
{
    ptrdiff_t step = rows > 1 ? (const char *)x[1] - (const char *)x[0] : (ptrdiff_t)row_bytes;
    return (rows_ahead){step == (ptrdiff_t)row_bytes ? 0 : (ptrdiff_t)rows * step};
}
/* What they have where `bytes` at i are read of each of these, before row r is. Into the second cache: lines of several
 * rows lie so that the first one, of few places for each, would lose them again. */
INLINE void fetch_behind(const rows_ahead *a, const void *const *x, size_t rows, size_t r, size_t i, size_t bytes)
{
    if (a->bytes)
        __builtin_prefetch((const char *)x[r] + a->bytes + i, 0, SECOND_LEVEL);
    else if (r * bytes % CACHE_LINE == 0) /* one row behind the other */
        __builtin_prefetch((const char *)x[rows - 1] + i * rows + r * bytes + 3 * AHEAD, 0, SECOND_LEVEL);
}

/* sum += x - origin, squares += (x - origin)^2, row after row */
INLINE void moments_as(const uint32_t type, float *total, float *square, const void *const *x, size_t rows,
                       const float *origin, size_t n)
{
    const size_t size = type == KILN_F32 ? 4 : 2;
    const rows_ahead next = rows_behind(x, rows, n * size);
    ROWS_LOOP(n, {
        vf s = get_any(total + i, left);
        vf q = get_any(square + i, left);
        vf o = get_any(origin + i, left);
        for (size_t r = 0; r < rows; r++) {
            fetch_behind(&next, x, rows, r, i * size, LANES * size);
            vf d = get_as(type, x[r], i, left) - o;
            s += d, q += d * d;
        }
        put_any(total + i, s, left), put_any(square + i, q, left);
    });
}
static void moments(float *total, float *square, const void *const *x, size_t rows, uint32_t type, const float *origin,
                    size_t n)
{
    switch (type) {
    case KILN_F32: moments_as(KILN_F32, total, square, x, rows, origin, n); break;
    case KILN_BF16: moments_as(KILN_BF16, total, square, x, rows, origin, n); break;
    default: moments_as(KILN_F16, total, square, x, rows, origin, n); break;
    }
}

/* to += x[r] w[r], row after row */
INLINE void products_as(const uint32_t type, float *to, const void *const *x, const float *const *w, size_t rows,
                        size_t n)
{
    ROWS_LOOP(n, {
        vf sum = get_any(to + i, left);
        for (size_t r = 0; r < rows; r++) sum = VFMA(get_as(type, x[r], i, left), get_any(w[r] + i, left), sum);
        put_any(to + i, sum, left);
    });
}
static void products_stored(float *to, const void *const *x, const float *const *w, size_t rows, uint32_t type,
                            size_t n)
{
    switch (type) {
    case KILN_F32: products_as(KILN_F32, to, x, w, rows, n); break;
    case KILN_BF16: products_as(KILN_BF16, to, x, w, rows, n); break;
    default: products_as(KILN_F16, to, x, w, rows, n); break;
    }
}

enum { FOLDED = 8 }; /* rows that are folded together as a rule */

INLINE void fold_stored_as(const uint32_t kind, const uint32_t type, float *acc, const void *const *x, size_t rows,
                           size_t n)
{
    const size_t size = type == KILN_F32 ? 4 : 2, whole = n / LANES * LANES;
    const rows_ahead next = rows_behind(x, rows, n * size);
    for (size_t i = 0; rows == FOLDED && i < whole; i += LANES) {
        vf v = get(acc + i);
        UNROLL for (size_t r = 0; r < FOLDED; r++)
        {
            fetch_behind(&next, x, FOLDED, r, i * size, LANES * size);
            v = folded(kind, v, get_as(type, x[r], i, LANES));
        }
        put(acc + i, v);
    }
    for (size_t i = 0; rows != FOLDED && i < whole; i += LANES) {
        vf v = get(acc + i);
        for (size_t r = 0; r < rows; r++) {
            fetch_behind(&next, x, rows, r, i * size, LANES * size);
            v = folded(kind, v, get_as(type, x[r], i, LANES));
        }
        put(acc + i, v);
    }
    if (whole == n) return;
    vf v = get_part(acc + whole, n - whole);
    for (size_t r = 0; r < rows; r++) v = folded(kind, v, get_as(type, x[r], whole, n - whole));
    put_part(acc + whole, v, n - whole);
}
INLINE void fold_typed(const uint32_t type, uint32_t kind, float *acc, const void *const *x, size_t rows, size_t n)
{
    switch (kind) {
    case KILN_REDUCE_MAX: fold_stored_as(KILN_REDUCE_MAX, type, acc, x, rows, n); break;
    case KILN_REDUCE_MIN: fold_stored_as(KILN_REDUCE_MIN, type, acc, x, rows, n); break;
    case KILN_REDUCE_PROD: fold_stored_as(KILN_REDUCE_PROD, type, acc, x, rows, n); break;
    case KILN_REDUCE_L2: fold_stored_as(KILN_REDUCE_L2, type, acc, x, rows, n); break;
    default: fold_stored_as(KILN_REDUCE_SUM, type, acc, x, rows, n); break;
    }
}
static void fold_stored(uint32_t kind, float *acc, const void *const *x, size_t rows, uint32_t type, size_t n)
{
    switch (type) {
    case KILN_F32: fold_typed(KILN_F32, kind, acc, x, rows, n); break;
    case KILN_BF16: fold_typed(KILN_BF16, kind, acc, x, rows, n); break;
    default: fold_typed(KILN_F16, kind, acc, x, rows, n); break;
    }
}

/* Where v is better than b, it takes its place. */
INLINE void take_better(const uint32_t least, vf *b, vf *p, vf v, float place)
{
#if LANES == 16
    __mmask16 better = least ? _mm512_cmp_ps_mask((__m512)v, (__m512)*b, _CMP_LT_OQ)
                             : _mm512_cmp_ps_mask((__m512)v, (__m512)*b, _CMP_GT_OQ);
    better |= _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q), (__m512)*b, (__m512)*b,
                                      _CMP_ORD_Q);
    *b = (vf)_mm512_mask_mov_ps((__m512)*b, better, (__m512)v);
    *p = (vf)_mm512_mask_mov_ps((__m512)*p, better, (__m512)splat(place));
#else
    vi better = ~visnan(*b) & (visnan(v) | (least ? v < *b : v > *b));
    *b = pick(better, v, *b), *p = pick(better, splat(place), *p);
#endif
}
INLINE void fold_place_as(const uint32_t type, const uint32_t least, float *best, float *place, const void *const *x,
                          size_t rows, float at, size_t n)
{
    const size_t size = type == KILN_F32 ? 4 : 2;
    const rows_ahead next = rows_behind(x, rows, n * size);
    ROWS_LOOP(n, {
        vf b = get_any(best + i, left);
        vf p = get_any(place + i, left);
        for (size_t r = 0; r < rows; r++) {
            fetch_behind(&next, x, rows, r, i * size, LANES * size);
            take_better(least, &b, &p, get_as(type, x[r], i, left), at + (float)r);
        }
        put_any(best + i, b, left), put_any(place + i, p, left);
    });
}
static void fold_place_stored(uint32_t least, float *best, float *place, const void *const *x, size_t rows,
                              uint32_t type, float at, size_t n)
{
    switch (type) {
    case KILN_F32: fold_place_as(KILN_F32, least, best, place, x, rows, at, n); break;
    case KILN_BF16: fold_place_as(KILN_BF16, least, best, place, x, rows, at, n); break;
    default: fold_place_as(KILN_F16, least, best, place, x, rows, at, n); break;
    }
}

INLINE void put_as(const uint32_t type, void *p, vf v, size_t n)
{
    if (type == KILN_F32) {
        put_any(p, v, n);
        return;
    }
#if LANES == 16
    __m256i part =
        type == KILN_BF16 ? narrowed(v) : _mm512_cvtps_ph((__m512)v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    if (n >= LANES)
        _mm256_storeu_si256((__m256i *)p, part);
    else
        _mm256_mask_storeu_epi16(p, first_of(n), part);
#else
    vh h;
    if (n < LANES)
        put_part_half(type, p, v, n);
    else if (type == KILN_BF16)
        h = narrow(v), memcpy(p, &h, sizeof h);
    else
        narrow_f16(p, v);
#endif
}

/* ---- order ---- */

/* Numbers that compare as floats do, -0 as 0 and NaN above all; the greatest of them. */
static uint32_t order_keys(uint32_t *key, const float *x, uint32_t flip, size_t n)
{
    vu greatest = {0};
    uint32_t most = 0;
    for (size_t i = 0; i < n; i += LANES) {
        vf v = get_any(x + i, n - i) + splat(0); /* -0 becomes 0 */
        vu bits = (vu)v, sign = 0u - (bits >> 31);
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

/* ---- by places ---- */

/* Neighbours raise counters of their own, so that none waits for the one before it; numbers are looked at together. */
static void count(uint32_t *part, const int32_t *x, uint32_t bins, size_t n)
{
    enum { NUMBERS = 16 };
    const vu zero = {0}, none = zero + bins;
    size_t i = 0;
    for (; i + NUMBERS <= n; i += NUMBERS) {
        vu outside = zero;
        __builtin_prefetch((const char *)(x + i) + AHEAD / 2); /* little is read beside what is counted */
        for (size_t k = 0; k < NUMBERS; k += LANES) outside |= (vu)(words_at(x + i + k) >= none);
        if (__builtin_expect(any_lane((vi)outside), 0)) {
            for (size_t k = 0; k < NUMBERS; k++)
                part[k % COUNTERS * COUNTER_STRIDE + ((uint32_t)x[i + k] < bins ? (uint32_t)x[i + k] : bins)]++;
            continue;
        }
        for (size_t first = 0; first < NUMBERS; first += COUNTERS)
            UNROLL for (size_t k = 0; k < COUNTERS; k++) part[k * COUNTER_STRIDE + (uint32_t)x[i + first + k]]++;
    }
    for (; i < n; i++) part[(uint32_t)x[i] < bins ? (uint32_t)x[i] : bins]++;
}

/* The first of n places that is not below `places`; n: all are. */
static size_t first_outside(const int32_t *place, uint32_t places, size_t n)
{
    const vu zero = {0}, end = zero + places;
    vu outside = zero;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) outside |= (vu)(words_at(place + i) >= end);
    if (!any_lane((vi)outside)) /* of whole vectors */
        while (i < n && (uint32_t)place[i] < places) i++;
    else
        for (i = 0; (uint32_t)place[i] < places;) i++;
    return i;
}
static size_t pick_places(void *to, const void *from, const int32_t *place, uint32_t places, size_t size, size_t n)
{
    size_t whole = first_outside(place, places, n);
    if (whole < n) return whole;
    if (size == 2)
        UNROLL for (size_t i = 0; i < n; i++)((uint16_t *)to)[i] = ((const uint16_t *)from)[(uint32_t)place[i]];
    else
        UNROLL for (size_t i = 0; i < n; i++)((uint32_t *)to)[i] = ((const uint32_t *)from)[(uint32_t)place[i]];
    return n;
}
