/* kernels_attention.h - a few queries against many keys, rows of keys and values as they are stored; part of
 * kernels_template.h.
 *
 * A line is 2 LANES numbers. Of bf16 it is split by a shift and a mask into its even and its odd numbers, so queries
 * and sums are "arranged": in that order, filled up with zeros to whole lines. Rows that one query a head reads are
 * read from their beginning to their end, which the processor fetches ahead by itself. Of several queries, sets of rows
 * are read side by side, so that sums stay in registers; what is a set ahead is fetched into the second-level cache
 * (into the first one takes 1.7 times as long on Zen 4).
 */

#if LANES == 16
enum { PAIR = 2 * LANES, KEYS_AT_ONCE = ATTEND_KEY_SET, QUERIES_AT_ONCE = 4 };
#else
enum { PAIR = 2 * LANES, KEYS_AT_ONCE = ATTEND_KEY_SET, QUERIES_AT_ONCE = 2 };
#endif

typedef struct {
    vf first, second;
} line_of;

INLINE line_of line_bf16(vu words) { return (line_of){(vf)(words << 16), (vf)(words & 0xffff0000u)}; }

/* Numbers [i, i + PAIR) of a row, `left` of them or all. */
INLINE line_of get_line(const uint32_t type, const void *p, size_t i, size_t left)
{
    if (type == KILN_F32) {
        const float *x = (const float *)p + i;
        vf none = {0};
        return (line_of){get_any(x, left), left > LANES ? get_any(x + LANES, left - LANES) : none};
    }
    uint16_t part[PAIR] = {0};
    const uint16_t *half = (const uint16_t *)p + i;
    if (left < PAIR) {
        for (size_t k = 0; k < left; k++) part[k] = half[k];
        half = part;
    }
    if (type == KILN_F16) return (line_of){widen_f16(half), widen_f16(half + LANES)};
    vu words;
    memcpy(&words, half, sizeof words);
    return line_bf16(words);
}

INLINE line_of whole_line(const uint32_t type, const void *p, size_t i)
{
    const float *x = (const float *)p + i;
    const uint16_t *half = (const uint16_t *)p + i;
    if (type == KILN_F32) return (line_of){get(x), get(x + LANES)};
    if (type == KILN_F16) return (line_of){widen_f16(half), widen_f16(half + LANES)};
    return line_bf16(words_at(half));
}

INLINE void fetch_line(const uint32_t type, const void *p, size_t i, size_t ahead)
{
    const char *at = (const char *)p + i * (type == KILN_F32 ? 4 : 2) + ahead;
    if (ahead) __builtin_prefetch(at, 0, SECOND_LEVEL);
    if (ahead && type == KILN_F32 && LANES == 16) __builtin_prefetch(at + 64, 0, SECOND_LEVEL);
}

static void arrange(float *to, const float *from, uint32_t type, size_t n)
{
    for (size_t i = 0; i < n; i += PAIR)
        for (size_t k = 0; k < PAIR; k++) {
            size_t at = i + (type == KILN_BF16 ? k % LANES * 2 + k / LANES : k);
            to[i + k] = at < n ? from[at] : 0;
        }
}
static void arrange_back(float *to, const float *from, uint32_t type, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t line = i / PAIR * PAIR, k = i % PAIR;
        to[i] = from[line + (type == KILN_BF16 ? k % 2 * LANES + k / 2 : k)];
    }
}

/* ---- scores ---- */

#if LANES == 16
/* to[g ldt + k] = the sum of the lanes of v[g][k] */
INLINE void sixteen_sums(float *to, size_t ldt, vf v[4][KEYS_AT_ONCE])
{
    __m512 t[4];
    UNROLL for (int g = 0; g < 4; g++)
    {
        vf a = ZIP_LOW(v[g][0], v[g][1]) + ZIP_HIGH(v[g][0], v[g][1]);
        vf b = ZIP_LOW(v[g][2], v[g][3]) + ZIP_HIGH(v[g][2], v[g][3]);
        t[g] = (__m512)(ZIP_LOW(a, b) + ZIP_HIGH(a, b)); /* 0 2 1 3 0 2 1 3 .. */
    }
    __m512 low = _mm512_add_ps(_mm512_shuffle_f32x4(t[0], t[1], 0x44), _mm512_shuffle_f32x4(t[0], t[1], 0xee));
    __m512 high = _mm512_add_ps(_mm512_shuffle_f32x4(t[2], t[3], 0x44), _mm512_shuffle_f32x4(t[2], t[3], 0xee));
    __m512 all = _mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd));
    all = _mm512_permute_ps(all, 0xd8);
    _mm_storeu_ps(to, _mm512_castps512_ps128(all));
    _mm_storeu_ps(to + ldt, _mm512_extractf32x4_ps(all, 1));
    _mm_storeu_ps(to + 2 * ldt, _mm512_extractf32x4_ps(all, 2));
    _mm_storeu_ps(to + 3 * ldt, _mm512_extractf32x4_ps(all, 3));
}
#endif
INLINE void sums_of_keys(const size_t m, float *to, size_t ldt, vf v[QUERIES_AT_ONCE][KEYS_AT_ONCE])
{
#if LANES == 16
    if (m == 4) {
        sixteen_sums(to, ldt, v);
        return;
    }
#endif
    UNROLL for (size_t g = 0; g < m; g++) four_sums(to + g * ldt, v[g]);
}

INLINE void key_line(const uint32_t type, const size_t m, vf sums[QUERIES_AT_ONCE][KEYS_AT_ONCE], const float *q,
                     size_t ldq, const void *const *k, size_t i, size_t left, const int whole, size_t ahead)
{
    line_of x[KEYS_AT_ONCE];
    UNROLL for (int r = 0; r < KEYS_AT_ONCE; r++)
    {
        x[r] = whole ? whole_line(type, k[r], i) : get_line(type, k[r], i, left);
        fetch_line(type, k[r], i, ahead);
    }
    UNROLL for (size_t g = 0; g < m; g++)
    {
        vf a = get(q + g * ldq + i), b = get(q + g * ldq + i + LANES);
        UNROLL for (int r = 0; r < KEYS_AT_ONCE; r++) sums[g][r] =
            VFMA(b, x[r].second, VFMA(a, x[r].first, sums[g][r]));
    }
}
INLINE void key_scores_as(const uint32_t type, const size_t m, float *to, size_t ldt, const float *q, size_t ldq,
                          const void *const *k, size_t n, size_t ahead)
{
    vf sums[QUERIES_AT_ONCE][KEYS_AT_ONCE] = {{{0}}};
    size_t i = 0;
    for (; i + PAIR <= n; i += PAIR) key_line(type, m, sums, q, ldq, k, i, n - i, 1, ahead);
    if (i < n) key_line(type, m, sums, q, ldq, k, i, n - i, 0, ahead);
    sums_of_keys(m, to, ldt, sums);
}

#ifdef __AVX512BF16__
INLINE __m512bh get_pairs(const uint16_t *p, size_t left, const int whole)
{
    if (whole || left >= PAIR) return (__m512bh)_mm512_loadu_si512(p);
    return (__m512bh)_mm512_maskz_loadu_epi16(((__mmask32)1 << left) - 1, p);
}
INLINE void key_pairs(const size_t m, vf sums[QUERIES_AT_ONCE][KEYS_AT_ONCE], const uint16_t *q, size_t ldq,
                      const void *const *k, size_t i, size_t left, const int whole, size_t ahead)
{
    __m512bh x[KEYS_AT_ONCE];
    UNROLL for (int r = 0; r < KEYS_AT_ONCE; r++)
    {
        x[r] = get_pairs((const uint16_t *)k[r] + i, left, whole);
        fetch_line(KILN_BF16, k[r], i, ahead);
    }
    UNROLL for (size_t g = 0; g < m; g++)
    {
        __m512bh a = (__m512bh)_mm512_loadu_si512(q + g * ldq + i);
        UNROLL for (int r = 0; r < KEYS_AT_ONCE; r++) sums[g][r] = (vf)_mm512_dpbf16_ps((__m512)sums[g][r], a, x[r]);
    }
}
INLINE void key_scores_pairs(const size_t m, float *to, size_t ldt, const uint16_t *q, size_t ldq, const void *const *k,
                             size_t n, size_t ahead)
{
    vf sums[QUERIES_AT_ONCE][KEYS_AT_ONCE] = {{{0}}};
    size_t i = 0;
    for (; i + PAIR <= n; i += PAIR) key_pairs(m, sums, q, ldq, k, i, n - i, 1, ahead);
    if (i < n) key_pairs(m, sums, q, ldq, k, i, n - i, 0, ahead);
    sums_of_keys(m, to, ldt, sums);
}
#endif

/* Queries some at a time; the first ones fetch what comes later. */
#define QUERY_BLOCKS(CALL)                                                                                             \
    do {                                                                                                               \
        size_t g = 0, distance = ahead;                                                                                \
        for (; g + QUERIES_AT_ONCE <= m; g += QUERIES_AT_ONCE, distance = 0) CALL(QUERIES_AT_ONCE);                    \
        for (; g + 2 <= m; g += 2, distance = 0) CALL(2);                                                              \
        for (; g < m; g++, distance = 0) CALL(1);                                                                      \
    } while (0)

INLINE void key_scores_of(const uint32_t type, float *to, size_t ldt, const float *q, size_t ldq, size_t m,
                          const void *const *k, size_t keys, size_t n, size_t ahead)
{
#define SCORES(queries) key_scores_as(type, queries, to + g * ldt + i, ldt, q + g * ldq, ldq, k + i, n, distance)
    for (size_t i = 0; i < keys; i += KEYS_AT_ONCE) QUERY_BLOCKS(SCORES);
}
static void key_scores(float *to, size_t ldt, const float *q, size_t ldq, size_t m, const void *const *k, size_t keys,
                       uint32_t type, size_t n, size_t ahead)
{
    switch (type) {
    case KILN_F32: key_scores_of(KILN_F32, to, ldt, q, ldq, m, k, keys, n, ahead); break;
    case KILN_BF16: key_scores_of(KILN_BF16, to, ldt, q, ldq, m, k, keys, n, ahead); break;
    default: key_scores_of(KILN_F16, to, ldt, q, ldq, m, k, keys, n, ahead); break;
    }
}

/* Four heads of a row, or one, each with one query. */
INLINE void key_row_as(const uint32_t type, const size_t heads, float *to, const float *q, size_t ldq, const char *k,
                       size_t n)
{
    vf sums[4] = {{0}};
    UNROLL for (size_t h = 0; h < heads; h++)
    {
        const float *own = q + h * ldq;
        for (size_t i = 0; i < n; i += PAIR) {
            line_of x = get_line(type, k + h * n * (type == KILN_F32 ? 4 : 2), i, n - i);
            sums[h] = VFMA(get(own + i + LANES), x.second, VFMA(get(own + i), x.first, sums[h]));
        }
    }
    if (heads == 4)
        four_sums(to, sums);
    else
        to[0] = lanes_sum(sums[0]);
}
INLINE void key_row_of(const uint32_t type, float *to, const float *q, size_t ldq, size_t heads, const char *k,
                       size_t n)
{
    size_t h = 0, bytes = n * (type == KILN_F32 ? 4 : 2);
    for (; h + 4 <= heads; h += 4) key_row_as(type, 4, to + h, q + h * ldq, ldq, k + h * bytes, n);
    for (; h < heads; h++) key_row_as(type, 1, to + h, q + h * ldq, ldq, k + h * bytes, n);
}
static void key_row(float *to, const float *q, size_t ldq, size_t heads, const void *k, uint32_t type, size_t n)
{
    switch (type) {
    case KILN_F32: key_row_of(KILN_F32, to, q, ldq, heads, k, n); break;
    case KILN_BF16: key_row_of(KILN_BF16, to, q, ldq, heads, k, n); break;
    default: key_row_of(KILN_F16, to, q, ldq, heads, k, n); break;
    }
}

#ifdef __AVX512BF16__
static void key_scores_bf16(float *to, size_t ldt, const uint16_t *q, size_t ldq, size_t m, const void *const *k,
                            size_t keys, size_t n, size_t ahead)
{
#define IN_PAIRS(queries) key_scores_pairs(queries, to + g * ldt + i, ldt, q + g * ldq, ldq, k + i, n, distance)
    for (size_t i = 0; i < keys; i += KEYS_AT_ONCE) QUERY_BLOCKS(IN_PAIRS);
}

INLINE void key_row_pairs(const size_t heads, float *to, const uint16_t *q, size_t ldq, const uint16_t *k, size_t n)
{
    vf sums[4] = {{0}};
    UNROLL for (size_t h = 0; h < heads; h++) for (size_t i = 0; i < n; i += PAIR) sums[h] = (vf)_mm512_dpbf16_ps(
        (__m512)sums[h], (__m512bh)_mm512_loadu_si512(q + h * ldq + i), get_pairs(k + h * n + i, n - i, 0));
    if (heads == 4)
        four_sums(to, sums);
    else
        to[0] = lanes_sum(sums[0]);
}
static void key_row_bf16(float *to, const uint16_t *q, size_t ldq, size_t heads, const void *k, size_t n)
{
    size_t h = 0;
    for (; h + 4 <= heads; h += 4) key_row_pairs(4, to + h, q + h * ldq, ldq, (const uint16_t *)k + h * n, n);
    for (; h < heads; h++) key_row_pairs(1, to + h, q + h * ldq, ldq, (const uint16_t *)k + h * n, n);
}
#endif

INLINE float most_lane(vf v) /* or NaN */
{
#if LANES > 8
    v = vmost(v, TURN(v, 8));
#endif
#if LANES > 4
    v = vmost(v, TURN(v, 4));
#endif
    v = vmost(v, TURN(v, 2));
    return vmost(v, TURN(v, 1))[0];
}
/* One step of an online softmax, base 2, of numbers side by side; see softmax(). */
static float softmax_keys(float *s, size_t keys, float factor, float *max, float *sum)
{
    vf top = splat(-INFINITY), total = {0};
    for (size_t i = 0; i < keys; i += LANES) {
        vf v = get(s + i) * splat(factor);
        put(s + i, v);
        top = vmost(top, v);
    }
    float most = most_lane(top);
    most = most > *max || isnan(most) ? most : *max;
    float before = *max, base = most == -INFINITY ? 0 : most;
    for (size_t i = 0; i < keys; i += LANES) {
        vf p = vexp2_low(get(s + i) - splat(base));
        total += p;
        put(s + i, p);
    }
    float scale = vexp2_low(splat(before - base))[0];
    *max = most;
    *sum = *sum * scale + lanes_sum(total);
    return most > before ? scale : 1;
}

/* ---- values ---- */

/* Numbers [i, i + lines PAIR) of the sums, `left` of them or all; `step` divides rows. */
INLINE void value_sums_as(const uint32_t type, const size_t step, const size_t m, const size_t lines, float *to,
                          size_t ld, const float *w, size_t ldw, const void *const *v, size_t rows, size_t i,
                          size_t left, const int whole, size_t ahead)
{
    vf a[QUERIES_AT_ONCE][2], b[QUERIES_AT_ONCE][2];
    UNROLL for (size_t g = 0; g < m; g++) UNROLL for (size_t l = 0; l < lines; l++)
    {
        const float *from = to + g * ld + i + l * PAIR;
        a[g][l] = get(from), b[g][l] = get(from + LANES);
    }
    for (size_t from = 0; from < rows; from += step) UNROLL for (size_t k = 0; k < step; k++)
        {
            const size_t r = from + k;
            line_of x[2];
            UNROLL for (size_t l = 0; l < lines; l++)
            {
                x[l] =
                    whole ? whole_line(type, v[r], i + l * PAIR) : get_line(type, v[r], i + l * PAIR, left - l * PAIR);
                fetch_line(type, v[r], i + l * PAIR, ahead);
            }
            UNROLL for (size_t g = 0; g < m; g++)
            {
                vf by = splat(w[g * ldw + r]);
                UNROLL for (size_t l = 0; l < lines; l++)
                {
                    a[g][l] = VFMA(by, x[l].first, a[g][l]);
                    b[g][l] = VFMA(by, x[l].second, b[g][l]);
                }
            }
        }
    UNROLL for (size_t g = 0; g < m; g++) UNROLL for (size_t l = 0; l < lines; l++)
    {
        float *at = to + g * ld + i + l * PAIR;
        put(at, a[g][l]), put(at + LANES, b[g][l]);
    }
}
INLINE void value_lines(const uint32_t type, const size_t lines, float *to, size_t ld, const float *w, size_t ldw,
                        size_t m, const void *const *v, size_t rows, size_t i, size_t left, const int whole,
                        size_t ahead)
{
#define SUMS(queries)                                                                                                  \
    value_sums_as(type, 4, queries, lines, to + g * ld, ld, w + g * ldw, ldw, v, rows, i, left, whole, distance)
    QUERY_BLOCKS(SUMS);
}
INLINE void value_sums_of(const uint32_t type, float *to, size_t ld, const float *w, size_t ldw, size_t m,
                          const void *const *v, size_t rows, size_t n, size_t ahead)
{
    size_t i = 0;
#if LANES == 16
    for (; i + 2 * PAIR <= n; i += 2 * PAIR) value_lines(type, 2, to, ld, w, ldw, m, v, rows, i, n - i, 1, ahead);
#endif
    for (; i < n; i += PAIR) value_lines(type, 1, to, ld, w, ldw, m, v, rows, i, n - i, 0, ahead);
}
static void value_sums(float *to, size_t ld, const float *w, size_t ldw, size_t m, const void *const *v, size_t rows,
                       uint32_t type, size_t n, size_t ahead)
{
    switch (type) {
    case KILN_F32: value_sums_of(KILN_F32, to, ld, w, ldw, m, v, rows, n, ahead); break;
    case KILN_BF16: value_sums_of(KILN_BF16, to, ld, w, ldw, m, v, rows, n, ahead); break;
    default: value_sums_of(KILN_F16, to, ld, w, ldw, m, v, rows, n, ahead); break;
    }
}

INLINE void value_row_of(const uint32_t type, float *to, size_t ld, const float *w, size_t ldw, size_t heads,
                         const char *v, size_t n)
{
    for (size_t h = 0; h < heads; h++) {
        const void *row = v + h * n * (type == KILN_F32 ? 4 : 2);
        for (size_t i = 0; i < n; i += PAIR)
            value_sums_as(type, 1, 1, 1, to + h * ld, ld, w + h * ldw, ldw, &row, 1, i, n - i, 0, 0);
    }
}
static void value_row(float *to, size_t ld, const float *w, size_t ldw, size_t heads, const void *v, uint32_t type,
                      size_t n)
{
    switch (type) {
    case KILN_F32: value_row_of(KILN_F32, to, ld, w, ldw, heads, v, n); break;
    case KILN_BF16: value_row_of(KILN_BF16, to, ld, w, ldw, heads, v, n); break;
    default: value_row_of(KILN_F16, to, ld, w, ldw, heads, v, n); break;
    }
}
