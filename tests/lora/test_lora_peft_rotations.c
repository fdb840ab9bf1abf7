/* test_lora_peft_rotations.c - OFT and BOFT as peft trains them, on tiny-sd1, against the weights that peft merges
 * (scripts/golden/lora_peft_rotations.py): linear layers and a convolution, blocks of their own and one for all, by a
 * series and whole; half of one; what is refused. Tolerance: 2e-6 of weights of the size of 1; peft's are f32 sums.
 */
#include "lora_rig.h"

#define WEIGHT 2e-6

static kiln_weights *goldens(void)
{
    static kiln_weights *g;
    if (!g) g = open_weights("tests/golden/lora_peft_rotations.safetensors");
    return g;
}

/* Every weight the golden holds of a case; how many there were. */
static size_t check_case(const char *which, const kiln_weights *set)
{
    char prefix[60], what[400];
    snprintf(prefix, sizeof prefix, "%s.unet.", which);
    size_t n = 0;
    for (size_t i = 0; i < weights_count(goldens()); i++) {
        kiln_weight_info info = {.size = sizeof info};
        weights_at(goldens(), i, &info);
        if (strncmp(info.name, prefix, strlen(prefix)) != 0) continue;
        const char *name = info.name + strlen(prefix);
        array want = array_read(goldens(), info.name);
        float *got = calloc(want.n + 1, sizeof *got);
        error e = {0};
        snprintf(what, sizeof what, "%s %s", which, name);
        if (CHECK_MSG(weights_read_f32(set, name, got, &e) == KILN_OK, "%s", e.message))
            check_array(got, want.data, want.n, WEIGHT, what, __FILE__, __LINE__);
        free(got);
        free(want.data);
        n++;
    }
    return n;
}

static put_on put_case(const char *name, double strength)
{
    char file[100];
    snprintf(file, sizeof file, "lora_kinds/%s.safetensors", name);
    put_on r = put_lora(golden_path(file), strength, strength, base_model, base_clip);
    CHECK_MSG(r.status == KILN_OK, "%s: %s", name, r.why);
    return r;
}

static void test_what_peft_merges(void)
{
    static const char *const cases[] = {"peft_oft", "peft_oft_shared", "peft_oft_whole", "peft_oft_eight", "peft_boft"};
    REQUIRE(open_base() && goldens());
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        put_on r = put_case(cases[i], 1);
        REQUIRE(r.model);
        CHECK_EQ(check_case(cases[i], unet_of(r.model)), 3);
        put_free(&r);
    }
}

/* At half its strength each block lies half way, so the weight is the mean of both ends where nothing is scaled. */
static void test_half_of_one(void)
{
    static float half[1 << 16], whole[1 << 16], base[1 << 16];
    const char *name = "down_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q.weight";
    REQUIRE(open_base());
    put_on a = put_case("peft_oft", 0.5), b = put_case("peft_oft", 1);
    kiln_weight_info info = {.size = sizeof info};
    REQUIRE(a.model && b.model && weights_find(unet_of(b.model), name, &info) == KILN_OK && info.bytes <= sizeof half);
    CHECK(weights_read_f32(unet_of(a.model), name, half, NULL) == KILN_OK &&
          weights_read_f32(unet_of(b.model), name, whole, NULL) == KILN_OK &&
          weights_read_f32(unet_of(base_model), name, base, NULL) == KILN_OK);
    for (size_t i = 0; i < info.bytes / 4; i++) base[i] = (base[i] + whole[i]) / 2;
    check_array(half, base, info.bytes / 4, WEIGHT, "half", __FILE__, __LINE__);
    put_free(&a), put_free(&b);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_what_peft_merges), CASE(test_half_of_one)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
