/* gguf_kit.h - GGUF files made by hand, byte by byte, for tests of what reads them. */
#ifndef KILN_TESTS_GGUF_KIT_H
#define KILN_TESTS_GGUF_KIT_H

#include "weights/gguf_header.h"
#include "weights_kit.h"

typedef struct {
    uint8_t b[32768];
    size_t n;
    uint64_t tensors, pairs;
} gguf_bytes;

static inline void put(gguf_bytes *g, uint64_t v, int width)
{
    for (int i = 0; i < width; i++) g->b[g->n++] = (uint8_t)(v >> (8 * i));
}
static inline void put_string(gguf_bytes *g, const char *s, size_t n)
{
    put(g, n, 8);
    memcpy(g->b + g->n, s, n);
    g->n += n;
}

/* A head of this version and these counts. */
static inline gguf_bytes gguf_begin(uint32_t version, uint64_t tensors, uint64_t pairs)
{
    gguf_bytes g = {.tensors = tensors, .pairs = pairs};
    memcpy(g.b, "GGUF", 4);
    g.n = 4;
    put(&g, version, 4);
    put(&g, tensors, 8);
    put(&g, pairs, 8);
    return g;
}
static inline void put_key(gguf_bytes *g, const char *key, uint32_t type)
{
    put_string(g, key, strlen(key));
    put(g, type, 4);
}
static inline void put_number(gguf_bytes *g, const char *key, uint32_t type, uint64_t v, int width)
{
    put_key(g, key, type);
    put(g, v, width);
}
/* dim: fastest first, ended by 0. */
static inline void put_tensor(gguf_bytes *g, const char *name, const uint64_t *dim, uint32_t type, uint64_t offset)
{
    uint32_t rank = 0;
    while (dim[rank]) rank++;
    put_string(g, name, strlen(name));
    put(g, rank, 4);
    for (uint32_t i = 0; i < rank; i++) put(g, dim[i], 8);
    put(g, type, 4);
    put(g, offset, 8);
}
/* Up to a multiple of the alignment, then `bytes` bytes of 1. */
static inline void put_data(gguf_bytes *g, size_t alignment, size_t bytes)
{
    while (g->n % alignment) put(g, 0, 1);
    memset(g->b + g->n, 1, bytes);
    g->n += bytes;
}

#endif
