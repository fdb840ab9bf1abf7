/* test_sampler.c - noise and schedules against torch and k-diffusion (tests/golden); samplers: test_samplers.c.
 *
 * Tolerances. Noise: torch's vectorised float32 log, sin and cos differ from libm by up to 1.5e-6 absolute
 * (recorded as noise_f32 in the golden), times four. Schedules are computed in double on both sides and rounded
 * to float32 once: 2e-6 relative.
 */
#include "base/memory_alloc.h"
#include "harness.h"
#include "kiln/sampler.h"
#include "kiln/standard_sampling.h"
#include "schedules.h"
#include "torch_random.h"
#include "weights/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 64 };

static kiln_weights *golden(const char *file)
{
    char path[512];
    error e = {0};
    snprintf(path, sizeof path, "%s/tests/golden/%s.safetensors", test_root(), file);
    kiln_weights *w = weights_open(path, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

static size_t read_floats(kiln_weights *w, const char *name, float *out, size_t capacity)
{
    kiln_weight_info info = {.size = sizeof info};
    error e = {0};
    if (weights_find(w, name, &info) != KILN_OK) return 0;
    size_t n = 1;
    for (uint32_t i = 0; i < info.rank; i++) n *= (size_t)info.dim[i];
    if (n > capacity || !CHECK_MSG(weights_read_f32(w, name, out, &e) == KILN_OK, "%s: %s", name, e.message)) return 0;
    return n;
}

/* ---- noise ---- */

static size_t product(const char *shape)
{
    size_t n = 1;
    for (char *end; *shape; shape = *end ? end + 1 : end) n *= strtoul(shape, &end, 10);
    return n;
}

static void check_noise(kiln_weights *w, const char *name)
{
    static float want[1 << 16], have[1 << 16];
    char shape[64];
    uint64_t seed = strtoull(name, NULL, 10);
    const char *first = strchr(name, '.') + 1, *part = strchr(first, '.');
    snprintf(shape, sizeof shape, "%.*s", part ? (int)(part - first) : (int)strlen(first), first);
    size_t n = product(shape), count = read_floats(w, name, want, 1 << 16);
    if (!CHECK_MSG(count > 0 && n <= 1 << 16, "%s", name)) return;
    torch_generator g;
    torch_seed(&g, seed);
    torch_randn(&g, have, n);
    if (part && strcmp(part, ".sum") == 0) return; /* the picks below cover it */
    size_t stride = part && strcmp(part, ".every997") == 0 ? 997 : 1;
    size_t start = part && strcmp(part, ".last") == 0 ? n - count : 0;
    double worst = 0;
    for (size_t i = 0; i < count; i++) worst = fmax(worst, fabs((double)have[start + i * stride] - (double)want[i]));
    CHECK_MSG(worst <= 6e-6, "%s: off by %g", name, worst);
}

static void test_S14_noise_is_torchs(void)
{
    kiln_weights *w = golden("noise");
    REQUIRE(w);
    size_t checked = 0;
    for (size_t i = 0; i < weights_count(w); i++) {
        kiln_weight_info info = {.size = sizeof info};
        weights_at(w, i, &info);
        if (info.name[0] < '0' || info.name[0] > '9') continue;
        check_noise(w, info.name);
        checked++;
    }
    CHECK_MSG(checked > 30, "only %zu noise goldens", checked);
    weights_unref(w);
}

static void test_noise_sequence_keeps_the_spare_number(void)
{
    static const size_t size[] = {3, 3, 16, 5, 2, 24, 256, 1, 1, 20};
    kiln_weights *w = golden("noise");
    REQUIRE(w);
    torch_generator g;
    torch_seed(&g, 43);
    for (size_t i = 0; i < sizeof size / sizeof size[0]; i++) {
        float want[256], have[256];
        char name[32];
        snprintf(name, sizeof name, "sequence.%zu", i);
        CHECK_EQ(read_floats(w, name, want, 256), size[i]);
        torch_randn(&g, have, size[i]);
        for (size_t k = 0; k < size[i]; k++)
            CHECK_MSG(fabsf(have[k] - want[k]) <= 6e-6f, "%s[%zu]: %g, wanted %g", name, k, (double)have[k],
                      (double)want[k]);
    }
    weights_unref(w);
}

/* ---- schedules ---- */

static size_t load_table(kiln_weights *w, double table[1000])
{
    float t[1000];
    size_t n = read_floats(w, "table", t, 1000);
    /* SD1's betas are linear in their square root from 0.00085 to 0.012; the golden holds it rounded. */
    double gemm_alpha = 1;
    for (int i = 0; i < 1000; i++) {
        double root = sqrt(0.00085) + (sqrt(0.012) - sqrt(0.00085)) * i / 999;
        gemm_alpha *= 1 - root * root;
        table[i] = sqrt((1 - gemm_alpha) / gemm_alpha);
        if (n == 1000) CHECK_MSG(fabs(table[i] - (double)t[i]) <= 2e-6 * table[i], "table[%d]", i);
    }
    return n;
}

static const kiln_schedule *schedule_named(const char *name, size_t n)
{
    for (size_t i = 0; i < schedule_row_count; i++)
        if (strlen(schedule_rows[i]->name) == n && strncmp(schedule_rows[i]->name, name, n) == 0)
            return schedule_rows[i];
    return NULL;
}

/* "karras.20" or "karras.20.denoise0.5" -> its levels; 0 when the text is something else. */
static size_t make_levels(const char *text, const double *table, double *out, size_t capacity)
{
    const char *dot = strchr(text, '.');
    const kiln_schedule *row = dot ? schedule_named(text, (size_t)(dot - text)) : NULL;
    if (!row) return 0;
    size_t steps = strtoul(dot + 1, NULL, 10);
    const char *denoise = strstr(text, ".denoise");
    double d = denoise ? atof(denoise + 8) : 1;
    kiln_schedule_input in = {.size = sizeof in,
                              .steps = (size_t)((double)steps / d),
                              .sigma = table,
                              .n_sigma = 1000,
                              .sigma_min = table[0],
                              .sigma_max = table[999]};
    size_t n = row->make(&in, out, capacity);
    if (denoise && n > steps + 1) {
        memmove(out, out + (n - steps - 1), (steps + 1) * sizeof *out);
        n = steps + 1;
    }
    return n;
}

static void test_S1_S3_schedules_equal_the_goldens(void)
{
    static double table[1000], have[2 * STEPS];
    static float want[2 * STEPS];
    kiln_weights *w = golden("sigmas");
    REQUIRE(w);
    CHECK_EQ(load_table(w, table), 1000);
    CHECK_NEAR(table[999], 14.6146412, 1e-7);
    CHECK_NEAR(table[0], 0.0291672, 1e-5);
    size_t checked = 0;
    for (size_t i = 0; i < weights_count(w); i++) {
        kiln_weight_info info = {.size = sizeof info};
        weights_at(w, i, &info);
        size_t n = make_levels(info.name, table, have, 2 * STEPS);
        if (n == 0) continue;
        CHECK_MSG(read_floats(w, info.name, want, 2 * STEPS) == n, "%s: %zu levels", info.name, n);
        for (size_t k = 0; k < n; k++)
            CHECK_MSG(fabs(have[k] - (double)want[k]) <= 2e-6 * fabs((double)want[k]), "%s[%zu]: %.9g, wanted %.9g",
                      info.name, k, have[k], (double)want[k]);
        checked++;
    }
    CHECK_MSG(checked >= 9 * 7, "only %zu schedules", checked);
    weights_unref(w);
}

static void test_S3_sigma_to_timestep_interpolates(void)
{
    static double table[1000];
    float sigma[256], t[256], back[256];
    kiln_weights *w = golden("sigmas");
    REQUIRE(w);
    load_table(w, table);
    size_t n = read_floats(w, "sigma", sigma, 256);
    REQUIRE(n > 3 && read_floats(w, "sigma.t_interpolated", t, 256) == n);
    for (size_t i = 0; i < n;
         i++) /* the golden's sigma is rounded to float32: 6e-8 of sigma is up to 6e-3 of a place */
        CHECK_MSG(fabs(kiln_sigma_to_t(table, 1000, (double)sigma[i]) - (double)t[i]) <= 1e-2, "sigma %g",
                  (double)sigma[i]);
    n = read_floats(w, "t", t, 256);
    REQUIRE(n > 3 && read_floats(w, "t.sigma", back, 256) == n);
    for (size_t i = 0; i < n; i++) CHECK_NEAR(kiln_t_to_sigma(table, 1000, (double)t[i]), (double)back[i], 2e-6);
    weights_unref(w);
}

static void test_S9_schedules_of_any_length(void)
{
    static double table[1000], out[40000];
    kiln_weights *w = golden("sigmas");
    REQUIRE(w);
    load_table(w, table);
    static const size_t steps[] = {1, 2, 3, 999, 1000, 1001, 5000};
    for (size_t r = 0; r < schedule_row_count; r++)
        for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++) {
            for (int with_table = 0; with_table < 2; with_table++) {
                kiln_schedule_input in = {.size = sizeof in,
                                          .steps = steps[k],
                                          .sigma = with_table ? table : NULL,
                                          .n_sigma = with_table ? 1000 : 0,
                                          .sigma_min = 0.03,
                                          .sigma_max = 14};
                size_t n = schedule_rows[r]->make(&in, out, 40000);
                int good = n >= 2 && n <= 40000 && out[n - 1] == 0;
                for (size_t i = 0; good && i < n; i++) good = isfinite(out[i]) && (i == 0 || out[i] <= out[i - 1]);
                CHECK_MSG(good, "%s with %zu steps: %zu levels", schedule_rows[r]->name, steps[k], n);
            }
        }
    weights_unref(w);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_S14_noise_is_torchs),
        CASE(test_noise_sequence_keeps_the_spare_number),
        CASE(test_S1_S3_schedules_equal_the_goldens),
        CASE(test_S3_sigma_to_timestep_interpolates),
        CASE(test_S9_schedules_of_any_length),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
