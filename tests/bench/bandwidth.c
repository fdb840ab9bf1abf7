/* bandwidth.c - how fast this machine copies memory, and reads a mapped file and a file on its disk: what streaming weights
 * is held against; with a device, how fast its link is, in both directions. Prints "NAME GB/s" lines; GB are 10^9 bytes that arrive.
 *
 *     bandwidth [FILE]            FILE: larger than 64 MB; read once through a map (warm) when given
 *     bandwidth --device cuda     as kiln moves weights: pieces of 64 MiB, page-locked, several under way at once, on one stream
 */
#include "backend/choose.h"
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

/* ---- a device's link, through its table ------------------------------------------------------------------------------------------ */

enum { LINK_PIECES = 4 };
static const size_t LINK_PIECE = (size_t)64 << 20;

typedef struct {
    memory_device *device;
    device_stream *stream;
    void *there, *here[LINK_PIECES];
} link_rig;

static kiln_status link_open(link_rig *l, const char *name, error *e)
{
    const backend *b;
    unsigned index;
    TRY(backend_choose(name, &b, &index, e));
    TRY(b->open(index, &l->device, e));
    const device_table *call = l->device->table;
    if (!call->asynchronous) return error_set(e, KILN_ERR_INVALID, "--device %s has no link: its memory is this machine's", name);
    TRY(call->stream_new(l->device, &l->stream, e));
    TRY(call->alloc(l->device, LINK_PIECES * LINK_PIECE, &l->there, e));
    for (int i = 0; i < LINK_PIECES; i++) {
        TRY(call->host_alloc(l->device, LINK_PIECE, &l->here[i], e));
        memset(l->here[i], i + 1, LINK_PIECE);
    }
    return KILN_OK;
}

static void link_close(link_rig *l)
{
    if (!l->device) return;
    const device_table *call = l->device->table;
    for (int i = 0; i < LINK_PIECES; i++)
        if (l->here[i]) call->host_release(l->device, l->here[i]);
    call->release(l->device, l->there);
    if (l->stream) call->stream_free(l->device, l->stream);
}

/* The fastest of a few, in GB/s, from giving the first piece to the arrival of the last. */
static kiln_status link_rate(const link_rig *l, int inward, double *best, error *e)
{
    const device_table *call = l->device->table;
    *best = 0;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        double start = now();
        for (int i = 0; i < LINK_PIECES; i++) {
            char *there = (char *)l->there + (size_t)i * LINK_PIECE;
            if (inward) TRY(call->copy_in(l->device, there, l->here[i], LINK_PIECE, l->stream, e));
            else TRY(call->copy_out(l->device, l->here[i], there, LINK_PIECE, l->stream, e));
        }
        TRY(call->sync(l->device, l->stream, e));
        double reached = (double)(LINK_PIECES * LINK_PIECE) / (now() - start) * 1e-9;
        if (reached > *best) *best = reached;
    }
    return KILN_OK;
}

/* What came back is what was sent: a link that moves nothing would be infinitely fast. */
static kiln_status link_proved(const link_rig *l, error *e)
{
    for (int i = 0; i < LINK_PIECES; i++) memset(l->here[i], 0, LINK_PIECE);
    double unused;
    TRY(link_rate(l, 0, &unused, e));
    for (int i = 0; i < LINK_PIECES; i++)
        for (size_t at = 0; at < LINK_PIECE; at += 4093)
            if (((const char *)l->here[i])[at] != i + 1) return error_set(e, KILN_ERR_IO, "what came back from the device is not what was sent");
    return KILN_OK;
}

static int measure_link(const char *name)
{
    error e = {0};
    link_rig l = {0};
    double in = 0, out = 0;
    kiln_status status = link_open(&l, name, &e);
    if (status == KILN_OK) status = link_rate(&l, 1, &in, &e);
    if (status == KILN_OK) status = link_proved(&l, &e);
    if (status == KILN_OK) status = link_rate(&l, 0, &out, &e);
    link_close(&l);
    if (status != KILN_OK) return fprintf(stderr, "bandwidth: %s\n", e.message), 1;
    printf("in %.2f\nout %.2f\n", in, out);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--device") == 0) return argc == 3 ? measure_link(argv[2]) : (fprintf(stderr, "usage: bandwidth --device NAME\n"), 2);
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
