/* attention_tiles_amx.c - attention_tiles.h by AMX. Only called where instructions.h finds AMX_BF16.
 *
 * Tiles 0 to 3 are sums of two by two tiles, 4 and 5 the rows of the left operand (keys, or channels), 6 and 7 the
 * queries' columns of the right one: a load for each product. All tiles are whole, so that shapes stay through a task.
 */
#include "backend/cpu/attention_tiles.h"

#include "backend/cpu/amx_tiles.h"

#define INLINE static inline __attribute__((always_inline))

void tiles_begin(void)
{
    static const amx_shapes whole = {
        .palette = 1, .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
    tile_config(&whole);
}
void tiles_end(void) { tile_release(); }

/* Up to 32 rows by 32 columns: to[row][column] = or += the sum over words of left[row][word] right[word][column]. */
typedef struct {
    float *to;
    const char *left;      /* rows are `apart` bytes from each other */
    const uint32_t *right; /* `width` words apart, as floats of `to` are */
    size_t apart, words, width;
} square;

INLINE void begin_sums(const int rows, const int columns, const square *s, const int add)
{
    const size_t line = s->width * sizeof(float);
    float *below = s->to + TILE_ROWS * s->width;
    if (!add) {
        tile_zero(0);
        if (columns > 1) tile_zero(1);
        if (rows > 1) tile_zero(2);
        if (rows > 1 && columns > 1) tile_zero(3);
        return;
    }
    tile_load(0, s->to, line);
    if (columns > 1) tile_load(1, s->to + 16, line);
    if (rows > 1) tile_load(2, below, line);
    if (rows > 1 && columns > 1) tile_load(3, below + 16, line);
}

INLINE void store_sums(const int rows, const int columns, const square *s)
{
    const size_t line = s->width * sizeof(float);
    float *below = s->to + TILE_ROWS * s->width;
    tile_store(0, s->to, line);
    if (columns > 1) tile_store(1, s->to + 16, line);
    if (rows > 1) tile_store(2, below, line);
    if (rows > 1 && columns > 1) tile_store(3, below + 16, line);
}

INLINE void multiply(const int rows, const int columns, const square *s, const int add)
{
    const size_t line = s->width * sizeof(uint32_t);
    begin_sums(rows, columns, s, add);
    for (size_t w = 0; w < s->words; w += TILE_WORDS) {
        const char *left = s->left + w * sizeof(uint32_t);
        const uint32_t *right = s->right + w * s->width;
        tile_load(4, left, s->apart);
        tile_load(6, right, line);
        tile_dpbf16ps(0, 4, 6);
        if (columns > 1) {
            tile_load(7, right + 16, line);
            tile_dpbf16ps(1, 4, 7);
        }
        if (rows > 1) {
            tile_load(5, left + TILE_ROWS * s->apart, s->apart);
            tile_dpbf16ps(2, 5, 6);
        }
        if (rows > 1 && columns > 1) tile_dpbf16ps(3, 5, 7);
    }
    store_sums(rows, columns, s);
}

/* All of `rows` by width, two tiles each way at a time. */
INLINE void multiply_all(square s, size_t rows, const int add)
{
    float *to = s.to;
    const uint32_t *right = s.right;
    for (size_t r = 0; r < rows; r += 2 * TILE_ROWS, s.left += 2 * TILE_ROWS * s.apart)
        for (size_t c = 0; c < s.width; c += 32) {
            int two = rows - r > TILE_ROWS, wide = s.width - c > 16;
            s.to = to + r * s.width + c, s.right = right + c;
            if (two && wide)
                multiply(2, 2, &s, add);
            else if (two)
                multiply(2, 1, &s, add);
            else if (wide)
                multiply(1, 2, &s, add);
            else
                multiply(1, 1, &s, add);
        }
}

void tiles_scores(float *s, const uint32_t *q, const uint32_t *k, size_t keys, size_t words, size_t width)
{
    square all = {s, (const char *)k, q, words * sizeof *k, words, width};
    multiply_all(all, keys, 0);
}

void tiles_values(float *sums, const uint32_t *p, const uint16_t *v, size_t keys, size_t channels, size_t width)
{
    square all = {sums, (const char *)v, p, VALUE_KEYS * sizeof *v, keys / 2, width};
    multiply_all(all, channels, 1);
}
