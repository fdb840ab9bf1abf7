/* test_gemm_order.c - oneDNN's f32 product with AVX2 alone (onednn.c): the bits of a number depend on no row and no
 * column beside it, so that pictures of a batch are those of one, stripes those of the whole, and q, k and v as one
 * product those of three.
 */
#include "harness.h"

#include "backend/cpu/cpu.h"
#include "backend/cpu/onednn.h"
#include "base/memory_alloc.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 300, COLUMNS = 320, DEPTH = 1280 };

typedef struct {
    float *a, *b, *bias, *all, *c; /* [ROWS][depth], [COLUMNS][depth], [COLUMNS], [ROWS][COLUMNS] twice */
    int64_t depth;
} product;

static void fill(float *x, int64_t n, uint32_t *seed)
{
    for (int64_t i = 0; i < n; i++) x[i] = (float)((*seed = *seed * 1664525 + 1013904223) >> 8) / (float)0x800000 - 1;
}

/* c [m][n] of m rows of a and n of b, from row and from column on; turned: of b given as [depth][n]. */
static int multiply(const product *p, int64_t row, int64_t m, int64_t column, int64_t n, int turned, float *c)
{
    error e = {0};
    gemm *g = NULL;
    const gemm_shape s = {.type = KILN_F32, .bias = 1, .m = m, .n = n, .k = p->depth};
    if (!CHECK_EQ(gemm_new(&s, NULL, &g, &e), KILN_OK)) return 0;
    void *packed = mem_aligned(64, gemm_weight_bytes(g)), *scratch = mem_aligned(64, gemm_scratch_bytes(g) + 64);
    float *columns = mem_alloc((size_t)(n * p->depth) * sizeof *columns);
    const float *b = p->b + column * p->depth;
    memset(packed, 0xff, gemm_weight_bytes(g)), memset(scratch, 0xff, gemm_scratch_bytes(g));
    for (int64_t o = 0; turned && o < n; o++)
        for (int64_t k = 0; k < p->depth; k++) columns[k * n + o] = b[o * p->depth + k];
    int ok = CHECK_EQ((turned ? gemm_pack_columns(g, columns, packed, &e) : gemm_pack(g, b, packed, &e)), KILN_OK) &&
             CHECK_EQ(gemm_run(g, p->a + row * p->depth, packed, p->bias + column, c, scratch, &e), KILN_OK);
    mem_free(columns), mem_free(packed), mem_free(scratch), gemm_free(g);
    return ok;
}

static void check_part(const product *p, int64_t row, int64_t m, int64_t column, int64_t n, int turned)
{
    p->c[m * n] = 12345; /* behind the result */
    if (!multiply(p, row, m, column, n, turned, p->c)) return;
    CHECK_EQ(p->c[m * n], 12345);
    int64_t other = 0;
    for (int64_t r = 0; r < m; r++)
        other += memcmp(p->c + r * n, p->all + (row + r) * COLUMNS + column, (size_t)n * sizeof(float)) != 0;
    CHECK_MSG(!other, "depth %lld, rows %lld + %lld, columns %lld + %lld: %lld rows have other bits",
              (long long)p->depth, (long long)row, (long long)m, (long long)column, (long long)n, (long long)other);
}

static void check_whole(const product *p)
{
    double worst = 0;
    for (int64_t i = 0; i < ROWS * COLUMNS; i += 97) {
        double sum = p->bias[i % COLUMNS], size = 0;
        for (int64_t k = 0; k < p->depth; k++) {
            double x = (double)p->a[i / COLUMNS * p->depth + k] * p->b[i % COLUMNS * p->depth + k];
            sum += x, size += x < 0 ? -x : x;
        }
        double off = (sum - p->all[i]) / (size + 1);
        if (off < 0) off = -off;
        if (off > worst) worst = off;
    }
    CHECK_MSG(worst < 1e-6, "depth %lld: %g from sums in f64", (long long)p->depth, worst);
}

static void check_depth(product *p, int64_t depth)
{
    p->depth = depth;
    if (!multiply(p, 0, ROWS, 0, COLUMNS, 0, p->all)) return;
    check_whole(p);
    for (int64_t m = 1; m < ROWS; m += m < 32 ? 1 : 5) check_part(p, m % 7, m > ROWS - 7 ? ROWS - 7 : m, 0, 48, 0);
    for (int64_t n = 1; n < 50; n++) check_part(p, 5, 32, n % 9, n, n % 2 == 1);
    for (int64_t column = 8; column < 280; column += 8) check_part(p, 0, 17, column, 8 * (column % 5 + 1), 0);
}

/* Rows of 0 .. m, columns of 0 .. n and those between, for depths of one cache block and of several. */
static void test_order(void)
{
    if (cpu_level_get() != CPU_AVX2) {
        test_skip("no AVX2 here");
        return;
    }
    static const int64_t depths[] = {48, 320, 770, DEPTH};
    product p = {.a = mem_alloc(sizeof(float) * ROWS * DEPTH),
                 .b = mem_alloc(sizeof(float) * COLUMNS * DEPTH),
                 .bias = mem_alloc(sizeof(float) * COLUMNS),
                 .all = mem_alloc(sizeof(float) * ROWS * COLUMNS),
                 .c = mem_alloc(sizeof(float) * (ROWS * COLUMNS + 1))};
    uint32_t seed = 1;
    fill(p.a, ROWS * DEPTH, &seed), fill(p.b, COLUMNS * DEPTH, &seed), fill(p.bias, COLUMNS, &seed);
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) check_depth(&p, depths[i]);
    mem_free(p.a), mem_free(p.b), mem_free(p.bias), mem_free(p.all), mem_free(p.c);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_order)};
    setenv("KILN_CPU_FEATURES", "avx2", 1); /* before anything asks for the level */
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
