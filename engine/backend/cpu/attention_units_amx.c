/* attention_units_amx.c - attention_units.h by AMX, and AVX-512 with bf16 and VBMI between its products.
 *
 * By Cauchy and Schwarz no score is above the query's length times the greatest of keys'. Where that bound b is at most
 * 64 (in base 2) for 32 queries, a query's exponentials are 2^(score - max(0, b - 32)) for all keys: from 2^-96 to
 * 2^32, so that no greatest score has to be known, and sums are never rescaled. They come from a table as bf16, of 256
 * steps an octave: within 0.55 %, 0.18 % on average, where rounding alone is within 0.4 %, 0.16 % on average. Elsewhere
 * scores are taken from a running greatest one (attention_pairs.h).
 */
#include "backend/cpu/attention_units.h"

#include "backend/cpu/amx_tiles.h"
#include "backend/cpu/attention_exp2.h"

#include <math.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

enum { TILE_SIDE = 16, LINE = 64, MOST_BOUND = 64, ROOM = 32 };
enum { WIDE_HEAD = 128, GROUPS = 16, GROUPS_OF_WIDE = 4 };

unit_shape unit_shape_of(int64_t channels, int64_t value_channels)
{
    size_t width = ((size_t)value_channels + 15) / 16;
    return (unit_shape){.channels = (size_t)channels,
                        .value_channels = (size_t)value_channels,
                        .depth = ((size_t)channels + 31) / 32,
                        .width = width < 2 ? 2 : width,
                        .groups = channels > WIDE_HEAD || value_channels > WIDE_HEAD ? GROUPS_OF_WIDE : GROUPS};
}

static int has_ones(const unit_shape *s) { return s->value_channels < TILE_SIDE * s->width; }
/* The lowest n of 32 bits, for any n. */
INLINE __mmask32 lowest(int64_t n) { return n >= 32 ? UINT32_MAX : n <= 0 ? 0 : (1u << n) - 1; }

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

/* Which key of a group has place p among exponentials: as two vectors of 32 bits are packed to one of 16. */
INLINE size_t key_at(size_t p) { return p / 8 * 4 + p % 4 + (p & 4) * 4; }

INLINE __m512i half_words(const uint16_t *row, __mmask16 some)
{
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, row));
}

void units_pack_values(const unit_shape *s, uint16_t *to, const uint16_t *v, size_t ld, size_t n)
{
    const size_t free_column = s->value_channels % TILE_SIDE, free_tile = s->value_channels / TILE_SIDE;
    for (size_t p = 0; p < TILE_SIDE; p++) {
        size_t a = key_at(2 * p), b = key_at(2 * p + 1);
        const uint16_t *low = v + (a < n ? a : 0) * ld, *high = v + (b < n ? b : 0) * ld;
        for (size_t t = 0; t < s->width; t++) {
            __mmask16 some = (__mmask16)lowest((int64_t)(s->value_channels - TILE_SIDE * t));
            size_t at = some ? TILE_SIDE * t : 0;
            __m512i words = _mm512_or_si512(half_words(low + at, a < n ? some : 0),
                                            _mm512_slli_epi32(half_words(high + at, b < n ? some : 0), 16));
            if (t == free_tile)
                words = _mm512_mask_set1_epi32(words, (__mmask16)(1u << free_column),
                                               (a < n ? 0x3f80 : 0) | (b < n ? 0x3f800000 : 0));
            _mm512_store_si512(to + t * TILE_NUMBERS + p * 32, words);
        }
    }
}

void units_begin(const unit_shape *s, unit_rows *u, const uint16_t *q, size_t ld, size_t n, float square, float scale)
{
    u->far = 0;
    for (size_t r = 0; r < UNIT_ROWS; r++) {
        __m512 sum = _mm512_setzero_ps();
        uint16_t *to = u->queries + (r / TILE_SIDE * s->depth) * TILE_NUMBERS + r % TILE_SIDE * 32;
        for (size_t d = 0; d < s->depth; d++) {
            __mmask32 some = r < n ? lowest((int64_t)(s->channels - 32 * d)) : 0;
            __m512i x = _mm512_maskz_loadu_epi16(some, q + (r < n ? r : 0) * ld + 32 * d);
            sum = _mm512_dpbf16_ps(sum, (__m512bh)x, (__m512bh)x);
            _mm512_store_si512(to + d * TILE_NUMBERS, x);
        }
        float bound = sqrtf(_mm512_reduce_add_ps(sum) * square) * scale * 1.001f;
        u->far |= !(bound <= MOST_BOUND); /* NaN is */
        u->start[r] = (127 - (bound > ROOM ? bound - ROOM : 0)) * 256;
    }
    for (size_t r = 0; u->far && r < UNIT_ROWS; r++) u->start[r] = -INFINITY;
    if (!has_ones(s)) memset(u->totals, 0, UNIT_ROWS * TILE_SIDE * sizeof *u->totals);
}

/* ---- scores ---- */

/* 32 queries by one group. */
INLINE void scores_of(const size_t depth, const uint16_t *q, const uint16_t *k, float *s)
{
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
    for (size_t d = 0; d < depth; d++) {
        tile_load(4, q + d * TILE_NUMBERS, LINE);
        tile_load(6, k + 2 * d * TILE_NUMBERS, LINE);
        tile_dpbf16ps(0, 4, 6);
        tile_load(7, k + (2 * d + 1) * TILE_NUMBERS, LINE);
        tile_dpbf16ps(1, 4, 7);
        tile_load(5, q + (depth + d) * TILE_NUMBERS, LINE);
        tile_dpbf16ps(2, 5, 6);
        tile_dpbf16ps(3, 5, 7);
    }
    tile_store(0, s, LINE);
    tile_store(1, s + TILE_FLOATS, LINE);
    tile_store(2, s + 2 * TILE_FLOATS, LINE);
    tile_store(3, s + 3 * TILE_FLOATS, LINE);
}

/* The same of heads of up to 64, whose queries stay in tiles 4 to 7. */
INLINE void hold_queries(const uint16_t *q)
{
    tile_load(4, q, LINE);
    tile_load(5, q + TILE_NUMBERS, LINE);
    tile_load(6, q + 2 * TILE_NUMBERS, LINE);
    tile_load(7, q + 3 * TILE_NUMBERS, LINE);
}
INLINE void scores_of_held(const uint16_t *k, float *s)
{
    for (size_t half = 0; half < 2; half++, k += TILE_NUMBERS, s += TILE_FLOATS) {
        tile_zero(0);
        tile_zero(1);
        tile_load(2, k, LINE);
        tile_dpbf16ps(0, 4, 2);
        tile_dpbf16ps(1, 6, 2);
        tile_load(3, k + 2 * TILE_NUMBERS, LINE);
        tile_dpbf16ps(0, 5, 3);
        tile_dpbf16ps(1, 7, 3);
        tile_store(0, s, LINE);
        tile_store(1, s + 2 * TILE_FLOATS, LINE);
    }
}

/* ---- exponentials ---- */

/* m(i) = 128 (2^(i / 256) - 1), rounded, for i = 2k and 2k + 1: twice the first where the second is one more, and one
 * less where they are equal, so that the mean of it and i's last bit, rounded up, is m(i). m(1) comes out as 1. */
static const uint8_t mantissas[128] __attribute__((aligned(64))) = {
    0,   1,   2,   3,   5,   7,   8,   9,   11,  12,  13,  15,  17,  18,  19,  21,  23,  24,  25,  27,  29,  30,
    32,  33,  35,  37,  38,  40,  41,  43,  45,  46,  48,  49,  51,  53,  55,  56,  58,  60,  61,  63,  65,  67,
    68,  70,  72,  74,  75,  77,  79,  81,  83,  85,  86,  88,  90,  92,  94,  96,  98,  100, 102, 104, 106, 107,
    109, 111, 113, 115, 118, 120, 122, 124, 126, 128, 130, 132, 134, 136, 138, 140, 143, 145, 147, 149, 151, 154,
    156, 158, 160, 163, 165, 167, 170, 172, 174, 176, 179, 181, 184, 186, 188, 191, 193, 196, 198, 200, 203, 206,
    208, 210, 213, 216, 218, 221, 224, 226, 229, 231, 234, 236, 239, 242, 245, 248, 250, 253};

typedef struct {
    __m512 scale; /* 256 times that of scores */
    __m512i low, high;
} near_table;

/* A row of 32 scores that lie near enough; start: 256 (127 - what is taken from them). */
INLINE __m512i near_row(const near_table *t, const float *s, __m512 start)
{
    __m512 x = _mm512_fmadd_ps(_mm512_load_ps(s), t->scale, start);
    __m512 y = _mm512_fmadd_ps(_mm512_load_ps(s + TILE_FLOATS), t->scale, start);
    __m512i i = _mm512_packus_epi32(_mm512_cvtps_epi32(x), _mm512_cvtps_epi32(y));
    __m512i pair = _mm512_srli_epi16(i, 1), second = _mm512_and_si512(i, _mm512_set1_epi16(1));
    __m512i z = _mm512_avg_epu8(_mm512_maskz_permutex2var_epi8(0x5555555555555555u, t->low, pair, t->high), second);
    return _mm512_ternarylogic_epi32(z, pair, _mm512_set1_epi16(0x7f80), 0xf8); /* z | (pair & 0x7f80) */
}

/* Those of one group; `counted`: keys that count, of a sum that is made here. */
INLINE void near_group(const int summed, const near_table *t, const unit_rows *u, const float *s, uint16_t *p,
                       __mmask32 counted)
{
    const __m512bh ones = (__m512bh)_mm512_set1_epi16(0x3f80);
    for (size_t half = 0; half < 2; half++) UNROLL for (size_t r = 0; r < TILE_SIDE; r++)
        {
            size_t row = half * TILE_SIDE + r;
            __m512i z = near_row(t, s + 2 * half * TILE_FLOATS + r * 16, _mm512_set1_ps(u->start[row]));
            _mm512_store_si512(p + half * TILE_NUMBERS + r * 32, z);
            if (!summed) continue;
            float *total = u->totals + row * TILE_SIDE;
            __m512bh kept = (__m512bh)_mm512_maskz_mov_epi16(counted, z);
            _mm512_store_ps(total, _mm512_dpbf16_ps(_mm512_load_ps(total), kept, ones));
        }
}

/* Of n keys of a group: bits of two lines of 16 scores, and of their places among exponentials. */
static __mmask32 places_of(size_t n)
{
    __mmask32 m = 0;
    for (size_t p = 0; p < 32; p++) m |= (key_at(p) < n ? 1u : 0) << p;
    return m;
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
    float *total = f->rows->totals + row * TILE_SIDE;
    if (!has_ones(f->shape)) _mm512_store_ps(total, _mm512_mul_ps(factor, _mm512_load_ps(total)));
}

static void far_row(const far_unit *f, size_t row)
{
    const __m512i order = _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0); /* as packing orders 16 and 16 numbers */
    const __m512bh ones = (__m512bh)_mm512_set1_epi16(0x3f80);
    float *base = f->rows->start + row, *total = f->rows->totals + row * TILE_SIDE;
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
        __m512i z = _mm512_permutexvar_epi64(order, (__m512i)_mm512_cvtne2ps_pbh(b, a));
        z = _mm512_maskz_mov_epi16(places_of(keys_of(f, g)), z);
        _mm512_store_si512(f->scratch->weights + (2 * g + row / TILE_SIDE) * TILE_NUMBERS + row % TILE_SIDE * 32, z);
        if (!has_ones(f->shape)) _mm512_store_ps(total, _mm512_dpbf16_ps(_mm512_load_ps(total), (__m512bh)z, ones));
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
        tile_load(6, p, LINE);
        tile_load(7, v, LINE);
        tile_dpbf16ps(0, 6, 7);
        if (three) {
            tile_load(7, v + TILE_NUMBERS, LINE);
            tile_dpbf16ps(1, 6, 7);
            tile_load(7, v + 2 * TILE_NUMBERS, LINE);
            tile_dpbf16ps(4, 6, 7);
            tile_load(6, p + TILE_NUMBERS, LINE);
            tile_dpbf16ps(5, 6, 7);
            tile_load(7, v + TILE_NUMBERS, LINE);
            tile_dpbf16ps(3, 6, 7);
            tile_load(7, v, LINE);
            tile_dpbf16ps(2, 6, 7);
        } else {
            tile_load(5, v + TILE_NUMBERS, LINE);
            tile_dpbf16ps(1, 6, 5);
            tile_load(4, p + TILE_NUMBERS, LINE);
            tile_dpbf16ps(2, 4, 7);
            tile_dpbf16ps(3, 4, 5);
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
        if (left == 3 || left > 4)
            sums_of(1, p, v + t * TILE_NUMBERS, sums + t * TILE_FLOATS, groups, width, first), t += 3;
        else
            sums_of(0, p, v + t * TILE_NUMBERS, sums + t * TILE_FLOATS, groups, width, first), t += 2;
    }
}

/* ---- a unit ---- */

/* Scores of a group are made in one of two places, while those of the group before become exponentials. */
INLINE void attend_near(const size_t depth, const size_t width, const int summed, const unit_rows *u,
                        const unit_scratch *w, const uint16_t *keys, const uint16_t *values, size_t groups, size_t last,
                        int first, float scale)
{
    const near_table t = {.scale = _mm512_set1_ps(scale * 256),
                          .low = _mm512_load_si512(mantissas),
                          .high = _mm512_load_si512(mantissas + 64)};
    if (depth == 2) hold_queries(u->queries);
    for (size_t g = 0; g <= groups; g++, keys += depth * 2 * TILE_NUMBERS) {
        float *s = w->scores + g % 2 * 4 * TILE_FLOATS;
        if (g < groups && depth == 2)
            scores_of_held(keys, s);
        else if (g < groups)
            scores_of(depth, u->queries, keys, s);
        if (g)
            near_group(summed, &t, u, w->scores + (g - 1) % 2 * 4 * TILE_FLOATS,
                       w->weights + (g - 1) * 2 * TILE_NUMBERS, g < groups ? UINT32_MAX : places_of(last));
    }
    add_values(width, w->weights, values, u->sums, groups, first);
}

static void attend_far(const far_unit *f, const uint16_t *keys, const uint16_t *values)
{
    const size_t depth = f->shape->depth;
    for (size_t g = 0; g < f->groups; g++)
        scores_of(depth, f->rows->queries, keys + g * depth * 2 * TILE_NUMBERS,
                  f->scratch->scores + g * 4 * TILE_FLOATS);
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
#define NEAR(depth, width, summed) attend_near(depth, width, summed, u, w, keys, values, groups, last, first, scale)
    if (s->depth == 2 && s->width == 3 && has_ones(s)) /* heads of 40 */
        NEAR(2, 3, 0);
    else if (s->depth == 2 && s->width == 4 && !has_ones(s)) /* of 64 */
        NEAR(2, 4, 1);
    else if (s->depth == 3 && s->width == 5 && !has_ones(s)) /* of 80 */
        NEAR(3, 5, 1);
    else if (has_ones(s))
        NEAR(s->depth, s->width, 0);
    else
        NEAR(s->depth, s->width, 1);
}

void units_end(const unit_shape *s, const unit_rows *u, uint16_t *out, size_t ld, size_t n)
{
    for (size_t row = 0; row < n; row++, out += ld) {
        const float *sums = u->sums + row / TILE_SIDE * s->width * TILE_FLOATS + row % TILE_SIDE * 16;
        const float *spare = sums + s->value_channels / TILE_SIDE * TILE_FLOATS + s->value_channels % TILE_SIDE;
        float total = has_ones(s) ? *spare : _mm512_reduce_add_ps(_mm512_load_ps(u->totals + row * TILE_SIDE));
        const __m512 part = _mm512_set1_ps(total > 0 ? 1 / total : 0);
        for (size_t t = 0; t * TILE_SIDE < s->value_channels; t++) {
            __m256i x = (__m256i)_mm512_cvtneps_pbh(_mm512_mul_ps(part, _mm512_load_ps(sums + t * TILE_FLOATS)));
            _mm256_mask_storeu_epi16(out + t * TILE_SIDE,
                                     (__mmask16)lowest((int64_t)(s->value_channels - TILE_SIDE * t)), x);
        }
    }
}
