/* ceilings.c - what this machine's oneDNN reaches at best, for the benchmarks to be held against: dense products and
 * convolutions of SD1.5's shapes in f32 and bf16, through our kernels and threads. Prints "NAME GFLOP/s" lines.
 */
#include "backend/backend.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 7 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static op_desc linear(int64_t rows, int64_t in, int64_t out, uint32_t dtype)
{
    op_desc d = {.kind = OP_LINEAR, .n_in = 3, .precision = dtype};
    d.in[0] = (operand_desc){.dtype = dtype, .shape = {.rank = 2, .dim = {rows, in}}, .ld = in};
    d.in[1] = (operand_desc){.dtype = KILN_F32, .shape = {.rank = 2, .dim = {out, in}}, .ld = in, .weight = 1};
    d.out = (operand_desc){.dtype = dtype, .shape = {.rank = 2, .dim = {rows, out}}, .ld = out};
    return d;
}

static op_desc conv(int64_t size, int64_t in, int64_t out, uint32_t dtype)
{
    op_desc d = {.kind = OP_CONV2D,
                 .n_in = 3,
                 .precision = dtype,
                 .attr.conv2d = {.stride = {1, 1}, .pad = {1, 1, 1, 1}, .dilation = {1, 1}, .groups = 1}};
    d.in[0] = (operand_desc){.dtype = dtype, .shape = {.rank = 4, .dim = {2, size, size, in}}, .ld = in};
    d.in[1] = (operand_desc){.dtype = KILN_F32, .shape = {.rank = 4, .dim = {out, in, 3, 3}}, .ld = 3, .weight = 1};
    d.out = (operand_desc){.dtype = dtype, .shape = {.rank = 4, .dim = {2, size, size, out}}, .ld = out};
    return d;
}

/* The fastest of a few runs: a ceiling is what can be reached. */
static double rate(const op_desc *d, pool *p)
{
    kernel *k;
    error e = {0};
    if (backend_cpu.prepare(d, &k, &e) != KILN_OK) return 0;
    size_t n_in = (size_t)shape_count(&d->in[0].shape), n_w = (size_t)shape_count(&d->in[1].shape),
           n_out = (size_t)shape_count(&d->out.shape);
    void *x = mem_aligned(64, n_in * 4), *w = mem_aligned(64, n_w * 4), *y = mem_aligned(64, n_out * 4);
    void *packed = mem_aligned(64, k->packed_bytes[1] + 64), *scratch = mem_aligned(64, k->scratch_bytes + 64);
    double best = 1e30;
    memset(x, 0, n_in * 4), memset(w, 0, n_w * 4);
    kiln_status status = k->packed_bytes[1] ? k->pack(k, 1, w, KILN_F32, packed, p, &e) : KILN_OK;
    kernel_args a = {.in = {x, k->packed_bytes[1] ? packed : w}, .out = y, .scratch = scratch, .pool = p};
    for (int i = 0; i < REPEATS && status == KILN_OK; i++) {
        double start = now();
        status = k->run(k, &a, &e);
        double seconds = now() - start;
        if (seconds < best) best = seconds;
    }
    double flops = (double)k->flops;
    k->free(k);
    mem_free(x), mem_free(w), mem_free(y), mem_free(packed), mem_free(scratch);
    return status == KILN_OK ? flops / best * 1e-9 : 0;
}

int main(void)
{
    pool *p = pool_new(0);
    static const uint32_t type[] = {KILN_F32, KILN_BF16};
    printf("processor %s\nthreads %u\n", backend_cpu.features(), pool_threads(p));
    for (int i = 0; i < 2; i++) {
        op_desc a = linear(4096, 1280, 1280, type[i]), b = linear(8192, 320, 1280, type[i]),
                c = conv(32, 640, 640, type[i]);
        printf("linear-4096x1280x1280 %s %.1f\n", dtype_name(type[i]), rate(&a, p));
        printf("linear-8192x320x1280 %s %.1f\n", dtype_name(type[i]), rate(&b, p));
        printf("conv3x3-32x32x640 %s %.1f\n", dtype_name(type[i]), rate(&c, p));
    }
    pool_free(p);
    return 0;
}
