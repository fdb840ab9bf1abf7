/* test_lora_kinds.c - patches of every kind on tiny-sd1 against the weights that LyCORIS, peft and diffusers merge
 * (scripts/golden/lora_kinds.py): LoHa, LoKr, GLoRA, OFT, BOFT, IA3, with a Tucker decomposition, with DoRA's norms by
 * outputs and by inputs, biases and norms; at half their strength; one on top of another; and on the cores of a pool.
 *
 * Tolerance: 2e-6 of weights of the size of 1. A weight is a few f32 sums of products; the goldens of OFT and BOFT are
 * computed in f32 themselves.
 */
#include "lora_rig.h"

#include "base/pool.h"

#define WEIGHT 2e-6

static kiln_weights *goldens(void)
{
    static kiln_weights *g;
    if (!g) g = open_weights("tests/golden/lora_kinds.safetensors");
    return g;
}

/* Every weight the golden holds of a case and a network; how many there were. */
static size_t check_weights(const char *which, const char *part, const kiln_weights *set, pool *threads)
{
    const kiln_weights *g = goldens();
    char prefix[60], what[400];
    snprintf(prefix, sizeof prefix, "%s.%s.", which, part);
    size_t n = 0;
    for (size_t i = 0; i < weights_count(g); i++) {
        kiln_weight_info info = {.size = sizeof info}, mine = {.size = sizeof mine};
        weights_at(g, i, &info);
        if (strncmp(info.name, prefix, strlen(prefix)) != 0) continue;
        const char *name = info.name + strlen(prefix);
        array want = array_read(g, info.name);
        float *got = calloc(want.n + 1, sizeof *got);
        error e = {0};
        snprintf(what, sizeof what, "%s %s", which, name);
        if (CHECK_MSG(weights_find(set, name, &mine) == KILN_OK && mine.bytes == want.n * 4, "%s", what) &&
            CHECK_MSG(weights_read_f32_by(set, name, got, threads, &e) == KILN_OK, "%s", e.message))
            check_array(got, want.data, want.n, WEIGHT, what, __FILE__, __LINE__);
        free(got);
        free(want.data);
        n++;
    }
    return n;
}

static put_on put_kind(const char *name, double strength, kiln_value *model, kiln_value *clip)
{
    char file[100];
    snprintf(file, sizeof file, "lora_kinds/%s.safetensors", name);
    put_on r = put_lora(golden_path(file), strength, strength, model, clip);
    CHECK_MSG(r.status == KILN_OK, "%s: %s", name, r.why);
    return r;
}

static void test_what_trainers_merge(void)
{
    static const struct {
        const char *file;
        size_t unet, text;
    } rows[] = {{"lycoris", 37, 4}, {"dora", 3, 0}, {"bias", 4, 0}, {"loha", 3, 0}, {"lokr", 3, 0}, {"ia3", 2, 0}};
    REQUIRE(open_base() && goldens());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put_on r = put_kind(rows[i].file, 1, base_model, base_clip);
        REQUIRE(r.model);
        CHECK_EQ(check_weights(rows[i].file, "unet", unet_of(r.model), NULL), rows[i].unet);
        CHECK_EQ(check_weights(rows[i].file, "text", text_of(r.clip), NULL), rows[i].text);
        put_free(&r);
    }
}

static void test_at_half_their_strength(void)
{
    REQUIRE(open_base() && goldens());
    put_on r = put_kind("lycoris", 0.5, base_model, base_clip);
    REQUIRE(r.model);
    CHECK_EQ(check_weights("half", "unet", unet_of(r.model), NULL), 33);
    CHECK_EQ(check_weights("half", "text", text_of(r.clip), NULL), 4);
    put_free(&r);
}

/* The second takes what the first made for W: the other order is another weight. */
static void test_one_on_top_of_another(void)
{
    REQUIRE(open_base() && goldens());
    put_on a = put_kind("lycoris", 1, base_model, base_clip), b = put_kind("over", 1, base_model, NULL);
    REQUIRE(a.model && b.model);
    put_on up = put_kind("over", 1, a.model, NULL), down = put_kind("lycoris", 1, b.model, NULL);
    put_free(&a), put_free(&b); /* those on top keep what they need */
    REQUIRE(up.model && down.model);
    CHECK_EQ(check_weights("over", "unet", unet_of(up.model), NULL), 5);
    const char *name = "up_blocks.1.attentions.0.transformer_blocks.0.attn1.to_k.weight";
    float x[16 * 16], y[16 * 16];
    double apart = 0;
    CHECK(weights_read_f32(unet_of(up.model), name, x, NULL) == KILN_OK &&
          weights_read_f32(unet_of(down.model), name, y, NULL) == KILN_OK);
    for (int i = 0; i < 16 * 16; i++) apart = fmax(apart, fabs((double)(x[i] - y[i])));
    CHECK(apart > 1e-3);
    put_free(&up), put_free(&down);
}

static void test_the_same_on_all_cores(void)
{
    pool *threads = pool_new(3);
    REQUIRE(open_base() && goldens() && threads);
    put_on r = put_kind("lycoris", 1, base_model, base_clip);
    REQUIRE(r.model);
    const kiln_weights *set = unet_of(r.model);
    static float one[1 << 16], many[1 << 16];
    for (size_t i = 0; i < weights_count(set); i++) {
        kiln_weight_info info = {.size = sizeof info};
        weights_at(set, i, &info);
        if (info.bytes > sizeof one || info.dtype != KILN_F32) continue;
        CHECK(weights_read_f32_by(set, info.name, one, NULL, NULL) == KILN_OK &&
              weights_read_f32_by(set, info.name, many, threads, NULL) == KILN_OK);
        CHECK_MSG(memcmp(one, many, info.bytes) == 0, "%s", info.name);
    }
    put_free(&r);
    pool_free(threads);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_what_trainers_merge),
        CASE(test_at_half_their_strength),
        CASE(test_one_on_top_of_another),
        CASE(test_the_same_on_all_cores),
    };
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    close_base();
    weights_unref(goldens());
    return status;
}
