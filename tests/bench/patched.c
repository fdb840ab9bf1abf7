/* patched.c - what patched weights cost: f16 matrices of SD1.5's and SDXL's sizes that are packed anew in every run, as
 * they are and with a LoRA of several ranks, a LoHa's worth of products and a difference on them; and the rate of the
 * sums themselves. "patched [--ranks 16,64,128] [--threads N]": prints "NAME: ms a weight, of all
 * processors together, times plain, GFLOP/s of a processor's time", so that other work on the machine counts little.
 *
 * The budget holds two of the matrices, so every run streams all of them: read, summed, packed.
 */
#include "backend/runtime.h"
#include "base/memory_alloc.h"
#include "weights/safetensors_write.h"
#include "weights/weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 12, RUNS = 5, STEP = 512 };

static int64_t tokens = 1; /* that each matrix is multiplied with: next to none, or a step's */

typedef struct {
    int64_t rows, columns;
} matrix;

static char folder[] = "/tmp/kiln-patched-XXXXXX";

static void die(const char *what)
{
    fprintf(stderr, "patched: %s\n", what);
    exit(1);
}

/* Of all threads of this process. */
static int64_t busy_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static const char *at(const char *name)
{
    static char path[80];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* n numbers near 1/8, as f16 or f32. */
static void *noise(size_t n, uint32_t dtype)
{
    uint32_t state = 1;
    uint16_t *half = mem_alloc(n * 2);
    float *wide = mem_alloc(n * 4);
    if (!half || !wide) die("out of memory");
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        half[i] = (uint16_t)(0x2c00u | (state >> 31 << 15) | (state >> 20 & 0x3ff));
        wide[i] = (float)(int32_t)state * 0x1p-34f;
    }
    mem_free(dtype == KILN_F16 ? (void *)wide : (void *)half);
    return dtype == KILN_F16 ? (void *)half : (void *)wide;
}

static kiln_weights *write_file(const char *name, const safetensors_source *t, size_t n)
{
    error e = {0};
    if (safetensors_write(at(name), t, n, NULL, 0, &e) != KILN_OK) die(e.message);
    kiln_weights *w = weights_open(at(name), &e);
    return w ? w : (die(e.message), NULL);
}

static kiln_weights *write_base(matrix m)
{
    static char name[COUNT][8];
    static int64_t dim[2];
    safetensors_source t[COUNT];
    void *data = noise((size_t)(m.rows * m.columns), KILN_F16);
    dim[0] = m.rows, dim[1] = m.columns;
    for (int i = 0; i < COUNT; i++) {
        snprintf(name[i], sizeof name[i], "w%d", i);
        t[i] = (safetensors_source){.name = name[i], .dtype = KILN_F16, .rank = 2, .dim = dim, .data = data};
    }
    kiln_weights *w = write_file("base.safetensors", t, COUNT);
    mem_free(data);
    return w;
}

static kiln_weights *write_factors(matrix m, int64_t rank)
{
    int64_t up[] = {m.rows, rank}, down[] = {rank, m.columns};
    void *data = noise((size_t)((m.rows > m.columns ? m.rows : m.columns) * rank), KILN_F16);
    const safetensors_source t[] = {{.name = "down", .dtype = KILN_F16, .rank = 2, .dim = down, .data = data},
                                    {.name = "up", .dtype = KILN_F16, .rank = 2, .dim = up, .data = data}};
    kiln_weights *w = write_file("factors.safetensors", t, 2);
    mem_free(data);
    return w;
}

static kiln_weights *patch_all(kiln_weights *base, kiln_weights *from)
{
    static char name[COUNT][8];
    kiln_weight_patch p[COUNT];
    error e = {0};
    for (int i = 0; i < COUNT; i++) {
        snprintf(name[i], sizeof name[i], "w%d", i);
        p[i] = (kiln_weight_patch){.size = sizeof p[i],
                                   .name = name[i],
                                   .strength = 1,
                                   .scale = 0.01,
                                   .from = from,
                                   .up = "up",
                                   .down = "down"};
    }
    kiln_weights *w = weights_patch(base, p, COUNT, &e);
    return w ? w : (die(e.message), NULL);
}

static kiln_program *make_program(runtime *rt, kiln_weights *w, matrix m)
{
    error e = {0};
    kiln_program *p = program_new(rt, "net", 0, &e);
    if (!p) die(e.message);
    recording *r = program_recording(p);
    int64_t in[] = {1, tokens, m.columns}, weight[] = {m.rows, m.columns};
    kiln_t x = record_input(r, "x", KILN_F32, 3, in), sum = {0}, none = {0};
    for (int i = 0; i < COUNT; i++) {
        char name[8];
        snprintf(name, sizeof name, "w%d", i);
        kiln_t args[] = {x, record_weight(r, w, name, 2, weight, 0), none};
        kiln_t y = record_op(r, OP_LINEAR, &(op_attr){0}, args, 3);
        sum = i ? record_op(r, OP_ADD, &(op_attr){0}, (kiln_t[]){sum, y}, 2) : y;
    }
    record_output(r, "y", sum);
    if (program_plan(p, &e) != KILN_OK) die(e.message);
    return p;
}

static kiln_bind bind_to(const char *name, float *data, int64_t *dim)
{
    return (kiln_bind)KILN_BIND(
        name,
        {.size = sizeof(kiln_tensor), .dtype = KILN_F32, .device = KILN_CPU, .rank = 3, .dim = dim, .data = data});
}

/* Milliseconds of one run, the best of several. */
static double time_of(unsigned threads, kiln_weights *w, matrix m)
{
    error e = {0};
    size_t f32 = (size_t)(m.rows * m.columns) * sizeof(float);
    runtime *rt =
        runtime_new(&(runtime_setting){.backend = backend_find("cpu"),
                                       .threads = threads,
                                       .precision = KILN_F32,
                                       .memory = 5 * f32 / 2 +
                                                 (size_t)(STEP * (m.rows * 3 + m.columns)) * sizeof(float) + (4 << 20)},
                    &e);
    if (!rt) die(e.message);
    kiln_program *p = make_program(rt, w, m);
    int64_t in[] = {1, tokens, m.columns}, out[] = {1, tokens, m.rows};
    float *x = mem_calloc((size_t)(tokens * m.columns), sizeof *x), *y = mem_calloc((size_t)(tokens * m.rows), 4);
    if (!x || !y) die("out of memory");
    kiln_bind from = bind_to("x", x, in), to = bind_to("y", y, out);
    double best = 1e30;
    for (int i = 0; i < RUNS; i++) {
        int64_t start = busy_ns();
        if (program_run(p, &from, 1, &to, 1, NULL, NULL, &e) != KILN_OK) die(e.message);
        double ms = (double)(busy_ns() - start) * 1e-6;
        if (ms < best) best = ms;
    }
    program_free(p);
    runtime_free(rt);
    mem_free(x);
    mem_free(y);
    return best / COUNT;
}

/* GFLOP/s of reading a patched weight as f32. */
static double rate_of(pool *threads, kiln_weights *w, matrix m, int64_t rank)
{
    error e = {0};
    float *out = mem_alloc((size_t)(m.rows * m.columns) * sizeof *out);
    double best = 1e30;
    for (int i = 0; out && i < RUNS; i++) {
        int64_t start = busy_ns();
        if (weights_read_f32_by(w, "w0", out, threads, &e) != KILN_OK) die(e.message);
        double s = (double)(busy_ns() - start) * 1e-9;
        if (s < best) best = s;
    }
    mem_free(out);
    return 2e-9 * (double)(m.rows * m.columns * rank) / best;
}

static void measure(matrix m, const int64_t *rank, size_t n, unsigned threads)
{
    kiln_weights *base = write_base(m);
    pool *all = pool_new(threads);
    double plain = time_of(threads, base, m);
    tokens = STEP;
    double plain_step = time_of(threads, base, m);
    tokens = 1;
    printf("%lldx%lld plain: %.2f ms; in a step of %d tokens %.2f ms\n", (long long)m.rows, (long long)m.columns, plain,
           (int)STEP, plain_step);
    for (size_t i = 0; i < n; i++) {
        kiln_weights *from = write_factors(m, rank[i]), *w = patch_all(base, from);
        double ms = time_of(threads, w, m);
        tokens = STEP;
        double step = time_of(threads, w, m);
        tokens = 1;
        printf("%lldx%lld rank %lld: %.2f ms, %.2fx plain; in a step %.2f ms, %.2fx plain; sums %.1f GFLOP/s\n",
               (long long)m.rows, (long long)m.columns, (long long)rank[i], ms, ms / plain, step, step / plain_step,
               rate_of(all, w, m, rank[i]));
        weights_unref(w);
        weights_unref(from);
        unlink(at("factors.safetensors"));
    }
    pool_free(all);
    weights_unref(base);
    unlink(at("base.safetensors"));
}

int main(int argc, char **argv)
{
    static const matrix sizes[] = {{640, 640}, {1280, 1280}, {640, 5760}, {10240, 1280}};
    int64_t rank[16] = {4, 16, 64, 128};
    size_t n = 4;
    unsigned threads = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--threads") == 0) threads = (unsigned)atoi(argv[i + 1]);
        if (strcmp(argv[i], "--ranks") == 0) {
            n = 0;
            for (char *p = strtok(argv[i + 1], ","); p && n < 16; p = strtok(NULL, ",")) rank[n++] = atoi(p);
        }
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!mkdtemp(folder)) die("no temporary folder");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) measure(sizes[i], rank, n, threads);
    rmdir(folder);
    return 0;
}
