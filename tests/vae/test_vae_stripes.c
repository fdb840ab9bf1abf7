/* test_vae_stripes.c - a picture in stripes of rows is the whole picture but for rounding: stripes of every height, of
 * pictures of odd sizes, of autoencoders with norms and attention and without; a made-up one with every op that goes by
 * rows, one with ops that do not, and one that does not let itself be traced.
 */
#include "golden_kit.h"

#include "kiln/kit.h"
#include "plugin/spill.h"
#include "taesd_family.h"
#include "vae_family.h"
#include "vae_nodes.h"
#include "vae_stripes.h"

#include <math.h>

static void run_in(uint32_t precision)
{
    error e = {0};
    rig_ctx();
    runtime_free(rig_runtime);
    rig_runtime =
        runtime_new(&(runtime_setting){.backend = backend_find("cpu"), .threads = 2, .precision = precision}, &e);
    if (!CHECK_MSG(rig_runtime != NULL, "%s", e.message)) exit(1);
    rig_environment = (call_environment){.runtime = rig_runtime, .pool = runtime_pool(rig_runtime)};
}

/* ---- one picture both ways ---- */

typedef struct {
    kiln_call call;
    vae_converter v;
    vae_shape in, out;
    size_t n;
    float *x, *whole, *striped, *whole_variance, *variance;
} both;

static void fill(float *x, size_t n)
{
    uint32_t h = 12345;
    for (size_t i = 0; i < n; i++) {
        h = h * 1664525u + 1013904223u;
        x[i] = ((float)(h >> 8) / (1 << 24) - 0.5f) * 2 + (float)sin((double)i * 0.001);
    }
}

static float *floats(size_t n) { return calloc(n, sizeof(float)); }

/* rows, columns: of the latent, whichever way. */
static void begin(both *b, kiln_value *vae, int encode, int variance, int64_t rows, int64_t columns)
{
    b->call = (kiln_call){.size = sizeof b->call, .device = KILN_CPU, .host = rig_host(), .ctx = rig_ctx()};
    if (!CHECK_MSG(vae_open(&b->call, vae, encode, &b->v) == KILN_OK, "%s", rig_message())) exit(1);
    vae_shape cells = {1, 1, rows, columns, b->v.latent_channels}, pixels = vae_pixels(&b->v, &cells);
    b->v.variance = variance;
    b->in = encode ? pixels : cells, b->out = encode ? cells : pixels;
    b->n = vae_count(&b->out);
    b->x = floats(vae_count(&b->in)), b->whole = floats(b->n), b->striped = floats(b->n);
    b->whole_variance = floats(b->n), b->variance = floats(b->n);
    fill(b->x, vae_count(&b->in));
    CHECK_MSG(vae_run(&b->v, &b->in, b->x, b->whole, b->whole_variance) == KILN_OK, "%s", rig_message());
}

static void end(both *b)
{
    vae_close(&b->v);
    spill_close(&rig_call);
    free(b->x), free(b->whole), free(b->striped), free(b->whole_variance), free(b->variance);
}

static double largest(const float *a, const float *b, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++) most = isfinite(b[i]) ? fmax(most, fabs((double)a[i] - (double)b[i])) : INFINITY;
    return most;
}

/* The largest difference, of the whole picture's largest number; stripes whose ops give so many bytes. */
static double difference(both *b, size_t bytes)
{
    vae_stripes *s;
    int fits;
    memset(b->striped, 0x7f, b->n * sizeof(float)), memset(b->variance, 0x7f, b->n * sizeof(float));
    b->v.total = b->v.done = 0;
    if (!CHECK_MSG(vae_stripes_new(&b->v, &b->in, &s) == KILN_OK && s, "%s", rig_message())) return INFINITY;
    CHECK_MSG(vae_stripes_take(s, bytes, &fits) == KILN_OK && fits, "%s", rig_message());
    CHECK_MSG(vae_stripes_run(s, b->x, b->striped, b->variance) == KILN_OK, "%s", rig_message());
    CHECK_EQ(b->v.done, vae_stripes_runs(s));
    const float *zero = calloc(b->n, sizeof *zero);
    double most = largest(b->whole, b->striped, b->n) / largest(zero, b->whole, b->n);
    if (b->v.variance) most = fmax(most, largest(b->whole_variance, b->variance, b->n));
    printf("  stripes of %3d rows, %4d runs: %.2g\n", (int)vae_stripes_rows(s), (int)vae_stripes_runs(s), most);
    free((void *)(uintptr_t)zero);
    return most;
}

/* From a row at a time to each layer at once. */
static void check_heights(kiln_value *vae, int encode, int64_t rows, int64_t columns, double tolerance)
{
    both b;
    begin(&b, vae, encode, 0, rows, columns);
    for (size_t bytes = 0; bytes < 20000000; bytes = bytes ? bytes * 7 : 20000)
        CHECK(difference(&b, bytes) <= tolerance);
    end(&b);
}

static kiln_value *open_vae(const kiln_model_family *f, const char *path)
{
    kiln_weights *w = open_weights(path);
    kiln_value *v = w ? f->open(rig_host(), rig_ctx(), w) : NULL;
    if (!CHECK_MSG(v != NULL, "%s", rig_message())) exit(1);
    weights_unref(w);
    return v;
}

/* Measured: 2e-6 at most. */
static void test_shapes(void)
{
    run_in(KILN_F32);
    kiln_value *vae = open_vae(&vae_family, "workflows/models/shapes-sd1");
    check_heights(vae, 0, 13, 9, 1e-5);
    check_heights(vae, 1, 13, 9, 1e-5);
    rig_host()->unref(vae);
}

static void test_a_single_row_and_column(void)
{
    run_in(KILN_F32);
    kiln_value *vae = open_vae(&vae_family, "workflows/models/shapes-sd1");
    check_heights(vae, 0, 1, 5, 1e-5);
    check_heights(vae, 1, 2, 1, 1e-5);
    rig_host()->unref(vae);
}

static void test_variance(void)
{
    both b;
    run_in(KILN_F32);
    kiln_value *vae = open_vae(&vae_family, "tests/golden/tiny-sd1");
    begin(&b, vae, 1, 1, 6, 7);
    for (size_t bytes = 0; bytes < 1 << 20; bytes += 1 << 17) CHECK(difference(&b, bytes) <= 1e-5);
    end(&b);
    rig_host()->unref(vae);
}

static void test_kinds(void)
{
    static const struct {
        const kiln_model_family *family;
        const char *path;
    } rows[] = {{&vae_family, "tests/golden/tiny-sd1"},
                {&vae_family, "tests/golden/tiny-vaes/sdxl"},
                {&vae_family, "tests/golden/tiny-vaes/x4"},
                {&taesd_family, "tests/golden/tiny-vaes/taesdxl"},
                {&taesd_family, "tests/golden/tiny-vaes/taesd3"}};
    run_in(KILN_F32);
    for (size_t i = 0; i < COUNT(rows); i++) {
        printf("  %s\n", rows[i].path);
        kiln_value *vae = open_vae(rows[i].family, rows[i].path);
        check_heights(vae, 0, 11, 6, 1e-5);
        check_heights(vae, 1, 11, 6, 1e-5);
        rig_host()->unref(vae);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_shapes), CASE(test_a_single_row_and_column), CASE(test_variance),
                                      CASE(test_kinds)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
