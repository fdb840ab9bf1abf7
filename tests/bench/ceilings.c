/* ceilings.c - what this machine's oneDNN reaches at best, for the benchmarks to be held against: dense products and
 * convolutions of SD1.5's shapes in f32 and bf16, through our kernels and threads. Prints "NAME GFLOP/s" lines.
 *
 * int8 is of plain integers, without scales: a product of bytes by our own loop (AVX-512 VNNI) and by oneDNN's (u8 by
 * s8 to s32), each thread with columns of its own.
 */
#include "backend/backend.h"
#include "base/memory_alloc.h"
#include "busy_time.h"
#include "tensor/dtype.h"

#include <dnnl.h>
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#if defined __x86_64__
#include <immintrin.h>
#endif

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

/* ---- int8 ---- */

enum {
    ROWS = 252,
    DEEP = 2816,
    STRIP = 16,
    PAIR = 2 * STRIP,
    TOGETHER = 12,
    PIECE = 512,
    COLUMNS = 1408
}; /* columns: of each thread */

typedef struct {
    uint8_t *w; /* [columns / 16][DEEP / 4][16][4] */
    int8_t *x;  /* [ROWS][DEEP] */
    int32_t *y; /* [columns / 32][ROWS][32] */
} integers;

#if defined __x86_64__
__attribute__((target("avx512f,avx512bw,avx512vnni"))) static void multiply_rows(const integers *j, size_t pair,
                                                                                 size_t row, size_t from)
{
    __m512i sum[TOGETHER][2];
    int32_t *y = j->y + (pair * ROWS + row) * PAIR;
    const uint8_t *w = j->w + (2 * pair * DEEP + from) * STRIP;
    _Pragma("GCC unroll 12") for (size_t r = 0; r < TOGETHER; r++)
    {
        sum[r][0] = from ? _mm512_loadu_si512(y + r * PAIR) : _mm512_setzero_si512();
        sum[r][1] = from ? _mm512_loadu_si512(y + r * PAIR + STRIP) : _mm512_setzero_si512();
    }
    size_t last = from + PIECE < DEEP ? from + PIECE : DEEP;
    for (size_t k = from; k < last; k += 4, w += 4 * STRIP) {
        __m512i a = _mm512_loadu_si512(w), b = _mm512_loadu_si512(w + (size_t)DEEP * STRIP);
        _Pragma("GCC unroll 12") for (size_t r = 0; r < TOGETHER; r++)
        {
            int32_t four;
            memcpy(&four, j->x + (row + r) * DEEP + k, sizeof four);
            __m512i x = _mm512_set1_epi32(four);
            sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], a, x);
            sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], b, x);
        }
    }
    _Pragma("GCC unroll 12") for (size_t r = 0; r < TOGETHER; r++)
    {
        _mm512_storeu_si512(y + r * PAIR, sum[r][0]);
        _mm512_storeu_si512(y + r * PAIR + STRIP, sum[r][1]);
    }
}
static int has_vnni(void) { return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw"); }
#else
static void multiply_rows(const integers *j, size_t pair, size_t row, size_t from)
{
    (void)j, (void)pair, (void)row, (void)from;
}
static int has_vnni(void) { return 0; }
#endif

static void own_pair(void *arg, size_t pair)
{
    const integers *j = arg;
    for (size_t k = 0; k < DEEP; k += PIECE)
        for (size_t r = 0; r < ROWS; r += TOGETHER) multiply_rows(j, pair, r, k);
}

typedef struct {
    dnnl_primitive_t product;
    dnnl_memory_t x, w[64], y[64];
    dnnl_stream_t stream;
} library_product;

static void library_part(void *arg, size_t part)
{
    library_product *j = arg;
    omp_set_num_threads(1); /* each of the pool's threads calls for itself */
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, j->x}, {DNNL_ARG_WEIGHTS, j->w[part]}, {DNNL_ARG_DST, j->y[part]}};
    dnnl_primitive_execute(j->product, j->stream, 3, args);
}

/* Of the clock, and of processors' time: what one of them does on a busy machine. */
static void print_best(const char *name, pool *p, size_t n, void (*fn)(void *, size_t), void *arg, double operations)
{
    double best = 1e30, busy = 1e30;
    for (int i = 0; i < 5 * REPEATS; i++) {
        double worked = busy_time(p), start = now();
        pool_for(p, n, fn, arg);
        double took = now() - start;
        worked = busy_time(p) - worked;
        if (took < best) best = took;
        if (worked < busy) busy = worked;
    }
    printf("%s-%dx%dx%d int8 %.1f\n", name, ROWS, DEEP, COLUMNS, operations / best * 1e-9);
    printf("%s-%dx%dx%d int8-by-processor-time %.1f\n", name, ROWS, DEEP, COLUMNS, operations / busy * 1e-9);
}

static void own_int8(pool *p)
{
    size_t columns = (size_t)COLUMNS * pool_threads(p);
    integers j = {mem_calloc(columns, DEEP), mem_calloc(ROWS, DEEP), mem_calloc(columns * ROWS, sizeof(int32_t))};
    print_best("linear", p, columns / PAIR, own_pair, &j, 2.0 * ROWS * DEEP * (double)columns);
    mem_free(j.w), mem_free(j.x), mem_free(j.y);
}

/* The version of the library whose calls onednn.c is written for, too. */
#if DNNL_VERSION_MAJOR == 2
static int library_make(library_product *j, size_t threads)
{
    dnnl_engine_t engine;
    dnnl_matmul_desc_t matmul;
    dnnl_memory_desc_t x, w, y;
    dnnl_primitive_desc_t desc;
    dnnl_dims_t of_x = {ROWS, DEEP}, of_w = {DEEP, COLUMNS}, of_y = {ROWS, COLUMNS};
    dnnl_engine_create(&engine, dnnl_cpu, 0), dnnl_stream_create(&j->stream, engine, dnnl_stream_default_flags);
    dnnl_memory_desc_init_by_tag(&x, 2, of_x, dnnl_u8, dnnl_ab);
    dnnl_memory_desc_init_by_tag(&w, 2, of_w, dnnl_s8, dnnl_format_tag_any);
    dnnl_memory_desc_init_by_tag(&y, 2, of_y, dnnl_s32, dnnl_ab);
    if (dnnl_matmul_desc_init(&matmul, &x, &w, NULL, &y) != dnnl_success ||
        dnnl_primitive_desc_create(&desc, &matmul, NULL, engine, NULL) != dnnl_success ||
        dnnl_primitive_create(&j->product, desc) != dnnl_success)
        return 0;
    const dnnl_memory_desc_t *packed = dnnl_primitive_desc_query_md(desc, dnnl_query_weights_md, 0);
    dnnl_memory_create(&j->x, &x, engine, DNNL_MEMORY_ALLOCATE);
    for (size_t i = 0; i < threads; i++) {
        dnnl_memory_create(&j->w[i], packed, engine, DNNL_MEMORY_ALLOCATE);
        dnnl_memory_create(&j->y[i], &y, engine, DNNL_MEMORY_ALLOCATE);
    }
    return 1;
}
#else
static int library_make(library_product *j, size_t threads)
{
    (void)j, (void)threads;
    return 0;
}
#endif

static void library_int8(pool *p)
{
    size_t threads = pool_threads(p) < 64 ? pool_threads(p) : 64;
    library_product j = {0};
    if (library_make(&j, threads))
        print_best("onednn", p, threads, library_part, &j, 2.0 * ROWS * DEEP * COLUMNS * (double)threads);
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
    if (has_vnni()) own_int8(p);
    library_int8(p);
    pool_free(p);
    return 0;
}
