/* int8_kernels_amx.c - int8_kernels.h for AMX: a part of 16 rows is a tile, and so is one of 16 outputs, as strips have
 * it. Only called where instructions.h finds AMX_INT8.
 *
 * Two tiles of rows by two strips are summed at once. What is f32 about a part takes about as long as its sums of
 * bytes, so sums wait in memory: they are scaled while tiles make the next. Weights are signed here, so that no sum
 * begins anywhere but at 0. Nobody has measured it yet.
 */
#define LANES 16
#define INT8_SIGNED
#include "backend/cpu/int8_strips.h"

#include "backend/cpu/amx_tiles.h"

enum { TILE = INT8_TILE_ROWS, SLOTS = 2, PIECE = INT8_PART / INT8_PIECES };

/* Tiles 0 to 3 are sums of [rows][strip], 4 and 5 rows, 6 and 7 strips: of whole parts, or of pieces. */
/* clang-format off */
static const amx_shapes whole = {.palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                                 .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
static const amx_shapes in_pieces = {.palette = 1, .row_bytes = {64, 64, 64, 64, PIECE, PIECE, 64, 64},
                                     .rows = {16, 16, 16, 16, 16, 16, PIECE / 4, PIECE / 4}};
/* clang-format on */

static void begin(const int8_form *f)
{
    const amx_shapes *shapes = f->scales > 1 ? &in_pieces : &whole;
    tile_config(shapes);
}
static void end(void) { tile_release(); }

/* Sums of bytes of two parts, or of the two pieces of one. */
typedef struct {
    _Alignas(64) int32_t sum[SLOTS][2][2][TILE][INT8_STRIP];
} step;

/* Up to two tiles of rows by two strips. */
typedef struct {
    const int8_strip *w;
    const int8_tile_part *a[2];
    size_t rows;
    float *c;
    size_t ldc;
    int accumulate;
} block;

/* Of part p, or of a piece of it. */
INLINE void sum_bytes(const int tiles, const block *b, size_t p, size_t piece)
{
    tile_zero(0);
    tile_zero(1);
    tile_load(4, b->a[0][p].codes[0] + piece * PIECE, INT8_PART);
    tile_load(6, b->w[0].codes[p][piece * (PIECE / 4)], 4 * INT8_STRIP);
    tile_dpbssd(0, 4, 6);
    tile_load(7, b->w[1].codes[p][piece * (PIECE / 4)], 4 * INT8_STRIP);
    tile_dpbssd(1, 4, 7);
    if (tiles < 2) return;
    tile_zero(2);
    tile_zero(3);
    tile_load(5, b->a[1][p].codes[0] + piece * PIECE, INT8_PART);
    tile_dpbssd(2, 5, 6);
    tile_dpbssd(3, 5, 7);
}

INLINE void store_sums(const int tiles, int32_t to[2][2][TILE][INT8_STRIP])
{
    tile_store(0, to[0][0], 4 * INT8_STRIP);
    tile_store(1, to[0][1], 4 * INT8_STRIP);
    if (tiles < 2) return;
    tile_store(2, to[1][0], 4 * INT8_STRIP);
    tile_store(3, to[1][1], 4 * INT8_STRIP);
}

INLINE __m512 sum_at(const step *s, const int slot, size_t row, const int n)
{
    return _mm512_cvtepi32_ps(_mm512_load_si512(s->sum[slot][row / TILE][n][row % TILE]));
}

/* What a step has summed for 16 outputs of a row, in the order of int8_kernels.h. */
INLINE __m512 add_slots(const int scales, const int slots, const step *s, const int8_tile_part *a,
                        __m512 scale[SLOTS][2], size_t r, const int n, __m512 sum)
{
    if (scales > 1) {
        __m512 part = _mm512_mul_ps(sum_at(s, 0, r, n), scale[0][n]);
        part = _mm512_fmadd_ps(sum_at(s, 1, r, n), scale[1][n], part);
        return _mm512_fmadd_ps(part, _mm512_set1_ps(a->scale[r % TILE]), sum);
    }
    UNROLL for (int i = 0; i < slots; i++)
    {
        __m512 part = sum_at(s, i, r, n);
        if (scales) part = _mm512_mul_ps(part, scale[i][n]);
        sum = _mm512_fmadd_ps(part, _mm512_set1_ps(a[i].scale[r % TILE]), sum);
    }
    return sum;
}

/* Rows [from, to) of a step that began at part p. */
INLINE void scale_rows(const int scales, const int slots, const block *b, const step *s, size_t p, size_t from,
                       size_t to)
{
    __m512 scale[SLOTS][2] = {{{0}}};
    for (int i = 0; i < slots && scales; i++)
        UNROLL for (int n = 0; n < 2; n++) scale[i][n] =
            _mm512_load_ps(scales > 1 ? b->w[n].scale[p][i] : b->w[n].scale[p + (size_t)i][0]);
    for (size_t r = from; r < to; r++) UNROLL for (int n = 0; n < 2; n++)
        {
            float *c = b->c + r * b->ldc + 16 * n;
            __m512 sum = p || b->accumulate ? _mm512_loadu_ps(c) : _mm512_setzero_ps();
            _mm512_storeu_ps(c, add_slots(scales, slots, s, b->a[r / TILE] + p, scale, r, n, sum));
        }
}

INLINE void fetch_rows(const int tiles, const block *b, size_t p, size_t stride)
{
    UNROLL for (int t = 0; t < tiles; t++) for (size_t i = 0; i < sizeof(int8_tile_part); i += 64)
        _mm_prefetch((const char *)(b->a[t] + p + 2 * stride) + i, _MM_HINT_T0);
}

/* The bytes of a step, and before they are stored half of what the step before it has left to do. */
INLINE void multiply_block(const int scales, const int tiles, const block *b, size_t parts, const lines *l)
{
    const size_t pieces = scales > 1 ? INT8_PIECES : 1, each = SLOTS / pieces, half = (b->rows + 1) / 2;
    step sums[2];
    for (size_t g = 0, p = 0, slots = 0, before = 0; p < parts || slots; g++, p += each) {
        before = slots, slots = p >= parts ? 0 : parts - p < each ? 1 : SLOTS;
        for (size_t i = 0; i < SLOTS; i++) {
            size_t from = i * half, to = i ? b->rows : half;
            if (i < slots) sum_bytes(tiles, b, p + i / pieces, i % pieces);
            if (before == SLOTS)
                scale_rows(scales, SLOTS, b, sums + (g + 1) % 2, p - each, from, to);
            else if (before)
                scale_rows(scales, 1, b, sums + (g + 1) % 2, p - each, from, to);
            if (i < slots) store_sums(tiles, sums[g % 2].sum[i]);
            if (i < slots && i % pieces == 0) fetch(l, p + i), fetch_rows(tiles, b, p + i, l->stride);
        }
    }
}

#define KIND(name, scales)                                                                                             \
    static void name(const int8_strip *w, const int8_tile_part *a, size_t stride, size_t m, size_t parts, float *c,    \
                     size_t ldc, int accumulate, const int8_ahead *next)                                               \
    {                                                                                                                  \
        lines l = {next->row, (2 * INT8_STRIP + parts - 1) / parts, 0, 0, stride};                                     \
        size_t each = (next->bytes + 63) / 64, blocks = (m + 2 * TILE - 1) / (2 * TILE), done = 0;                     \
        for (size_t r = 0; r < m; r += 2 * TILE, a += 2 * stride) {                                                    \
            block b = {w, {a, a + stride}, m - r < 2 * TILE ? m - r : 2 * TILE, c + r * ldc, ldc, accumulate};         \
            l.first = l.last, l.last = each * ++done / blocks * 64;                                                    \
            if (b.rows > TILE)                                                                                         \
                multiply_block(scales, 2, &b, parts, &l);                                                              \
            else                                                                                                       \
                multiply_block(scales, 1, &b, parts, &l);                                                              \
        }                                                                                                              \
    }
KIND(multiply_whole, 1)
KIND(multiply_pieces, INT8_PIECES)
KIND(multiply_codes, 0)

static void multiply(const int8_form *f, const int8_strip *w, const void *a, size_t stride, size_t m, size_t parts,
                     float *c, size_t ldc, int accumulate, const int8_ahead *next)
{
    (f->scales > 1 ? multiply_pieces
     : f->scales   ? multiply_whole
                   : multiply_codes)(w, a, stride, m, parts, c, ldc, accumulate, next);
}

const int8_kernels int8_kernels_amx = {.name = "amx",
                                       .linear = "int8:amx",
                                       .transposed = "int8_transposed:amx",
                                       .rows = INT8_TILE_ROWS,
                                       .part_bytes = sizeof(int8_tile_part),
                                       .round_row = round_row,
                                       .unpack = unpack,
                                       .round_columns = round_columns,
                                       .round_blocks = round_blocks,
                                       .begin = begin,
                                       .end = end,
                                       .multiply = multiply};
