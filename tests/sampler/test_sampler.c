/* test_sampler.c - noise, schedules and samplers against torch and k-diffusion (tests/golden).
 *
 * Tolerances. Noise: torch's vectorised float32 log, sin and cos differ from libm by up to 1.5e-6 absolute
 * (recorded as noise_f32 in the golden), times four. Schedules are computed in double on both sides and rounded
 * to float32 once: 2e-6 relative. Samplers: float32 latents, a few roundings a step: 1e-5 relative, as the issue
 * that ordered them says.
 */
#include "base/memory_alloc.h"
#include "harness.h"
#include "kiln/sampler.h"
#include "samplers.h"
#include "schedules.h"
#include "torch_random.h"
#include "weights/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LATENT = 24, STEPS = 64 }; /* the goldens' latents are [1,3,2,4] */

static kiln_weights *golden(const char *file)
{
    char path[512];
    error e = {0};
    snprintf(path, sizeof path, "%s/tests/golden/%s.safetensors", test_root(), file);
    kiln_weights *w = weights_open(path, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

static size_t read_floats(kiln_weights *w, const char *name, float *out, size_t room)
{
    kiln_weight_info info = {.size = sizeof info};
    error e = {0};
    if (weights_find(w, name, &info) != KILN_OK) return 0;
    size_t n = 1;
    for (uint32_t i = 0; i < info.rank; i++) n *= (size_t)info.dim[i];
    if (n > room || !CHECK_MSG(weights_read_f32(w, name, out, &e) == KILN_OK, "%s: %s", name, e.message)) return 0;
    return n;
}

/* ---- noise ---------------------------------------------------------------------------------------------- */

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
            CHECK_MSG(fabsf(have[k] - want[k]) <= 6e-6f, "%s[%zu]: %g, wanted %g", name, k, (double)have[k], (double)want[k]);
    }
    weights_unref(w);
}

/* ---- schedules -------------------------------------------------------------------------------------------- */

static size_t load_table(kiln_weights *w, double table[1000])
{
    float t[1000];
    size_t n = read_floats(w, "table", t, 1000);
    /* SD1's betas are linear in their square root from 0.00085 to 0.012; the golden holds it rounded. */
    double product_alpha = 1;
    for (int i = 0; i < 1000; i++) {
        double root = sqrt(0.00085) + (sqrt(0.012) - sqrt(0.00085)) * i / 999;
        product_alpha *= 1 - root * root;
        table[i] = sqrt((1 - product_alpha) / product_alpha);
        if (n == 1000) CHECK_MSG(fabs(table[i] - (double)t[i]) <= 2e-6 * table[i], "table[%d]", i);
    }
    return n;
}

static const kiln_schedule *schedule_named(const char *name, size_t n)
{
    for (size_t i = 0; i < schedule_row_count; i++)
        if (strlen(schedule_rows[i]->name) == n && strncmp(schedule_rows[i]->name, name, n) == 0) return schedule_rows[i];
    return NULL;
}

/* "karras.20" or "karras.20.denoise0.5" -> its levels; 0 when the text is something else. */
static size_t make_levels(const char *text, const double *table, double *out, size_t room)
{
    const char *dot = strchr(text, '.');
    const kiln_schedule *row = dot ? schedule_named(text, (size_t)(dot - text)) : NULL;
    if (!row) return 0;
    size_t steps = strtoul(dot + 1, NULL, 10);
    const char *denoise = strstr(text, ".denoise");
    double d = denoise ? atof(denoise + 8) : 1;
    kiln_schedule_input in = {.size = sizeof in, .steps = (size_t)((double)steps / d), .sigma = table, .n_sigma = 1000,
                              .sigma_min = table[0], .sigma_max = table[999]};
    size_t n = row->make(&in, out, room);
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
            CHECK_MSG(fabs(have[k] - (double)want[k]) <= 2e-6 * fabs((double)want[k]), "%s[%zu]: %.9g, wanted %.9g", info.name, k,
                      have[k], (double)want[k]);
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
    for (size_t i = 0; i < n; i++) /* the golden's sigma is rounded to float32: 6e-8 of sigma is up to 6e-3 of a place */
        CHECK_MSG(fabs(sigma_to_t(table, 1000, (double)sigma[i]) - (double)t[i]) <= 1e-2, "sigma %g", (double)sigma[i]);
    n = read_floats(w, "t", t, 256);
    REQUIRE(n > 3 && read_floats(w, "t.sigma", back, 256) == n);
    for (size_t i = 0; i < n; i++) CHECK_NEAR(t_to_sigma(table, 1000, (double)t[i]), (double)back[i], 2e-6);
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
                kiln_schedule_input in = {.size = sizeof in, .steps = steps[k], .sigma = with_table ? table : NULL,
                    .n_sigma = with_table ? 1000 : 0, .sigma_min = 0.03, .sigma_max = 14};
                size_t n = schedule_rows[r]->make(&in, out, 40000);
                int good = n >= 2 && n <= 40000 && out[n - 1] == 0;
                for (size_t i = 0; good && i < n; i++) good = isfinite(out[i]) && (i == 0 || out[i] <= out[i - 1]);
                CHECK_MSG(good, "%s with %zu steps: %zu levels", schedule_rows[r]->name, steps[k], n);
            }
        }
    weights_unref(w);
}

/* ---- samplers ------------------------------------------------------------------------------------------------ */

struct kiln_latent {
    float data[LATENT];
    char name[32];
};

typedef struct {
    kiln_sampling api;
    kiln_latent x, slot[8];
    size_t n_slot, evaluations, draws;
    double number[4];
    float mean[LATENT], trail[STEPS + 1][LATENT];
    torch_generator random;
    size_t seen, poison_at;
} toy;

/* D(x, s) = tanh(x / (2 sqrt(1 + s^2))) + m s / (4 (1 + s)): the goldens' denoiser */
static kiln_status toy_denoise(const kiln_sampling *s, const kiln_latent *x, double sigma, kiln_latent *out)
{
    toy *t = s->self;
    t->evaluations++;
    for (int i = 0; i < LATENT; i++)
        out->data[i] = (float)(tanh((double)x->data[i] / (2 * sqrt(1 + sigma * sigma))) + (double)t->mean[i] * sigma / (4 * (1 + sigma)));
    return KILN_OK;
}
static void toy_lincomb(const kiln_sampling *s, kiln_latent *out, size_t n, const double *a, kiln_latent *const *x)
{
    (void)s;
    for (int i = 0; i < LATENT; i++) {
        double sum = 0;
        for (size_t k = 0; k < n; k++) sum += a[k] * (double)x[k]->data[i];
        out->data[i] = (float)sum;
    }
}
/* torch draws [1,4,3,2]; ours is [1,3,2,4] */
static void draw(torch_generator *g, float *out)
{
    float drawn[LATENT];
    torch_randn(g, drawn, LATENT);
    for (int c = 0; c < 4; c++)
        for (int i = 0; i < 6; i++) out[i * 4 + c] = drawn[c * 6 + i];
}
static kiln_status toy_noise(const kiln_sampling *s, double from, double to, kiln_latent *out)
{
    toy *t = s->self;
    (void)from, (void)to;
    t->draws++;
    draw(&t->random, out->data);
    return KILN_OK;
}
static kiln_latent *toy_slot(const kiln_sampling *s, const char *name)
{
    toy *t = s->self;
    for (size_t i = 0; i < t->n_slot; i++)
        if (strcmp(t->slot[i].name, name) == 0) return &t->slot[i];
    kiln_latent *l = &t->slot[t->n_slot++];
    snprintf(l->name, sizeof l->name, "%s", name);
    return l;
}
static double *toy_scalars(const kiln_sampling *s, const char *name, size_t n)
{
    (void)name, (void)n;
    return ((toy *)s->self)->number;
}
static kiln_status toy_step(const kiln_sampling *s, size_t i, const kiln_latent *denoised)
{
    toy *t = s->self;
    (void)denoised;
    t->seen++;
    if (i < STEPS) memcpy(t->trail[i + 1], s->x->data, sizeof t->trail[0]);
    return KILN_OK;
}

static void toy_start(toy *t, const double *sigma, size_t n, const float *x)
{
    memset(t, 0, sizeof *t);
    t->api = (kiln_sampling){.size = sizeof t->api, .n = n, .sigma = sigma, .prediction = 1, .x = &t->x, .seed = 42,
        .self = t, .denoise = toy_denoise, .lincomb = toy_lincomb, .noise = toy_noise, .slot = toy_slot,
        .scalars = toy_scalars, .step = toy_step};
    memcpy(t->x.data, x, sizeof t->x.data);
    memcpy(t->trail[0], x, sizeof t->trail[0]);
    torch_seed(&t->random, 43);
}

typedef struct { double eta, s_noise; } two_numbers;
static const two_numbers ones = {1, 1};

static const kiln_sampler *sampler_named(const char *name, size_t n)
{
    for (size_t i = 0; i < sampler_row_count; i++)
        if (strlen(sampler_rows[i]->name) == n && strncmp(sampler_rows[i]->name, name, n) == 0) return sampler_rows[i];
    return NULL;
}

static int check_sampler(kiln_weights *w, const char *name, const float *mean)
{
    static float want[(STEPS + 1) * LATENT], sigma_f[STEPS + 1];
    double sigma[STEPS + 1];
    char key[128];
    const char *dot = strchr(name, '.');
    const kiln_sampler *row = dot ? sampler_named(name, (size_t)(dot - name)) : NULL;
    if (!row) return 0;
    snprintf(key, sizeof key, "sigmas%s", dot);
    size_t n = read_floats(w, key, sigma_f, STEPS + 1);
    if (!CHECK_MSG(n >= 2, "%s: no %s", name, key)) return 0;
    if (!CHECK_MSG(read_floats(w, name, want, sizeof want / sizeof want[0]) == n * LATENT, "%s", name)) return 0;
    for (size_t i = 0; i < n; i++) sigma[i] = (double)sigma_f[i];
    toy t;
    toy_start(&t, sigma, n - 1, want);
    memcpy(t.mean, mean, sizeof t.mean);
    t.api.options = row->params_size ? &ones : NULL;
    CHECK_EQ(row->run(&t.api), KILN_OK);
    CHECK_EQ(t.seen, n - 1);
    for (size_t i = 0; i < n; i++) CHECK_ARRAY(t.trail[i], want + i * LATENT, LATENT, 1e-5);
    size_t last = sigma[n - 1] == 0 ? 1 : 0;
    size_t expected = row->evaluations == 2 ? 2 * (n - 1) - last : n - 1;
    CHECK_MSG(t.evaluations == expected, "%s: %zu evaluations, wanted %zu", name, t.evaluations, expected); /* S7 */
    return 1;
}

static void test_S2_S4_S8_samplers_step_by_step(void)
{
    kiln_weights *w = golden("samplers");
    REQUIRE(w);
    float mean[LATENT] = {0};
    size_t have_mean = read_floats(w, "m", mean, LATENT), checked = 0;
    CHECK_MSG(have_mean == LATENT, "the denoiser's m is missing");
    for (size_t i = 0; i < weights_count(w); i++) {
        kiln_weight_info info = {.size = sizeof info};
        weights_at(w, i, &info);
        checked += (size_t)check_sampler(w, info.name, mean);
    }
    CHECK_MSG(checked >= 5 * 4 * 5, "only %zu runs", checked);
    weights_unref(w);
}

static void test_S9_one_step_and_zero(void)
{
    float x[LATENT];
    torch_generator g;
    torch_seed(&g, 1);
    draw(&g, x);
    for (size_t r = 0; r < sampler_row_count; r++) {
        toy t;
        toy_start(&t, (const double[]){14.6, 0}, 1, x);
        t.api.options = sampler_rows[r]->params_size ? &ones : NULL;
        CHECK_EQ(sampler_rows[r]->run(&t.api), KILN_OK);
        for (int i = 0; i < LATENT; i++) CHECK_MSG(isfinite(t.x.data[i]), "%s", sampler_rows[r]->name);
        CHECK_EQ(t.draws, 0); /* nothing is drawn for the step to 0 */
    }
}

static void test_resumed_run_equals_undisturbed(void)
{
    float x[LATENT];
    static const double sigma[] = {14.6, 7, 3, 1, 0.3, 0};
    torch_generator g;
    torch_seed(&g, 5);
    draw(&g, x);
    for (size_t r = 0; r < sampler_row_count; r++) {
        toy whole, part;
        const void *options = sampler_rows[r]->params_size ? &ones : NULL;
        toy_start(&whole, sigma, 5, x);
        whole.api.options = options;
        CHECK_EQ(sampler_rows[r]->run(&whole.api), KILN_OK);
        toy_start(&part, sigma, 3, x); /* up to step 3, then on with slots, scalars and generator as they are */
        part.api.options = options;
        CHECK_EQ(sampler_rows[r]->run(&part.api), KILN_OK);
        part.api.n = 5, part.api.first = 3;
        CHECK_EQ(sampler_rows[r]->run(&part.api), KILN_OK);
        CHECK_MSG(memcmp(whole.x.data, part.x.data, sizeof x) == 0, "%s", sampler_rows[r]->name);
    }
}

static void test_S13_eta_and_noise_scale_have_an_effect(void)
{
    float x[LATENT];
    static const double sigma[] = {14.6, 7, 3, 1, 0};
    static const two_numbers option[] = {{1, 1}, {0.5, 1}, {1, 0.5}, {0, 1}};
    float out[4][LATENT];
    torch_generator g;
    torch_seed(&g, 5);
    draw(&g, x);
    const kiln_sampler *row = sampler_named("euler_ancestral", 15);
    REQUIRE(row);
    for (int k = 0; k < 4; k++) {
        toy t;
        toy_start(&t, sigma, 4, x);
        t.api.options = &option[k];
        CHECK_EQ(row->run(&t.api), KILN_OK);
        memcpy(out[k], t.x.data, sizeof out[k]);
        for (int j = 0; j < k; j++) CHECK(memcmp(out[j], out[k], sizeof out[k]) != 0);
    }
    toy t;
    toy_start(&t, sigma, 4, x);
    CHECK_EQ(sampler_named("euler", 5)->run(&t.api), KILN_OK);
    CHECK_ARRAY(out[3], t.x.data, LATENT, 1e-6); /* eta 0 is euler */
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_S14_noise_is_torchs), CASE(test_noise_sequence_keeps_the_spare_number),
        CASE(test_S1_S3_schedules_equal_the_goldens), CASE(test_S3_sigma_to_timestep_interpolates),
        CASE(test_S9_schedules_of_any_length), CASE(test_S2_S4_S8_samplers_step_by_step), CASE(test_S9_one_step_and_zero),
        CASE(test_resumed_run_equals_undisturbed), CASE(test_S13_eta_and_noise_scale_have_an_effect),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
