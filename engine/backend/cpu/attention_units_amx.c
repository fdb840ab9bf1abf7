/* attention_units_amx.c - attention_units.h by AMX, and AVX-512 with bf16 and VBMI between its products.
 *
 * By Cauchy and Schwarz no score is above the query's length times the greatest of keys'. Where that bound b is at most
 * 64 (in base 2) for 32 queries, a query's exponentials are 2^(score - max(0, b - 32)) for all keys: from 2^-96 to
 * 2^32, so that no greatest score has to be known, and sums are never rescaled. They are made in integers as bf16, of
 * 256 steps an octave: within 0.59 %, 0.16 % on average, where rounding alone is within 0.39 %, 0.14 % on average.
 * Elsewhere scores are taken from a running greatest one (attention_pairs.h).
 *
 * While a product by tiles runs, its processor does other work if that stands close behind it in the program: some rows
 * of exponentials a product, of few instructions, since registers are renamed for some 200 at most, and of these few on
 * floats, since a product takes one of two units for them (5th generation Xeon, measured).
 */
#include "backend/cpu/attention_units.h"

#include "backend/cpu/amx_tiles.h"
#include "backend/cpu/attention_exp2.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum { TILE_SIDE = 16, LINE = 64, HALF_TILE = TILE_NUMBERS / 2, MOST_BOUND = 64, ROOM = 32 };
enum { WIDE_HEAD = 128, GROUPS = 16, GROUPS_OF_WIDE = 8 };

unit_shape unit_shape_of(int64_t channels, int64_t value_channels)
{
    size_t width = (size_t)value_channels / TILE_SIDE + 1;
    return (unit_shape){.channels = (size_t)channels,
                        .value_channels = (size_t)value_channels,
                        .depth = ((size_t)channels + 31) / 32,
                        .width = width < 2 ? 2 : width,
                        .groups = channels > WIDE_HEAD || value_channels > WIDE_HEAD ? GROUPS_OF_WIDE : GROUPS};
}

/* The lowest n of 32 bits, for any n. */
INLINE __mmask32 lowest(int64_t n) { return n >= 32 ? UINT32_MAX : n <= 0 ? 0 : (1u << n) - 1; }

/* A score x in base 2 becomes a whole number i = 256 (x + 127) - STEPS_LESS: adding TO_WHOLE rounds it into the lowest
 * bits of a float. Twice the bits of 2^x as bf16 are i + bends[i / 4 % 64], which is halved and rounded. With f the
 * fraction of x, a bend is STEPS_LESS + 256 (2^f - 1 - f), one for four steps: that of the least mean square of the
 * relative error. */
enum { STEPS_LESS = 24, TO_WHOLE = 3 << 22 };
static const uint8_t bends[64]
    __attribute__((aligned(64))) = {16, 15, 14, 13, 13, 11, 11, 10, 9,  8,  8,  7,  6,  6,  5,  5,  4,  4,  3,  3, 3, 2,
                                    2,  2,  2,  2,  2,  1,  1,  2,  2,  2,  2,  2,  2,  3,  3,  4,  4,  4,  5,  6, 6, 7,
                                    8,  8,  10, 10, 11, 12, 14, 14, 16, 17, 18, 20, 21, 22, 23, 22, 21, 19, 19, 17};

/* Half a tile of the next group, into the first cache. Of the last group that is behind what is packed: prefetching
 * reads nothing. */
INLINE void prefetch_half(const uint16_t *tile)
{
    UNROLL for (size_t i = 0; i < HALF_TILE; i += LINE / 2) _mm_prefetch((const char *)(tile + i), _MM_HINT_T0);
}

/* ---- packing ---- */

/* 16 rows of 16 words become their columns. */
INLINE void turn_words(__m512i r[16])
{
    __m512i a[16], b[16];
    UNROLL for (int i = 0; i < 16; i += 2)
    {
        a[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    UNROLL for (int i = 0; i < 16; i += 4) UNROLL for (int k = 0; k < 2; k++)
    {
        b[i + 2 * k] = _mm512_unpacklo_epi64(a[i + k], a[i + k + 2]);
        b[i + 2 * k + 1] = _mm512_unpackhi_epi64(a[i + k], a[i + k + 2]);
    }
    UNROLL for (int k = 0; k < 4; k++) /* b[4q + k]: column 4l + k, of quarter l, of rows 4q to 4q + 3 */
    {
        __m512i low = _mm512_shuffle_i32x4(b[k], b[k + 4], 0x88),
                high = _mm512_shuffle_i32x4(b[k + 8], b[k + 12], 0x88);
        __m512i odd = _mm512_shuffle_i32x4(b[k], b[k + 4], 0xdd),
                more = _mm512_shuffle_i32x4(b[k + 8], b[k + 12], 0xdd);
        r[k] = _mm512_shuffle_i32x4(low, high, 0x88), r[k + 8] = _mm512_shuffle_i32x4(low, high, 0xdd);
        r[k + 4] = _mm512_shuffle_i32x4(odd, more, 0x88), r[k + 12] = _mm512_shuffle_i32x4(odd, more, 0xdd);
    }
}

/* The greatest of numbers that are not negative, or NaN: bits have their order, and NaN's are the greatest. */
static float greatest_square(__m512i most)
{
    uint32_t bits = _mm512_reduce_max_epu32(most);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
INLINE __m512i magnitudes(__m512 x) { return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MAX)); }

float units_pack_keys(const unit_shape *s, uint16_t *to, const uint16_t *k, size_t ld, size_t n)
{
    __m512 squares[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (size_t d = 0; d < s->depth; d++) {
        __mmask32 some = lowest((int64_t)(s->channels - 32 * d));
        UNROLL for (size_t half = 0; half < 2; half++, to += TILE_NUMBERS)
        {
            __m512i r[16];
            UNROLL for (size_t i = 0; i < 16; i++)
            {
                size_t key = half * 16 + i;
                r[i] = _mm512_maskz_loadu_epi16(key < n ? some : 0, k + (key < n ? key : 0) * ld + 32 * d);
            }
            turn_words(r);
            UNROLL for (size_t i = 0; i < 16; i++)
            {
                squares[half] = _mm512_dpbf16_ps(squares[half], (__m512bh)r[i], (__m512bh)r[i]);
                _mm512_store_si512(to + i * 32, r[i]);
            }
        }
    }
    return greatest_square(_mm512_max_epu32(magnitudes(squares[0]), magnitudes(squares[1])));
}

/* Which key of a group has place p among exponentials: each of the first 16 stands beside one of the others. */
INLINE size_t key_at(size_t p) { return p / 2 + p % 2 * 16; }

INLINE __m512i half_words(const uint16_t *row, __mmask16 some)
{
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, row));
}

/* Pairs of tiles that values fill have their 32 channels by fours, in turns, as unpacking leaves them. */
INLINE size_t paired_tiles(const unit_shape *s) { return s->value_channels / 32 * 2; }

void units_pack_values(const unit_shape *s, uint16_t *to, const uint16_t *v, size_t ld, size_t n)
{
    const size_t free_column = s->value_channels % TILE_SIDE, free_tile = s->value_channels / TILE_SIDE;
    for (size_t p = 0; p < TILE_SIDE; p++, to += 32) {
        size_t a = key_at(2 * p), b = key_at(2 * p + 1), t = 0;
        const uint16_t *low = v + (a < n ? a : 0) * ld, *high = v + (b < n ? b : 0) * ld;
        for (; t < paired_tiles(s); t += 2) {
            __m512i x = _mm512_maskz_loadu_epi16(a < n ? UINT32_MAX : 0, low + TILE_SIDE * t);
            __m512i y = _mm512_maskz_loadu_epi16(b < n ? UINT32_MAX : 0, high + TILE_SIDE * t);
            _mm512_store_si512(to + t * TILE_NUMBERS, _mm512_unpacklo_epi16(x, y));
            _mm512_store_si512(to + (t + 1) * TILE_NUMBERS, _mm512_unpackhi_epi16(x, y));
        }
        for (; t < s->width; t++) {
            __mmask16 some = (__mmask16)lowest((int64_t)(s->value_channels - TILE_SIDE * t));
            size_t at = some ? TILE_SIDE * t : 0;
            __m512i words = _mm512_or_si512(half_words(low + at, a < n ? some : 0),
                                            _mm512_slli_epi32(half_words(high + at, b < n ? some : 0), 16));
            if (t == free_tile)
                words = _mm512_mask_set1_epi32(words, (__mmask16)(1u << free_column),
                                               (a < n ? 0x3f80 : 0) | (b < n ? 0x3f800000 : 0));
            _mm512_store_si512(to + t * TILE_NUMBERS, words);
        }
    }
}

/* 16 rows of queries become tiles; the squares of their lengths. */
INLINE __m512 pack_queries(const unit_shape *s, uint16_t *to, const uint16_t *q, size_t ld, size_t n)
{
    __m512i squares[TILE_SIDE];
    __m512 sum = _mm512_setzero_ps();
    for (size_t r = 0; r < TILE_SIDE; r++, to += 32) {
        __m512 row = _mm512_setzero_ps();
        for (size_t d = 0; d < s->depth; d++) {
            __mmask32 some = r < n ? lowest((int64_t)(s->channels - 32 * d)) : 0;
            __m512i x = _mm512_maskz_loadu_epi16(some, q + (r < n ? r : 0) * ld + 32 * d);
            row = _mm512_dpbf16_ps(row, (__m512bh)x, (__m512bh)x);
            _mm512_store_si512(to + d * TILE_NUMBERS, x);
        }
        squares[r] = _mm512_castps_si512(row);
    }
    turn_words(squares);
    UNROLL for (size_t r = 0; r < TILE_SIDE; r++) sum = _mm512_add_ps(sum, _mm512_castsi512_ps(squares[r]));
    return sum;
}

void units_begin(const unit_shape *s, unit_rows *u, const uint16_t *q, size_t ld, size_t n, float square, float scale)
{
    const __m512 room = _mm512_set1_ps(ROOM), zero = _mm512_setzero_ps();
    __mmask16 far = 0;
    for (size_t first = 0; first < UNIT_ROWS; first += TILE_SIDE) {
        size_t from = first < n ? first : 0;
        __m512 squares = pack_queries(s, u->queries + first / TILE_SIDE * s->depth * TILE_NUMBERS, q + from * ld, ld,
                                      n > first ? n - first : 0);
        __m512 bound = _mm512_mul_ps(_mm512_sqrt_ps(_mm512_mul_ps(squares, _mm512_set1_ps(square))),
                                     _mm512_set1_ps(scale * 1.001f));
        far |= _mm512_cmp_ps_mask(bound, _mm512_set1_ps(MOST_BOUND), _CMP_NLE_UQ); /* NaN is */
        __m512 taken = _mm512_max_ps(_mm512_sub_ps(bound, room), zero);
        __m512 start = _mm512_fnmadd_ps(taken, _mm512_set1_ps(256), _mm512_set1_ps(127 * 256 - STEPS_LESS));
        _mm512_store_ps(u->start + first, _mm512_add_ps(start, _mm512_set1_ps(TO_WHOLE)));
    }
    u->far = far != 0;
    for (size_t r = 0; u->far && r < UNIT_ROWS; r++) u->start[r] = -INFINITY;
}

/* ---- exponentials ---- */

/* Scores of 32 queries by a group, which lie near enough, and what becomes of them. */
typedef struct {
    __m512 scale; /* 256 times that of scores */
    __m512i bends, low_as_high, by_2;
    const float *start;
    const float *scores;
    uint16_t *weights;
} near_group;

INLINE near_group near_group_of(const unit_rows *u, uint16_t *weights, float scale)
{
    return (near_group){.scale = _mm512_set1_ps(scale * 256),
                        .bends = _mm512_load_si512(bends),
                        .low_as_high = _mm512_set4_epi32(0x0d0c0000, 0x09080000, 0x05040000, 0x01000000),
                        .by_2 = _mm512_set1_epi64(0x0032002200120002),
                        .start = u->start,
                        .weights = weights};
}

/* Row by row: two lines of whole numbers, the second's in the upper halves of the first's, and bent. */
INLINE void near_rows(const near_group *g, size_t from, const size_t n)
{
    UNROLL for (size_t row = from; row < from + n; row++)
    {
        const float *s = g->scores + row / TILE_SIDE * 2 * TILE_FLOATS + row % TILE_SIDE * 16;
        __m512 start = _mm512_set1_ps(g->start[row]);
        __m512i x = _mm512_castps_si512(_mm512_fmadd_ps(_mm512_load_ps(s), g->scale, start));
        __m512i y = _mm512_castps_si512(_mm512_fmadd_ps(_mm512_load_ps(s + TILE_FLOATS), g->scale, start));
        __m512i i = _mm512_mask_shuffle_epi8(x, 0xccccccccccccccccu, y, g->low_as_high);
        __m512i fourths = _mm512_multishift_epi64_epi8(g->by_2, i);
        __m512i bend = _mm512_maskz_permutexvar_epi8(0x5555555555555555u, fourths, g->bends);
        _mm512_store_si512(g->weights + row * 32, _mm512_avg_epu16(i, bend));
    }
}

/* Beside a product: `each` rows from `row`, while there are so many. The next. */
INLINE size_t beside(const near_group *g, size_t row, const size_t each)
{
    if (!each || row + each > UNIT_ROWS) return row;
    near_rows(g, row, each);
    return row + each;
}

/* key_at() of all places. */
static const uint16_t places[32]
    __attribute__((aligned(64))) = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                    8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};

/* Of n keys of a group: bits of two lines of 16 scores, and of their places among exponentials. */
static __mmask32 places_of(size_t n)
{
    __mmask32 m = 0;
    for (size_t p = 0; p < 32; p++) m |= (key_at(p) < n ? 1u : 0) << p;
    return m;
}

/* ---- scores ---- */

/* 32 queries by one group, and exponentials of another beside it, if `each`. */
INLINE void scores_of(const size_t depth, const uint16_t *q, const uint16_t *k, float *s, const near_group *g,
                      const size_t each)
{
    size_t row = 0;
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    for (size_t d = 0; d < depth; d++) {
        const uint16_t *next = k + 2 * (depth + d) * TILE_NUMBERS;
        tile_load(4, q + d * TILE_NUMBERS, LINE);
        tile_load(6, k + 2 * d * TILE_NUMBERS, LINE);
        tile_dpbf16ps(0, 4, 6);
        prefetch_half(next);
        row = beside(g, row, each);
        tile_load(7, k + (2 * d + 1) * TILE_NUMBERS, LINE);
        tile_dpbf16ps(1, 4, 7);
        prefetch_half(next + HALF_TILE);
        row = beside(g, row, each);
        tile_load(5, q + (depth + d) * TILE_NUMBERS, LINE);
        tile_dpbf16ps(2, 5, 6);
        prefetch_half(next + 2 * HALF_TILE);
        row = beside(g, row, each);
        tile_dpbf16ps(3, 5, 7);
        prefetch_half(next + 3 * HALF_TILE);
        row = beside(g, row, each);
    }
    while (each && row < UNIT_ROWS) near_rows(g, row++, 1);
    tile_store(0, s, LINE);
    tile_store(1, s + TILE_FLOATS, LINE);
    tile_store(2, s + 2 * TILE_FLOATS, LINE);
    tile_store(3, s + 3 * TILE_FLOATS, LINE);
}

/* The same of heads of 33 to 64, whose queries stay in tiles 4 to 7. */
INLINE void hold_queries(const uint16_t *q)
{
    tile_load(4, q, LINE);
    tile_load(5, q + TILE_NUMBERS, LINE);
    tile_load(6, q + 2 * TILE_NUMBERS, LINE);
    tile_load(7, q + 3 * TILE_NUMBERS, LINE);
}
INLINE void scores_of_held(const uint16_t *k, float *s, const near_group *g, const size_t each)
{
    UNROLL for (size_t half = 0; half < 2; half++)
    {
        size_t row = half * TILE_SIDE;
        const uint16_t *next = k + (4 + 2 * half) * TILE_NUMBERS;
        tile_zero(0);
        tile_load(2, k + half * TILE_NUMBERS, LINE);
        tile_load(3, k + (half + 2) * TILE_NUMBERS, LINE);
        tile_dpbf16ps(0, 4, 2);
        prefetch_half(next);
        near_rows(g, row, each);
        tile_dpbf16ps(0, 5, 3);
        prefetch_half(next + HALF_TILE);
        near_rows(g, row + each, each);
        tile_store(0, s + half * TILE_FLOATS, LINE);
        tile_zero(1);
        tile_dpbf16ps(1, 6, 2);
        prefetch_half(next + 2 * HALF_TILE);
        near_rows(g, row + 2 * each, each);
        tile_dpbf16ps(1, 7, 3);
        prefetch_half(next + 3 * HALF_TILE);
        near_rows(g, row + 3 * each, each);
        tile_store(1, s + (half + 2) * TILE_FLOATS, LINE);
    }
}

INLINE void scores(const size_t depth, const unit_rows *u, const uint16_t *k, float *s, const near_group *g,
                   const size_t each)
{
    if (depth == 2)
        scores_of_held(k, s, g, each);
    else
        scores_of(depth, u->queries, k, s, g, each);
}

/* ---- exponentials of what lies far apart ---- */

typedef struct {
    const unit_shape *shape;
    const unit_rows *rows;
    const unit_scratch *scratch;
    size_t groups, last; /* of this unit, and keys of the last */
    float scale;
    int first;
} far_unit;

static size_t keys_of(const far_unit *f, size_t g) { return g + 1 < f->groups ? GROUP_KEYS : f->last; }
static float *scores_at(const far_unit *f, size_t row, size_t g)
{
    return f->scratch->scores + (g * 4 + row / TILE_SIDE * 2) * TILE_FLOATS + row % TILE_SIDE * 16;
}

static float far_greatest(const far_unit *f, size_t row)
{
    __m512 most = _mm512_set1_ps(-INFINITY);
    for (size_t g = 0; g < f->groups; g++) {
        const float *s = scores_at(f, row, g);
        __mmask32 some = lowest((int64_t)keys_of(f, g));
        most = _mm512_mask_max_ps(most, (__mmask16)some, most, _mm512_load_ps(s));
        most = _mm512_mask_max_ps(most, (__mmask16)(some >> 16), most, _mm512_load_ps(s + TILE_FLOATS));
    }
    return _mm512_reduce_max_ps(most) * f->scale;
}

static void rescale(const far_unit *f, size_t row, float by)
{
    const __m512 factor = _mm512_set1_ps(by);
    float *sums = f->rows->sums + row / TILE_SIDE * f->shape->width * TILE_FLOATS + row % TILE_SIDE * 16;
    for (size_t t = 0; t < f->shape->width && !f->first; t++)
        _mm512_store_ps(sums + t * TILE_FLOATS, _mm512_mul_ps(factor, _mm512_load_ps(sums + t * TILE_FLOATS)));
}

static void far_row(const far_unit *f, size_t row)
{
    const __m512i order = _mm512_load_si512(places);
    float *base = f->rows->start + row;
    float top = far_greatest(f, row);
    if (top > *base + 8) {
        float now = ceilf(top);
        rescale(f, row, exp2f(*base - now));
        *base = now;
    }
    const __m512 scale = _mm512_set1_ps(f->scale), least = _mm512_set1_ps(*base == -INFINITY ? 0 : *base);
    for (size_t g = 0; g < f->groups; g++) {
        const float *s = scores_at(f, row, g);
        __m512 a = exp2_cubic(_mm512_fmsub_ps(_mm512_load_ps(s), scale, least));
        __m512 b = exp2_cubic(_mm512_fmsub_ps(_mm512_load_ps(s + TILE_FLOATS), scale, least));
        __m512i z = _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(b, a));
        z = _mm512_maskz_mov_epi16(places_of(keys_of(f, g)), z);
        _mm512_store_si512(f->scratch->weights + (2 * g + row / TILE_SIDE) * TILE_NUMBERS + row % TILE_SIDE * 32, z);
    }
}

/* ---- values ---- */

/* Sums of 32 rows by two tiles of channels, or three, over a unit. */
INLINE void sums_of(const int three, const uint16_t *p, const uint16_t *v, float *sums, size_t groups, size_t width,
                    int first)
{
    float *below = sums + width * TILE_FLOATS;
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    if (three) {
        tile_zero(4);
        tile_zero(5);
    }
    if (!first) {
        tile_load(0, sums, LINE);
        tile_load(1, sums + TILE_FLOATS, LINE);
        tile_load(2, below, LINE);
        tile_load(3, below + TILE_FLOATS, LINE);
        if (three) {
            tile_load(4, sums + 2 * TILE_FLOATS, LINE);
            tile_load(5, below + 2 * TILE_FLOATS, LINE);
        }
    }
    for (size_t g = 0; g < groups; g++, p += 2 * TILE_NUMBERS, v += width * TILE_NUMBERS) {
        const uint16_t *next = v + width * TILE_NUMBERS;
        tile_load(6, p, LINE);
        tile_load(7, v, LINE);
        tile_dpbf16ps(0, 6, 7);
        prefetch_half(next);
        if (three) {
            tile_load(7, v + TILE_NUMBERS, LINE);
            tile_dpbf16ps(1, 6, 7);
            prefetch_half(next + HALF_TILE);
            tile_load(7, v + 2 * TILE_NUMBERS, LINE);
            tile_dpbf16ps(4, 6, 7);
            prefetch_half(next + 2 * HALF_TILE);
            tile_load(6, p + TILE_NUMBERS, LINE);
            tile_dpbf16ps(5, 6, 7);
            prefetch_half(next + 3 * HALF_TILE);
            tile_load(7, v + TILE_NUMBERS, LINE);
            tile_dpbf16ps(3, 6, 7);
            prefetch_half(next + 4 * HALF_TILE);
            tile_load(7, v, LINE);
            tile_dpbf16ps(2, 6, 7);
            prefetch_half(next + 5 * HALF_TILE);
        } else {
            tile_load(5, v + TILE_NUMBERS, LINE);
            tile_dpbf16ps(1, 6, 5);
            prefetch_half(next + HALF_TILE);
            tile_load(4, p + TILE_NUMBERS, LINE);
            tile_dpbf16ps(2, 4, 7);
            prefetch_half(next + 2 * HALF_TILE);
            tile_dpbf16ps(3, 4, 5);
            prefetch_half(next + 3 * HALF_TILE);
        }
    }
    tile_store(0, sums, LINE);
    tile_store(1, sums + TILE_FLOATS, LINE);
    tile_store(2, below, LINE);
    tile_store(3, below + TILE_FLOATS, LINE);
    if (three) {
        tile_store(4, sums + 2 * TILE_FLOATS, LINE);
        tile_store(5, below + 2 * TILE_FLOATS, LINE);
    }
}

INLINE void add_values(const size_t width, const uint16_t *p, const uint16_t *v, float *sums, size_t groups, int first)
{
    for (size_t t = 0; t < width;) {
        size_t left = width - t;
        if (left == 3 || (left > 4 && left % 2))
            sums_of(1, p, v + t * TILE_NUMBERS, sums + t * TILE_FLOATS, groups, width, first), t += 3;
        else
            sums_of(0, p, v + t * TILE_NUMBERS, sums + t * TILE_FLOATS, groups, width, first), t += 2;
    }
}

/* ---- a unit ---- */

/* Scores of a group are made in one of two places, while those of the group before become exponentials. */
INLINE void attend_near(const size_t depth, const size_t width, const size_t each, const unit_rows *u,
                        const unit_scratch *w, const uint16_t *keys, const uint16_t *values, size_t groups, int first,
                        float scale)
{
    near_group n = near_group_of(u, w->weights, scale);
    if (depth == 2) hold_queries(u->queries);
    n.scores = w->scores;
    scores(depth, u, keys, w->scores, &n, 0);
    for (size_t g = 1; g < groups; g++, n.weights += 2 * TILE_NUMBERS) {
        float *s = w->scores + g % 2 * 4 * TILE_FLOATS;
        scores(depth, u, keys + g * depth * 2 * TILE_NUMBERS, s, &n, each);
        n.scores = s;
    }
    near_rows(&n, 0, TILE_SIDE);
    near_rows(&n, TILE_SIDE, TILE_SIDE);
    add_values(width, w->weights, values, u->sums, groups, first);
}

static void attend_far(const far_unit *f, const uint16_t *keys, const uint16_t *values)
{
    const size_t depth = f->shape->depth;
    for (size_t g = 0; g < f->groups; g++)
        scores_of(depth, f->rows->queries, keys + g * depth * 2 * TILE_NUMBERS,
                  f->scratch->scores + g * 4 * TILE_FLOATS, NULL, 0);
    for (size_t row = 0; row < UNIT_ROWS; row++) far_row(f, row);
    add_values(f->shape->width, f->scratch->weights, values, f->rows->sums, f->groups, f->first);
}

void units_attend(const unit_shape *s, const unit_rows *u, const unit_scratch *w, const uint16_t *keys,
                  const uint16_t *values, size_t n, int first, float scale)
{
    size_t groups = (n + GROUP_KEYS - 1) / GROUP_KEYS, last = n - (groups - 1) * GROUP_KEYS;
    if (u->far) {
        far_unit f = {s, u, w, groups, last, scale, first};
        attend_far(&f, keys, values);
        return;
    }
#define NEAR(depth, width, each) attend_near(depth, width, each, u, w, keys, values, groups, first, scale)
    if (s->depth == 2 && s->width == 3) /* heads of 40 */
        NEAR(2, 3, 4);
    else if (s->depth == 2 && s->width == 5) /* of 64 */
        NEAR(2, 5, 4);
    else if (s->depth == 3 && s->width == 6) /* of 80 */
        NEAR(3, 6, 3);
    else if (s->depth == 1)
        NEAR(1, s->width, 8);
    else if (s->depth == 2)
        NEAR(2, s->width, 4);
    else
        NEAR(s->depth, s->width, 2);
}

void units_end(const unit_shape *s, const unit_rows *u, uint16_t *out, size_t ld, size_t n)
{
    const __m512i by_fours = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0);
    const size_t total_at = s->value_channels / TILE_SIDE * TILE_FLOATS + s->value_channels % TILE_SIDE;
    for (size_t row = 0; row < n; row++, out += ld) {
        const float *sums = u->sums + row / TILE_SIDE * s->width * TILE_FLOATS + row % TILE_SIDE * 16;
        float total = sums[total_at];
        const __m512 part = _mm512_set1_ps(total > 0 ? 1 / total : 0);
        size_t t = 0;
        for (; t < paired_tiles(s); t += 2) {
            __m512 a = _mm512_mul_ps(part, _mm512_load_ps(sums + t * TILE_FLOATS));
            __m512 b = _mm512_mul_ps(part, _mm512_load_ps(sums + (t + 1) * TILE_FLOATS));
            __m512i x = _mm512_permutexvar_epi64(by_fours, (__m512i)_mm512_cvtne2ps_pbh(b, a));
            _mm512_storeu_si512(out + t * TILE_SIDE, x);
        }
        for (; t * TILE_SIDE < s->value_channels; t++) {
            __m256i x = (__m256i)_mm512_cvtneps_pbh(_mm512_mul_ps(part, _mm512_load_ps(sums + t * TILE_FLOATS)));
            _mm256_mask_storeu_epi16(out + t * TILE_SIDE,
                                     (__mmask16)lowest((int64_t)(s->value_channels - TILE_SIDE * t)), x);
        }
    }
}
