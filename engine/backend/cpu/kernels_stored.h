/* kernels_stored.h - the part of kernels_template.h for rows that are read and stored in f32, bf16 or f16, past the
 * caches or not: sums of columns, windows and taps of pictures. Part of that file: included by it alone, once for each
 * width of vectors.
 */

/* Two vectors at place i of a row; where `past` is set, that is where a line begins. */
INLINE void put_pair(const uint32_t type, void *row, size_t i, vf a, vf b, int past)
{
    char *to = (char *)row + i * (type == KILN_F32 ? 4 : 2);
    if (type == KILN_BF16) {
        put_two((uint16_t *)(void *)to, a, b, past);
        return;
    }
#if LANES == 16
    if (type == KILN_F32 && past) {
        put_line(to, (vu)a, 1), put_line(to + CACHE_LINE, (vu)b, 1);
        return;
    }
#endif
    put_as(type, to, a, LANES), put_as(type, to + LANES * (type == KILN_F32 ? 4 : 2), b, LANES);
}

/* expr of the place `at`, of which `left` are left, stored at `to`. */
#define STORED_ROW(type, to, n, past, expr)                                                                            \
    do {                                                                                                               \
        size_t i = 0;                                                                                                  \
        int lines = (past) && to_line(to) == 0;                                                                        \
        for (; i + 2 * LANES <= (n); i += 2 * LANES) {                                                                 \
            const size_t left = LANES;                                                                                 \
            vf two[2];                                                                                                 \
            UNROLL for (size_t at = i; at < i + 2 * LANES; at += LANES) two[(at - i) / LANES] = (expr);                \
            put_pair(type, to, i, two[0], two[1], lines);                                                              \
        }                                                                                                              \
        for (size_t at = i; at < (n); at += LANES) {                                                                   \
            const size_t left = (n)-at < LANES ? (n)-at : LANES;                                                       \
            put_as(type, (char *)(to) + at * (type == KILN_F32 ? 4 : 2), expr, left);                                  \
        }                                                                                                              \
    } while (0)

/* ---- f32 in one pass ---- */

INLINE vf whole_normed(const float *x, vf mean, vf factor, const float *const more[4], size_t i, size_t n)
{
    vf v = (get_any(x + i, n) - mean) * factor;
    if (more[0]) v = v * get_any(more[0] + i, n);
    if (more[1]) v = v + get_any(more[1] + i, n);
    if (more[2]) v = v * (splat(1) + get_any(more[2] + i, n));
    return more[3] ? v + get_any(more[3] + i, n) : v;
}
static void norm_whole(void *to, const float *x, float mean, float factor, const float *const more[4], size_t n,
                       int past)
{
    const vf m = splat(mean), f = splat(factor);
    const float *const some[4] = {more[0], more[1], more[2], more[3]};
    STORED_ROW(KILN_F32, to, n, past, whole_normed(x, m, f, some, at, left));
}
INLINE vf whole_geglu(const float *value, const float *gate, size_t i, size_t n)
{
    __builtin_prefetch((const char *)(value + i) + 2 * AHEAD), __builtin_prefetch((const char *)(gate + i) + 2 * AHEAD);
    return get_any(value + i, n) * vgelu(get_any(gate + i, n));
}
static void geglu_whole(void *to, const float *value, const float *gate, size_t n, int past)
{
    STORED_ROW(KILN_F32, to, n, past, whole_geglu(value, gate, at, left));
}

/* ---- sums of columns ---- */

/* The sums so far go before (or behind) each row is added to them. */
INLINE void prefix_columns_as(const uint32_t type, char *to, size_t step_to, const char *x, size_t step, float *sums,
                              size_t rows, int before, size_t n, int past)
{
    const size_t size = type == KILN_F32 ? 4 : 2;
    size_t i = 0;
    past = past && to_line(to) == 0 && step_to % CACHE_LINE == 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        vf a = get(sums + i), b = get(sums + i + LANES);
        for (size_t r = 0; r < rows; r++) {
            __builtin_prefetch(x + (r + rows) * step + i * size);
            vf u = get_as(type, x + r * step, i, LANES), v = get_as(type, x + r * step, i + LANES, LANES);
            if (before) put_pair(type, to + r * step_to, i, a, b, past);
            a += u, b += v;
            if (!before) put_pair(type, to + r * step_to, i, a, b, past);
        }
        put(sums + i, a), put(sums + i + LANES, b);
    }
    for (; i < n; i += LANES) {
        size_t left = n - i < LANES ? n - i : LANES;
        vf s = get_any(sums + i, left);
        for (size_t r = 0; r < rows; r++) {
            vf v = get_as(type, x + r * step, i, left);
            if (before) put_as(type, to + r * step_to + i * size, s, left);
            s += v;
            if (!before) put_as(type, to + r * step_to + i * size, s, left);
        }
        put_any(sums + i, s, left);
    }
}
static void prefix_columns(void *to, size_t step_to, const void *x, size_t step, uint32_t type, float *sums,
                           size_t rows, int before, size_t n, int past)
{
    switch (type) {
    case KILN_F32: prefix_columns_as(KILN_F32, to, step_to, x, step, sums, rows, before, n, past); break;
    case KILN_BF16: prefix_columns_as(KILN_BF16, to, step_to, x, step, sums, rows, before, n, past); break;
    default: prefix_columns_as(KILN_F16, to, step_to, x, step, sums, rows, before, n, past); break;
    }
}

/* ---- pictures ---- */

INLINE vf folded_window(const uint32_t most, const float *x, const size_t window, size_t channels, size_t n, vf scale)
{
    vf v = splat(most ? -INFINITY : 0);
    for (size_t k = 0; k < window; k++) {
        vf own = get_any(x + k * channels, n);
        v = most ? vmost(v, own) : v + own;
    }
    return most ? v : v * scale + splat(0);
}
INLINE void windows_as(const uint32_t most, const uint32_t type, char *to, size_t step, const float *x, size_t stride,
                       const size_t window, float scale, size_t pixels, size_t channels, int past)
{
    const vf by = splat(scale);
    for (size_t o = 0; o < pixels; o++, to += step, x += stride * channels)
        STORED_ROW(type, to, channels, past, folded_window(most, x + at, window, channels, left, by));
}
INLINE void windows_typed(const uint32_t most, void *to, uint32_t type, size_t step, const float *x, size_t stride,
                          size_t window, float scale, size_t pixels, size_t channels, int past)
{
    if (type == KILN_BF16 && window == 3)
        windows_as(most, KILN_BF16, to, step, x, stride, 3, scale, pixels, channels, past);
    else if (type == KILN_BF16 && window == 2)
        windows_as(most, KILN_BF16, to, step, x, stride, 2, scale, pixels, channels, past);
    else if (type == KILN_BF16)
        windows_as(most, KILN_BF16, to, step, x, stride, window, scale, pixels, channels, past);
    else if (type == KILN_F32)
        windows_as(most, KILN_F32, to, step, x, stride, window, scale, pixels, channels, past);
    else
        windows_as(most, KILN_F16, to, step, x, stride, window, scale, pixels, channels, past);
}
static void windows_row(uint32_t kind, void *to, uint32_t type, size_t step, const float *x, size_t stride,
                        size_t window, float scale, size_t pixels, size_t channels, int past)
{
    if (kind == KILN_REDUCE_MAX)
        windows_typed(1, to, type, step, x, stride, window, scale, pixels, channels, past);
    else
        windows_typed(0, to, type, step, x, stride, window, scale, pixels, channels, past);
}

/* The sum of x[r] w[r], row after row, plus bias or NULL. */
INLINE vf tap_sum(const uint32_t type, const void *const *x, const float *const *w, const size_t rows,
                  const float *bias, size_t i, size_t n)
{
    vf sum = {0};
    UNROLL for (size_t r = 0; r < rows; r++) sum = VFMA(get_as(type, x[r], i, n), get_any(w[r] + i, n), sum);
    __builtin_prefetch((const char *)x[rows - 1] + i * (type == KILN_F32 ? 4 : 2) + AHEAD);
    return bias ? sum + get_any(bias + i, n) : sum;
}
INLINE void depthwise_as(const uint32_t type, void *to, const void *const *x, const float *const *w, size_t rows,
                         const float *bias, size_t n, int past)
{
    if (rows == 4)
        STORED_ROW(type, to, n, past, tap_sum(type, x, w, 4, bias, at, left));
    else if (rows)
        STORED_ROW(type, to, n, past, tap_sum(type, x, w, rows, bias, at, left));
    else
        STORED_ROW(type, to, n, past, bias ? get_any(bias + at, left) : splat(0));
}
static void depthwise_row(void *to, uint32_t type, const void *const *x, const float *const *w, size_t rows,
                          const float *bias, size_t n, int past)
{
    switch (type) {
    case KILN_F32: depthwise_as(KILN_F32, to, x, w, rows, bias, n, past); break;
    case KILN_BF16: depthwise_as(KILN_BF16, to, x, w, rows, bias, n, past); break;
    default: depthwise_as(KILN_F16, to, x, w, rows, bias, n, past); break;
    }
}

/* ---- the greatest of bf16 ---- */

#if LANES == 16
/* part: of the lanes of `own` alone, which costs as much again as what is done with them. */
INLINE __m512i greatest_key(const void *const *x, size_t rows, const int keys, size_t i, const int part, __mmask32 own)
{
    const __m512i magnitude = _mm512_set1_epi16(0x7fff), infinite = _mm512_set1_epi16(0x7f80);
    __m512i most = _mm512_set1_epi16((int16_t)0x807f), far = _mm512_setzero_si512();
    if (keys && rows)
        __builtin_prefetch((const char *)((const uint16_t *)x[rows - 1] + i) + AHEAD); /* others were read */
    UNROLL for (size_t r = 0; r < rows; r++)
    {
        const uint16_t *from = (const uint16_t *)x[r] + i;
        __m512i v = part ? _mm512_maskz_loadu_epi16(own, from) : _mm512_loadu_si512(from);
        if (keys) far = _mm512_max_epi16(far, _mm512_and_si512(v, magnitude));
        most = _mm512_max_epi16(most, keys ? half_keys(v) : v);
    }
    return keys ? _mm512_mask_mov_epi16(most, _mm512_cmpgt_epi16_mask(far, infinite), magnitude) : half_keys(most);
}
INLINE void most_half_as(uint16_t *to, const void *const *rows_of, const size_t rows, const int keys, size_t n,
                         int past)
{
    enum { HELD = 3 }; /* what is stored could be a pointer, for all that a compiler knows */
    const void *held[HELD] = {0};
    const void *const *x = rows == HELD ? held : rows_of;
    size_t i = 0;
    if (rows == HELD) memcpy(held, rows_of, sizeof held);
    for (; i + 32 <= n; i += 32) {
        __m512i most = greatest_key(x, rows, keys, i, 0, 0);
        if (past)
            _mm512_stream_si512((__m512i *)(void *)(to + i), most);
        else
            _mm512_storeu_si512(to + i, most);
    }
    if (i == n) return;
    __mmask32 own = ((__mmask32)1 << (n - i)) - 1;
    _mm512_mask_storeu_epi16(to + i, own, greatest_key(x, rows, keys, i, 1, own));
}
#else
INLINE void most_half_as(uint16_t *to, const void *const *x, size_t rows, const int keys, size_t n, int past)
{
    (void)past;
    for (size_t i = 0; i < n; i++) {
        int16_t most = (int16_t)0x807f; /* -infinity */
        for (size_t r = 0; r < rows; r++) {
            int16_t v = ((const int16_t *)x[r])[i];
            if (keys) v = (v & 0x7fff) > 0x7f80 ? 0x7fff : (int16_t)(v ^ (v < 0 ? 0x7fff : 0));
            most = v > most ? v : most;
        }
        to[i] = (uint16_t)(keys ? most : most ^ (most < 0 ? 0x7fff : 0));
    }
}
#endif
static void most_half(void *to, const void *const *x, size_t rows, int keys, size_t n, int past)
{
    past = past && to_line(to) == 0;
    if (rows == 3 && keys)
        most_half_as(to, x, 3, 1, n, past);
    else if (rows == 3)
        most_half_as(to, x, 3, 0, n, past);
    else if (keys)
        most_half_as(to, x, rows, 1, n, past);
    else
        most_half_as(to, x, rows, 0, n, past);
}

/* ---- taps of pictures ---- */

INLINE void blend_lanes_as(const uint32_t type, void *to, const float *x, const int32_t *base, const uint8_t *place,
                           const float *w, const size_t most, size_t n, int past)
{
    enum { BLENDED = 16 };
    for (size_t i = 0; i < n; i += BLENDED, base++) {
#if LANES == 16
        const vf low = get(x + *base), high = get(x + *base + 16);
        vf sum = {0};
        UNROLL for (size_t k = 0; k < most; k++, place += BLENDED, w += BLENDED)
        {
            __m512i at = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)place));
            sum = VFMA((vf)_mm512_permutex2var_ps((__m512)low, at, (__m512)high), get(w), sum);
        }
        put_one(type, to, i, sum, n - i, past);
#else
        float sums[BLENDED] = {0};
        for (size_t k = 0; k < most; k++, place += BLENDED, w += BLENDED)
            for (size_t l = 0; l < BLENDED; l++) sums[l] += w[l] * x[(size_t)*base + place[l]];
        for (size_t l = 0; l < BLENDED && i + l < n; l += LANES)
            put_one(type, to, i + l, get(sums + l), n - i - l, past);
#endif
    }
}
INLINE void blend_lanes_of(const uint32_t type, void *to, const float *x, const int32_t *base, const uint8_t *place,
                           const float *w, size_t most, size_t n, int past)
{
    if (most == 2)
        blend_lanes_as(type, to, x, base, place, w, 2, n, past);
    else
        blend_lanes_as(type, to, x, base, place, w, most, n, past);
}
static void blend_lanes(void *to, uint32_t type, const float *x, const int32_t *base, const uint8_t *place,
                        const float *w, size_t most, size_t n, int past)
{
    past = past && to_line(to) == 0;
    if (type == KILN_F32)
        blend_lanes_of(KILN_F32, to, x, base, place, w, most, n, past);
    else
        blend_lanes_of(KILN_BF16, to, x, base, place, w, most, n, past);
}

INLINE vf blended(const float *row, const int32_t *place, const float *weight, const size_t most, size_t channels,
                  size_t n)
{
    vf sum = {0};
    UNROLL for (size_t k = 0; k < most; k++) sum =
        VFMA(get_any(row + (size_t)place[k] * channels, n), splat(weight[k]), sum);
    return sum;
}
/* Pixel o of the result: the sum over k of weight[o most + k] times pixel place[o most + k] of a row of pixels. */
INLINE void blend_as(const uint32_t type, char *to, size_t step, const float *row, const int32_t *place,
                     const float *weight, const size_t most, size_t pixels, size_t channels, int past)
{
    for (size_t o = 0; o < pixels; o++, to += step, place += most, weight += most)
        STORED_ROW(type, to, channels, past, blended(row + at, place, weight, most, channels, left));
}
INLINE void blend_typed(const uint32_t type, char *to, size_t step, const float *row, const int32_t *place,
                        const float *weight, size_t most, size_t pixels, size_t channels, int past)
{
    switch (most) {
    case 1: blend_as(type, to, step, row, place, weight, 1, pixels, channels, past); break;
    case 2: blend_as(type, to, step, row, place, weight, 2, pixels, channels, past); break;
    case 4: blend_as(type, to, step, row, place, weight, 4, pixels, channels, past); break;
    default: blend_as(type, to, step, row, place, weight, most, pixels, channels, past); break;
    }
}
static void blend_row(void *to, uint32_t type, size_t step, const float *row, const int32_t *place, const float *weight,
                      size_t most, size_t pixels, size_t channels, int past)
{
    switch (type) {
    case KILN_F32: blend_typed(KILN_F32, to, step, row, place, weight, most, pixels, channels, past); break;
    case KILN_BF16: blend_typed(KILN_BF16, to, step, row, place, weight, most, pixels, channels, past); break;
    default: blend_typed(KILN_F16, to, step, row, place, weight, most, pixels, channels, past); break;
    }
}

/* ---- pixels at places of their own: what lies behind them is nobody's, and is not fetched ---- */

INLINE vf pixels_sum(const uint32_t type, const size_t rows, const float *w, const void *const *x, size_t i,
                     size_t left)
{
    vf sum = splat(0);
    for (size_t r = 0; r < rows; r++) sum = VFMA(splat(w[r]), get_as(type, x[r], i, left), sum);
    return sum;
}
INLINE void sum_pixels_as(const uint32_t type, void *to, uint32_t to_type, const float *w, const void *const *x,
                          const size_t rows, size_t n, int past)
{
    if (to_type == KILN_BF16)
        STORED_ROW(KILN_BF16, to, n, past, pixels_sum(type, rows, w, x, at, left));
    else
        STORED_ROW(KILN_F32, to, n, past, pixels_sum(type, rows, w, x, at, left));
}
INLINE void sum_pixels_of(const uint32_t type, void *to, uint32_t to_type, const float *w, const void *const *x,
                          size_t rows, size_t n, int past)
{
    if (rows == 4)
        sum_pixels_as(type, to, to_type, w, x, 4, n, past);
    else
        sum_pixels_as(type, to, to_type, w, x, rows, n, past);
}
static void sum_pixels(void *to, uint32_t to_type, const float *w, const void *const *x, size_t rows, uint32_t type,
                       size_t n, int past)
{
    switch (type) {
    case KILN_F32: sum_pixels_of(KILN_F32, to, to_type, w, x, rows, n, past); break;
    case KILN_BF16: sum_pixels_of(KILN_BF16, to, to_type, w, x, rows, n, past); break;
    default: sum_pixels_of(KILN_F16, to, to_type, w, x, rows, n, past); break;
    }
}
