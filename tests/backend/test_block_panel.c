/* test_block_panel.c - rows of blocks, and of numbers, in oneDNN's layout (block_panel.h): the bytes that gemm_pack()
 * makes of the same numbers, for products and convolutions, in f32 and bf16, at the level of this machine and at lower
 * ones.
 *
 *     test_block_panel          the test
 *     test_block_panel bench    weights a second, one thread
 */
#include "harness.h"

#include "backend/cpu/block_panel.h"
#include "base/memory_alloc.h"
#include "tensor/block.h"
#include "tensor/dtype.h"
#include "weights/packed_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    uint32_t type;
    int64_t n, inputs, high, wide; /* high 0: no convolution */
    int64_t split;                 /* rows of the first of two ranges */
} sizes;

/* Some that fill oneDNN's blocks, some that do not. */
static const sizes rows[] = {
    {KILN_Q8_0, 64, 320, 0, 0, 64},  {KILN_Q8_0, 50, 96, 0, 0, 50},    {KILN_Q4_K, 192, 1280, 0, 0, 96},
    {KILN_Q6_K, 130, 256, 0, 0, 65}, {KILN_Q5_0, 64, 64, 3, 3, 64},    {KILN_Q8_0, 320, 320, 3, 3, 320},
    {KILN_Q4_K, 48, 256, 3, 3, 48},  {KILN_Q8_0, 40, 8, 4, 4, 40},     {KILN_Q4_0, 16, 3, 8, 8, 16},
    {KILN_Q8_0, 33, 32, 1, 5, 33},   {KILN_IQ4_NL, 96, 640, 3, 3, 96}, {KILN_F16, 320, 768, 0, 0, 160},
    {KILN_F32, 320, 770, 0, 0, 320}, {KILN_BF16, 77, 300, 0, 0, 50},   {KILN_F16, 130, 33, 0, 0, 130},
    {KILN_F16, 320, 64, 3, 3, 320},  {KILN_F32, 40, 6, 3, 3, 20},      {KILN_BF16, 48, 130, 3, 3, 48},
    {KILN_F16, 20, 4, 3, 3, 20},     {KILN_F32, 16, 3, 8, 8, 16}};
enum { SIZES = sizeof rows / sizeof rows[0] };

typedef struct {
    row_form form;
    gemm *to;
    block_panel panel;
    uint8_t *blocks;
    float *numbers;
    char *packed, *expected, *scratch;
    int64_t row, count; /* numbers of a row, of the panel */
    size_t bytes;
} setup;

static int make(setup *s, const sizes *z, uint32_t type)
{
    error e = {0};
    int64_t taps = z->high ? z->high * z->wide : 1;
    gemm_shape g = {.type = type, .m = 64, .n = z->n, .k = z->inputs};
    if (z->high)
        g = (gemm_shape){.type = type,
                         .conv = 1,
                         .n = z->n,
                         .i = z->inputs,
                         .h = 16,
                         .w = 16,
                         .kh = z->high,
                         .kw = z->wide,
                         .oh = 17 - z->high,
                         .ow = 17 - z->wide,
                         .stride = {1, 1},
                         .dilation = {1, 1}};
    *s = (setup){.row = z->inputs * taps, .count = z->n * z->inputs * taps};
    s->form = (row_form){.coding = dtype_is_block(z->type) ? WEIGHTS_BLOCKS : 0,
                         .type = z->type,
                         .block = dtype_block(z->type),
                         .block_bytes = dtype_block_bytes(z->type)};
    s->form.row_bytes = (size_t)s->row / s->form.block * s->form.block_bytes;
    if (!CHECK_EQ(gemm_new(&g, NULL, &s->to, &e), KILN_OK)) return 0;
    block_panel_make(&s->panel, s->to, type, &s->form, taps);
    s->bytes = gemm_weight_bytes(s->to);
    s->blocks = mem_alloc((size_t)z->n * s->form.row_bytes), s->numbers = mem_alloc((size_t)s->count * sizeof(float));
    s->packed = mem_aligned(64, s->bytes), s->expected = mem_aligned(64, s->bytes);
    s->scratch = mem_aligned(64, block_panel_scratch(&s->panel));
    for (int64_t i = 0; i < s->count; i++) s->numbers[i] = (float)((i * 7919 + i / 31) % 2003 - 1001) / 1000;
    memset(s->packed, 0xff, s->bytes);
    if (!dtype_is_block(z->type))
        return CHECK_EQ(dtype_convert(s->blocks, z->type, s->numbers, KILN_F32, (size_t)s->count), KILN_OK) &&
               CHECK_EQ(dtype_convert(s->numbers, KILN_F32, s->blocks, z->type, (size_t)s->count), KILN_OK);
    return CHECK_EQ(block_write(z->type, s->numbers, s->blocks, (size_t)s->count), KILN_OK) &&
           CHECK_EQ(block_read_plain(z->type, s->blocks, s->numbers, (size_t)s->count), KILN_OK);
}

static void done(setup *s)
{
    gemm_free(s->to);
    mem_free(s->blocks), mem_free(s->numbers), mem_free(s->packed), mem_free(s->expected), mem_free(s->scratch);
}

/* The panel's rows are two ranges of the data's, in the other order. */
static block_rows ranges(const setup *s, const sizes *z)
{
    return (block_rows){.form = &s->form,
                        .data = (const char *)s->blocks,
                        .first = z->n - z->split,
                        .half = z->split,
                        .second = 0,
                        .inputs = z->inputs};
}

static void check_one(const sizes *z, uint32_t type)
{
    setup s;
    error e = {0};
    if (make(&s, z, type)) {
        block_rows from = ranges(&s, z);
        float *order = mem_alloc((size_t)s.count * sizeof(float));
        size_t first = (size_t)(z->split * s.row), rest = (size_t)s.count - first;
        memcpy(order, s.numbers + rest, first * sizeof(float));
        memcpy(order + first, s.numbers, rest * sizeof(float));
        CHECK_EQ(gemm_pack(s.to, order, s.expected, &e), KILN_OK);
        CHECK_EQ(block_panel_fill(cpu_kernels_get(), &s.panel, &from, s.packed, s.scratch, &e), KILN_OK);
        int same = memcmp(s.packed, s.expected, s.bytes) == 0;
        CHECK_MSG(same, "%s %s, %lld of %lld x %lld x %lld: other bytes", dtype_name(type), dtype_name(z->type),
                  (long long)z->n, (long long)z->inputs, (long long)z->high, (long long)z->wide);
        mem_free(order);
    }
    done(&s);
}

/* A deep product's last panel has fewer inputs than the others; what is missing is 0. */
static void check_part(uint32_t type)
{
    static const sizes z = {KILN_Q8_0, 64, 512, 0, 0, 64};
    setup s;
    error e = {0};
    if (make(&s, &z, type)) {
        block_rows from = ranges(&s, &z);
        from.from = 192, from.inputs = 320, from.first = 0;
        float *part = mem_calloc((size_t)s.count, sizeof(float));
        for (int64_t r = 0; r < z.n; r++) memcpy(part + r * 512, s.numbers + r * 512 + 192, 320 * sizeof(float));
        CHECK_EQ(gemm_pack(s.to, part, s.expected, &e), KILN_OK);
        CHECK_EQ(block_panel_fill(cpu_kernels_get(), &s.panel, &from, s.packed, s.scratch, &e), KILN_OK);
        CHECK(memcmp(s.packed, s.expected, s.bytes) == 0);
        mem_free(part);
    }
    done(&s);
}

/* ---- codes with scales, volumes, and filters of transposed convolutions ---- */

typedef struct {
    uint32_t coding, type;
    int64_t scale_columns;   /* 0: a row's */
    int64_t n, inputs, k[3]; /* k[0] 0: a picture, k[1] 0: no convolution */
    int64_t turned, first;   /* taps of the filter that is turned, of which every second is taken; of n from `first` */
} code_sizes;

static const code_sizes coded[] = {
    {WEIGHTS_F8, KILN_F8_E4M3, 0, 64, 320, {0}, 0, 0},       {WEIGHTS_F8, KILN_F8_E5M2, 128, 50, 96, {0}, 0, 0},
    {WEIGHTS_INT8, KILN_U8, 0, 130, 333, {0}, 0, 0},         {WEIGHTS_INT8, KILN_U8, 0, 64, 64, {0, 3, 3}, 0, 0},
    {WEIGHTS_NIBBLES, KILN_U8, 64, 70, 192, {0}, 0, 0},      {WEIGHTS_NIBBLES, KILN_U8, 64, 48, 128, {0, 3, 3}, 0, 0},
    {WEIGHTS_F8, KILN_F8_E4M3, 0, 40, 34, {3, 3, 3}, 0, 0},  {WEIGHTS_INT8, KILN_U8, 0, 96, 7, {2, 1, 3}, 0, 0},
    {WEIGHTS_F8, KILN_F8_E4M3, 0, 64, 64, {0, 2, 2}, 9, 16}, {WEIGHTS_INT8, KILN_U8, 0, 37, 10, {0, 1, 2}, 5, 7},
    {WEIGHTS_NIBBLES, KILN_U8, 64, 64, 33, {2, 2, 1}, 8, 0}};

static void fill_codes(const code_sizes *z, const row_form *f, int64_t many, uint8_t *data)
{
    float *scale = (float *)(void *)(data + f->scales_at), *book = (float *)(void *)(data + f->codebook_at);
    for (int64_t i = 0; i < many * (int64_t)f->row_bytes; i++) data[i] = (uint8_t)(i * 2654435761 >> 11) & 0xbf;
    for (int64_t i = 0; i < many * (int64_t)f->scales; i++) scale[i] = 0.01f + (float)(i * 7 % 101) * 0.003f;
    for (int i = 0; i < 16 && z->coding == WEIGHTS_NIBBLES; i++) book[i] = (float)i * 0.37f - 2;
}

static float code_at(const code_sizes *z, const row_form *f, const uint8_t *data, int64_t row, int64_t column)
{
    const float *scale = (const float *)(const void *)(data + f->scales_at);
    const float *book = (const float *)(const void *)(data + f->codebook_at);
    float s = scale[row * (int64_t)f->scales + column / (int64_t)f->scale_columns];
    const uint8_t *codes = data + (size_t)row * f->row_bytes;
    if (z->coding == WEIGHTS_NIBBLES) return book[codes[column / 2] >> (column % 2 ? 0 : 4) & 15] * s;
    if (z->coding == WEIGHTS_INT8) return (float)(int8_t)codes[column] * s;
    return (z->type == KILN_F8_E4M3 ? f8_e4m3_to_f32(codes[column]) : f8_e5m2_to_f32(codes[column])) * s;
}

static gemm_shape shape_of_codes(const code_sizes *z, uint32_t type)
{
    const int64_t *k = z->k;
    gemm_shape g = {.type = type, .m = 64, .n = z->n, .k = z->inputs};
    if (!k[1]) return g;
    g = (gemm_shape){.type = type, .conv = 1, .n = z->n, .i = z->inputs, .h = 16, .w = 16, .kh = k[1], .kw = k[2]};
    g.oh = 17 - k[1], g.ow = 17 - k[2], g.stride[0] = g.stride[1] = g.dilation[0] = g.dilation[1] = 1;
    if (k[0]) g.d = 4, g.kd = k[0], g.od = 5 - k[0], g.deep_stride = g.deep_dilation = 1;
    return g;
}

static void check_codes(const code_sizes *z, uint32_t type)
{
    int64_t taps = z->k[1] ? (z->k[0] ? z->k[0] : 1) * z->k[1] * z->k[2] : 1;
    int64_t many = z->turned ? z->inputs : z->n, columns = z->turned ? (z->first + z->n) * z->turned : z->inputs * taps;
    gemm_shape g = shape_of_codes(z, type);
    row_form f = {
        .coding = z->coding, .type = z->type, .block = z->coding == WEIGHTS_NIBBLES ? 2 : 1, .block_bytes = 1};
    f.row_bytes = (size_t)columns / f.block, f.scale_columns = (size_t)(z->scale_columns ? z->scale_columns : columns);
    f.scales = ((size_t)columns + f.scale_columns - 1) / f.scale_columns;
    f.scales_at = round_up((size_t)many * f.row_bytes, 16);
    f.codebook_at = f.scales_at + (size_t)many * f.scales * sizeof(float);
    gemm *to = NULL;
    block_panel panel;
    error e = {0};
    int32_t tap[32];
    for (int64_t t = 0; t < taps && z->turned; t++) tap[t] = (int32_t)(z->turned - 1 - 2 * t);
    if (!CHECK_EQ(gemm_new(&g, NULL, &to, &e), KILN_OK)) return;
    block_panel_make(&panel, to, type, &f, taps);
    if (z->turned) block_panel_turn(&panel, &f, z->turned);
    size_t bytes = gemm_weight_bytes(to), count = (size_t)(z->n * z->inputs * taps);
    uint8_t *data = mem_alloc(f.codebook_at + 64);
    float *numbers = mem_alloc(count * sizeof *numbers);
    char *packed = mem_aligned(64, bytes), *expected = mem_aligned(64, bytes),
         *scratch = mem_aligned(64, block_panel_scratch(&panel));
    fill_codes(z, &f, many, data);
    for (int64_t o = 0; o < z->n; o++)
        for (int64_t i = 0; i < z->inputs * taps; i++)
            numbers[o * z->inputs * taps + i] =
                z->turned ? code_at(z, &f, data, i / taps, (z->first + o) * z->turned + tap[i % taps])
                          : code_at(z, &f, data, o, i);
    block_rows from = {.form = &f, .data = (const char *)data, .first = z->first, .half = z->n, .inputs = z->inputs};
    from.turned = z->turned, from.tap = tap;
    memset(packed, 0xff, bytes);
    CHECK_EQ(gemm_pack(to, numbers, expected, &e), KILN_OK);
    CHECK_EQ(block_panel_fill(cpu_kernels_get(), &panel, &from, packed, scratch, &e), KILN_OK);
    CHECK_MSG(memcmp(packed, expected, bytes) == 0, "%s coding %u, %lld x %lld, taps %lld, turned %lld: other bytes",
              dtype_name(type), z->coding, (long long)z->n, (long long)z->inputs, (long long)taps,
              (long long)z->turned);
    gemm_free(to);
    mem_free(data), mem_free(numbers), mem_free(packed), mem_free(expected), mem_free(scratch);
}

static void check_all(void)
{
    for (size_t i = 0; i < sizeof coded / sizeof coded[0]; i++) {
        check_codes(&coded[i], KILN_F32);
        if (cpu_gemm_type(KILN_BF16) == KILN_BF16) check_codes(&coded[i], KILN_BF16);
    }
    for (size_t i = 0; i < SIZES; i++) {
        check_one(&rows[i], KILN_F32);
        if (cpu_gemm_type(KILN_BF16) == KILN_BF16) check_one(&rows[i], KILN_BF16);
    }
    check_part(KILN_F32);
    if (cpu_gemm_type(KILN_BF16) == KILN_BF16) check_part(KILN_BF16);
}

static void test_here(void) { check_all(); }

/* A level is chosen once a process: this program again, for its first case. */
static void at_level(const char *level)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setenv("KILN_CPU_FEATURES", level, 1);
        execl("/proc/self/exe", "test_block_panel", "test_here", (char *)NULL);
        _exit(127);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK_EQ(status, 0);
}
static void test_plain(void) { at_level("none"); }
static void test_avx2(void) { at_level("avx2"); }
static void test_avx512(void) { at_level("avx512"); }

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void bench(uint32_t type)
{
    static const sizes z[] = {
        {KILN_Q8_0, 64, 1280, 0, 0, 64},  {KILN_Q8_0, 192, 1280, 0, 0, 192}, {KILN_Q8_0, 64, 14336, 0, 0, 64},
        {KILN_Q8_0, 64, 320, 3, 3, 64},   {KILN_Q8_0, 64, 1280, 3, 3, 64},   {KILN_Q5_0, 64, 320, 3, 3, 64},
        {KILN_Q4_K, 64, 1280, 0, 0, 64},  {KILN_Q4_K, 64, 1280, 3, 3, 64},   {KILN_Q6_K, 64, 1280, 0, 0, 64},
        {KILN_Q5_0, 64, 1280, 0, 0, 64},  {KILN_F16, 192, 1280, 0, 0, 192},  {KILN_F16, 320, 640, 3, 3, 320},
        {KILN_F32, 192, 1280, 0, 0, 192}, {KILN_BF16, 320, 640, 3, 3, 320}};
    for (size_t i = 0; i < sizeof z / sizeof z[0]; i++) {
        setup s;
        error e = {0};
        double best = 1e9, order = 1e9;
        if (!make(&s, &z[i], type)) return;
        block_rows from = ranges(&s, &z[i]);
        for (int k = 0; k < 30; k++) {
            double a = seconds();
            block_panel_fill(cpu_kernels_get(), &s.panel, &from, s.packed, s.scratch, &e);
            double b = seconds();
            gemm_pack(s.to, s.numbers, s.expected, &e);
            double c = seconds();
            if (b - a < best) best = b - a;
            if (c - b < order) order = c - b;
        }
        printf("%-5s %-8s %4lld of %6lld %s %8.2f 10^9 weights/s; oneDNN's order of f32 alone %8.2f\n",
               dtype_name(type), dtype_name(z[i].type), (long long)z[i].n, (long long)z[i].inputs,
               z[i].high ? "3x3" : "   ", (double)s.count / best * 1e-9, (double)s.count / order * 1e-9);
        done(&s);
    }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_here), CASE(test_plain), CASE(test_avx2), CASE(test_avx512)};
    if (argc > 1 && strcmp(argv[1], "bench") == 0) {
        bench(KILN_F32);
        if (cpu_gemm_type(KILN_BF16) == KILN_BF16) bench(KILN_BF16);
        return 0;
    }
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
