/* test_noise.c - torch's CUDA generator against what devices printed, and the Brownian tree against torchsde.
 *
 * Tolerances. Published draws have four decimals: 5e-5 for their rounding, and the device's fast sine and cosine
 * (2^-20.9 absolute by NVIDIA's tables, larger away from 0) times a radius of up to 6.7: 2e-5 more. The tree:
 * torch's vectorised f32 log, sin and cos are off from libm by up to 1.5e-6 (noise_f32 of noise.safetensors) in each of
 * up to 50 Gaussians whose weights' squares sum to 1 after the division by the length: measured 4e-7 of the
 * largest value; the bound is 1e-6.
 */
#include "base/memory_alloc.h"
#include "brownian.h"
#include "harness.h"
#include "philox.h"
#include "torch_random.h"
#include "weights/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Philox ---- */

/* Random123 1.14, tests/kat_vectors: philox4x32 10 */
static void test_philox_words_are_random123s(void)
{
    static const uint32_t counter[3][4] = {
        {0, 0, 0, 0}, {~0u, ~0u, ~0u, ~0u}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}};
    static const uint32_t key[3][2] = {{0, 0}, {~0u, ~0u}, {0xa4093822, 0x299f31d0}};
    static const uint32_t want[3][4] = {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                        {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                        {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 3; i++) {
        uint32_t have[4];
        philox4x32(counter[i], key[i], have);
        CHECK_MSG(memcmp(have, want[i], sizeof have) == 0, "vector %d: %08x %08x %08x %08x", i, have[0], have[1],
                  have[2], have[3]);
    }
}

/* torch.manual_seed(0); torch.randn(8, 8, device="cuda"), torch 2.2 on a GPU as two articles on fused kernels print it
 */
static const float seed_0[64] = {
    -0.9247f, -0.4253f, -2.6438f, 0.1452f,  -0.1209f, -0.5797f, -0.6229f, -0.3284f, -1.0745f, -0.3631f, -1.6711f,
    2.2655f,  0.3117f,  -0.1842f, 1.2866f,  1.1820f,  -0.1271f, 1.2169f,  1.4353f,  1.0605f,  -0.4941f, -1.4244f,
    -0.7244f, -1.2973f, 0.0697f,  -0.0074f, 1.8969f,  0.6878f,  -0.0779f, -0.8373f, 1.3506f,  -0.2879f, -0.5965f,
    -0.3283f, -0.9086f, -0.8059f, -0.7407f, -0.0504f, 0.5435f,  1.5150f,  0.0141f,  0.4532f,  1.6349f,  0.7124f,
    -0.1806f, 1.0252f,  -1.4622f, -0.7554f, -0.1836f, 0.3824f,  0.3918f,  -0.0830f, 0.8971f,  -1.1123f, 0.1116f,
    0.4863f,  -0.5499f, -0.3231f, -0.5469f, 0.9049f,  0.2837f,  0.1210f,  0.4730f,  -1.0823f};
static const double printed = 5e-5 + 2e-5;

static void test_S14_cuda_noise_is_torchs(void)
{
    float have[64];
    cuda_generator g;
    cuda_seed(&g, 0, 0);
    cuda_randn(&g, have, 64);
    for (int i = 0; i < 64; i++)
        CHECK_MSG(fabs((double)have[i] - (double)seed_0[i]) <= printed, "%d: %g, torch says %g", i, (double)have[i],
                  (double)seed_0[i]);
    CHECK_EQ(g.offset, 4);
}

/* Issues of pytorch/pytorch, with the tensor printed and (but for 158398) the device named. blocks: multiprocessors *
 * blocks each. */
static const struct {
    const char *from;
    uint64_t seed;
    uint32_t blocks;
    size_t n, at;
    double mean, deviation;
    double want[3];
} device_case[] = {
    {"79496", 10, 0, 3, 0, 0, 1, {-0.1029, 1.6810, -0.2708}},
    {"62467, RTX A6000: 84 * 6", 43, 504, 49152, 0, 0, 1, {1.9983, 0, 0}},
    {"62467, RTX A6000: 84 * 6", 43, 504, 49152, 32768, 0, 1, {2.1127, 0, 0}},
    {"158398, first", 42, 168, 131072, 0, 0, 1, {0.1940, 2.1614, -0.1721}},
    {"158398, row 61 of 64 on 28 * 6", 42, 168, 131072, 124928, 0, 1, {-0.4861, 0.3358, 1.0578}},
    {"158398, last on 28 * 6", 42, 168, 131072, 131069, 0, 1, {-0.4841, 1.2850, -0.0282}},
    {"97097, first", 14, 288, 100000, 0, 5, 2.2360679775, {2.8731, 5.2727, 2.9889}},
    {"97097, RTX A4000: 48 * 6", 14, 288, 100000, 99700, 5, 2.2360679775, {8.6297, 2.3137, 6.2596}},
    {"97097, RTX A4000: 48 * 6, last", 14, 288, 100000, 99997, 5, 2.2360679775, {8.2207, 6.5395, 4.2604}},
    {"143086, H100: 132 * 8, last", 1, 1056, 9483264, 9483261, 0, 1, {-0.6970, -0.7780, 0.3267}},
    {"143086, A100: 108 * 8, last", 1, 864, 9483264, 9483261, 0, 1, {0.1549, -0.6797, -0.1656}},
};

static void test_cuda_noise_of_named_devices(void)
{
    float *have = mem_alloc(9483264 * sizeof *have);
    REQUIRE(have);
    for (size_t i = 0; i < sizeof device_case / sizeof device_case[0]; i++) {
        cuda_generator g;
        cuda_seed(&g, device_case[i].seed, device_case[i].blocks);
        cuda_randn(&g, have, device_case[i].n);
        for (int k = 0; k < 3; k++) {
            double got = (double)have[device_case[i].at + (size_t)k] * device_case[i].deviation + device_case[i].mean;
            if (device_case[i].want[k] != 0)
                CHECK_MSG(fabs(got - device_case[i].want[k]) <= printed * device_case[i].deviation,
                          "%s: number %d is %g, not %g", device_case[i].from, k, got, device_case[i].want[k]);
        }
    }
    mem_free(have);
}

/* The second draw goes on four words later, and a wrapped draw takes four a turn. */
static void test_cuda_offset_between_draws(void)
{
    float both[8], apart[8], wrapped[3000];
    cuda_generator g, later;
    cuda_seed(&g, 7, 0);
    cuda_randn(&g, both, 4);
    cuda_randn(&g, both + 4, 4);
    CHECK_EQ(g.offset, 8);
    cuda_seed(&later, 7, 0);
    later.offset = 4;
    cuda_randn(&later, apart, 4);
    CHECK(memcmp(both + 4, apart, 4 * sizeof(float)) == 0);
    CHECK(memcmp(both, apart, 4 * sizeof(float)) != 0);
    cuda_seed(&g, 7, 2);
    cuda_randn(&g, wrapped, 3000); /* 512 threads, 4 numbers a turn: 2 turns */
    CHECK_EQ(g.offset, 8);
    cuda_randn(&g, both, 0);
    CHECK_EQ(g.offset, 8);
}

/* ---- the tree ---- */

/* numpy.random.SeedSequence(entropy, spawn_key=..., pool_size=24).generate_state(4)[0], numpy 2.4.6 */
static void test_seed_sequence_is_numpys(void)
{
    static const struct {
        uint64_t entropy, key;
        int depth;
        uint32_t want;
    } row[] = {
        {UINT64_C(0), 0, -1, 4025752534u},
        {UINT64_C(0), 0, 0, 245430115u},
        {UINT64_C(0), 1, 1, 712187387u},
        {UINT64_C(0), 5, 3, 2230703150u},
        {UINT64_C(0), UINT64_C(8589934593), 34, 2251331998u},
        {UINT64_C(42), 0, -1, 387750627u},
        {UINT64_C(42), 0, 0, 2102017995u},
        {UINT64_C(42), 1, 1, 1058881542u},
        {UINT64_C(42), 5, 3, 3084123560u},
        {UINT64_C(42), UINT64_C(8589934593), 34, 2593651726u},
        {UINT64_C(4294967296), 0, -1, 434701594u},
        {UINT64_C(4294967296), 0, 0, 2760539295u},
        {UINT64_C(4294967296), 1, 1, 3261137881u},
        {UINT64_C(4294967296), 5, 3, 2106737150u},
        {UINT64_C(4294967296), UINT64_C(8589934593), 34, 244678245u},
        {UINT64_C(18446744073709551615), 0, -1, 1186816001u},
        {UINT64_C(18446744073709551615), 0, 0, 2959649966u},
        {UINT64_C(18446744073709551615), 1, 1, 879418184u},
        {UINT64_C(18446744073709551615), 5, 3, 206752380u},
        {UINT64_C(18446744073709551615), UINT64_C(8589934593), 34, 2443923589u},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        CHECK_EQ(seed_sequence(row[i].entropy, row[i].key, row[i].depth), row[i].want);
}

typedef struct {
    int cuda;
    float *made[BROWNIAN_DEPTH + 1];
    size_t n_made;
} tree_host;

static void host_gaussians(const void *arg, uint32_t seed, float *out, size_t n)
{
    torch_generator cpu;
    cuda_generator gpu;
    if (((const tree_host *)arg)->cuda) {
        cuda_seed(&gpu, seed, 0);
        cuda_randn(&gpu, out, n);
    } else {
        torch_seed(&cpu, seed);
        torch_randn(&cpu, out, n);
    }
}

static tree_host host;

static float *host_capacity(const void *arg, size_t n)
{
    (void)arg;
    return host.made[host.n_made++] = mem_alloc(n * sizeof(float));
}

static brownian_tree tree_of(int cuda, uint64_t seed, double low, double high, size_t n)
{
    while (host.n_made) mem_free(host.made[--host.n_made]);
    host.cuda = cuda;
    return (brownian_tree){.entropy = seed,
                           .low = low,
                           .high = high,
                           .n = n,
                           .gaussians = host_gaussians,
                           .arg = &host,
                           .capacity = host_capacity};
}

static kiln_weights *golden(const char *file)
{
    char path[512];
    error e = {0};
    snprintf(path, sizeof path, "%s/tests/golden/%s.safetensors", test_root(), file);
    kiln_weights *w = weights_open(path, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

enum { ROOM = 64 * 280 };

static size_t read_floats(kiln_weights *w, const char *name, float *out)
{
    kiln_weight_info info = {.size = sizeof info};
    error e = {0};
    size_t n = 1;
    if (weights_find(w, name, &info) != KILN_OK) return 0;
    for (uint32_t i = 0; i < info.rank; i++) n *= (size_t)info.dim[i];
    if (n > ROOM || !CHECK_MSG(weights_read_f32(w, name, out, &e) == KILN_OK, "%s: %s", name, e.message)) return 0;
    return n;
}

/* SOURCE.SEED.SHAPE.PATTERN; the pairs are asked forwards, then backwards from a new tree: the same bytes. */
static double check_tree(kiln_weights *w, const char *name)
{
    static float pair[128], level[2], want[ROOM], have[ROOM], again[ROOM];
    char source[8], shape[32], pattern[32], key[64];
    unsigned long long seed;
    if (sscanf(name, "%7[^.].%llu.%31[^.].%31s", source, &seed, shape, pattern) != 4) return -1;
    snprintf(key, sizeof key, "pairs.%s", pattern);
    size_t pairs = read_floats(w, key, pair) / 2, numbers = read_floats(w, name, want), n = pairs ? numbers / pairs : 0;
    snprintf(key, sizeof key, "levels.%s", pattern);
    if (!CHECK_MSG(n && read_floats(w, key, level) == 2, "%s", name)) return -1;
    brownian_tree tree = tree_of(source[1] == 'u', seed, (double)level[0], (double)level[1], n);
    for (size_t i = 0; i < pairs; i++)
        CHECK_EQ(brownian_noise(&tree, (double)pair[2 * i], (double)pair[2 * i + 1], have + i * n), KILN_OK);
    tree = tree_of(source[1] == 'u', seed, (double)level[0], (double)level[1], n);
    for (size_t i = pairs; i-- > 0;)
        CHECK_EQ(brownian_noise(&tree, (double)pair[2 * i], (double)pair[2 * i + 1], again + i * n), KILN_OK);
    CHECK_MSG(memcmp(have, again, numbers * sizeof *have) == 0, "%s: the answer depends on what was asked before",
              name);
    double worst = 0, largest = 0;
    for (size_t i = 0; i < numbers; i++) {
        worst = fmax(worst, fabs((double)have[i] - (double)want[i]));
        largest = fmax(largest, fabs((double)want[i]));
    }
    CHECK_MSG(worst <= 1e-6 * largest, "%s: off by %g of %g", name, worst, largest);
    return worst / largest;
}

static void test_brownian_tree_is_torchsdes(void)
{
    kiln_weights *w = golden("brownian");
    REQUIRE(w);
    double worst = 0;
    size_t checked = 0;
    for (size_t i = 0; i < weights_count(w); i++) {
        kiln_weight_info info = {.size = sizeof info};
        weights_at(w, i, &info);
        if (info.name[0] != 'c') continue; /* cpu. and cuda. */
        worst = fmax(worst, check_tree(w, info.name));
        checked++;
    }
    CHECK_MSG(checked == 5 * (3 + 3 + 3 + 1), "%zu sequences", checked);
    if (getenv("KILN_TEST_VERBOSE")) printf("worst %g\n", worst);
    weights_unref(w);
}

/* Down is minus, increments add up, unit variance: what the samplers rely on. */
static void test_brownian_increments_add_up(void)
{
    enum { N = 4096 };
    static float whole[N], first[N], second[N], back[N];
    brownian_tree tree = tree_of(0, 5, 0.03, 14.6, N);
    CHECK_EQ(brownian_noise(&tree, 14.6, 1, whole), KILN_OK);
    CHECK_EQ(brownian_noise(&tree, 14.6, 5, first), KILN_OK);
    CHECK_EQ(brownian_noise(&tree, 5, 1, second), KILN_OK);
    CHECK_EQ(brownian_noise(&tree, 1, 14.6, back), KILN_OK);
    double square = 0, off = 0;
    for (int i = 0; i < N; i++) {
        double sum = ((double)first[i] * sqrt(9.6) + (double)second[i] * 2) / sqrt(13.6);
        off = fmax(off, fabs(sum - (double)whole[i]));
        square += (double)whole[i] * (double)whole[i] / N;
        CHECK(back[i] == -whole[i]);
    }
    CHECK_MSG(off < 1e-5, "%g", off);                              /* f32 sums of numbers up to 20 */
    CHECK_MSG(fabs(square - 1) < 4 * sqrt(2.0 / N), "%g", square); /* four deviations of a mean of squares */
}

static void test_brownian_odd_levels(void)
{
    float out[3] = {1, 1, 1};
    brownian_tree tree = tree_of(0, 5, 0.03, 14.6, 3);
    CHECK_EQ(brownian_noise(&tree, 1, 1, out), KILN_OK);
    CHECK(out[0] == 0 && out[2] == 0);
    CHECK_EQ(brownian_noise(&tree, 1, 1.0000001, out),
             KILN_OK); /* one and the same after rounding: torchsde never ends here */
    CHECK(out[0] == 0);
    CHECK_EQ(brownian_noise(&tree, 0, 0.01, out), KILN_OK); /* below the tree */
    CHECK(out[0] == 0);
    tree = tree_of(0, 5, 14.6, 14.6, 3); /* one step: nothing between */
    CHECK_EQ(brownian_noise(&tree, 14.6, 0, out), KILN_OK);
    CHECK(out[0] == 0);
    tree = tree_of(0, 5, 0.03, 4500, 3);
    CHECK_EQ(brownian_noise(&tree, 4500, 0.04, out), KILN_OK);
    CHECK(isfinite(out[0]) && out[0] != 0);
    tree = tree_of(0, 5, 0.03, 1e30, 3); /* too far apart for the tree: said, not looped */
    kiln_status status = brownian_noise(&tree, 1e30, 0.04, out);
    CHECK_MSG(status == KILN_ERR_INVALID, "%d", status);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_philox_words_are_random123s), CASE(test_S14_cuda_noise_is_torchs),
        CASE(test_cuda_noise_of_named_devices), CASE(test_cuda_offset_between_draws),
        CASE(test_seed_sequence_is_numpys),     CASE(test_brownian_tree_is_torchsdes),
        CASE(test_brownian_increments_add_up),  CASE(test_brownian_odd_levels),
    };
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    while (host.n_made) mem_free(host.made[--host.n_made]);
    return status;
}
