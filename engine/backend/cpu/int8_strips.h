/* int8_strips.h - rows of the operand and strips of weights of int8_kernels.h, for vectors of LANES numbers of 32 bits;
 * included by files that are compiled for them, before their products.
 *
 * Codes are laid out LANES outputs side by side, four inputs of each, while they are still packed: words of LANES rows
 * are turned, and nibbles and high bits are split afterwards, which is the same work for all outputs of a register.
 * INT8_SIGNED: codes are q, not u = q + zero, for processors that multiply signed bytes by signed ones, and rows stand
 * by themselves (int8_tile_part). INT8_WIDE: there are no byte products, and rows may be int8_wide_part.
 */
#include "backend/cpu/int8_kernels.h"

#include "kiln/plugin.h"
#include "tensor/block_scales.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/int8_lanes.h"

/* ---- the operand ---- */

#if LANES == 16
/* n codes (whole quarters), and the sums of each 32; returns the scale. */
INLINE float round_part(int8_t codes[INT8_PART], int32_t sum[INT8_PIECES], const float *x, size_t n)
{
    const __m512 limit = _mm512_set1_ps(0x1.fffffep127f);
    __m512 all[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    __mmask16 bad = 0;
    for (size_t i = 0; i < n; i += 32) UNROLL for (size_t h = 0; h < 2; h++)
        {
            __m512 v = _mm512_abs_ps(_mm512_loadu_ps(x + i + 16 * h));
            bad |= _mm512_cmp_ps_mask(v, limit, _CMP_NLE_UQ);
            all[h] = _mm512_max_ps(all[h], v);
        }
    float largest = _mm512_reduce_max_ps(_mm512_max_ps(all[0], all[1]));
    float by = bad || largest < 0x1p-100f ? 0 : 127.0f / largest;
    __mmask16 keep = bad ? 0 : 0xffff;
    for (size_t i = 0; i < n; i += 32) {
        __m512i q[2];
        UNROLL for (size_t h = 0; h < 2; h++)
        {
            q[h] = _mm512_maskz_cvtps_epi32(keep, _mm512_mul_ps(_mm512_loadu_ps(x + i + 16 * h), _mm512_set1_ps(by)));
            _mm_storeu_si128((__m128i *)(void *)(codes + i + 16 * h), _mm512_cvtepi32_epi8(q[h]));
        }
        sum[i / 32] = _mm512_reduce_add_epi32(_mm512_add_epi32(q[0], q[1]));
    }
    return bad ? NAN : by == 0 ? 0 : largest / 127.0f;
}
#else
INLINE float largest_lane(__m256 x)
{
    __m128 a = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    a = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(a, _mm_movehdup_ps(a)));
}
INLINE int32_t sum_of_lanes(__m256i x)
{
    __m128i a = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    a = _mm_add_epi32(a, _mm_shuffle_epi32(a, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(a, _mm_shuffle_epi32(a, 0xb1)));
}
/* n codes (whole quarters), and the sums of each 32; returns the scale. */
INLINE float round_part(int8_t codes[INT8_PART], int32_t sum[INT8_PIECES], const float *x, size_t n)
{
    const __m256 limit = _mm256_set1_ps(0x1.fffffep127f);
    __m256 all = _mm256_setzero_ps(), bad = _mm256_setzero_ps();
    for (size_t i = 0; i < n; i += 8) {
        __m256 v = magnitude(_mm256_loadu_ps(x + i));
        bad = _mm256_or_ps(bad, _mm256_cmp_ps(v, limit, _CMP_NLE_UQ));
        all = _mm256_max_ps(all, v);
    }
    int none = _mm256_movemask_ps(bad) != 0;
    float largest = largest_lane(all), by = none || largest < 0x1p-100f ? 0 : 127.0f / largest;
    for (size_t p = 0; p < n / 32; p++) {
        __m256i q[4];
        UNROLL for (size_t i = 0; i < 4; i++)
        {
            q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 32 * p + 8 * i), _mm256_set1_ps(by)));
            q[i] = none ? _mm256_setzero_si256() : q[i];
        }
        sum[p] = sum_of_lanes(_mm256_add_epi32(_mm256_add_epi32(q[0], q[1]), _mm256_add_epi32(q[2], q[3])));
        __m256i bytes = _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]));
        bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        _mm256_storeu_si256((__m256i *)(void *)(codes + 32 * p), bytes);
    }
    return none ? NAN : by == 0 ? 0 : largest / 127.0f;
}
#endif

/* Where a product finds codes: in a strip, where they were interleaved, or there as nibbles of two pieces. Where there
 * are no byte products: in a strip, and of how few bits they are. */
enum { UNPACKED, BYTES, NIBBLES, FOUR_BITS, FIVE_BITS, SIX_BITS, ROUNDED };

INLINE size_t least_of(size_t a, size_t b) { return a < b ? a : b; }

/* Four bytes, or two numbers of 16 bits, LANES times. */
INLINE vi four(const void *a)
{
    int32_t v;
    memcpy(&v, a, sizeof v);
    return V(set1_epi32)(v);
}

#ifdef INT8_SIGNED
static void round_row(const int8_form *f, void *parts, size_t row, const float *x, size_t n)
{
    int8_tile_part *to = parts;
    for (size_t k = 0; k < n; k += INT8_PART, to++) {
        int32_t sum[INT8_PIECES] = {0};
        to->scale[row] = round_part(to->codes[row], sum, x + k, least_of(n - k, INT8_PART));
        for (size_t i = 0; f->minima && i < INT8_PIECES; i++) to->sum[i / 2][row][i % 2] = (int16_t)sum[i];
    }
}
#else
/* A row's sums, for what begins or for minima. */
INLINE void put_sums(const int8_form *f, int32_t begin[INT8_PIECES][INT8_ROWS],
                     int16_t minima[INT8_PIECES / 2][INT8_ROWS][2], size_t row, const int32_t sum[INT8_PIECES])
{
    for (size_t i = 0; f->minima && i < INT8_PIECES; i++) minima[i / 2][row][i % 2] = (int16_t)sum[i];
    if (f->minima) return;
    const size_t groups = f->scales ? f->scales : 1, each = INT8_PIECES / groups;
    for (size_t g = 0; g < groups; g++) {
        int32_t all = 0;
        for (size_t i = 0; i < each; i++) all += sum[g * each + i];
        begin[g][row] = -f->zero * all;
    }
}

#ifndef INT8_WIDE
typedef int8_part operand_part;
#define CODES_OF(f) UNPACKED
#define OPERAND(a, codes, field) ((a)->field)
#define OPERAND_BYTES(codes) sizeof(int8_part)
INLINE void put_codes(operand_part *to, int kind, size_t row, const int8_t codes[INT8_PART], size_t n)
{
    (void)kind;
    for (size_t i = 0; i < n / 4; i++) memcpy(to->codes[i][row], codes + 4 * i, 4);
}
#else
typedef union {
    int8_part narrow; /* and the beginning of six */
    int8_wide_part wide;
    int8_six_part six;
} operand_part;
INLINE int codes_of_form(const int8_form *f)
{
    if (f == &int8_form_rounded) return ROUNDED;
    return int8_is_wide(f) ? UNPACKED : f->scales == INT8_HALF_PIECES ? SIX_BITS : FOUR_BITS;
}
#define CODES_OF(f) codes_of_form(f)
#define OPERAND(a, codes, field) (*((codes) == UNPACKED ? &(a)->wide.field : &(a)->narrow.field))
#define OPERAND_BYTES(codes)                                                                                           \
    ((codes) == UNPACKED ? sizeof(int8_wide_part) : (codes) == SIX_BITS ? sizeof(int8_six_part) : sizeof(int8_part))
/* Of a whole part. */
INLINE void put_begin_six(operand_part *to, size_t row, const int8_t codes[INT8_PART])
{
    for (size_t g = 0; g < INT8_HALF_PIECES; g++) {
        __m128i q = _mm_maddubs_epi16(_mm_set1_epi8(1), sixteen((const uint8_t *)codes + 16 * g));
        q = _mm_add_epi16(q, _mm_shuffle_epi32(q, 0x4e));
        q = _mm_add_epi16(q, _mm_shuffle_epi32(q, 0xb1));
        const int32_t two = _mm_cvtsi128_si32(_mm_sub_epi16(_mm_setzero_si128(), _mm_slli_epi16(q, 5)));
        memcpy(to->six.begin[g][row], &two, sizeof two);
    }
}
/* Of how many words of a row the products with codes of 8 bits, each two of which are added, can be added further in
 * 16 bits: a piece's, where codes that meet there sum up to 256 at most; none, where codes are below 0. Of
 * probabilities, of which few are large, that is so. */
INLINE int32_t words_together(const int8_t codes[INT8_PART], size_t n)
{
    __m256i all = _mm256_setzero_si256(), most = all;
    for (size_t i = 0; i < n; i += 32) {
        const __m256i q = words_at(codes + i), two = _mm256_maddubs_epi16(q, _mm256_set1_epi8(1));
        __m256i sum = _mm256_add_epi16(two, _mm256_permute4x64_epi64(two, 0x4e));
        sum = _mm256_add_epi16(sum, _mm256_shuffle_epi32(sum, 0x4e));
        sum = _mm256_add_epi16(sum, _mm256_shuffle_epi32(sum, 0xb1));
        all = _mm256_or_si256(all, q), most = _mm256_max_epi16(most, sum);
    }
    if (_mm256_movemask_epi8(all)) return 0;
    return _mm256_movemask_epi8(_mm256_cmpgt_epi16(most, _mm256_set1_epi16(256))) ? 1 : INT8_WORDS / INT8_PIECES;
}
INLINE void put_codes(operand_part *to, int kind, size_t row, const int8_t codes[INT8_PART], size_t n)
{
    int32_t two[2][INT8_WORDS];
    if (kind != UNPACKED) {
        for (size_t i = 0; i < n / 4; i++) memcpy(to->narrow.codes[i][row], codes + 4 * i, 4);
        return;
    }
    for (size_t i = 0; i < n / 4; i += LANES) {
        const __m256i four = words_at(codes + 4 * i);
        const __m256i even = _mm256_srai_epi16(_mm256_slli_epi16(four, 8), 8), odd = _mm256_srai_epi16(four, 8);
        _mm256_storeu_si256((__m256i *)(void *)(two[0] + i), even);
        _mm256_storeu_si256((__m256i *)(void *)(two[1] + i), odd);
    }
    for (size_t i = 0; i < n / 4; i++)
        UNROLL for (size_t odd = 0; odd < 2; odd++) memcpy(to->wide.codes[i][odd][row], &two[odd][i], 4);
}
#endif

/* n parts on. */
INLINE const operand_part *parts_on(const operand_part *a, const int codes, size_t n)
{
    (void)codes;
    return (const operand_part *)(const void *)((const char *)a + n * OPERAND_BYTES(codes));
}

static void round_row(const int8_form *f, void *parts, size_t row, const float *x, size_t n)
{
    const int kind = CODES_OF(f);
    for (size_t k = 0; k < n; k += INT8_PART) {
        operand_part *to = (operand_part *)(void *)((char *)parts + k / INT8_PART * OPERAND_BYTES(kind));
        int8_t codes[INT8_PART];
        int32_t sum[INT8_PIECES] = {0};
        const size_t here = least_of(n - k, INT8_PART);
        OPERAND(to, kind, scale)[row] = round_part(codes, sum, x + k, here);
        put_codes(to, kind, row, codes, here);
#ifdef INT8_WIDE
        if (kind == SIX_BITS) put_begin_six(to, row, codes);
        if (kind == ROUNDED) to->narrow.together[row] = words_together(codes, here);
#endif
        if (kind != SIX_BITS && kind != ROUNDED)
            put_sums(f, OPERAND(to, kind, begin), OPERAND(to, kind, sum), row, sum);
    }
}
#endif

/* ---- codes ---- */

/* Where codes go: LANES outputs of a strip from `first` on. */
typedef struct {
    int8_strip *strip;
    size_t first;
} outputs;

INLINE vi bits(vi q, int at, char mask) { return W(and)(V(srli_epi32)(q, (unsigned)at), V(set1_epi8)(mask)); }
INLINE vi iq4(vi q) { return V(shuffle_epi8)(in_each_quarter(iq4_codes()), q); }

/* Codes from 0 up, of which `zero` stands for 0. word: of a row from part `part` on, which may be beyond that part */
INLINE void put_from(const int zero, outputs to, size_t part, int word, vi q)
{
#ifdef INT8_SIGNED
    q = zero == 128 ? W(xor)(q, V(set1_epi8)(-128)) : V(sub_epi8)(q, V(set1_epi8)((char)zero));
#endif
    (void)zero;
    put_words(
        to.strip->codes[0][0][0] + (part * INT8_WORDS + (size_t)word) * sizeof to.strip->codes[0][0] + 4 * to.first, q);
}
INLINE void put(outputs to, size_t part, int word, vi q) { put_from(128, to, part, word, q); }
/* q of int8_form_rounded: without byte products it stays as it is. */
INLINE void put_signed(outputs to, int word, vi q)
{
#if !defined INT8_SIGNED && !defined INT8_WIDE
    q = W(xor)(q, V(set1_epi8)(-128));
#endif
    put_words(to.strip->codes[0][word][to.first], q);
}
INLINE float *scale_at(outputs to, size_t part, size_t piece) { return to.strip->scale[part][piece] + to.first; }

/* d q + m as integers, for 16 outputs: int8_kernels.h */
typedef struct {
    vi multiplier, offset; /* of 16 bits, twice */
} affine;

INLINE vi larger(vi most, vf x)
{
    return V(max_epu32)(most, BITS(magnitude(x))); /* what is not finite is the largest */
}

/* Stores the scale; returns what makes codes, in 256ths, of numbers. */
INLINE vf codes_by(vi most, float *scale)
{
    const vf all = FLOATS(most);
    some good = below_bits(most, 0x7f800000), there = at_least(good, all, 0x1p-100f);
    vf least = product_in(there, all, V(set1_ps)(1 / 127.0f));
    V(store_ps)(scale, either(good, least, V(set1_ps)(NAN)));
    return V(mul_ps)(quotient_in(there, V(set1_ps)(127), all), V(set1_ps)(256));
}

INLINE affine affine_of(vf d, vf m, vf by)
{
    vi offset = V(cvtps_epi32)(V(fmadd_ps)(m, by, V(set1_ps)(INT8_OFFSET)));
    return (affine){low_words_twice(V(cvtps_epi32)(V(mul_ps)(d, by))), low_words_twice(offset)};
}

/* of d (q - 32) */
INLINE affine about_32(vf d, vf by)
{
    vi multiplier = V(cvtps_epi32)(V(mul_ps)(d, by));
    vi offset = V(sub_epi32)(V(set1_epi32)(INT8_OFFSET), V(slli_epi32)(multiplier, 5));
    return (affine){low_words_twice(multiplier), low_words_twice(offset)};
}

INLINE vi rounded(affine a, vi q)
{
    vi even = W(and)(q, V(set1_epi16)(255)), odd = V(srli_epi16)(q, 8);
    even = V(add_epi16)(V(mullo_epi16)(even, a.multiplier), a.offset);
    odd = V(add_epi16)(V(mullo_epi16)(odd, a.multiplier), a.offset);
    return high_bytes(even, odd);
}

/* ---- blocks of 32 ---- */

INLINE void codes_32(const uint32_t type, outputs to, size_t at32, const uint8_t *const row[LANES], size_t at,
                     const affine *a)
{
    const size_t head = type == KILN_Q4_1 ? 4 : type == KILN_Q5_1 ? 8 : 2;
    const int first = 8 * (int)at32, zero = type == KILN_Q4_0 ? 8 : 128;
    vi t[4];
    if (type == KILN_Q8_0) {
        UNROLL for (int k = 0; k < 2; k++)
        {
            turn(t, row, at + head + 16 * (size_t)k);
            UNROLL for (int i = 0; i < 4; i++) put(to, 0, first + 4 * k + i, W(xor)(t[i], V(set1_epi8)(-128)));
        }
        return;
    }
    turn(t, row, at + head);
    vi fifth = W(setzero)();
    if (type == KILN_Q5_1) fifth = words(row, at + head - 4);
    UNROLL for (int i = 0; i < 4; i++)
    {
        vi low = bits(t[i], 0, 15), high = bits(t[i], 4, 15);
        if (type == KILN_IQ4_NL) low = iq4(low), high = iq4(high);
        if (type == KILN_Q5_1) low = W(or)(low, fifths(fifth, 4 * i)), high = W(or)(high, fifths(fifth, 16 + 4 * i));
        if (a) low = rounded(*a, low), high = rounded(*a, high);
        put_from(zero, to, 0, first + i, low), put_from(zero, to, 0, first + 4 + i, high);
    }
}

INLINE uint64_t four_halves(const uint8_t *const row[4], size_t at)
{
    return (uint64_t)block_u16(row[0] + at) | (uint64_t)block_u16(row[1] + at) << 16 |
           (uint64_t)block_u16(row[2] + at) << 32 | (uint64_t)block_u16(row[3] + at) << 48;
}

enum { BLOCKS_32 = INT8_DEEP / 32 };

/* Of n blocks; their minima, too, where the type has them. */
INLINE void scales_32(const uint32_t type, vf d[BLOCKS_32], vf m[BLOCKS_32], size_t n, const uint8_t *const row[LANES],
                      size_t bytes)
{
    uint64_t w[BLOCKS_32][2][LANES / 4];
    const int both = type == KILN_Q4_1 || type == KILN_Q5_1;
    for (int i = 0; i < LANES / 4; i++)
        for (size_t p = 0; p < n; p++)
            for (size_t k = 0; k <= (size_t)both; k++) w[p][k][i] = four_halves(row + 4 * i, p * bytes + 2 * k);
    for (size_t p = 0; p < n; p++)
        for (int k = 0; k <= both; k++) (k ? m : d)[p] = widened(w[p][k]);
}

/* What is left of the last quarter, n blocks in. */
static void clear_rest(outputs to, size_t n)
{
    for (size_t p = n; p % 2; p++) {
        V(store_ps)(scale_at(to, p / INT8_PIECES, p % INT8_PIECES), V(setzero_ps)());
        for (int i = 0; i < 8; i++) put(to, 0, 8 * (int)p + i, W(setzero)());
    }
}

/* Blocks of Q5_0: one turn finds scales and fifth bits. */
INLINE void block_q5_0(outputs to, size_t p, const uint8_t *const row[LANES], size_t at)
{
    vi h[4], t[4];
    turn(h, row, at), turn(t, row, at + 6);
    V(store_ps)(scale_at(to, p / INT8_PIECES, p % INT8_PIECES), halves_of(h[0]));
    const vi fifth = W(or)(V(srli_epi32)(h[0], 16), V(slli_epi32)(h[1], 16));
    UNROLL for (int i = 0; i < 4; i++)
    {
        put_from(16, to, 0, 8 * (int)p + i, W(or)(bits(t[i], 0, 15), fifths(fifth, 4 * i)));
        put_from(16, to, 0, 8 * (int)p + 4 + i, W(or)(bits(t[i], 4, 15), fifths(fifth, 16 + 4 * i)));
    }
}

INLINE void unpack_32(const uint32_t type, outputs to, const uint8_t *const row[LANES], size_t n, size_t bytes)
{
    vf d[BLOCKS_32], m[BLOCKS_32];
    const int both = type == KILN_Q4_1 || type == KILN_Q5_1;
    clear_rest(to, n);
    if (type == KILN_Q5_0) {
        for (size_t p = 0; p < n; p++) block_q5_0(to, p, row, p * bytes);
        return;
    }
    scales_32(type, d, m, n, row, bytes);
    for (size_t p = 0; p < n && !both; p++) {
        V(store_ps)(scale_at(to, p / INT8_PIECES, p % INT8_PIECES), d[p]);
        codes_32(type, to, p, row, p * bytes, NULL);
    }
    for (size_t p = 0; p < n && both; p += INT8_PIECES) {
        const size_t last = p + INT8_PIECES < n ? p + INT8_PIECES : n;
        const vf top = V(set1_ps)(type == KILN_Q4_1 ? 15 : 31);
        vi most = W(setzero)();
        for (size_t i = p; i < last; i++) most = larger(larger(most, m[i]), V(fmadd_ps)(d[i], top, m[i]));
        const vf by = codes_by(most, scale_at(to, p / INT8_PIECES, 0));
        for (size_t i = p; i < last; i++) {
            const affine a = affine_of(d[i], m[i], by);
            codes_32(type, to, i, row, i * bytes, &a);
        }
    }
}

/* ---- blocks of 256 ---- */

INLINE vf byte_of(vi w, int i)
{
    return V(cvtepi32_ps)(W(and)(V(srli_epi32)(w, (unsigned)(8 * i)), V(set1_epi32)(255)));
}

/* What a block of Q4_K or Q5_K has for its eight pieces: two scales, and bytes of scales and minima, four a register.
 */
typedef struct {
    vf d, least;
    vi s[2], m[2];
} k_scales;

INLINE k_scales k_scales_of(const vi h[4])
{
    k_scales k = {.d = halves_of(h[0]), .least = halves_of(V(srli_epi32)(h[0], 16))};
    k.least = V(sub_ps)(V(set1_ps)(-0.0f), k.least);
    k.s[0] = bits(h[1], 0, 63), k.s[1] = W(or)(bits(h[3], 0, 15), V(slli_epi32)(bits(h[1], 6, 3), 4));
    k.m[0] = bits(h[2], 0, 63), k.m[1] = W(or)(bits(h[3], 4, 15), V(slli_epi32)(bits(h[2], 6, 3), 4));
    return k;
}

INLINE k_scales read_k_scales(const uint8_t *const row[LANES], size_t at)
{
    vi h[4];
    turn(h, row, at);
    return k_scales_of(h);
}

INLINE void scales_k(const uint32_t type, outputs to, size_t part, affine a[INT8_PIECES], const k_scales *k)
{
    const vf top = V(set1_ps)(type == KILN_Q4_K ? 15 : 31);
    vf scale[INT8_PIECES], minimum[INT8_PIECES];
    vi most = W(setzero)();
    UNROLL for (int i = 0; i < INT8_PIECES; i++)
    {
        scale[i] = V(mul_ps)(k->d, byte_of(k->s[i / 4], i % 4));
        minimum[i] = V(mul_ps)(k->least, byte_of(k->m[i / 4], i % 4));
        most = larger(larger(most, minimum[i]), V(fmadd_ps)(scale[i], top, minimum[i]));
    }
    const vf by = codes_by(most, scale_at(to, part, 0));
    UNROLL for (int i = 0; i < INT8_PIECES; i++) a[i] = affine_of(scale[i], minimum[i], by);
}

/* As they are stored. */
INLINE void keep_scales_k(outputs to, size_t part, const k_scales *k)
{
    UNROLL for (int i = 0; i < INT8_PIECES; i++)
        V(store_ps)(scale_at(to, part, (size_t)i), V(mul_ps)(k->d, byte_of(k->s[i / 4], i % 4)));
    UNROLL for (int i = 0; i < INT8_PIECES / 2; i++)
    {
        vi two = V(srli_epi32)(k->m[i / 2], (unsigned)(16 * (i % 2)));
        two = W(or)(W(and)(two, V(set1_epi32)(255)), V(slli_epi32)(W(and)(two, V(set1_epi32)(0xff00)), 8));
        put_words(to.strip->minimum[part][i][to.first], two);
    }
    V(store_ps)(to.strip->least[part] + to.first, k->least);
}

INLINE void block_k(const uint32_t type, const int minima, outputs to, size_t part, const uint8_t *const row[LANES],
                    size_t at)
{
    affine a[INT8_PIECES];
    const k_scales k = read_k_scales(row, at);
    if (minima)
        keep_scales_k(to, part, &k);
    else
        scales_k(type, to, part, a, &k);
    const size_t head = type == KILN_Q4_K ? 16 : 48;
    for (int half = 0; half < 2; half++) { /* of the 32 bytes that two pieces share */
        vi t[4], high[4];
        if (type == KILN_Q5_K) turn(high, row, at + 16 + 16 * (size_t)half);
        UNROLL for (int pair = 0; pair < 4; pair++)
        {
            turn(t, row, at + head + 32 * (size_t)pair + 16 * (size_t)half);
            UNROLL for (int i = 0; i < 4; i++)
            {
                vi low = bits(t[i], 0, 15), up = bits(t[i], 4, 15);
                if (type == KILN_Q5_K) {
                    low = W(or)(low, V(slli_epi32)(bits(high[i], 2 * pair, 1), 4));
                    up = W(or)(up, V(slli_epi32)(bits(high[i], 2 * pair + 1, 1), 4));
                }
                if (!minima) low = rounded(a[2 * pair], low), up = rounded(a[2 * pair + 1], up);
                put_from(minima ? 0 : 128, to, part, 16 * pair + 4 * half + i, low);
                put_from(minima ? 0 : 128, to, part, 16 * pair + 8 + 4 * half + i, up);
            }
        }
    }
}

INLINE void scales_q6_k(outputs to, size_t part, affine a[16], const uint8_t *const row[LANES], size_t at)
{
    uint16_t d[LANES];
    vi s[4];
    for (int i = 0; i < LANES; i++) d[i] = block_u16(row[i] + at + 208);
    turn(s, row, at + 192);
    const vf all = widened(d);
    vf scale[16];
    vi most = W(setzero)();
    UNROLL for (int i = 0; i < 16; i++)
    {
        vi code = V(srai_epi32)(V(slli_epi32)(s[i / 4], (unsigned)(24 - i % 4 * 8)), 24);
        scale[i] = V(mul_ps)(all, V(cvtepi32_ps)(code));
        most = larger(most, V(mul_ps)(scale[i], V(set1_ps)(32)));
    }
    const vf by = codes_by(most, scale_at(to, part, 0));
    UNROLL for (int i = 0; i < 16; i++) a[i] = about_32(scale[i], by);
}

#ifdef INT8_WIDE
/* Codes and scales as they are. */
INLINE void keep_scales_q6_k(outputs to, size_t part, const uint8_t *const row[LANES], size_t at)
{
    uint16_t d[LANES];
    vi s[4];
    for (int i = 0; i < LANES; i++) d[i] = block_u16(row[i] + at + 208);
    V(store_ps)(to.strip->least[part] + to.first, widened(d));
    turn(s, row, at + 192);
    UNROLL for (int i = 0; i < 4; i++)
    {
        const vi low = V(set1_epi32)(0xffff), even = V(srai_epi16)(V(slli_epi16)(s[i], 8), 8),
                 odd = V(srai_epi16)(s[i], 8);
        put_words(to.strip->half_pieces[part][2 * i][to.first], W(or)(W(and)(even, low), V(slli_epi32)(odd, 16)));
        put_words(to.strip->half_pieces[part][2 * i + 1][to.first],
                  W(or)(V(srli_epi32)(even, 16), W(andnot)(low, odd)));
    }
}
#endif

INLINE void block_q6_k(const int kept, outputs to, size_t part, const uint8_t *const row[LANES], size_t at)
{
    affine s[16];
#ifdef INT8_WIDE
    if (kept) keep_scales_q6_k(to, part, row, at);
#endif
    if (!kept) scales_q6_k(to, part, s, row, at);
    for (int half = 0; half < 2; half++) UNROLL for (int piece = 0; piece < 2; piece++) /* 16 of 32 inputs */
        {
            vi a[4], b[4], high[4];
            const size_t first = at + 64 * (size_t)half + 16 * (size_t)piece;
            turn(a, row, first), turn(b, row, first + 32);
            turn(high, row, at + 128 + 32 * (size_t)half + 16 * (size_t)piece);
            UNROLL for (int k = 0; k < 4; k++) UNROLL for (int i = 0; i < 4; i++)
            {
                vi low = bits(k % 2 ? b[i] : a[i], k / 2 * 4, 15), up = bits(high[i], 2 * k, 3);
                vi q = W(or)(low, V(slli_epi32)(up, 4));
                if (!kept) q = rounded(s[8 * half + 2 * k + piece], q);
                put_from(kept ? 0 : 128, to, part, 32 * half + 8 * k + 4 * piece + i, q);
            }
        }
}

INLINE void block_iq4_xs(outputs to, size_t part, const uint8_t *const row[LANES], size_t at)
{
    for (int i = 0; i < LANES; i++)
        for (int p = 0; p < 8; p++)
            scale_at(to, part, (size_t)p)[i] = block_half(row[i] + at) * (float)block_scale_iq4_xs(row[i] + at, p);
    UNROLL for (int p = 0; p < 8; p++)
    {
        vi t[4];
        turn(t, row, at + 8 + 16 * (size_t)p);
        UNROLL for (int i = 0; i < 4; i++)
        {
            put(to, part, 8 * p + i, iq4(bits(t[i], 0, 15)));
            put(to, part, 8 * p + 4 + i, iq4(bits(t[i], 4, 15)));
        }
    }
}

/* ---- unpacking ---- */

#define OF_32(name, type, bytes)                                                                                       \
    static void name(outputs to, const uint8_t *const row[LANES], size_t n) { unpack_32(type, to, row, n / 32, bytes); }
OF_32(unpack_q8_0, KILN_Q8_0, 34)
OF_32(unpack_q4_0, KILN_Q4_0, 18)
OF_32(unpack_q4_1, KILN_Q4_1, 20)
OF_32(unpack_q5_0, KILN_Q5_0, 22)
OF_32(unpack_q5_1, KILN_Q5_1, 24)
OF_32(unpack_iq4_nl, KILN_IQ4_NL, 18)

static void unpack_blocks(const int8_form *f, outputs to, const uint8_t *const row[LANES], size_t n)
{
    for (size_t p = 0, at = 0; p < n / INT8_PART; p++, at += f->bytes) {
        switch (f->type) {
        case KILN_Q4_K:
            if (f->minima)
                block_k(KILN_Q4_K, 1, to, p, row, at);
            else
                block_k(KILN_Q4_K, 0, to, p, row, at);
            break;
        case KILN_Q5_K:
            if (f->minima)
                block_k(KILN_Q5_K, 1, to, p, row, at);
            else
                block_k(KILN_Q5_K, 0, to, p, row, at);
            break;
        case KILN_Q6_K:
            if (f->scales == INT8_HALF_PIECES)
                block_q6_k(1, to, p, row, at);
            else
                block_q6_k(0, to, p, row, at);
            break;
        default: block_iq4_xs(to, p, row, at); break;
        }
    }
}

static void unpack_rows(outputs to, const uint8_t *const row[LANES], size_t n)
{
    clear_rest(to, n / 32);
    for (size_t i = 0; i < n / 16; i++) {
        vi t[4];
        turn(t, row, 16 * i);
        UNROLL for (int k = 0; k < 4; k++) put(to, 0, 4 * (int)i + k, W(xor)(t[k], V(set1_epi8)(-128)));
    }
}

static void unpack_lanes(const int8_form *f, outputs to, const uint8_t *const row[LANES], size_t n)
{
    switch (f->type) {
    case 0: unpack_rows(to, row, n); break;
    case KILN_Q8_0: unpack_q8_0(to, row, n); break;
    case KILN_Q4_0: unpack_q4_0(to, row, n); break;
    case KILN_Q4_1: unpack_q4_1(to, row, n); break;
    case KILN_Q5_0: unpack_q5_0(to, row, n); break;
    case KILN_Q5_1: unpack_q5_1(to, row, n); break;
    case KILN_IQ4_NL: unpack_iq4_nl(to, row, n); break;
    default: unpack_blocks(f, to, row, n); break;
    }
}

#ifdef INT8_INTERLEAVES
#include "backend/cpu/int8_interleaved.h"
#endif

static void unpack(const int8_form *f, int8_strip *to, const uint8_t *const row[INT8_STRIP], size_t n)
{
#ifdef INT8_INTERLEAVES
    if (f->interleaved) {
        unpack_interleaved(f, to, row[0], n);
        return;
    }
#endif
    for (size_t o = 0; o < INT8_STRIP; o += LANES) unpack_lanes(f, (outputs){to, o}, row + o, n);
}

/* ---- columns ---- */

INLINE void round_lanes(outputs to, const float *x, size_t ld, size_t n)
{
    const vi byte = V(set1_epi32)(255);
    vi largest = W(setzero)();
    for (size_t i = 0; i < n; i++) largest = larger(largest, V(loadu_ps)(x + i * ld + to.first));
    vf most = FLOATS(largest);
    some good = below_bits(largest, 0x7f800000), there = at_least(good, most, 0x1p-100f);
    vf by = quotient_in(there, V(set1_ps)(127), most), scale = quotient_in(there, most, V(set1_ps)(127));
    V(store_ps)(scale_at(to, 0, 0), either(good, scale, V(set1_ps)(NAN)));
    for (size_t w = 0; w < n / 4; w++) {
        vi q[4];
        UNROLL for (size_t i = 0; i < 4; i++)
        {
            q[i] = V(cvtps_epi32)(V(mul_ps)(V(loadu_ps)(x + (4 * w + i) * ld + to.first), by));
            if (i < 3) q[i] = W(and)(q[i], byte); /* what is not finite is 0 */
        }
        vi low = W(or)(q[0], V(slli_epi32)(q[1], 8)), high = W(or)(q[2], V(slli_epi32)(q[3], 8));
        low = W(or)(low, V(slli_epi32)(high, 16));
        put_signed(to, (int)w, low);
    }
}

static void round_columns(int8_strip to[2], const float *x, size_t ld, size_t n)
{
    for (size_t o = 0; o < 2 * INT8_STRIP; o += LANES)
        round_lanes((outputs){to + o / INT8_STRIP, o % INT8_STRIP}, x + o / INT8_STRIP * INT8_STRIP, ld, n);
}

/* Four rows' codes of 256 columns. */
typedef struct {
    _Alignas(64) int8_t code[4][256];
} four_rows;

/* 4 (q - 32) of 128 codes q of 4 bits and 2. */
#if LANES == 16
INLINE void read_half(int8_t *to, const uint8_t *four, const uint8_t *two)
{
    vi low = _mm512_loadu_si512(four);
    vi up = _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)two));
    up = W(xor)(up, V(set1_epi8)((char)0xaa));
    UNROLL for (int k = 0; k < 2; k++)
    {
        const vi high = _mm512_sllv_epi64(up, _mm512_set_epi64(4 - 4 * k, 4 - 4 * k, 4 - 4 * k, 4 - 4 * k, 6 - 4 * k,
                                                               6 - 4 * k, 6 - 4 * k, 6 - 4 * k));
        const vi q = W(and)(k ? V(srli_epi16)(low, 2) : V(slli_epi16)(low, 2), V(set1_epi8)(0x3c));
        _mm512_store_si512(to + 64 * k, or_and(q, high, _mm512_set1_epi8((char)0xc0)));
    }
}
#else
INLINE void read_half(int8_t *to, const uint8_t *four, const uint8_t *two)
{
    vi up = _mm256_loadu_si256((const __m256i *)(const void *)two);
    up = W(xor)(up, V(set1_epi8)((char)0xaa));
    UNROLL for (int k = 0; k < 4; k++)
    {
        const vi low = _mm256_loadu_si256((const __m256i *)(const void *)(four + 32 * (k % 2)));
        const vi high = W(and)(V(slli_epi16)(up, 6 - 2 * k), V(set1_epi8)((char)0xc0));
        const vi q = W(and)(k / 2 ? V(srli_epi16)(low, 2) : V(slli_epi16)(low, 2), V(set1_epi8)(0x3c));
        put_words(to + 32 * k, W(or)(q, high));
    }
}
#endif

INLINE void read_codes(const uint32_t type, int8_t to[256], const uint8_t *b)
{
    UNROLL for (int half = 0; half < 2 && type == KILN_Q6_K; half++)
        read_half(to + 128 * half, b + 64 * half, b + 128 + 32 * half);
    UNROLL for (int k = 0; k < 8 && type == KILN_Q8_0; k++) memcpy(to + 32 * k, b + 34 * k + 2, 32);
}

/* Of 16 groups' codes. */
INLINE void read_scales(const uint32_t type, float to[16], const uint8_t *b, float by)
{
    if (type == KILN_Q6_K) {
        const vf all = V(set1_ps)(block_half(b + 208) * by * 0.25f);
        for (size_t s = 0; s < 16; s += LANES)
            V(storeu_ps)(to + s, V(mul_ps)(all, codes_at((const int8_t *)b + 192 + s)));
    }
    for (size_t k = 0; k < 8 && type == KILN_Q8_0; k++) to[2 * k] = to[2 * k + 1] = block_half(b + 34 * k) * by;
}

/* Multipliers of a word's rows 0 and 2, or 1 and 3, of groups from `first` on. */
INLINE vi two_multipliers(const float low[16], const float high[16], size_t first, vf by)
{
    const vi a = V(cvtps_epi32)(V(mul_ps)(V(load_ps)(low + first), by)),
             b = V(cvtps_epi32)(V(mul_ps)(V(load_ps)(high + first), by));
    return W(or)(W(and)(a, V(set1_epi32)(0xffff)), V(slli_epi32)(b, 16));
}

/* Codes by multipliers, in 32768ths, rounded. */
INLINE vi rounded_codes(vi code, vi even, vi odd)
{
    const vi a = V(mulhrs_epi16)(V(srai_epi16)(V(slli_epi16)(code, 8), 8), even),
             b = V(mulhrs_epi16)(V(srai_epi16)(code, 8), odd);
    return W(or)(W(and)(a, V(set1_epi16)(255)), V(slli_epi16)(b, 8));
}

/* Word w of four strips, from LANES x 4 columns on: groups from 4 k on, of which `even` and `odd` have multipliers. */
INLINE void put_columns(int8_strip *to, int w, const four_rows *rows, size_t k, size_t first, vi even, vi odd)
{
    vi r[4], pair[4];
    UNROLL for (int i = 0; i < 4; i++) r[i] = words_at(rows->code[i] + 64 * k + 4 * first);
    pair[0] = V(unpacklo_epi8)(r[0], r[1]), pair[1] = V(unpacklo_epi8)(r[2], r[3]);
    pair[2] = V(unpackhi_epi8)(r[0], r[1]), pair[3] = V(unpackhi_epi8)(r[2], r[3]);
    UNROLL for (int j = 0; j < 4; j++)
    {
        const vi a = pair[j / 2 * 2], b = pair[j / 2 * 2 + 1];
        const vi code = j % 2 ? V(unpackhi_epi16)(a, b) : V(unpacklo_epi16)(a, b);
        put_signed((outputs){to + j, first}, w, rounded_codes(code, even, odd));
    }
}

/* Of four groups each multiplier, for the numbers of its group. */
INLINE vi spread(vi multipliers, size_t first)
{
#if LANES == 16
    const vi which = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    return _mm512_permutexvar_epi32(_mm512_add_epi32(which, _mm512_set1_epi32((int)first)), multipliers);
#else
    const vi which = _mm256_set_epi32(1, 1, 1, 1, 0, 0, 0, 0);
    return _mm256_permutevar8x32_epi32(multipliers, _mm256_add_epi32(which, _mm256_set1_epi32((int)first)));
#endif
}

/* Four inputs of 256 outputs. */
INLINE void round_word(const uint32_t type, int8_strip to[16], int w, const uint8_t *const row[4], float (*scale)[16],
                       const float *by)
{
    four_rows rows;
    UNROLL for (int i = 0; i < 4; i++) read_codes(type, rows.code[i], row[i]);
    UNROLL for (size_t s = 0; s < 16; s += LANES)
    {
        const vf all = V(load_ps)(by + s);
        const vi even = two_multipliers(scale[0], scale[2], s, all), odd = two_multipliers(scale[1], scale[3], s, all);
        UNROLL for (size_t g = 0; g < LANES; g += LANES / 4) /* as many groups as a vector of bytes has columns of */
            put_columns(to + (s + g) / 4 * 4, w, &rows, (s + g) / 4, (s + g) % 4 * 4, spread(even, g), spread(odd, g));
    }
}

INLINE void round_of(const uint32_t type, int8_strip to[16], const uint8_t *const row[INT8_PART], const float *by,
                     size_t n)
{
    _Alignas(64) float scale[INT8_PART][16], factor[16], least[16];
    vi most[16 / LANES];
    UNROLL for (size_t s = 0; s < 16 / LANES; s++) most[s] = W(setzero)();
    for (size_t i = 0; i < n; i++) {
        read_scales(type, scale[i], row[i], by[i]);
        UNROLL for (size_t s = 0; s < 16 / LANES; s++) most[s] =
            larger(most[s], V(mul_ps)(V(load_ps)(scale[i] + s * LANES), V(set1_ps)(128)));
    }
    UNROLL for (size_t s = 0; s < 16 / LANES; s++)
        V(store_ps)(factor + s * LANES, V(mul_ps)(codes_by(most[s], least + s * LANES), V(set1_ps)(128)));
    for (size_t s = 0; s < 16; s++)
        for (size_t o = 0; o < INT8_STRIP; o++) to[s].scale[0][0][o] = least[int8_turned_column(s, o) / 16];
    for (size_t i = 0; i < n; i += 4) round_word(type, to, (int)i / 4, row + i, scale + i, factor);
}

static void round_blocks(uint32_t type, int8_strip to[16], const uint8_t *const row[INT8_PART], const float *by,
                         size_t n)
{
    if (type == KILN_Q6_K)
        round_of(KILN_Q6_K, to, row, by, n);
    else
        round_of(KILN_Q8_0, to, row, by, n);
}

/* ---- what comes next ---- */

/* Bytes [first, last) of some rows for each quarter. */
typedef struct {
    const uint8_t *const *row;
    size_t joined, rows; /* every such row begins what is in one line; of those a quarter's */
    size_t each;         /* lines of 64 bytes, of one */
    size_t first, last;
} lines;
/* By AVX2 joined rows are asked for in the order in which they are read (0.88 to 0.95 of the time). With AVX-512 as
 * others are, a few lines of each at a time: an expert's loops are so short there that those in a line come too many at
 * once (1.05 to 1.2 of the time; spread evenly over the quarters as quick for 16 rows, and 1.00 to 1.04 for 32).
 */
INLINE lines lines_of(const int8_ahead *next, size_t quarters)
{
    const size_t joined = LANES == 8 && next->joined ? next->joined : 1;
    return (lines){.row = next->row,
                   .joined = joined,
                   .rows = (2 * INT8_STRIP / joined + quarters - 1) / quarters,
                   .each = (joined * next->bytes + 63) / 64};
}
INLINE void fetch(const lines *l, size_t quarter)
{
    for (size_t r = quarter * l->rows; r < (quarter + 1) * l->rows && r * l->joined < 2 * INT8_STRIP; r++)
        for (size_t i = l->first; i < l->last; i += 64)
            _mm_prefetch((const char *)l->row[r * l->joined] + i, _MM_HINT_T1);
}

#if LANES == 8
/* Half h of a word of a strip's codes: of 8 outputs. */
enum { HALVES = INT8_STRIP / LANES };
INLINE __m256i codes_of(const int8_strip *w, size_t p, size_t word, int h)
{
    return _mm256_load_si256((const __m256i *)(const void *)w->codes[p][word][LANES * h]);
}
#endif
