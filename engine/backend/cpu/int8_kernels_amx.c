/* int8_kernels_amx.c - int8_kernels.h for AMX: a quarter of a part of 16 rows is a tile, and so is one of 16 outputs,
 * as strips have it. Only called where instructions.h finds AMX_INT8.
 *
 * Where a scale is for less than a part, two tiles of rows by two strips are summed at once. What is f32 about them
 * takes about as long as the sums of bytes, so these wait in memory: they are scaled while tiles make the next. Weights
 * are signed here, so that no sum begins anywhere but at 0. int8_product.c says where they are the fastest.
 */
#define LANES 16
#define INT8_SIGNED
#define INT8_INTERLEAVES
#include "backend/cpu/int8_strips.h"

#include "backend/cpu/amx_tiles.h"

enum { TILE = INT8_TILE_ROWS, PIECE = INT8_PART / INT8_PIECES };

/* Tiles 0 to 3 are sums of [rows][strip], 4 and 5 rows, 6 and 7 strips: of whole quarters, or of pieces. */
/* clang-format off */
static const amx_shapes whole = {.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                 .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
static const amx_shapes in_pieces = {.palette = 1, .row_bytes = {64, 64, 64, 64, PIECE, PIECE, 64, 64},
                                     .rows = {16, 16, 16, 16, 16, 16, PIECE / 4, PIECE / 4}};
/* clang-format on */

static void begin(const int8_form *f)
{
    const amx_shapes *shapes = f->scales == INT8_PIECES ? &in_pieces : &whole;
    tile_config(shapes);
}
static void end(void) { tile_release(); }

/* Sums of bytes that have one scale, and what parts have summed to. */
typedef struct {
    _Alignas(64) int32_t sum[2][2][2][TILE][INT8_STRIP]; /* [this, the one before][tile of rows][strip] */
    _Alignas(64) float part[2 * TILE][2][INT8_STRIP];
} sums;

/* Up to two tiles of rows by two strips. */
typedef struct {
    const int8_strip *w;
    const int8_tile_part *a[2];
    size_t rows;
    float *c;
    size_t ldc;
    int accumulate;
} block;

/* The bytes of part p's inputs [first, first + n), a tile's at a time. */
INLINE void sum_bytes(const int tiles, const size_t tile, const block *b, size_t p, size_t first, size_t n,
                      int32_t to[2][2][TILE][INT8_STRIP])
{
    tile_zero(0);
    tile_zero(1);
    if (tiles > 1) {
        tile_zero(2);
        tile_zero(3);
    }
    for (size_t i = first; i < first + n; i += tile) {
        tile_load(4, b->a[0][p].codes[0] + i, INT8_PART);
        tile_load(6, b->w[0].codes[p][i / 4], 4 * INT8_STRIP);
        tile_dpbssd(0, 4, 6);
        tile_load(7, b->w[1].codes[p][i / 4], 4 * INT8_STRIP);
        tile_dpbssd(1, 4, 7);
        if (tiles < 2) continue;
        tile_load(5, b->a[1][p].codes[0] + i, INT8_PART);
        tile_dpbssd(2, 5, 6);
        tile_dpbssd(3, 5, 7);
    }
    tile_store(0, to[0][0], 4 * INT8_STRIP);
    tile_store(1, to[0][1], 4 * INT8_STRIP);
    if (tiles < 2) return;
    tile_store(2, to[1][0], 4 * INT8_STRIP);
    tile_store(3, to[1][1], 4 * INT8_STRIP);
}

INLINE __m512 add_minima(const int8_strip *w, size_t p, const int8_tile_part *a, size_t r, __m512 part)
{
    __m512i sum = _mm512_setzero_si512();
    UNROLL for (int i = 0; i < INT8_PIECES / 2; i++)
    {
        int32_t two;
        memcpy(&two, a->sum[i][r], sizeof two);
        const __m512i least = _mm512_load_si512(w->minimum[p][i]);
        sum = _mm512_add_epi32(sum, _mm512_madd_epi16(least, _mm512_set1_epi32(two)));
    }
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_load_ps(w->least[p]), part);
}

/* What sums of group g of part p bring; `last`: the part is through. */
INLINE void scale_group(const int minima, const block *b, sums *s, const size_t slot, size_t p, size_t g, int last)
{
    for (int n = 0; n < 2; n++) {
        const __m512 scale = _mm512_load_ps(b->w[n].scale[p][g]);
        for (size_t r = 0; r < b->rows; r++) {
            const int8_tile_part *a = b->a[r / TILE] + p;
            float *c = b->c + r * b->ldc + 16 * n;
            __m512 one = _mm512_cvtepi32_ps(_mm512_load_si512(s->sum[slot][r / TILE][n][r % TILE]));
            __m512 part = g ? _mm512_load_ps(s->part[r][n]) : _mm512_setzero_ps();
            part = _mm512_fmadd_ps(one, scale, part);
            if (!last) {
                _mm512_store_ps(s->part[r][n], part);
                continue;
            }
            if (minima) part = add_minima(b->w + n, p, a, r % TILE, part);
            __m512 sum = p || b->accumulate ? _mm512_loadu_ps(c) : _mm512_setzero_ps();
            _mm512_storeu_ps(c, _mm512_fmadd_ps(part, _mm512_set1_ps(a->scale[r % TILE]), sum));
        }
    }
}

INLINE void fetch_rows(const int tiles, const block *b, size_t p, size_t stride)
{
    UNROLL for (int t = 0; t < tiles; t++) for (size_t i = 0; i < sizeof(int8_tile_part); i += 64)
        _mm_prefetch((const char *)(b->a[t] + p + 2 * stride) + i, _MM_HINT_T0);
}

/* The bytes of a piece, which has a scale, and then what the piece before it has left to do. */
INLINE void multiply_block(const int minima, const int tiles, const block *b, size_t stride, size_t quarters,
                           const lines *l)
{
    struct {
        size_t p, g;
        int there, last;
    } before = {.there = 0};
    sums s;
    size_t slot = 0;
    for (size_t p = 0, at = 0; at < quarters; p++) {
        const size_t inputs = INT8_QUARTER * least_of(quarters - at, INT8_QUARTERS);
        for (size_t g = 0; g * PIECE < inputs; g++, slot = 1 - slot) {
            sum_bytes(tiles, PIECE, b, p, g * PIECE, PIECE, s.sum[slot]);
            if (before.there) scale_group(minima, b, &s, 1 - slot, before.p, before.g, before.last);
            before.p = p, before.g = g, before.there = 1, before.last = (g + 1) * PIECE >= inputs;
        }
        for (size_t i = 0; i < inputs; i += INT8_QUARTER) fetch(l, at++);
        fetch_rows(tiles, b, p, stride);
    }
    scale_group(minima, b, &s, 1 - slot, before.p, before.g, before.last);
}

/* One tile of rows by weights that have a scale a part: so little is left to do that it follows at once. Two tiles of
 * rows, or two parts, in turns wait less for sums but more for memory: 0.55 to 0.9 of the rate. */
INLINE void multiply_tile(const int scales, const block *b, size_t quarters, const lines *l)
{
    _Alignas(64) int32_t sum[2][2][TILE][INT8_STRIP];
    for (size_t p = 0, at = 0; at < quarters; p++) {
        const size_t here = least_of(quarters - at, INT8_QUARTERS);
        sum_bytes(1, INT8_QUARTER, b, p, 0, INT8_QUARTER * here, sum);
        for (const size_t end = at + here; at < end; at++) fetch(l, at);
        for (int n = 0; n < 2; n++) {
            const __m512 scale = scales ? _mm512_load_ps(b->w[n].scale[p][0]) : _mm512_set1_ps(1);
            for (size_t r = 0; r < b->rows; r++) {
                float *c = b->c + r * b->ldc + 16 * n;
                const __m512 one = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sum[0][n][r])), scale);
                const __m512 all = p || b->accumulate ? _mm512_loadu_ps(c) : _mm512_setzero_ps();
                _mm512_storeu_ps(c, _mm512_fmadd_ps(one, _mm512_set1_ps(b->a[0][p].scale[r]), all));
            }
        }
    }
}

#define KIND(name, scales, minima, codes)                                                                              \
    static void name(const int8_strip *w, const int8_operand *a, float *c, size_t ldc, int accumulate,                 \
                     const int8_ahead *next)                                                                           \
    {                                                                                                                  \
        const size_t rows = scales <= 1 ? TILE : 2 * TILE;                                                             \
        lines l = lines_of(next, a->quarters);                                                                         \
        size_t blocks = (a->m + rows - 1) / rows, done = 0;                                                            \
        const int8_tile_part *at = a->parts;                                                                           \
        for (size_t r = 0; r < a->m; r += rows, at += rows / TILE * a->stride) {                                       \
            block b = {w, {at, at + a->stride}, least_of(a->m - r, rows), c + r * ldc, ldc, accumulate};               \
            l.first = l.last, l.last = l.each * ++done / blocks * 64;                                                  \
            if (scales <= 1)                                                                                           \
                multiply_tile(scales, &b, a->quarters, &l);                                                            \
            else if (b.rows > TILE)                                                                                    \
                multiply_block(minima, 2, &b, a->stride, a->quarters, &l);                                             \
            else                                                                                                       \
                multiply_block(minima, 1, &b, a->stride, a->quarters, &l);                                             \
        }                                                                                                              \
    }
#include "backend/cpu/int8_kinds.h"

const int8_kernels int8_kernels_amx = {.name = "amx",
                                       .linear = "int8:amx",
                                       .transposed = "int8_transposed:amx",
                                       .rows = INT8_TILE_ROWS,
                                       .part_bytes = sizeof(int8_tile_part),
                                       .round_row = round_row,
                                       .unpack = unpack,
                                       .interleave = interleave,
                                       .round_columns = round_columns,
                                       .round_blocks = round_blocks,
                                       .begin = begin,
                                       .end = end,
                                       .multiply = multiply};
