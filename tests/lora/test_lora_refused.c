/* test_lora_refused.c - what a LoRA file may not be: of another kind, by halves, of other shapes, without a number, for
 * another model, damaged. Each says which tensor; and what is merely for nobody is counted and left out.
 */
#include "lora_rig.h"

#include "base/log.h"
#include "base/memory_alloc.h"
#include "lora_key.h"

#define Q "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn1_to_q" /* [8,8] */
#define CONV "lora_unet_down_blocks_2_resnets_0_conv1"                           /* [16,12,3,3] */

static float numbers[4096];

static void make_numbers(void)
{
    for (int i = 0; i < 4096; i++) numbers[i] = (float)(i % 13) * 0.125f - 0.75f;
}

#define T(name_, ...)                                                                                                  \
    {                                                                                                                  \
        .name = name_, .dtype = KILN_F32, DIMS(__VA_ARGS__), .data = numbers                                           \
    }
#define NUMBER(name_, pointer)                                                                                         \
    {                                                                                                                  \
        .name = name_, .dtype = KILN_F32, .data = pointer                                                              \
    }

static const char *put_file(const char *name, const safetensors_source *t, size_t n)
{
    const char *path = at_path(name);
    unlink(path);
    return put_tensors(name, t, n);
}

static put_on put_tensors_on(const safetensors_source *t, size_t n)
{
    return put_lora(put_file("a.safetensors", t, n), 1, 1, base_model, base_clip);
}
#define PUT(...)                                                                                                       \
    put_tensors_on((const safetensors_source[]){__VA_ARGS__},                                                          \
                   sizeof((const safetensors_source[]){__VA_ARGS__}) / sizeof(safetensors_source))
#define PAIR T(Q ".lora_up.weight", 8, 2), T(Q ".lora_down.weight", 2, 8)

static void test_kinds_that_are_not_computed(void)
{
    static const struct {
        const char *key, *what;
    } rows[] = {{"base_model.model.x.oft_embedding_R.weight", "an OFT of an embedding"},
                {Q ".oft_diag", "an OFT of an early LyCORIS"},
                {Q ".bm.weight", "GLoRA with a Tucker decomposition"},
                {Q ".reshape_weight", "reshapes"}};
    REQUIRE(open_base());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        lora_refused(PUT(PAIR, T(rows[i].key, 2, 2)), rows[i].key, rows[i].what);
    lora_refused(PUT(T(Q ".oft_blocks", 4, 2, 2), T(Q ".dora_scale", 8, 1)), Q ".dora_scale", "a DoRA of an OFT");
    lora_refused(PUT(NUMBER(Q ".on_input", numbers), T(Q ".weight", 8), T(Q ".dora_scale", 8, 1)), Q ".dora_scale",
                 "a DoRA of an IA3");
}

/* Each tensor that cannot stand alone, with the one that is missed. */
static void test_halves_of_every_kind(void)
{
    static const struct {
        const char *key, *missed;
    } rows[] = {{".hada_w1_a", ".hada_w1_b' is missing"},
                {".hada_w1_b", ".hada_w1_a' is missing"},
                {".hada_w2_a", ".hada_w1_a' is missing"},
                {".hada_t1", ".hada_w1_a' is missing"},
                {".lokr_w1", ".lokr_w2_a' is missing"},
                {".lokr_w1_a", ".lokr_w1_b' is missing"},
                {".lokr_w2", ".lokr_w1_a' is missing"},
                {".lokr_t2", ".lokr_w1_a' is missing"},
                {".a1.weight", ".a2.weight' is missing"},
                {".b2.weight", ".a1.weight' is missing"},
                {".rescale", ".oft_blocks' is missing"},
                {".on_input", ".weight' is missing"},
                {".lora_mid.weight", ".lora_up.weight' is missing"},
                {".lora_up.bias", ".lora_up.weight' is missing"},
                {".dora_scale", "half of a DoRA"}};
    REQUIRE(open_base());
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char key[200];
        snprintf(key, sizeof key, "%s%s", Q, rows[i].key);
        const safetensors_source t[] = {T(key, 8, 8)};
        lora_refused(put_tensors_on(t, 1), key, rows[i].missed);
    }
    lora_refused(PUT(T(CONV ".hada_w1_a", 2, 16), T(CONV ".hada_w1_b", 2, 12), T(CONV ".hada_w2_a", 2, 16),
                     T(CONV ".hada_w2_b", 2, 12), T(CONV ".hada_t1", 2, 2, 3, 3)),
                 CONV ".hada_t1' is half of a pair", CONV ".hada_t2' is missing");
    lora_refused(PUT(T("lora_unet_nowhere.hada_w1_b", 8, 8)), "'lora_unet_nowhere.hada_w1_b' is half of a pair",
                 "hada_w1_a");
}

#define HADA(a, b) T(Q ".hada_w1_a", 8, a), T(Q ".hada_w1_b", b, 8), T(Q ".hada_w2_a", 8, 2), T(Q ".hada_w2_b", 2, 8)
#define SIDES(a, b, c, d)                                                                                              \
    T(Q ".a1.weight", a, b), T(Q ".a2.weight", b, a), T(Q ".b1.weight", c, d), T(Q ".b2.weight", d, c)

static void test_shapes_of_every_kind(void)
{
    REQUIRE(open_base());
    lora_refused(PUT(HADA(2, 3)), Q ".hada_w1_b", "does not fit");
    lora_refused(PUT(HADA(0, 0)), Q ".hada_w1_a", "does not fit");
    lora_refused(PUT(T(Q ".lokr_w1", 2, 2), T(Q ".lokr_w2", 4, 3)), Q ".lokr_w1", "make up another shape");
    lora_refused(PUT(T(Q ".lokr_w1", 0, 2), T(Q ".lokr_w2", 4, 4)), Q ".lokr_w1", "make up another shape");
    lora_refused(PUT(T(Q ".lokr_w1", 2, 2), T(Q ".lokr_w2_a", 4, 2), T(Q ".lokr_w2_b", 3, 4)), Q ".lokr_w2_b",
                 "does not fit");
    lora_refused(PUT(T(CONV ".lokr_w1", 2, 2), T(CONV ".lokr_w2_a", 2, 8), T(CONV ".lokr_w2_b", 2, 6),
                     T(CONV ".lokr_t2", 2, 2, 3, 2)),
                 CONV ".lokr_t2", "does not fit");
    lora_refused(PUT(SIDES(7, 2, 8, 2)), Q ".a1.weight", "does not fit");
    lora_refused(PUT(T(CONV ".lora_up.weight", 16, 2, 1, 1), T(CONV ".lora_down.weight", 2, 12, 1, 1),
                     T(CONV ".lora_mid.weight", 2, 2, 3, 2)),
                 CONV ".lora_mid.weight", "does not fit");
    lora_refused(PUT(T(CONV ".lora_up.weight", 16, 2, 1, 1), T(CONV ".lora_down.weight", 2, 11, 1, 1),
                     T(CONV ".lora_mid.weight", 2, 2, 3, 3)),
                 CONV ".lora_down.weight", "does not fit");
    lora_refused(PUT(T(Q ".oft_blocks", 3, 2, 2)), Q ".oft_blocks", "do not make up the outputs");
    lora_refused(PUT(T(Q ".oft_blocks", 4, 2, 3)), Q ".oft_blocks", "do not make up the outputs");
    lora_refused(PUT(T(Q ".oft_blocks", 0, 2, 2)), Q ".oft_blocks", "do not make up the outputs");
    lora_refused(PUT(T(Q ".oft_blocks", 8, 0, 0)), Q ".oft_blocks", "do not make up the outputs");
    lora_refused(PUT(T(Q ".oft_blocks", 8, 1)), Q ".oft_blocks", "three dimensions");
    lora_refused(PUT(T(Q ".oft_blocks", 4, 4, 2, 2)), Q ".oft_blocks", "do not make up the outputs"); /* 3 at most */
    lora_refused(PUT(T(Q ".oft_blocks", 4, 2, 2), T(Q ".rescale", 7, 1)), Q ".rescale", "one number for each output");
    lora_refused(PUT(T(Q ".oft_R.weight", 2, 5)), Q ".oft_R.weight", "numbers above a diagonal");
    lora_refused(PUT(T(Q ".oft_R.weight", 2, 3)), Q ".oft_R.weight", "do not make up the inputs");
    lora_refused(PUT(T(Q ".oft_R.weight", 3, 6)), Q ".oft_R.weight", "do not make up the inputs");
    lora_refused(PUT(T(Q ".oft_R.weight", 2, 0)), Q ".oft_R.weight", "numbers above a diagonal");
    lora_refused(PUT(T(Q ".oft_R.weight", 2, 6), T(Q ".dora_scale", 8, 1)), Q ".dora_scale", "a DoRA of an OFT");
    lora_refused(PUT(T(Q ".boft_R", 2, 2, 4, 4)), Q ".boft_R", "a butterfly factor of 1");
    lora_refused(PUT(T(Q ".boft_R", 1, 2, 3, 3)), Q ".boft_R", "do not make up the inputs");
    lora_refused(PUT(T(Q ".boft_R", 1, 2, 4, 3)), Q ".boft_R", "do not make up the inputs");
    lora_refused(PUT(T(Q ".boft_R", 1, 2, 4, 4), T(Q ".boft_s", 7, 1)), Q ".boft_s", "one number for each output");
    lora_refused(PUT(T(Q ".boft_s", 8, 1)), Q ".boft_s", ".boft_R' is missing");
    lora_refused(PUT(NUMBER(Q ".on_input", numbers), T(Q ".weight", 9)), Q ".weight", "one number for each");
    lora_refused(PUT(T(Q ".on_input", 2), T(Q ".weight", 8)), Q ".on_input", "on_input is one number");
    lora_refused(PUT(T(Q ".set_weight", 8, 7)), Q ".set_weight", "of its shape");
    lora_refused(PUT(PAIR, T(Q ".dora_scale", 7, 1)), Q ".dora_scale", "one norm for each");
    lora_refused(PUT(T(Q ".lora_up.weight", 8, 2), T(Q ".lora_down.weight", 3, 8), T(Q ".dora_scale", 8, 1)),
                 Q ".lora_down.weight", "does not fit");
    lora_refused(PUT(PAIR, T(Q ".lora_up.bias", 8)), "attn1.to_q.bias', which the model has not", Q ".lora_up.bias");
}

static void test_pairs_and_shapes(void)
{
    REQUIRE(open_base());
    lora_refused(PUT(T(Q ".lora_up.weight", 8, 2)), Q ".lora_up.weight' is half of a pair",
                 Q ".lora_down.weight' is missing");
    lora_refused(PUT(T(Q ".lora_down.weight", 2, 8)), "half of a pair", Q ".lora_up.weight' is missing");
    lora_refused(PUT(PAIR, T("unet.x.lora_A.weight", 2, 8)), "'unet.x.lora_A.weight' is half of a pair", "lora_B");
    lora_refused(PUT(T(Q ".lora_up.weight", 8, 2), T(Q ".lora_down.weight", 3, 8)), "does not fit", "[8,8]");
    lora_refused(PUT(T(Q ".lora_up.weight", 9, 2), T(Q ".lora_down.weight", 2, 8)), "does not fit",
                 "attn1.to_q.weight");
    lora_refused(PUT(T(Q ".lora_up.weight", 8, 2), T(Q ".lora_down.weight", 2, 9)), "does not fit",
                 "made for another model");
    lora_refused(PUT(T(Q ".lora_up.weight", 16), T(Q ".lora_down.weight", 2, 8)), "does not fit", "[16]");
    lora_refused(PUT(T(CONV ".lora_up.weight", 16, 2, 1, 1), T(CONV ".lora_down.weight", 2, 12, 1, 1)), "does not fit",
                 "[16,12,3,3]");
    lora_refused(PUT(T(Q ".lora_up.weight", 8, 0), T(Q ".lora_down.weight", 0, 8)), "rank 0", Q ".lora_down.weight");
    lora_refused(PUT(T(Q ".diff", 8, 9)), "does not fit", Q ".diff");
    lora_refused(PUT({.name = Q ".diff", .dtype = KILN_I32, DIMS(8, 8), .data = numbers}), "of type I32", Q ".diff");
}

static void test_alpha(void)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY}, good = 1;
    REQUIRE(open_base());
    for (int i = 0; i < 3; i++)
        lora_refused(PUT(PAIR, NUMBER(Q ".alpha", &bad[i])), Q ".alpha' is not a finite number", "a.safetensors");
    lora_refused(PUT(PAIR, T(Q ".alpha", 2)), Q ".alpha", "an alpha is one number");
    put_on r = PUT(PAIR, {.name = Q ".alpha", .dtype = KILN_F32, DIMS(1), .data = &good});
    CHECK_MSG(r.status == KILN_OK, "%s", r.why);
    put_free(&r);
}

/* alpha 0 adds nothing; the file's numbers are looked at all the same. */
static void test_bad_numbers(void)
{
    static float bad[16] = {[3] = NAN};
    float got[64];
    error e = {0};
    REQUIRE(open_base());
    put_on r =
        PUT({.name = Q ".lora_up.weight", .dtype = KILN_F32, DIMS(8, 2), .data = bad}, T(Q ".lora_down.weight", 2, 8));
    REQUIRE(CHECK_MSG(r.status == KILN_OK, "%s",
                      r.why)); /* nothing of the file's body is read until the weight is packed */
    const char *name = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.weight";
    CHECK(weights_scan_finite(unet_of(r.model), name, &e) == KILN_ERR_INVALID &&
          strstr(e.message, Q ".lora_up.weight"));
    CHECK_EQ(weights_read_f32(unet_of(r.model), name, got, NULL), KILN_ERR_INVALID);
    put_free(&r);
}

/* ---- what fits nothing ---- */

static char logged[4000];
static void keep_line(void *arg, int level, const char *line)
{
    (void)arg;
    if (level == KILN_LOG_WARN) snprintf(logged, sizeof logged, "%s", line);
}

static void test_what_fits_nothing_is_counted(void)
{
    REQUIRE(open_base());
    log_sink_set(keep_line, NULL);
    logged[0] = '\0';
    put_on r = PUT(PAIR, T("lora_unet_nowhere.lora_up.weight", 8, 2), T("lora_unet_nowhere.lora_down.weight", 2, 8),
                   NUMBER("lora_unet_nowhere.alpha", numbers), T("stray", 2), T("lora_te2_x.lora_up.weight", 8, 2),
                   T("lora_te2_x.lora_down.weight", 2, 8), NUMBER(Q "x.alpha", numbers), T("bundle_emb.a.b", 2),
                   T("z1", 2), T("z2", 2));
    CHECK_MSG(r.status == KILN_OK, "%s", r.why);
    contains(logged, "7 patches fit nothing in this model and are left out: ");
    contains(logged, "lora_unet_nowhere.lora_up.weight");
    contains(logged, ", ...");
    put_free(&r);
    logged[0] = '\0';
    r = PUT(PAIR);
    CHECK_MSG(r.status == KILN_OK && !logged[0], "%s %s", r.why, logged);
    put_free(&r);
    log_sink_set(NULL, NULL);
    lora_refused(
        PUT(T("lora_unet_nowhere.lora_up.weight", 8, 2), T("lora_unet_nowhere.lora_down.weight", 2, 8), T("stray", 2)),
        "none of its 2 patches fits this model", "the first is 'lora_unet_nowhere.lora_up.weight'");
    lora_refused(PUT(T("stray", 2)), "none of its 1 patches", "'stray'");
    lora_refused(put_lora(put_file("empty.safetensors", NULL, 0), 1, 1, base_model, base_clip),
                 "there is no LoRA in it", "empty.safetensors");
}

static void test_a_file_for_the_text_encoder_alone(void)
{
    static const char *const stems[] = {"lora_te_text_model_encoder_layers_0_mlp_fc1",
                                        "base_model.model.text_model.encoder.layers.0.mlp.fc1"};
    REQUIRE(open_base());
    for (int i = 0; i < 2; i++) {
        char up[200], down[200];
        snprintf(up, sizeof up, "%s%s", stems[i], i ? ".lora_B.weight" : ".lora_up.weight");
        snprintf(down, sizeof down, "%s%s", stems[i], i ? ".lora_A.weight" : ".lora_down.weight");
        const safetensors_source t[] = {T(up, 64, 2), T(down, 2, 32)};
        const char *path = put_file("text.safetensors", t, 2);
        put_on r = put_lora(path, 1, 1, base_model, base_clip);
        CHECK_MSG(r.status == KILN_OK && r.model == base_model && r.clip != base_clip, "%s", r.why);
        put_free(&r);
        lora_refused(put_lora(path, 1, 0, base_model, NULL), "for a text encoder only", "LoraLoader");
    }
}

static void test_differences(void)
{
    const char *weight = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.weight",
               *bias = "down_blocks.2.resnets.0.conv1.bias", *norm = "conv_norm_out.weight";
    float before[64], after[64];
    REQUIRE(open_base());
    put_on r = PUT(T(Q ".diff", 8, 8), T(CONV ".diff_b", 16), T("lora_unet_conv_norm_out.w_norm", 8));
    REQUIRE(CHECK_MSG(r.status == KILN_OK, "%s", r.why));
    const struct {
        const char *name;
        int n;
    } rows[] = {{weight, 64}, {bias, 16}, {norm, 8}};
    for (int k = 0; k < 3; k++) {
        CHECK(weights_read_f32(unet_of(base_model), rows[k].name, before, NULL) == KILN_OK &&
              weights_read_f32(unet_of(r.model), rows[k].name, after, NULL) == KILN_OK);
        for (int i = 0; i < rows[k].n; i++) CHECK(after[i] == before[i] + numbers[i]);
    }
    put_free(&r);
}

/* A replacement is the same whatever its strength; an up's bias is scaled as the pair is. */
static void test_replacements_and_biases_of_an_up(void)
{
    const char *weight = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.weight",
               *bias = "down_blocks.2.resnets.0.conv1.bias";
    static const float alpha = 6;
    float before[16], after[64];
    REQUIRE(open_base() && weights_read_f32(unet_of(base_model), bias, before, NULL) == KILN_OK);
    const safetensors_source t[] = {T(Q ".set_weight", 8, 8), T(CONV ".lora_up.weight", 16, 2, 1, 1),
                                    T(CONV ".lora_down.weight", 2, 12, 3, 3), T(CONV ".lora_up.bias", 16),
                                    NUMBER(CONV ".alpha", &alpha)};
    put_on r = put_lora(put_file("set.safetensors", t, 5), 0.5, 0.5, base_model, base_clip);
    REQUIRE(CHECK_MSG(r.status == KILN_OK, "%s", r.why));
    CHECK(weights_read_f32(unet_of(r.model), weight, after, NULL) == KILN_OK &&
          memcmp(after, numbers, sizeof after) == 0);
    CHECK_EQ(weights_read_f32(unet_of(r.model), bias, after, NULL), KILN_OK);
    for (int i = 0; i < 16; i++) CHECK_NEAR(after[i], (double)before[i] + 0.5 * 3 * (double)numbers[i], 1e-6);
    put_free(&r);
}

/* ---- the adapter's metadata ---- */

static put_on put_with(const char *metadata)
{
    const safetensors_source t[] = {
        T("unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.lora_B.weight", 8, 4),
        T("unet.down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.lora_A.weight", 4, 8)};
    str s = {0};
    error e = {0};
    CHECK_MSG(safetensors_encode(&s, t, 2, &(safetensors_remark){"lora_adapter_metadata", metadata}, 1, &e) == KILN_OK,
              "%s", e.message);
    unlink(at_path("m.safetensors"));
    const char *path = put_bytes("m.safetensors", s.data, s.len);
    str_free(&s);
    return put_lora(path, 1, 1, base_model, base_clip);
}

static void test_metadata_of_an_adapter(void)
{
    static const struct {
        const char *text;
        double scale;
    } rows[] = {{"{}", 1},
                {"{\"unet.lora_alpha\":8,\"text_encoder.lora_alpha\":3}", 2},
                {"{\"unet.lora_alpha\":8,\"unet.use_rslora\":true}", 4},
                {"{\"text_encoder.lora_alpha\":3}", 1}};
    const char *name = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.weight";
    float before[64], after[64];
    REQUIRE(open_base() && weights_read_f32(unet_of(base_model), name, before, NULL) == KILN_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        put_on r = put_with(rows[i].text);
        REQUIRE(CHECK_MSG(r.status == KILN_OK, "%s", r.why));
        CHECK_EQ(weights_read_f32(unet_of(r.model), name, after, NULL), KILN_OK);
        for (int o = 0; o < 8; o++)
            for (int c = 0; c < 8; c++) {
                double sum = 0;
                for (int k = 0; k < 4; k++) sum += (double)numbers[o * 4 + k] * (double)numbers[k * 8 + c];
                CHECK_NEAR(after[o * 8 + c], (double)before[o * 8 + c] + rows[i].scale * sum, 1e-5);
            }
        put_free(&r);
    }
    lora_refused(put_with("{\"unet.alpha_pattern\":{\"to_q\":4}}"), "alpha_pattern", "supported");
    lora_refused(put_with("{\"unet.lora_alpha\":\"much\"}"), "unet.lora_alpha", "must be a number");
    lora_refused(put_with("{\"unet.lora_alpha\":-1}"), "unet.lora_alpha", "must be a number");
    lora_refused(put_with("[1]"), "a JSON map is expected", "lora_adapter_metadata");
    lora_refused(put_with("{"), "not valid JSON", "lora_adapter_metadata");
}

/* ---- damage ---- */

/* Cut anywhere, and with a bit of its header turned, each `step` bytes: refused or loaded, with a sentence, never
 * worse.
 */
static void damage(const char *file, size_t step)
{
    char *data = NULL;
    size_t size = 0, refused = 0, tried = 0, header = 0;
    REQUIRE(file_read(golden_path(file), 1 << 20, &data, &size, NULL) == KILN_OK);
    for (size_t n = 0; n < size; n += 1 + size / 60) {
        put_on r = put_lora(put_bytes("cut.safetensors", data, n), 1, 1, base_model, base_clip);
        CHECK_MSG(r.status != KILN_OK && r.why[0], "%s: the first %zu bytes were accepted", file, n);
        put_free(&r);
    }
    memcpy(&header, data, 8);
    for (size_t i = 0; i < header + 8; i += step, tried++) {
        data[i] = (char)(data[i] ^ (1 << (i % 8)));
        put_on r = put_lora(put_bytes("turned.safetensors", data, size), 1, 1, base_model, base_clip);
        CHECK(r.status == KILN_OK || r.why[0]);
        refused += r.status != KILN_OK;
        put_free(&r);
        data[i] = (char)(data[i] ^ (1 << (i % 8)));
    }
    CHECK_MSG(refused > tried / 10, "%s: %zu of %zu", file, refused, tried);
    mem_free(data);
}

static void test_damaged_files(void)
{
    REQUIRE(open_base());
    log_sink_set(keep_line, NULL);
    damage("lora/kohya.safetensors", 7);
    damage("lora_kinds/lycoris.safetensors", 23);
    log_sink_set(NULL, NULL);
    lora_refused(put_lora("/nowhere/x.safetensors", 1, 1, base_model, base_clip), "/nowhere/x.safetensors", "");
    lora_refused(put_lora("/nowhere/x.pt", 1, 1, base_model, base_clip), "pickle", "x.pt");
}

static void test_every_allocation_may_fail(void)
{
    REQUIRE(open_base());
    const char *path = golden_path("lora/kohya.safetensors");
    int64_t k = 0;
    for (kiln_status status = KILN_ERR_NOMEM; status != KILN_OK && k < 300; k++) {
        put_on r;
        mem_fail_at(k, 0);
        r = put_lora(path, 1, 1, base_model, base_clip);
        mem_fail_at(-1, 0);
        status = r.status;
        CHECK_MSG(status == KILN_OK || status == KILN_ERR_NOMEM || strstr(r.why, "out of memory"),
                  "allocation %lld: %s", (long long)k, r.why);
        put_free(&r);
    }
    CHECK(k > 20 && k < 300);
}

/* ---- keys ---- */

static void test_keys(void)
{
    static const struct {
        const char *key;
        lora_role role;
        lora_part part;
        const char *module;
    } rows[] = {
        {"lora_unet_a_b.lora_up.weight", LORA_UP, LORA_UNET, "a_b"},
        {"lora_te_a.lora_down.weight", LORA_DOWN, LORA_TEXT, "a"},
        {"lora_te2_a.hada_w1_a", LORA_FACTOR, LORA_TEXT_2, "a"},
        {"lora_te3_a.dora_scale", LORA_DORA, LORA_TEXT_3, "a"},
        {"text_encoders.clip_g.transformer.a.set_weight", LORA_SET, LORA_CLIP_G, "a"},
        {"unet.a.lora_magnitude_vector", LORA_DORA, LORA_UNET, "a"},
        {"unet.a.lora_B.bias", LORA_UP_BIAS, LORA_UNET, "a"},
        {"a.lora_mid.weight", LORA_FACTOR, LORA_ANY, "a"},
        {"lora_te1_a.alpha", LORA_ALPHA, LORA_TEXT, "a"},
        {"unet.a.b.processor.to_q_lora.up.weight", LORA_UP, LORA_UNET, "a_b_to_q"},
        {"a.processor_x.lora_A.weight", LORA_DOWN, LORA_ANY, "a_processor_x"},
        {"a.diff", LORA_WEIGHT, LORA_ANY, "a"},
        {"a.diff_b", LORA_BIAS, LORA_ANY, "a"},
        {"text_encoder_2.a.lora_B.weight", LORA_UP, LORA_TEXT_2, "a"},
        {".alpha", LORA_UNKNOWN, LORA_ANY, ""},
        {"alpha", LORA_UNKNOWN, LORA_ANY, ""},
        {"", LORA_UNKNOWN, LORA_ANY, ""},
        {"lora_unet_.alpha", LORA_ALPHA, LORA_UNET, ""},
        {"a.lora_B.other.weight", LORA_UNKNOWN, LORA_ANY, ""},
        {"a.weight", LORA_UNKNOWN, LORA_ANY, ""},
    };
    lora_key k;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        lora_key_read(rows[i].key, &k);
        CHECK_MSG(k.role == rows[i].role && k.part == rows[i].part, "'%s': role %d, part %d", rows[i].key, (int)k.role,
                  (int)k.part);
        CHECK_STR(k.module, rows[i].module);
    }
    static char longest[3000];
    memset(longest, 'a', 2900);
    strcpy(longest + 2900, ".alpha");
    char other[LORA_NAME_CAPACITY];
    lora_key_read(longest, &k);
    CHECK(k.role == LORA_ALPHA && !k.module[0] && !lora_key_other(longest, &k, LORA_UP, 0, other));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_keys),
        CASE(test_kinds_that_are_not_computed),
        CASE(test_halves_of_every_kind),
        CASE(test_shapes_of_every_kind),
        CASE(test_pairs_and_shapes),
        CASE(test_alpha),
        CASE(test_bad_numbers),
        CASE(test_what_fits_nothing_is_counted),
        CASE(test_a_file_for_the_text_encoder_alone),
        CASE(test_differences),
        CASE(test_replacements_and_biases_of_an_up),
        CASE(test_metadata_of_an_adapter),
        CASE(test_damaged_files),
        CASE(test_every_allocation_may_fail),
    };
    make_numbers();
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    close_base();
    return status;
}
