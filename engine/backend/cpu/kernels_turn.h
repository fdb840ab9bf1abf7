/* kernels_turn.h - the part of kernels_template.h that turns rows into columns, with squares of a line's width in
 * registers, and what sorts many short rows side by side. Part of that file: included by it alone, once for each width
 * of vectors.
 */

#if LANES == 16
#define WORDS_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29)
#define WORDS_HIGH(a, b) __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31)
#define PAIRS_LOW(a, b) __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29)
#define PAIRS_HIGH(a, b) __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31)
#define FOURS_EVEN(a, b) __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27)
#define FOURS_ODD(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31)

/* 16 rows of 16 words become their columns. */
INLINE void turn_square_of(vu r[16])
{
    vu a[16], b[16];
    UNROLL_ALL for (int i = 0; i < 16; i += 2) a[i] = WORDS_LOW(r[i], r[i + 1]), a[i + 1] = WORDS_HIGH(r[i], r[i + 1]);
    UNROLL_ALL for (int i = 0; i < 16; i += 4) /* columns 4q + 0, 1, 2, 3 of four rows, by quarters q */
    {
        b[i] = PAIRS_LOW(a[i], a[i + 2]), b[i + 1] = PAIRS_HIGH(a[i], a[i + 2]);
        b[i + 2] = PAIRS_LOW(a[i + 1], a[i + 3]), b[i + 3] = PAIRS_HIGH(a[i + 1], a[i + 3]);
    }
    UNROLL_ALL for (int k = 0; k < 4; k++)
    {
        vu e = FOURS_EVEN(b[k], b[k + 4]), o = FOURS_ODD(b[k], b[k + 4]);
        vu f = FOURS_EVEN(b[k + 8], b[k + 12]), p = FOURS_ODD(b[k + 8], b[k + 12]);
        r[k] = FOURS_EVEN(e, f), r[k + 8] = FOURS_ODD(e, f);
        r[k + 4] = FOURS_EVEN(o, p), r[k + 12] = FOURS_ODD(o, p);
    }
}
INLINE void turn_floats(float *dst, size_t ldd, const float *src, size_t lds, int past)
{
    vu r[16];
    UNROLL_ALL for (size_t i = 0; i < 16; i++) r[i] = words_at(src + i * lds);
    turn_square_of(r);
    UNROLL_ALL for (size_t i = 0; i < 16; i++) put_line(dst + i * ldd, r[i], past);
}
/* 32 rows of 32 halves: words of two columns, then the halves of two rows of those. */
INLINE void turn_halves(uint16_t *dst, size_t ldd, const uint16_t *src, size_t lds, int past)
{
    vu a[16], b[16];
    const vu low = {0xffffu, 0xffffu, 0xffffu, 0xffffu, 0xffffu, 0xffffu, 0xffffu, 0xffffu,
                    0xffffu, 0xffffu, 0xffffu, 0xffffu, 0xffffu, 0xffffu, 0xffffu, 0xffffu};
    UNROLL_ALL for (size_t i = 0; i < 16; i++) a[i] = words_at(src + 2 * i * lds);
    turn_square_of(a);
    UNROLL_ALL for (size_t i = 0; i < 16; i++) b[i] = words_at(src + (2 * i + 1) * lds);
    turn_square_of(b);
    UNROLL_ALL for (size_t i = 0; i < 16; i++)
    {
        put_line(dst + 2 * i * ldd, (a[i] & low) | b[i] << 16, past);
        put_line(dst + (2 * i + 1) * ldd, a[i] >> 16 | (b[i] & ~low), past);
    }
}
#endif

#if LANES == 16
enum { STRIP = 128, WIDE = 64 }; /* rows and columns of halves that are turned before they are stored, as long runs */

/* Whole squares of a block; as many at `next` are fetched meanwhile. */
INLINE void turn_strip(const size_t size, char *dst, size_t ldd, const char *src, const char *next, size_t lds,
                       size_t rows, size_t columns)
{
    uint16_t room[STRIP * WIDE] __attribute__((aligned(CACHE_LINE)));
    const size_t side = CACHE_LINE / size, run = rows * size;
    for (size_t r = 0; r < rows; r += side)
        for (size_t c = 0; c < columns; c += side) {
            char *to = (char *)room + (c * rows + r) * size;
            const char *from = src + (r * lds + c) * size;
            if (size == 2)
                turn_halves((uint16_t *)(void *)to, rows, (const uint16_t *)(const void *)from, lds, 0);
            else
                turn_floats((float *)(void *)to, rows, (const float *)(const void *)from, lds, 0);
        }
    for (size_t c = 0; c < columns; c++) {
        for (size_t r = c * rows / columns; r < (c + 1) * rows / columns; r++)
            for (size_t b = 0; b < columns * size; b += CACHE_LINE)
                __builtin_prefetch(next + r * lds * size + b, 0, SECOND_LEVEL);
        for (size_t b = 0; b < run; b += CACHE_LINE)
            put_line(dst + c * ldd * size + b, words_at((char *)room + c * run + b), 1);
    }
}

/* Whole squares, rows x columns, past the caches. */
INLINE void turn_past(const size_t size, char *dst, size_t ldd, const char *src, size_t lds, size_t rows,
                      size_t columns)
{
    const size_t strip = STRIP * 2 / size, wide = WIDE * 2 / size;
    for (size_t r = 0; r < rows; r += strip)
        for (size_t c = 0; c < columns; c += wide) {
            const char *next = src + (c + wide < columns ? r * lds + c + wide : (r + strip) * lds) * size;
            turn_strip(size, dst + (c * ldd + r) * size, ldd, src + (r * lds + c) * size, next, lds,
                       rows - r < strip ? rows - r : strip, columns - c < wide ? columns - c : wide);
        }
}
#endif

/* What whole squares of the widest kind leave is turned by smaller ones. */
static void transpose_all(float *dst, size_t ldd, const float *src, size_t lds, size_t rows, size_t columns, int past)
{
    size_t whole_rows = 0, whole_columns = 0;
#if LANES == 16
    whole_rows = rows / 16 * 16, whole_columns = columns / 16 * 16;
    past = past && to_line(dst) == 0 && ldd % 16 == 0;
    if (past) turn_past(4, (char *)dst, ldd, (const char *)src, lds, whole_rows, whole_columns);
    for (size_t r = 0; r < whole_rows && !past; r += 16)
        for (size_t c = 0; c < whole_columns; c += 16) turn_floats(dst + c * ldd + r, ldd, src + r * lds + c, lds, 0);
#endif
    (void)past;
    if (whole_rows < rows)
        transpose_fours(dst + whole_rows, ldd, src + whole_rows * lds, lds, rows - whole_rows, columns);
    if (whole_columns < columns && whole_rows)
        transpose_fours(dst + whole_columns * ldd, ldd, src + whole_columns, lds, whole_rows, columns - whole_columns);
}
static void transpose_half_all(uint16_t *dst, size_t ldd, const uint16_t *src, size_t lds, size_t rows, size_t columns,
                               int past)
{
    size_t whole_rows = 0, whole_columns = 0;
#if LANES == 16
    whole_rows = rows / 32 * 32, whole_columns = columns / 32 * 32;
    past = past && to_line(dst) == 0 && ldd % 32 == 0;
    if (past) turn_past(2, (char *)dst, ldd, (const char *)src, lds, whole_rows, whole_columns);
    for (size_t r = 0; r < whole_rows && !past; r += 32)
        for (size_t c = 0; c < whole_columns; c += 32) turn_halves(dst + c * ldd + r, ldd, src + r * lds + c, lds, 0);
#endif
    (void)past;
    if (whole_rows < rows)
        transpose_eights(dst + whole_rows, ldd, src + whole_rows * lds, lds, rows - whole_rows, columns);
    if (whole_columns < columns && whole_rows)
        transpose_eights(dst + whole_columns * ldd, ldd, src + whole_columns, lds, whole_rows, columns - whole_columns);
}
static void transpose(float *dst, size_t ldd, const float *src, size_t lds, size_t rows, size_t columns)
{
    transpose_all(dst, ldd, src, lds, rows, columns, 0);
}
static void transpose_half(uint16_t *dst, size_t ldd, const uint16_t *src, size_t lds, size_t rows, size_t columns)
{
    transpose_half_all(dst, ldd, src, lds, rows, columns, 0);
}
static void transpose_past(float *dst, size_t ldd, const float *src, size_t lds, size_t rows, size_t columns)
{
    transpose_all(dst, ldd, src, lds, rows, columns, 1);
}
static void transpose_half_past(uint16_t *dst, size_t ldd, const uint16_t *src, size_t lds, size_t rows, size_t columns)
{
    transpose_half_all(dst, ldd, src, lds, rows, columns, 1);
}

/* ---- the 8 first of many short rows ---- */

/* Keys of bf16 (in the upper halves) with their places below, greatest first: what order_keys() makes of them. */
INLINE vu place_keys(vu bits, uint32_t flip, uint32_t place)
{
    vf v = (vf)bits + splat(0); /* -0 becomes 0 */
    vu k = (vu)v ^ ((0u - ((vu)v >> 31)) | 0x80000000u);
    k = ((vu)visnan(v) | k) ^ flip;
    return (k & 0xffff0000u) | (0xffffu - place);
}
INLINE vu umost(vu a, vu b)
{
#if LANES == 16
    return (vu)_mm512_max_epu32((__m512i)a, (__m512i)b);
#else
    vu more = (vu)(a > b);
    return (a & more) | (b & ~more);
#endif
}
INLINE vu uleast(vu a, vu b)
{
#if LANES == 16
    return (vu)_mm512_min_epu32((__m512i)a, (__m512i)b);
#else
    vu more = (vu)(a > b);
    return (b & more) | (a & ~more);
#endif
}
INLINE void exchange(vu v[8], int i, int k)
{
    vu high = umost(v[i], v[k]);
    v[k] = uleast(v[i], v[k]), v[i] = high;
}
/* Batcher's odd-even merge sort, and the merge of a sequence that first falls and then rises. */
INLINE void sort_eight(vu v[8])
{
    exchange(v, 0, 1), exchange(v, 2, 3), exchange(v, 4, 5), exchange(v, 6, 7);
    exchange(v, 0, 2), exchange(v, 1, 3), exchange(v, 4, 6), exchange(v, 5, 7);
    exchange(v, 1, 2), exchange(v, 5, 6);
    exchange(v, 0, 4), exchange(v, 1, 5), exchange(v, 2, 6), exchange(v, 3, 7);
    exchange(v, 2, 4), exchange(v, 3, 5);
    exchange(v, 1, 2), exchange(v, 3, 4), exchange(v, 5, 6);
}
INLINE void merge_eight(vu best[8], const vu with[8])
{
    UNROLL for (int i = 0; i < 8; i++) best[i] = umost(best[i], with[7 - i]);
    exchange(best, 0, 4), exchange(best, 1, 5), exchange(best, 2, 6), exchange(best, 3, 7);
    exchange(best, 0, 2), exchange(best, 1, 3), exchange(best, 4, 6), exchange(best, 5, 7);
    exchange(best, 0, 1), exchange(best, 2, 3), exchange(best, 4, 5), exchange(best, 6, 7);
}

static void top_eight(uint16_t *place, const uint16_t *x, size_t ld, size_t columns, uint32_t flip)
{
    for (size_t first = 0; first < 16; first += LANES) {
        vu best[8] = {{0}};
        for (size_t c = 0; c < columns; c += 32) {
            uint32_t words[16][LANES]; /* words of two columns */
            size_t n = columns - c < 32 ? columns - c : 32;
#if LANES == 16
            vu r[16];
            if (n == 32) {
                UNROLL_ALL for (size_t i = 0; i < 16; i++) r[i] = words_at(x + i * ld + c);
                turn_square_of(r);
                UNROLL_ALL for (size_t i = 0; i < 16; i++) memcpy(words[i], &r[i], sizeof r[i]);
            }
#else
            if (n == 32)
                for (size_t i = 0; i < LANES; i++)
                    for (size_t k = 0; k < 16; k++) memcpy(&words[k][i], x + (first + i) * ld + c + 2 * k, 4);
#endif
            for (size_t i = 0; n < 32 && i < LANES; i++)
                for (size_t k = 0; k < 16; k++) {
                    uint32_t low = 2 * k < n ? x[(first + i) * ld + c + 2 * k] : 0;
                    words[k][i] = low | (2 * k + 1 < n ? (uint32_t)x[(first + i) * ld + c + 2 * k + 1] << 16 : 0);
                }
            for (size_t k = 0; k < 32; k += 8) {
                vu own[8];
                UNROLL for (size_t i = 0; i < 8; i += 2)
                {
                    vu w;
                    memcpy(&w, words[(k + i) / 2], sizeof w);
                    own[i] = place_keys(w << 16, flip, (uint32_t)(c + k + i));
                    own[i + 1] = place_keys(w & 0xffff0000u, flip, (uint32_t)(c + k + i + 1));
                }
                for (size_t i = 0; i < 8; i++)
                    if (k + i >= n) own[i] = (vu){0};
                sort_eight(own);
                merge_eight(best, own);
            }
        }
        for (size_t i = 0; i < 8; i++)
            for (size_t r = 0; r < LANES; r++)
                place[(first + r) * 8 + i] = (uint16_t)(0xffffu - (best[i][r] & 0xffffu));
    }
}

/* ---- the same of f32, whose keys and places are words of 64 bits: of even rows, and of odd ones ---- */

typedef uint64_t vw __attribute__((vector_size(LANES * 4)));
INLINE vw wmost(vw a, vw b)
{
#if LANES == 16
    return (vw)_mm512_max_epu64((__m512i)a, (__m512i)b);
#else
    vw more = (vw)(a > b);
    return (a & more) | (b & ~more);
#endif
}
INLINE vw wleast(vw a, vw b)
{
#if LANES == 16
    return (vw)_mm512_min_epu64((__m512i)a, (__m512i)b);
#else
    vw more = (vw)(a > b);
    return (b & more) | (a & ~more);
#endif
}
INLINE void wide_exchange(vw v[8], int i, int k)
{
    vw high = wmost(v[i], v[k]);
    v[k] = wleast(v[i], v[k]), v[i] = high;
}
/* Pairs of sort_eight() and merge_eight(). */
INLINE void wide_sort_eight(vw v[8])
{
    static const uint8_t pairs[19][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {0, 2}, {1, 3}, {4, 6}, {5, 7}, {1, 2}, {5, 6},
                                         {0, 4}, {1, 5}, {2, 6}, {3, 7}, {2, 4}, {3, 5}, {1, 2}, {3, 4}, {5, 6}};
    _Pragma("GCC unroll 19") for (int p = 0; p < 19; p++) wide_exchange(v, pairs[p][0], pairs[p][1]);
}
INLINE void wide_merge_eight(vw best[8], const vw with[8])
{
    UNROLL for (int i = 0; i < 8; i++) best[i] = wmost(best[i], with[7 - i]);
    UNROLL for (int i = 0; i < 4; i++) wide_exchange(best, i, i + 4);
    UNROLL for (int i = 0; i < 8; i += i % 2 ? 3 : 1) wide_exchange(best, i, i + 2);
    UNROLL for (int i = 0; i < 8; i += 2) wide_exchange(best, i, i + 1);
}
/* Eight columns of LANES rows. */
INLINE void wide_columns(vu column[8], const float *x, size_t ld, size_t n)
{
    uint32_t words[8][LANES] = {{0}};
    for (size_t r = 0; r < LANES; r++)
        for (size_t k = 0; k < n; k++) memcpy(&words[k][r], x + r * ld + k, 4);
    for (size_t k = 0; k < 8; k++) memcpy(&column[k], words[k], sizeof words[k]);
}
INLINE void wide_merge_columns(vw best[2][8], const vu column[8], uint32_t flip, size_t first, size_t n)
{
    const vw zero = {0};
    vw own[2][8];
    UNROLL for (size_t i = 0; i < 8; i++)
    {
        vf v = (vf)column[i] + splat(0); /* -0 becomes 0 */
        vu k = (vu)v ^ ((0u - ((vu)v >> 31)) | 0x80000000u);
        vw place = zero + (uint64_t)(0xffffffffu - (uint32_t)(first + i));
        k = ((vu)visnan(v) | k) ^ flip;
        own[0][i] = i < n ? (vw)k << 32 | place : zero;
        own[1][i] = i < n ? ((vw)k & ~(uint64_t)0xffffffffu) | place : zero;
    }
    UNROLL for (int h = 0; h < 2; h++) wide_sort_eight(own[h]), wide_merge_eight(best[h], own[h]);
}
static void top_eight_wide(uint16_t *place, const float *x, size_t ld, size_t columns, uint32_t flip)
{
    for (size_t first = 0; first < 16; first += LANES, x += LANES * ld) {
        vw best[2][8] = {{{0}}};
        size_t c = 0;
#if LANES == 16
        for (; c + 16 <= columns; c += 16) {
            vu r[16];
            UNROLL_ALL for (size_t i = 0; i < 16; i++) r[i] = words_at(x + i * ld + c);
            turn_square_of(r);
            wide_merge_columns(best, r, flip, c, 8), wide_merge_columns(best, r + 8, flip, c + 8, 8);
        }
#endif
        for (; c < columns; c += 8) {
            vu own[8];
            size_t n = columns - c < 8 ? columns - c : 8;
            wide_columns(own, x + c, ld, n);
            wide_merge_columns(best, own, flip, c, n);
        }
        for (size_t i = 0; i < 8; i++)
            for (size_t r = 0; r < LANES; r++)
                place[(first + r) * 8 + i] = (uint16_t)(0xffffffffu - (uint32_t)best[r % 2][i][r / 2]);
    }
}
