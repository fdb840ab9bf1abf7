/* test_truncated_svd.c - the best approximations of matrices whose singular values and vectors are known: tall and
 * wide, slowly and quickly falling values, equal ones, few of them, all of them; and the same bytes on any number of
 * threads.
 */
#include "harness.h"
#include "rig.h"

#include "truncated_svd.h"

#include <math.h>

/* ---- matrices ---- */

/* n x n: a product of reflections, so that columns are orthonormal. */
static double *orthonormal(size_t n, unsigned seed)
{
    double *q = calloc(n * n, sizeof *q), *v = malloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++) q[i * n + i] = 1;
    for (int turn = 0; turn < 6; turn++) {
        double length = 0;
        for (size_t i = 0; i < n; i++) {
            seed = seed * 1103515245 + 12345;
            v[i] = (double)(seed >> 8) / (1 << 24) - 0.5;
            length += v[i] * v[i];
        }
        for (size_t r = 0; r < n; r++) {
            double along = 0;
            for (size_t k = 0; k < n; k++) along += q[r * n + k] * v[k];
            for (size_t k = 0; k < n; k++) q[r * n + k] -= 2 * along / length * v[k];
        }
    }
    free(v);
    return q;
}

typedef struct {
    size_t rows, columns;
    double *u, *v;
    double value[200];
    float *a;
} known;

static known make(size_t rows, size_t columns, double (*value)(size_t i))
{
    known k = {
        rows, columns, orthonormal(rows, 7), orthonormal(columns, 11), {0}, calloc(rows * columns, sizeof(float))};
    size_t n = rows < columns ? rows : columns;
    for (size_t i = 0; i < n; i++) k.value[i] = value(i);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < columns; c++) {
            double sum = 0;
            for (size_t i = 0; i < n; i++) sum += k.u[r * rows + i] * k.value[i] * k.v[c * columns + i];
            k.a[r * columns + c] = (float)sum;
        }
    return k;
}

static void forget(known *k) { free(k->u), free(k->v), free(k->a); }

/* The largest difference of up x down from the best approximation, as a share of the largest singular value. */
static double error_of(const known *k, size_t rank, const float *up, const float *down)
{
    double worst = 0;
    for (size_t r = 0; r < k->rows; r++)
        for (size_t c = 0; c < k->columns; c++) {
            double want = 0, got = 0;
            for (size_t i = 0; i < rank; i++) {
                want += k->u[r * k->rows + i] * k->value[i] * k->v[c * k->columns + i];
                got += (double)up[r * rank + i] * (double)down[i * k->columns + c];
            }
            worst = fmax(worst, fabs(want - got));
        }
    return worst / k->value[0];
}

static void check(const char *what, size_t rows, size_t columns, size_t rank, double (*value)(size_t i))
{
    known k = make(rows, columns, value);
    float *up = calloc(rows * rank, sizeof *up), *down = calloc(columns * rank, sizeof *down);
    kiln_call call = {.size = sizeof call, .host = rig_host(), .ctx = rig_ctx()};
    CHECK_EQ(truncated_svd_compute(&call, &(truncated_svd){k.a, rows, columns, rank, up, down}), KILN_OK);
    double off = error_of(&k, rank, up, down);
    CHECK_MSG(off < 2e-6, "%s: %g off", what, off);
    for (size_t i = 0; i < rank; i++) {
        double length = 0, value_of_up = 0;
        for (size_t c = 0; c < columns; c++) length += (double)down[i * columns + c] * (double)down[i * columns + c];
        for (size_t r = 0; r < rows; r++) value_of_up += (double)up[r * rank + i] * (double)up[r * rank + i];
        CHECK_MSG(fabs(sqrt(value_of_up) - k.value[i]) < 2e-6 * k.value[0], "%s: value %zu is %g and not %g", what, i,
                  sqrt(value_of_up), k.value[i]);
        if (k.value[i] > 1e-6) CHECK_MSG(fabs(length - 1) < 1e-5, "%s: down %zu has length %g", what, i, sqrt(length));
    }
    free(up), free(down);
    forget(&k);
}

static double quickly(size_t i) { return pow(0.5, (double)i); }
static double slowly(size_t i) { return 3 - 0.01 * (double)i; }
static double equal(size_t i) { return i < 3 ? 5 : i < 5 ? 2 : 1; }
static double few(size_t i) { return i < 3 ? 1 + (double)i * -0.25 : 0; }

static void test_the_best_approximation(void)
{
    check("tall", 180, 60, 8, quickly);
    check("wide", 50, 190, 8, quickly);
    check("square", 120, 120, 16, quickly);
    check("slowly falling", 150, 140, 12, slowly);
    check("slowly falling, wide", 100, 160, 31, slowly);
    check("all of it", 70, 40, 40, slowly);
    check("all of a wide one", 33, 64, 33, slowly);
    check("a high one", 200, 20, 6, slowly);
    check("a broad one", 16, 200, 16, slowly);
    check("one number", 1, 1, 1, slowly);
    check("a column", 40, 1, 1, slowly);
    check("a row", 1, 40, 1, slowly);
}

static void test_equal_values(void)
{
    check("equal values", 90, 80, 5, equal);
    check("equal values, wide", 64, 128, 3, equal);
}

static void test_a_low_rank(void) { check("three values and no more", 100, 90, 8, few); }

static void test_zeros(void)
{
    float a[6 * 5] = {0}, up[6 * 2], down[2 * 5];
    kiln_call call = {.size = sizeof call, .host = rig_host(), .ctx = rig_ctx()};
    CHECK_EQ(truncated_svd_compute(&call, &(truncated_svd){a, 6, 5, 2, up, down}), KILN_OK);
    for (int i = 0; i < 12; i++) CHECK(up[i] == 0);
}

/* The rig has two threads; a call without a runtime has none. */
static void test_threads_change_no_byte(void)
{
    known k = make(150, 140, slowly);
    float *up[2], *down[2];
    call_environment alone = {0};
    kiln_ctx ctx = {.env = &alone, .node_name = "test", .node_type = "test", .plugin = "test"};
    for (int i = 0; i < 2; i++) {
        kiln_call call = {.size = sizeof call, .host = rig_host(), .ctx = i ? &ctx : rig_ctx()};
        up[i] = calloc(150 * 9, sizeof(float)), down[i] = calloc(140 * 9, sizeof(float));
        CHECK_EQ(truncated_svd_compute(&call, &(truncated_svd){k.a, 150, 140, 9, up[i], down[i]}), KILN_OK);
    }
    CHECK(memcmp(up[0], up[1], 150 * 9 * sizeof(float)) == 0 && memcmp(down[0], down[1], 140 * 9 * sizeof(float)) == 0);
    for (int i = 0; i < 2; i++) free(up[i]), free(down[i]);
    forget(&k);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_the_best_approximation), CASE(test_equal_values), CASE(test_a_low_rank), CASE(test_zeros),
        CASE(test_threads_change_no_byte),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
