/* amx_model.c - see amx_model.h. Sums of pairs of bf16 are kept apart, even ones and odd ones, each by fused steps, and
 * meet at the end (TDPBF16PS); subnormal operands and results are zeros; rounding is to nearest even, which no thread
 * here changes. Byte sums are exact and wrap.
 */
#include "amx_model.h"

#include <math.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64 };

typedef struct {
    unsigned rows, row_bytes;
    uint8_t data[ROWS][ROW_BYTES];
} tile;

static _Thread_local struct {
    int in_use;
    tile tile[TILES];
} state;
static atomic_ulong instructions;

static void refuse(const char *instruction, const char *why)
{
    fprintf(stderr, "amx_model: %s: %s\n", instruction, why);
    abort();
}
static void require(int good, const char *instruction, const char *why)
{
    if (!good) refuse(instruction, why);
}

int amx_model_in_use(void) { return state.in_use; }
unsigned long amx_model_count(void) { return atomic_load(&instructions); }

void amx_model_config(const void *shapes)
{
    const uint8_t *b = shapes;
    atomic_fetch_add(&instructions, 1);
    memset(&state, 0, sizeof state);
    require(b[0] <= 1, "ldtilecfg", "no such palette");
    if (b[0] == 0) return;
    for (int i = 2; i < 16; i++) require(b[i] == 0, "ldtilecfg", "a reserved byte is not 0");
    for (int t = 0; t < 16; t++) {
        unsigned row_bytes = b[16 + 2 * t] | (unsigned)b[17 + 2 * t] << 8, rows = b[48 + t];
        require(t < TILES || (rows == 0 && row_bytes == 0), "ldtilecfg", "there are eight tiles");
        require(rows <= ROWS && row_bytes <= ROW_BYTES, "ldtilecfg", "a tile is too large");
        require((rows == 0) == (row_bytes == 0), "ldtilecfg", "rows without columns, or columns without rows");
        if (t < TILES) state.tile[t].rows = rows, state.tile[t].row_bytes = row_bytes;
    }
    state.in_use = 1;
}

void amx_model_release(void)
{
    atomic_fetch_add(&instructions, 1);
    memset(&state, 0, sizeof state);
}

static tile *tile_of(unsigned t, const char *instruction)
{
    require(t < TILES, instruction, "no such tile");
    require(state.in_use, instruction, "tiles have no shapes");
    require(state.tile[t].rows > 0, instruction, "this tile has no shape");
    atomic_fetch_add(&instructions, 1);
    return &state.tile[t];
}

void amx_model_zero(unsigned t)
{
    tile *x = tile_of(t, "tilezero");
    memset(x->data, 0, sizeof x->data);
}

void amx_model_load(unsigned t, const void *from, ptrdiff_t stride)
{
    tile *x = tile_of(t, "tileloadd");
    memset(x->data, 0, sizeof x->data);
    for (unsigned r = 0; r < x->rows; r++) memcpy(x->data[r], (const char *)from + (ptrdiff_t)r * stride, x->row_bytes);
}

void amx_model_store(unsigned t, void *to, ptrdiff_t stride)
{
    tile *x = tile_of(t, "tilestored");
    for (unsigned r = 0; r < x->rows; r++) memcpy((char *)to + (ptrdiff_t)r * stride, x->data[r], x->row_bytes);
}

/* The operands of a product: their shapes fit. */
typedef struct {
    tile *c, *a, *b;
} product;

static product product_of(unsigned c, unsigned a, unsigned b, const char *instruction)
{
    require(a != b && a != c && b != c, instruction, "a tile twice");
    product p = {tile_of(c, instruction), tile_of(a, instruction), tile_of(b, instruction)};
    require(p.a->row_bytes % 4 == 0 && p.b->row_bytes % 4 == 0 && p.c->row_bytes % 4 == 0, instruction,
            "columns are not whole words");
    require(p.c->rows == p.a->rows, instruction, "other rows than the first operand");
    require(p.c->row_bytes == p.b->row_bytes, instruction, "other columns than the second operand");
    require(p.a->row_bytes / 4 == p.b->rows, instruction, "the depths differ");
    return p;
}

static void clear_rows(tile *x)
{
    for (unsigned r = x->rows; r < ROWS; r++) memset(x->data[r], 0, ROW_BYTES);
}

enum { NUMBERS = ROW_BYTES / 2 };

static float flushed(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= bits & 0x7f800000 ? 0xffffffff : 0x80000000;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void numbers_of(float to[ROWS][NUMBERS], const tile *x)
{
    for (unsigned r = 0; r < ROWS; r++)
        for (unsigned i = 0; i < NUMBERS; i++) {
            uint32_t bits = (uint32_t)x->data[r][2 * i] << 16 | (uint32_t)x->data[r][2 * i + 1] << 24;
            memcpy(&to[r][i], &bits, sizeof bits);
            to[r][i] = flushed(to[r][i]);
        }
}

/* Sums of even numbers and of odd ones, column by column. What is beyond a tile's shape is 0. */
static void dots_of(float to[NUMBERS], const float a[NUMBERS], float b[ROWS][NUMBERS], unsigned depth)
{
    for (unsigned i = 0; i < NUMBERS; i++) to[i] = 0;
    for (unsigned k = 0; k < depth; k++) {
        float pair[NUMBERS];
        for (unsigned i = 0; i < NUMBERS; i++) pair[i] = a[2 * k + i % 2];
        for (unsigned i = 0; i < NUMBERS; i++) to[i] = flushed(fmaf(pair[i], b[k][i], to[i]));
    }
}

void amx_model_dpbf16ps(unsigned c, unsigned a, unsigned b)
{
    product p = product_of(c, a, b, "tdpbf16ps");
    float left[ROWS][NUMBERS], right[ROWS][NUMBERS], dots[NUMBERS], sums[NUMBERS / 2];
    numbers_of(left, p.a), numbers_of(right, p.b);
    for (unsigned row = 0; row < p.c->rows; row++) {
        dots_of(dots, left[row], right, p.b->rows);
        memcpy(sums, p.c->data[row], sizeof sums);
        for (unsigned i = 0; i < p.c->row_bytes / 4; i++)
            sums[i] = flushed(flushed(sums[i]) + flushed(dots[2 * i] + dots[2 * i + 1]));
        memcpy(p.c->data[row], sums, p.c->row_bytes);
    }
    clear_rows(p.c);
}

void amx_model_dpbssd(unsigned c, unsigned a, unsigned b)
{
    product p = product_of(c, a, b, "tdpbssd");
    for (unsigned row = 0; row < p.c->rows; row++) {
        uint32_t sums[ROW_BYTES / 4];
        memcpy(sums, p.c->data[row], sizeof sums);
        for (unsigned i = 0; i < p.a->row_bytes; i++)
            for (unsigned column = 0; column < p.c->row_bytes / 4; column++)
                sums[column] += (uint32_t)((int8_t)p.a->data[row][i] * (int8_t)p.b->data[i / 4][4 * column + i % 4]);
        memcpy(p.c->data[row], sums, p.c->row_bytes);
    }
    clear_rows(p.c);
}
