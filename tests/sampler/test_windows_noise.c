/* test_windows_noise.c - whose drawn noise each picture begins with is what the MODEL's windows say
 * (kiln_windows.noise): any picture may take any other's, the first one too; without memory the sampling fails.
 */
#include "sampling_kit.h"

static int64_t taken[PICTURES];

static int whole_batch(const void *self, int64_t pictures, int64_t step, size_t i, kiln_window *out)
{
    (void)self, (void)pictures, (void)step, (void)i, (void)out;
    return 0;
}

static int take(const void *self, int64_t pictures, uint64_t seed, int64_t *from)
{
    (void)self, (void)seed;
    CHECK_EQ(pictures, PICTURES);
    memcpy(from, taken, sizeof taken);
    return taken[0] >= 0;
}

static const kiln_windows by_test = {.size = sizeof by_test, .identity = "taken", .at = whole_batch, .noise = take};

static kiln_value *model_with(const kiln_windows *w)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    kiln_value *plain = network_model();
    kiln_model m = *models->model(rig_ctx(), plain);
    m.windows = w;
    kiln_value *v = models->model_new(rig_ctx(), &m);
    if (!CHECK_MSG(v != NULL, "%s", rig_message())) exit(1);
    drop(plain);
    return v;
}

/* NOISE whose pictures are those of pattern_noise(). */
static kiln_value *noise_of(const int64_t *picture)
{
    float all[NUMBERS], data[NUMBERS];
    size_t one = NUMBERS / PICTURES;
    pattern(all, 1.7, 0.3);
    for (int i = 0; i < PICTURES; i++)
        memcpy(data + (size_t)i * one, all + (size_t)picture[i] * one, one * sizeof *data);
    kiln_value *noise = map_of("samples", tensor_value(4, (const int64_t[]){PICTURES, 2, 2, CHANNELS}, data)),
               *seed = values()->new_int(NULL, 5);
    CHECK_EQ(values()->map_set(noise, "seed", seed), KILN_OK);
    drop(seed);
    return noise;
}

static void test_each_picture_begins_with_the_noise_that_is_said(void)
{
    static const int64_t plain[PICTURES] = {0, 1}, cases[][PICTURES] = {{0, 1}, {1, 0}, {1, 1}, {0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kiln_value *got[2] = {NULL}, *want[2] = {NULL};
        memcpy(taken, cases[i], sizeof taken);
        CHECK_EQ(sample((parts){.model = model_with(&by_test), .noise = noise_of(plain)}, got), KILN_OK);
        CHECK_EQ(sample((parts){.model = model_with(NULL), .noise = noise_of(cases[i])}, want), KILN_OK);
        CHECK_MSG(same_latent(got[0], want[0]), "pictures that take the noise of %d and %d", (int)cases[i][0],
                  (int)cases[i][1]);
        for (int k = 0; k < 2; k++) drop(got[k]), drop(want[k]);
    }
}

static void test_without_memory_it_fails(void)
{
    kiln_value *out[2] = {NULL};
    taken[0] = -1;
    CHECK_EQ(sample((parts){.model = model_with(&by_test)}, out), KILN_ERR_NOMEM);
    CHECK(!out[0] && !out[1]);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_each_picture_begins_with_the_noise_that_is_said),
                                      CASE(test_without_memory_it_fails)};
    open_plugin();
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
