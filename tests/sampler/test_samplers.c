/* test_samplers.c - every sampler against the numbers of k-diffusion and ComfyUI (tests/golden/samplers.safetensors,
 * written by scripts/golden/samplers.py), evaluation by evaluation; evaluations a step; the ends of the range; taking a
 * run up again.
 *
 * Tolerance: latents are kept in float32 between linear combinations, the reference in float64: a few roundings of 6e-8
 * a step, which a step's coefficients may amplify. 1e-5 of the largest element, as the issue that ordered the samplers
 * says.
 *
 * With KILN_GOLDEN_SAMPLERS=FILE the full set in FILE is compared as well (`make test-samplers`); KILN_GOLDEN_ALL says
 * that it has every sampler.
 */
#include "harness.h"
#include "kiln/params.h"
#include "samplers.h"
#include "sampling_rig.h"
#include "weights/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 8, LEVELS = 256, SEEN = 4096 };

typedef struct {
    float m[SIZE], draws[64 * SIZE];
    double seen[SEEN][SIZE];
    size_t n_seen;
} toy;

static toy t;

/* The goldens' denoiser: see scripts/golden/samplers.py. */
static void toy_guess(const rig *r, const double *x, double sigma, double *d, double *u)
{
    double root = sqrt(1 + sigma * sigma);
    for (size_t i = 0; i < r->count; i++) {
        double m = (double)t.m[i % SIZE];
        d[i] = tanh(x[i] / (2 * root)) + m * sigma / (4 * (1 + sigma));
        u[i] = 0.9 * tanh(x[i] / (3 * root)) - m * sigma / (5 * (1 + sigma));
    }
}

static void toy_draw(rig *r, double from, double to, double *out)
{
    (void)from, (void)to;
    for (size_t i = 0; i < r->count; i++) out[i] = (double)t.draws[(r->draws * SIZE + i) % (64 * SIZE)];
}

static void toy_seen(rig *r, const double *x, double sigma)
{
    (void)sigma;
    if (t.n_seen < SEEN) memcpy(t.seen[t.n_seen++], x, r->count * sizeof *x);
}

static void toy_open(rig *r, const kiln_sampler *row, const double *sigma, size_t n, const double *start)
{
    rig_open(r, row, sigma, n, start, SIZE);
    r->single = 1;
    r->guess = toy_guess, r->draw = toy_draw, r->seen = toy_seen;
    t.n_seen = 0;
}

/* ---- S8: step by step ---- */

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

static kiln_weights *golden_open(const char *path)
{
    error e = {0};
    kiln_weights *w = weights_open(path, &e);
    if (!CHECK_MSG(w != NULL, "%s", e.message)) return NULL;
    CHECK_EQ(read_floats(w, "m", t.m, SIZE), SIZE);
    CHECK_EQ(read_floats(w, "draws", t.draws, 64 * SIZE), 64 * SIZE);
    return w;
}

/* The goldens that are not made with the defaults: the same as in scripts/golden/samplers.py. */
static const struct {
    const char *name, *options;
} variant[] = {
    {"heun.churn", "s_churn=3,s_tmin=0.1,s_tmax=10,s_noise=1.01"},
    {"euler_cfg_pp.alternative", "version=alternative"},
    {"euler.churn", "s_churn=3,s_tmin=0.1,s_tmax=10,s_noise=1.01"},
    {"euler_ancestral.half", "eta=0.5,s_noise=0.9"},
    {"lms.two", "order=2"},
    {"dpm_adaptive.two", "order=2,rtol=0.02,pcoeff=0.1,icoeff=0.9,dcoeff=0.05,eta=0.3"},
    {"dpmpp_sde.third", "eta=0.7,s_noise=0.9,r=0.333333333333333315"},
    {"dpmpp_3m_sde.half", "eta=0.5,s_noise=0.9"},
    {"lcm.clipped", "s_noise=1.2,s_noise_end=0.8,noise_clip_std=1"},
    {"seeds_2.phi_2", "eta=0.5,s_noise=0.9,r=0.7,solver_type=phi_2"},
    {"sa_solver.simple", "predictor_order=2,corrector_order=2,simple_order_2=1"},
};

static const char *options_of(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof variant / sizeof variant[0]; i++)
        if (strlen(variant[i].name) == n && strncmp(variant[i].name, name, n) == 0) return variant[i].options;
    return NULL;
}

static double worst_of(const double *have, const float *want)
{
    double off = 0, most = 0;
    for (int i = 0; i < SIZE; i++) {
        off = fmax(off, fabs(have[i] - (double)want[i]));
        most = fmax(most, fabs((double)want[i]));
        if (!isfinite(have[i])) off = INFINITY;
    }
    return off / most;
}

static void compare(const char *name, const kiln_sampler *row, const char *options, const double *sigma, size_t n,
                    const float *want, size_t rows)
{
    double start[SIZE], worst = 0;
    size_t at = 0;
    rig r;
    for (int i = 0; i < SIZE; i++) start[i] = (double)want[i];
    toy_open(&r, row, sigma, n, start);
    /* an adaptive step's length follows from the difference of two nearly equal latents: in float32 it has no five
     * digits */
    if (strcmp(row->name, "dpm_adaptive") == 0) r.single = 0;
    if (strstr(name, ":flow")) r.api.process = KILN_PROCESS_FLOW;
    if (options) CHECK_MSG(rig_options(&r, row, options), "%s: %s", row->name, options);
    CHECK_MSG(row->run(&r.api) == KILN_OK, "%s: %s", name, r.failure);
    if (CHECK_MSG(r.evaluations == rows - 2, "%s as %s: %zu evaluations, wanted %zu", name, row->name, r.evaluations,
                  rows - 2)) {
        memcpy(t.seen[t.n_seen], r.x.v, sizeof t.seen[0]);
        for (size_t k = 0; k + 1 < rows; k++) {
            double off = worst_of(t.seen[k], want + (k + 1) * SIZE);
            if (off > worst) worst = off, at = k;
        }
        CHECK_MSG(worst <= 1e-5, "%s as %s: off by %.2g at evaluation %zu of %zu", name, row->name, worst, at,
                  rows - 2);
    }
    rig_close(&r);
}

/* "SAMPLER[.OPTIONS]:CASE"; the _gpu name of a sampler has the same formulas. */
static int check_golden(kiln_weights *w, const char *name)
{
    static float want[SEEN * SIZE], sigma_f[LEVELS];
    double sigma[LEVELS];
    char key[128], gpu[64];
    const char *colon = strchr(name, ':'), *dot = strchr(name, '.');
    if (!colon) return 0;
    size_t whole = (size_t)(colon - name), plain = dot < colon ? (size_t)(dot - name) : whole;
    const kiln_sampler *row = rig_sampler(name, plain);
    if (!CHECK_MSG(row != NULL, "%s: no such sampler", name)) return 0;
    const char *options = plain < whole ? options_of(name, whole) : NULL;
    if (!CHECK_MSG(plain == whole || options, "%s: unknown options", name)) return 0;
    snprintf(key, sizeof key, "sigmas.%s", colon + 1);
    size_t levels = read_floats(w, key, sigma_f, LEVELS), values = read_floats(w, name, want, SEEN * SIZE);
    if (!CHECK_MSG(levels >= 2 && values >= 2 * SIZE, "%s", name)) return 0;
    for (size_t i = 0; i < levels; i++) sigma[i] = (double)sigma_f[i];
    compare(name, row, options, sigma, levels - 1, want, values / SIZE);
    int n = snprintf(gpu, sizeof gpu, "%.*s_gpu", (int)plain, name);
    if ((row = rig_sampler(gpu, (size_t)n))) compare(name, row, options, sigma, levels - 1, want, values / SIZE);
    return 1;
}

/* `all`: every row has to be among them. */
static void check_goldens(const char *path, size_t least, int all)
{
    static char covered[64];
    kiln_weights *w = golden_open(path);
    REQUIRE(w);
    size_t checked = 0;
    memset(covered, 0, sizeof covered);
    for (size_t i = 0; i < weights_count(w); i++) {
        kiln_weight_info info = {.size = sizeof info};
        weights_at(w, i, &info);
        checked += (size_t)check_golden(w, info.name);
        for (size_t k = 0; k < sampler_row_count; k++) {
            size_t n = strlen(sampler_rows[k]->name),
                   shared = n > 4 && strcmp(sampler_rows[k]->name + n - 4, "_gpu") == 0 ? n - 4 : n;
            if (strncmp(info.name, sampler_rows[k]->name, shared) == 0 && strchr(".:", info.name[shared]))
                covered[k] = 1;
        }
    }
    for (size_t k = 0; all && k < sampler_row_count; k++)
        CHECK_MSG(covered[k], "no golden of %s", sampler_rows[k]->name);
    CHECK_MSG(checked >= least, "only %zu runs", checked);
    weights_unref(w);
}

static void test_S8_each_evaluation_equals_the_reference(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/samplers.safetensors", test_root());
    check_goldens(path, 250, 1);
}

static void test_S8_the_full_set_equals_the_reference(void)
{
    const char *path = getenv("KILN_GOLDEN_SAMPLERS");
    if (path) check_goldens(path, 1000, getenv("KILN_GOLDEN_ALL") != NULL);
}

/* ---- the list ---- */

static void test_the_list_is_comfyuis_in_its_order(void)
{
    static const char *const name[] = {"euler",
                                       "euler_cfg_pp",
                                       "euler_ancestral",
                                       "euler_ancestral_cfg_pp",
                                       "heun",
                                       "heunpp2",
                                       "exp_heun_2_x0",
                                       "exp_heun_2_x0_sde",
                                       "dpm_2",
                                       "dpm_2_ancestral",
                                       "lms",
                                       "dpm_fast",
                                       "dpm_adaptive",
                                       "dpmpp_2s_ancestral",
                                       "dpmpp_2s_ancestral_cfg_pp",
                                       "dpmpp_sde",
                                       "dpmpp_sde_gpu",
                                       "dpmpp_2m",
                                       "dpmpp_2m_cfg_pp",
                                       "dpmpp_2m_sde",
                                       "dpmpp_2m_sde_gpu",
                                       "dpmpp_2m_sde_heun",
                                       "dpmpp_2m_sde_heun_gpu",
                                       "dpmpp_3m_sde",
                                       "dpmpp_3m_sde_gpu",
                                       "ddpm",
                                       "lcm",
                                       "ipndm",
                                       "ipndm_v",
                                       "deis",
                                       "res_multistep",
                                       "res_multistep_cfg_pp",
                                       "res_multistep_ancestral",
                                       "res_multistep_ancestral_cfg_pp",
                                       "gradient_estimation",
                                       "gradient_estimation_cfg_pp",
                                       "er_sde",
                                       "seeds_2",
                                       "seeds_3",
                                       "sa_solver",
                                       "sa_solver_pece",
                                       "ddim",
                                       "uni_pc",
                                       "uni_pc_bh2"};
    CHECK_EQ(sampler_row_count, 45);
    CHECK_STR(sampler_rows[44]->name, "lcm_upscale"); /* ComfyUI has it as a node alone: SamplerLCMUpscale */
    for (size_t i = 0; i < sampler_row_count && i < 44; i++) {
        const kiln_sampler *row = sampler_rows[i];
        CHECK_STR(row->name, name[i]);
        CHECK(row->doc && row->doc[0] && row->source && row->source[0]);
        CHECK_EQ(((row->flags & KILN_SAMPLER_EXTRA_STEP) != 0),
                 (strncmp(row->name, "dpm_2", 5) == 0 || strncmp(row->name, "uni_pc", 6) == 0));
        CHECK_EQ(((row->flags & KILN_SAMPLER_UNCONDITIONAL) != 0), (strstr(row->name, "cfg_pp") != NULL));
        CHECK_EQ(((row->flags & KILN_SAMPLER_BROWNIAN_CUDA) != 0), (strstr(row->name, "_gpu") != NULL));
        CHECK(row->params_size <= sizeof((rig *)NULL)->options);
    }
}

/* ---- S7: evaluations ---- */

static const double even[] = {14.6, 12, 10, 8, 6.5, 5, 4, 3, 2, 1, 0.5, 0.2, 0};

static void test_S7_evaluations_are_as_declared(void)
{
    double start[SIZE] = {3, -9, 12, 20, -4, 1, 0.5, -17};
    for (size_t k = 0; k < sampler_row_count; k++) {
        const kiln_sampler *row = sampler_rows[k];
        rig r;
        toy_open(&r, row, even, 12, start);
        CHECK_EQ(row->run(&r.api), KILN_OK);
        if (strcmp(row->name, "dpm_adaptive") == 0) { /* order evaluations an attempt, whether it is kept or not */
            CHECK_EQ(r.evaluations % 3, 0);
            CHECK(r.evaluations >= 3 * r.steps);
        } else {
            /* the step to 0 is the first guess itself; heunpp2 has two evaluations in the one before, sa_solver_pece
             * none for the first correction */
            double want = row->evaluations * 12;
            int pece = strcmp(row->name, "sa_solver_pece") == 0;
            if (row->evaluations > 1) want -= pece ? 1 : row->evaluations - 1;
            if (strcmp(row->name, "heunpp2") == 0) want -= 1;
            CHECK_MSG((double)r.evaluations == want, "%s: %zu evaluations, wanted %g", row->name, r.evaluations, want);
            CHECK_EQ(r.steps, strcmp(row->name, "dpm_fast") == 0 ? 5 : 12);
        }
        rig_close(&r);
    }
}

/* ---- S9: the ends of the range ---- */

static int has_name(const char *const *names, const char *name)
{
    for (; *names; names++)
        if (strcmp(*names, name) == 0) return 1;
    return 0;
}

static void test_S9_one_step(void)
{
    static const char *const refuses[] = {"dpm_fast", "dpm_adaptive", NULL};
    double start[SIZE] = {3, -9, 12, 20, -4, 1, 0.5, -17};
    for (size_t k = 0; k < sampler_row_count; k++) {
        const kiln_sampler *row = sampler_rows[k];
        rig r;
        toy_open(&r, row, (const double[]){14.6, 0}, 1, start);
        kiln_status status = row->run(&r.api);
        if (has_name(refuses, row->name)) {
            CHECK_EQ(status, KILN_ERR_INVALID);
            CHECK_MSG(strstr(r.failure, "two steps"), "%s: '%s'", row->name, r.failure);
        } else {
            double d[SIZE], u[SIZE];
            toy_guess(&r, start, 14.6, d, u);
            CHECK_MSG(status == KILN_OK, "%s: %s", row->name, r.failure);
            /* everything ends in the guess; UniPC stops at sigma 0.001, with 7e-5 of the noise left */
            double capacity = strncmp(row->name, "uni_pc", 6) == 0 ? 2e-3 : 1e-5;
            for (int i = 0; i < SIZE; i++)
                CHECK_MSG(fabs(r.x.v[i] - d[i]) <= capacity, "%s: %g, wanted %g", row->name, r.x.v[i], d[i]);
            CHECK_MSG(r.draws == 0, "%s drew %zu for the step to 0", row->name, r.draws);
        }
        rig_close(&r);
    }
}

/* More levels than a model has, equal neighbours among them (as ddim_uniform and rounding make), ends of 0 and above.
 */
static void test_S9_equal_levels_and_many_steps(void)
{
    enum { MANY = 1200 };
    static double sigma[MANY + 1];
    double start[SIZE] = {3, -9, 12, 20, -4, 1, 0.5, -17};
    for (int i = 0; i <= MANY; i++) sigma[i] = 14.6 * pow(0.03 / 14.6, i / (MANY - 1.0));
    for (int end = 0; end < 2; end++) {
        if (end) sigma[MANY] = 0;
        for (size_t k = 0; k < sampler_row_count; k++) {
            const kiln_sampler *row = sampler_rows[k];
            rig r;
            toy_open(&r, row, sigma, MANY, start);
            CHECK_MSG(row->run(&r.api) == KILN_OK, "%s: %s", row->name, r.failure);
            for (int i = 0; i < SIZE; i++) CHECK_MSG(fabs(r.x.v[i]) < 100, "%s: %g", row->name, r.x.v[i]);
            rig_close(&r);
        }
    }
}

/* One element's guess is not a number from the second evaluation on: it stays in that element. */
static void nan_guess(const rig *r, const double *x, double sigma, double *d, double *u)
{
    toy_guess(r, x, sigma, d, u);
    if (r->evaluations > 1) d[2] = u[2] = NAN;
}

static void test_S9_a_nan_stays_where_it_is(void)
{
    double start[SIZE] = {3, -9, 12, 20, -4, 1, 0.5, -17};
    for (size_t k = 0; k < sampler_row_count; k++) {
        const kiln_sampler *row = sampler_rows[k];
        rig r;
        toy_open(&r, row, even, 12, start);
        r.guess = nan_guess;
        kiln_status status = row->run(&r.api);
        if (strcmp(row->name, "dpm_adaptive") == 0) {
            CHECK_EQ(status, KILN_ERR_INVALID);
            CHECK_MSG(strstr(r.failure, "not finite"), "%s", r.failure);
        } else {
            CHECK_EQ(status, KILN_OK);
            for (int i = 0; i < SIZE; i++)
                CHECK_MSG(isnan(r.x.v[i]) == (i == 2), "%s: element %d is %g", row->name, i, r.x.v[i]);
        }
        rig_close(&r);
    }
}

static void test_dpm_adaptive_never_accepts_blindly(void)
{
    static const char *const hopeless[] = {"rtol=0,atol=0", "accept_safety=3", "h_init=0"};
    const kiln_sampler *row = rig_sampler("dpm_adaptive", 12);
    double start[SIZE] = {3, -9, 12, 20, -4, 1, 0.5, -17};
    for (size_t k = 0; k < 3; k++) {
        rig r;
        toy_open(&r, row, even, 12, start);
        REQUIRE(rig_options(&r, row, hopeless[k]));
        CHECK_MSG(row->run(&r.api) == KILN_ERR_INVALID, "%s", hopeless[k]);
        CHECK_MSG(strstr(r.failure, "rtol"), "%s: '%s'", hopeless[k], r.failure);
        rig_close(&r);
    }
}

static void test_options_without_meaning_are_refused(void)
{
    static const char *const bad[][3] = {{"seeds_3", "r_1=0.8", "smaller"}, {"lms", "order=100", "past steps"}};
    static double sigma[101];
    double start[SIZE] = {0};
    for (int i = 0; i < 100; i++) sigma[i] = 10 - i * 0.09;
    for (size_t k = 0; k < 2; k++) {
        const kiln_sampler *row = rig_sampler(bad[k][0], strlen(bad[k][0]));
        rig r;
        toy_open(&r, row, sigma, 100, start);
        REQUIRE(rig_options(&r, row, bad[k][1]));
        CHECK_MSG(row->run(&r.api) == KILN_ERR_INVALID, "%s %s", bad[k][0], bad[k][1]);
        CHECK_MSG(strstr(r.failure, bad[k][2]), "%s: '%s'", bad[k][0], r.failure);
        rig_close(&r);
    }
    const kiln_sampler *sde = rig_sampler("dpmpp_sde", 9);
    const kiln_param *stage = &sde->param[sde->n_param - 1]; /* r=0: the stage would lie where the step begins */
    CHECK(strcmp(stage->name, "r") == 0 && stage->min > 0);
}

static void test_rising_levels_take_no_noise(void)
{
    double start[SIZE] = {0.3, -0.9, 1.2, 0, -0.4, 1, 0.5, -0.7};
    static const double rising[] = {0.1, 0.5, 2, 6, 14};
    for (int k = 0; k < 2; k++) {
        const kiln_sampler *row = k ? rig_sampler("dpm_adaptive", 12) : rig_sampler("dpm_fast", 8);
        rig r;
        toy_open(&r, row, rising, 4, start);
        CHECK_EQ(row->run(&r.api), KILN_OK); /* the numbers: the goldens' flipped.6 */
        rig_close(&r);
        toy_open(&r, row, rising, 4, start);
        REQUIRE(rig_options(&r, row, "eta=0.5"));
        CHECK_EQ(row->run(&r.api), KILN_ERR_INVALID);
        CHECK_MSG(strstr(r.failure, "rise"), "%s: '%s'", row->name, r.failure);
        rig_close(&r);
    }
}

/* ---- S13: options ---- */

/* A value other than the default within the range. */
static void other_value(const kiln_param *p, char *out, size_t capacity)
{
    if (p->type == KILN_P_BOOL)
        snprintf(out, capacity, "%s=%d", p->name, p->def == 0);
    else if (p->type == KILN_P_ENUM)
        snprintf(out, capacity, "%s=%s", p->name,
                 (double)kiln_choice_at(p, 0).value == p->def ? kiln_choice_at(p, 1).name : kiln_choice_at(p, 0).name);
    else if (p->type == KILN_P_INT)
        snprintf(out, capacity, "%s=%.0f", p->name, p->def > p->min ? p->def - 1 : p->def + 1);
    else if (strcmp(p->name, "s_tmin") == 0)
        snprintf(out, capacity, "s_tmin=3");
    else if (strcmp(p->name, "s_tmax") == 0)
        snprintf(out, capacity, "s_tmax=6");
    else if (strcmp(p->name, "accept_safety") == 0)
        snprintf(out, capacity, "accept_safety=0.25");
    else if (strcmp(p->name, "atol") == 0)
        snprintf(out, capacity, "atol=3");
    else if (strcmp(p->name, "sde_end_sigma") == 0)
        snprintf(out, capacity, "sde_end_sigma=5");
    else
        snprintf(out, capacity, "%s=%.3g", p->name, p->def == 0 ? 0.7 : p->def * 0.7);
}

/* What else has to be said for an option to matter. */
static const char *companions(const char *sampler, const char *option)
{
    if (strcmp(option, "s_tmin") == 0 || strcmp(option, "s_tmax") == 0) return "s_churn=3";
    if (strcmp(sampler, "er_sde") == 0 && strcmp(option, "eta") == 0) return "solver_type=Reverse-time SDE";
    if (strcmp(option, "accept_safety") == 0)
        return "h_init=4,rtol=0.001,atol=0.0001"; /* a first step that is too long */
    if (strcmp(sampler, "lcm_upscale") == 0 && strcmp(option, "scale_ratio") != 0) return "scale_ratio=1.5";
    if (strcmp(option, "simple_order_2") == 0) return "predictor_order=2,corrector_order=2";
    if (strcmp(option, "s_noise") == 0 && strncmp(sampler, "dpm_", 4) == 0 && strstr(sampler, "ancestral") == NULL)
        return strcmp(sampler, "dpm_2") == 0 ? "s_churn=3" : "eta=0.5";
    if (strcmp(option, "s_noise") == 0 && (strncmp(sampler, "heun", 4) == 0 || strcmp(sampler, "euler") == 0))
        return "s_churn=3";
    return "";
}

static void run_with(const kiln_sampler *row, const char *first, const char *then, double *out)
{
    double start[SIZE] = {3, -9, 12, 20, -4, 1, 0.5, -17};
    rig r;
    toy_open(&r, row, even, 12, start);
    CHECK_MSG(rig_options(&r, row, first) && rig_options(&r, row, then), "%s: %s %s", row->name, first, then);
    CHECK_MSG(row->run(&r.api) == KILN_OK, "%s %s %s: %s", row->name, first, then, r.failure);
    memcpy(out, r.x.v, sizeof(double) * SIZE);
    rig_close(&r);
}

static void test_S13_every_option_has_an_effect(void)
{
    size_t tried = 0;
    for (size_t k = 0; k < sampler_row_count; k++) {
        const kiln_sampler *row = sampler_rows[k];
        for (uint32_t i = 0; i < row->n_param; i++) {
            char text[64];
            double with[SIZE], without[SIZE];
            const char *first = companions(row->name, row->param[i].name);
            other_value(&row->param[i], text, sizeof text);
            run_with(row, first, "", without);
            run_with(row, first, text, with);
            CHECK_MSG(memcmp(with, without, sizeof with) != 0, "%s: %s %s changes nothing", row->name, first, text);
            tried++;
        }
    }
    CHECK(tried > 80);
}

/* ---- a run that is taken up again ---- */

static void check_resume(const kiln_sampler *row, const double *sigma, size_t n, uint32_t process, const char *options)
{
    double start[SIZE] = {3, -9, 12, 20, -4, 1, 0.5, -17};
    if (process == KILN_PROCESS_FLOW)
        for (int i = 0; i < SIZE; i++) start[i] /= 10;
    rig whole, part;
    toy_open(&whole, row, sigma, n, start);
    whole.api.process = process;
    rig_options(&whole, row, options);
    CHECK_MSG(row->run(&whole.api) == KILN_OK, "%s: %s", row->name, whole.failure);
    for (size_t stop = 1; stop < whole.steps; stop++) {
        toy_open(&part, row, sigma, n, start);
        part.api.process = process;
        rig_options(&part, row, options);
        part.stop_at = stop;
        CHECK_EQ(row->run(&part.api), KILN_CANCELLED);
        part.stop_at = 0;
        CHECK_EQ(row->run(&part.api), KILN_OK); /* x, slots, scalars and the noise's place are as they were */
        CHECK_MSG(memcmp(whole.x.v, part.x.v, sizeof start) == 0, "%s taken up after step %zu", row->name, stop);
        CHECK_MSG(part.evaluations == whole.evaluations && part.draws == whole.draws,
                  "%s after step %zu: %zu evaluations", row->name, stop, part.evaluations);
        rig_close(&part);
    }
    rig_close(&whole);
}

static void test_a_run_taken_up_again_gives_the_same_bytes(void)
{
    static const double flow[] = {1, 0.95, 0.9, 0.8, 0.65, 0.5, 0.3, 0.1, 0};
    for (size_t k = 0; k < sampler_row_count; k++) {
        check_resume(sampler_rows[k], even, 12, KILN_PROCESS_DIFFUSION, "");
        check_resume(sampler_rows[k], even, 11, KILN_PROCESS_DIFFUSION, "eta=0.5");
        check_resume(sampler_rows[k], flow, 8, KILN_PROCESS_FLOW, "");
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_the_list_is_comfyuis_in_its_order),
        CASE(test_S8_each_evaluation_equals_the_reference),
        CASE(test_S8_the_full_set_equals_the_reference),
        CASE(test_S7_evaluations_are_as_declared),
        CASE(test_S9_one_step),
        CASE(test_S9_equal_levels_and_many_steps),
        CASE(test_S9_a_nan_stays_where_it_is),
        CASE(test_dpm_adaptive_never_accepts_blindly),
        CASE(test_options_without_meaning_are_refused),
        CASE(test_rising_levels_take_no_noise),
        CASE(test_S13_every_option_has_an_effect),
        CASE(test_a_run_taken_up_again_gives_the_same_bytes),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
