/* int8_alone.h - a rounded row's part by itself: what of a part (int8_kernels.h) is that row's. A row that several
 * groups take is rounded once so, and put into each group's parts.
 */
#ifndef KILN_BACKEND_CPU_INT8_ALONE_H
#define KILN_BACKEND_CPU_INT8_ALONE_H

#include "backend/cpu/int8_kernels.h"

#include <string.h>

/* Every part of INT8_ROWS rows is words of those rows side by side, throughout. */
enum { INT8_WORD = sizeof(uint32_t) };
static inline size_t int8_part_words(size_t part_bytes) { return part_bytes / ((size_t)INT8_ROWS * INT8_WORD); }

static inline int int8_is_tile_part(size_t part_bytes) { return part_bytes == sizeof(int8_tile_part); }

/* Bytes of a part of one row by itself. */
static inline size_t int8_alone_bytes(size_t part_bytes)
{
    return int8_is_tile_part(part_bytes) ? part_bytes / INT8_TILE_ROWS : int8_part_words(part_bytes) * INT8_WORD;
}

static inline void int8_tile_alone(int8_tile_part *tile, size_t row, char *alone, int out)
{
    char *code = (char *)tile->codes[row], *scale = (char *)&tile->scale[row];
    size_t at = INT8_PART;
    memcpy(out ? alone : code, out ? code : alone, INT8_PART);
    memcpy(out ? alone + at : scale, out ? scale : alone + at, sizeof tile->scale[row]);
    at += sizeof tile->scale[row];
    for (size_t i = 0; i < INT8_PIECES / 2; i++, at += sizeof tile->sum[i][row]) {
        char *sum = (char *)tile->sum[i][row];
        memcpy(out ? alone + at : sum, out ? sum : alone + at, sizeof tile->sum[i][row]);
    }
}

/* Row `row` of a part, to `alone` and from there. */
static inline void int8_take_out(void *part, size_t part_bytes, size_t row, void *alone)
{
    const char *from = (const char *)part + row * INT8_WORD;
    char *to = alone;
    if (int8_is_tile_part(part_bytes)) {
        int8_tile_alone(part, row, alone, 1);
        return;
    }
    for (size_t n = int8_part_words(part_bytes); n; n--, to += INT8_WORD, from += INT8_ROWS * INT8_WORD)
        memcpy(to, from, INT8_WORD);
}

static inline void int8_put_in(void *part, size_t part_bytes, size_t row, void *alone)
{
    char *to = (char *)part + row * INT8_WORD;
    const char *from = alone;
    if (int8_is_tile_part(part_bytes)) {
        int8_tile_alone(part, row, alone, 0);
        return;
    }
    for (size_t n = int8_part_words(part_bytes); n; n--, from += INT8_WORD, to += INT8_ROWS * INT8_WORD)
        memcpy(to, from, INT8_WORD);
}

#endif
