/* test_noise_source.c - which generator a session's noise comes from, by row and by noise_source: the numbers of each
 * draw are computed here from the generators alone (which test_noise.c and test_sampler.c hold against torch).
 *
 * A probe row leaves the noise of its last step above 0 as its result. It comes back as noise / scale + shift in f32,
 * so the tolerance is a few roundings of numbers below 10.
 */
#include "probe_rows.h"

#include "noise_source.h"
#include "seeded_tables.h"

#define TOLERANCE 3e-6
static const uint64_t seed = 77;

/* [PICTURES,CHANNELS,CELLS] -> [PICTURES,CELLS,CHANNELS] */
static void turned(const float *drawn, float *out)
{
    for (int b = 0; b < PICTURES; b++)
        for (int k = 0; k < CHANNELS; k++)
            for (int i = 0; i < CELLS; i++) out[(b * CELLS + i) * CHANNELS + k] = drawn[(b * CHANNELS + k) * CELLS + i];
}

static void white(int cuda, uint64_t from_seed, int draw, float *out)
{
    noise_stream g;
    float drawn[NUMBERS];
    stream_seed(&g, cuda, from_seed, 0);
    for (int i = 0; i < draw; i++) stream_randn(&g, drawn, NUMBERS);
    turned(drawn, out);
}

static float capacity[BROWNIAN_DEPTH + 1][NUMBERS];
static int taken;
static float *next_capacity(const void *owner, size_t n) { return (void)owner, (void)n, capacity[taken++]; }
static void fresh(const void *arg, uint32_t one_seed, float *out, size_t n)
{
    noise_stream g;
    stream_seed(&g, arg != NULL, one_seed, 0);
    stream_randn(&g, out, n);
}

/* Of a run over levels 10, 6, 2, 0.5, 0. */
static void path(int cuda, double from, double to, float *out)
{
    float drawn[NUMBERS];
    brownian_tree tree = {.entropy = seed,
                          .low = 0.5,
                          .high = 10,
                          .n = NUMBERS,
                          .gaussians = fresh,
                          .arg = cuda ? &seed : NULL,
                          .capacity = next_capacity};
    taken = 0;
    CHECK_EQ(brownian_noise(&tree, from, to, drawn), KILN_OK);
    turned(drawn, out);
}

static kiln_status run_custom(const char *row, const char *noise, kiln_value *out[2])
{
    static const double sigma[] = {10, 6, 2, 0.5, 0};
    char name[64], of_seed[96];
    snprintf(name, sizeof name, "sampler_name=%s", row);
    snprintf(of_seed, sizeof of_seed, "noise_seed=%d; %s", (int)seed, noise);
    return sample((parts){.model = network_model(),
                          .noise = made(&node_random_noise, of_seed, NULL, NULL),
                          .sampler = made(&node_sampler_select, name, NULL, NULL),
                          .sigmas = sigmas_of(5, sigma)},
                  out);
}

static void check(const char *row, const char *source_name, const float *want)
{
    char noise[64];
    kiln_value *out[2] = {NULL};
    snprintf(noise, sizeof noise, "noise_source=%s", source_name);
    if (!CHECK_MSG(run_custom(row, noise, out) == KILN_OK, "%s %s: %s", row, source_name, call_why.message)) return;
    double worst = 0;
    const float *x = samples_of(out[0]);
    for (int i = 0; i < NUMBERS; i++)
        worst = fmax(worst, fabs(((double)x[i] - network_shift) * network_scale - (double)want[i]));
    CHECK_MSG(worst <= TOLERANCE, "%s with %s: off by %g", row, source_name, worst);
    drop(out[0]), drop(out[1]);
}

/* The last step is the one from 2 to 0.5 (probe_last stops before the step to 0): of three draws the third. */
static void test_white_noise(void)
{
    float want[NUMBERS];
    white(0, seed + 1, 3, want);
    check("last_white", "auto", want);
    check("last_white", "cpu", want);
    white(1, seed, 3, want);
    check("last_white", "cuda", want);
    white(1, seed, 4, want); /* after the first noise */
    check("last_white", "cuda_all", want);
}

static void test_noise_that_goes_on(void)
{
    float want[NUMBERS];
    white(0, seed, 4, want);
    check("last_goes_on", "auto", want);
    check("last_goes_on", "cpu", want);
    white(1, seed, 3, want); /* CUDA's global generator has drawn nothing yet */
    check("last_goes_on", "cuda", want);
    white(1, seed, 4, want);
    check("last_goes_on", "cuda_all", want);
}

static void test_paths(void)
{
    float cpu[NUMBERS], gpu[NUMBERS], before[NUMBERS];
    path(0, 2, 0.5, cpu);
    path(1, 2, 0.5, gpu);
    path(0, 6, 2, before);
    CHECK(memcmp(cpu, before, sizeof cpu) != 0); /* another step, other noise */
    check("last_path", "auto", cpu);
    check("last_path", "cpu", cpu);
    check("last_path", "cuda", cpu);
    check("last_path", "cuda_all", gpu);
    check("last_path_gpu", "auto", gpu);
    check("last_path_gpu", "cpu", cpu);
    check("last_path_gpu", "cuda", gpu);
    check("last_path_gpu", "cuda_all", gpu);
}

/* The first noise: a sampler of one step does nothing but give it back, times the first level. */
static void test_first_noise(void)
{
    float want[NUMBERS], other[NUMBERS];
    white(0, seed, 1, want);
    white(1, seed, 1, other);
    for (int cuda = 0; cuda < 2; cuda++) {
        static const double sigma[] = {3, 2};
        char of_seed[96];
        kiln_value *out[2] = {NULL};
        snprintf(of_seed, sizeof of_seed, "noise_seed=%d; noise_source=%s", (int)seed, cuda ? "cuda_all" : "cuda");
        kiln_status status =
            sample((parts){.model = network_model(),
                           .noise = made(&node_random_noise, of_seed, NULL, NULL),
                           .sampler = made(&node_sampler_select, "sampler_name=last_start", NULL, NULL),
                           .sigmas = sigmas_of(2, sigma)},
                   out);
        if (!CHECK_MSG(status == KILN_OK, "%s", call_why.message)) continue;
        const float *x = samples_of(out[0]), *drawn = cuda ? other : want;
        for (int i = 0; i < NUMBERS; i++)
            CHECK_NEAR(((double)x[i] - network_shift) * network_scale / 3, (double)drawn[i], TOLERANCE);
        drop(out[0]), drop(out[1]);
    }
}

/* Whole samplings from a seed, through the nodes, against k-diffusion's samplers in float64 with torch's and torchsde's
 * noise. The largest difference over the largest value; float32 latents and Gaussians of another libm: measured 6e-7,
 * bound 1e-5. */
static void test_S14_a_seed_gives_torchs_latent(void)
{
    double most = 0;
    for (size_t i = 0; i < sizeof seeded / sizeof seeded[0]; i++) {
        char name[96], noise[96];
        kiln_value *out[2] = {NULL};
        snprintf(name, sizeof name, "sampler_name=%s", seeded[i].sampler);
        snprintf(noise, sizeof noise, "noise_seed=%llu; noise_source=%s", (unsigned long long)seeded_seed,
                 seeded[i].source);
        kiln_status status = sample((parts){.model = network_model(),
                                            .noise = made(&node_random_noise, noise, NULL, NULL),
                                            .sampler = made(&node_sampler_select, name, NULL, NULL),
                                            .sigmas = sigmas_of(8, seeded_levels)},
                                    out);
        if (!CHECK_MSG(status == KILN_OK, "%s %s: %s", seeded[i].sampler, seeded[i].source, call_why.message)) continue;
        double worst = 0, largest = 0;
        for (int k = 0; k < NUMBERS; k++) {
            worst = fmax(worst, fabs((double)samples_of(out[0])[k] - seeded[i].latent[k]));
            largest = fmax(largest, fabs(seeded[i].latent[k]));
        }
        CHECK_MSG(worst <= 1e-5 * largest, "%s with %s: off by %g of %g", seeded[i].sampler, seeded[i].source, worst,
                  largest);
        most = fmax(most, worst / largest);
        drop(out[0]), drop(out[1]);
    }
    if (getenv("KILN_TEST_VERBOSE")) printf("worst %g\n", most);
}

/* Said, not ignored: a device's size where no device draws; a NOISE that is wrong. */
static void test_what_is_refused(void)
{
    kiln_value *out[2] = {NULL};
    CHECK(run_custom("last_path", "cuda_blocks=100", out) == KILN_ERR_INVALID);
    CHECK_MSG(strstr(call_why.message, "none draws") != NULL, "%s", call_why.message);
    CHECK(run_custom("last_path_gpu", "cuda_blocks=100; noise_source=cpu", out) == KILN_ERR_INVALID);
    CHECK_EQ(run_custom("last_path_gpu", "cuda_blocks=100", out), KILN_OK);
    drop(out[0]), drop(out[1]);
    kiln_value *noise = pattern_noise(), *bad = values()->new_int(NULL, 17);
    CHECK_EQ(values()->map_set(noise, "source", bad), KILN_OK);
    drop(bad);
    CHECK(sample((parts){.model = network_model(), .noise = noise}, out) == KILN_ERR_INVALID);
    CHECK_MSG(strstr(call_why.message, "'source'") != NULL, "%s", call_why.message);
}

/* x stays what it began with. */
static kiln_status leave(const kiln_sampling *s)
{
    kiln_latent *guess = s->slot(s, "guess");
    return guess ? s->denoise(s, s->x, s->sigma[0], guess) : KILN_ERR_NOMEM;
}
static const kiln_sampler start_row = PROBE_ROW("last_start", leave, 0);

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_white_noise),
        CASE(test_noise_that_goes_on),
        CASE(test_paths),
        CASE(test_first_noise),
        CASE(test_S14_a_seed_gives_torchs_latent),
        CASE(test_what_is_refused),
    };
    open_plugin();
    open_probes(1);
    registry_owner_set("test", NULL);
    CHECK_EQ(((const kiln_sampler_api *)rig_host()->ability(KILN_SAMPLER_ABILITY))->register_sampler(&start_row),
             KILN_OK);
    registry_owner_set(NULL, NULL);
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
