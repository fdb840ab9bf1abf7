/* convolution_strips_amx.c - convolution_strips.h by AMX, and AVX-512 with bf16 for results. */
#include "backend/cpu/convolution_strips.h"

#include "backend/cpu/amx_tiles.h"

#include <immintrin.h>

#define LANES 16
#define VFMA(a, b, c) ((vf)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#include "backend/cpu/kernels_vector.h"

enum { LINE = 64, TILE_NUMBERS = 512 };

INLINE void zero_sums(void)
{
    tile_zero(0);
    tile_zero(1);
    tile_zero(2);
    tile_zero(3);
}

INLINE void store_sums(float *sums)
{
    tile_store(0, sums, LINE);
    tile_store(1, sums + TILE_SUMS, LINE);
    tile_store(2, sums + 2 * TILE_SUMS, LINE);
    tile_store(3, sums + 3 * TILE_SUMS, LINE);
}

INLINE void begin_sums(const strip_products *p)
{
    if (!p->more) {
        zero_sums();
        return;
    }
    tile_load(0, p->sums, LINE);
    tile_load(1, p->sums + TILE_SUMS, LINE);
    tile_load(2, p->sums + 2 * TILE_SUMS, LINE);
    tile_load(3, p->sums + 3 * TILE_SUMS, LINE);
}

INLINE void fetch(const char *ahead[2], size_t lines)
{
    for (size_t i = 0; i < lines; i++) {
        _mm_prefetch(ahead[0] + i * LINE, _MM_HINT_T0);
        _mm_prefetch(ahead[1] + i * LINE, _MM_HINT_T0);
    }
    ahead[0] += lines * LINE, ahead[1] += lines * LINE;
}

/* wide: taps of a row, for the compiler. */
INLINE void multiply(const strip_products *p, const size_t wide)
{
    const uint16_t *f = p->filter[0], *g = p->filter[1];
    const char *ahead[2] = {p->ahead[0], p->ahead[1]};
    begin_sums(p);
    for (size_t d = 0; d < p->depth; d++)
        for (size_t y = 0; y < p->high; y++) {
            size_t at = (d * p->plane + y * p->row) * LINE_NUMBERS;
            const uint16_t *a = p->pixels[0] + at, *b = p->pixels[1] + at;
            for (size_t x = 0; x < wide; x++, f += TILE_NUMBERS, g += TILE_NUMBERS) {
                size_t tap = x * p->column * LINE_NUMBERS;
                fetch(ahead, p->lines);
                tile_load(4, a + tap, LINE);
                tile_load(6, f, LINE);
                tile_dpbf16ps(0, 4, 6);
                tile_load(7, g, LINE);
                tile_dpbf16ps(1, 4, 7);
                tile_load(5, b + tap, LINE);
                tile_dpbf16ps(2, 5, 6);
                tile_dpbf16ps(3, 5, 7);
            }
        }
    store_sums(p->sums);
}

void strips_multiply(const strip_products *p)
{
    if (p->wide == 3)
        multiply(p, 3);
    else
        multiply(p, p->wide);
}

static void add_to_tile(float *sums, const float *bias)
{
    const __m512 b = _mm512_loadu_ps(bias);
    for (size_t i = 0; i < STRIP_PIXELS; i++)
        _mm512_store_ps(sums + i * 16, _mm512_add_ps(_mm512_load_ps(sums + i * 16), b));
}

void strips_add_bias(float *sums, const float *low, const float *high)
{
    add_to_tile(sums, low);
    add_to_tile(sums + TILE_SUMS, high);
}

INLINE __m512 widened(const uint16_t *x)
{
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)x)), 16));
}

/* ---- rows, and what becomes of the ones before ---- */

/* Row i. gated, added: for the compiler. */
INLINE void finish_row(const rows_result *r, size_t i, __m512 low, __m512 high, const int gated, const int added)
{
    const float *s = r->sums + i / STRIP_PIXELS * 2 * TILE_SUMS + i % STRIP_PIXELS * 16;
    const uint16_t *other = added ? r->added + i * r->added_ld : NULL;
    __m512 a = _mm512_add_ps(_mm512_load_ps(s), low), b = _mm512_add_ps(_mm512_load_ps(s + TILE_SUMS), high);
    if (gated) {
        a = _mm512_mul_ps(a, (__m512)vgelu((vf)b));
        if (added) a = _mm512_add_ps(a, widened(other));
        _mm256_storeu_si256((__m256i *)(void *)(r->to + i * r->ld), (__m256i)_mm512_cvtneps_pbh(a));
        return;
    }
    if (added) a = _mm512_add_ps(a, widened(other)), b = _mm512_add_ps(b, widened(other + 16));
    _mm512_storeu_si512(r->to + i * r->ld, (__m512i)_mm512_cvtne2ps_pbh(b, a));
}

INLINE __m512 bias_of(const float *bias) { return bias ? _mm512_loadu_ps(bias) : _mm512_setzero_ps(); }

INLINE void multiply_rows(const row_products *p, const rows_result *r, const int gated, const int added)
{
    const uint16_t *f = p->filter[0], *g = p->filter[1];
    const char *a = (const char *)p->rows, *b = a + STRIP_PIXELS * p->ld;
    const __m512 low = bias_of(r->bias[0]), high = bias_of(r->bias[1]);
    size_t each = (r->rows + p->depth - 1) / p->depth, row = 0;
    zero_sums();
    for (size_t d = 0; d < p->depth; d++, f += TILE_NUMBERS, g += TILE_NUMBERS, a += LINE, b += LINE) {
        tile_load(4, a, p->ld);
        tile_load(6, f, LINE);
        tile_dpbf16ps(0, 4, 6);
        tile_load(7, g, LINE);
        tile_dpbf16ps(1, 4, 7);
        for (size_t n = 0; n < each && row < r->rows; n++, row++) finish_row(r, row, low, high, gated, added);
        tile_load(5, b, p->ld);
        tile_dpbf16ps(2, 5, 6);
        tile_dpbf16ps(3, 5, 7);
    }
    store_sums(p->sums);
}

void rows_multiply(const row_products *p, const rows_result *before)
{
    if (before->gated && before->added)
        multiply_rows(p, before, 1, 1);
    else if (before->gated)
        multiply_rows(p, before, 1, 0);
    else if (before->added)
        multiply_rows(p, before, 0, 1);
    else
        multiply_rows(p, before, 0, 0);
}

void rows_finish(const rows_result *r)
{
    const __m512 low = bias_of(r->bias[0]), high = bias_of(r->bias[1]);
    for (size_t i = 0; i < r->rows; i++) {
        if (r->gated)
            finish_row(r, i, low, high, 1, r->added != NULL);
        else
            finish_row(r, i, low, high, 0, r->added != NULL);
    }
}

/* ---- results of a convolution ---- */

static void store_one(const strip_result *r)
{
    for (size_t i = 0; i < r->pixels; i++) {
        __m512 a = _mm512_load_ps(r->sums + i * 16);
        if (r->added) a = _mm512_add_ps(a, widened(r->added + i * r->added_ld));
        _mm256_storeu_si256((__m256i *)(void *)(r->to + i * r->ld), (__m256i)_mm512_cvtneps_pbh(a));
    }
}

static void store_two(const strip_result *r)
{
    for (size_t i = 0; i < r->pixels; i++) {
        __m512 a = _mm512_load_ps(r->sums + i * 16), b = _mm512_load_ps(r->sums + TILE_SUMS + i * 16);
        if (r->added) {
            a = _mm512_add_ps(a, widened(r->added + i * r->added_ld));
            b = _mm512_add_ps(b, widened(r->added + i * r->added_ld + 16));
        }
        _mm512_storeu_si512(r->to + i * r->ld, (__m512i)_mm512_cvtne2ps_pbh(b, a));
    }
}

void strips_store(const strip_result *r)
{
    if (r->panels == 1)
        store_one(r);
    else
        store_two(r);
}
