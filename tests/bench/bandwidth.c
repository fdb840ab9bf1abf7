/* bandwidth.c - how fast this machine copies memory, and reads a mapped file and a file on its disk: what streaming weights
 * is held against. Prints "NAME GB/s" lines; GB are 10^9 bytes that arrive.
 *
 *     bandwidth [FILE]     FILE: larger than 64 MB; read once through a map (warm) when given
 */
#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/pool.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 7 };
static const size_t BYTES = (size_t)256 << 20, PIECE = (size_t)1 << 20;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct {
    char *to;
    const char *from;
} piece_copy;

static void copy_piece(void *arg, size_t i)
{
    const piece_copy *c = arg;
    memcpy(c->to + i * PIECE, c->from + i * PIECE, PIECE);
}

/* The fastest of a few: a ceiling is what can be reached. */
static double rate(pool *p, char *to, const char *from, size_t bytes)
{
    double best = 0;
    for (int i = 0; i < REPEATS; i++) {
        double start = now();
        pool_for(p, bytes / PIECE, copy_piece, &(piece_copy){to, from});
        double seconds = now() - start;
        if ((double)bytes / seconds * 1e-9 > best) best = (double)bytes / seconds * 1e-9;
    }
    return best;
}

int main(int argc, char **argv)
{
    error e = {0};
    file_map map = {0};
    pool *p = pool_new(0);
    char *a = mem_aligned(64, BYTES), *b = mem_aligned(64, BYTES);
    if (!p || !a || !b) return fprintf(stderr, "bandwidth: out of memory\n"), 1;
    memset(a, 1, BYTES), memset(b, 2, BYTES);
    printf("copy %.2f\n", rate(p, a, b, BYTES));
    if (argc > 1) {
        if (file_map_open(&map, argv[1], &e) != KILN_OK) return fprintf(stderr, "bandwidth: %s\n", e.message), 1;
        size_t bytes = map.size < BYTES ? map.size / PIECE * PIECE : BYTES;
        if (bytes) printf("map %.2f\n", rate(p, a, (const char *)map.data, bytes));
        file_map_close(&map);
    }
    mem_free(a), mem_free(b);
    pool_free(p);
    return 0;
}
