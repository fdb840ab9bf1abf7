/* test_lora_xl.c - a LoRA on SDXL's three networks: shapes-xl with one random LoRA under three namings (kohya's
 * single-file blocks with te1 and te2, kohya's with diffusers' blocks, diffusers' own) against the rows that diffusers
 * fuses (scripts/golden/lora_xl.py); an encoder that a file does not name stays as it is.
 *
 * Tolerance: 1e-6, one f32 sum of two products, rounded once more when it is added.
 */
#include "lora_rig.h"

#define WEIGHT 1e-6
#define STRENGTH 0.7

static kiln_value *model, *clip;
static kiln_weights *goldens;

static int open_xl(void)
{
    if (model && clip) return 1;
    char path[600];
    snprintf(path, sizeof path, "%s/workflows/models/shapes-xl", test_root());
    if (!load_plugin("tokenizer") || !load_plugin("unet") || !load_plugin("clip")) return 0;
    kiln_weights *set = weights_open(path, NULL);
    if (!CHECK_MSG(set != NULL, "%s", path)) return 0;
    model = open_part(KILN_FAMILY_DENOISER, set);
    clip = open_part(KILN_FAMILY_TEXT_ENCODER, set);
    weights_unref(set);
    goldens = open_weights("tests/golden/lora_xl.safetensors");
    return model && clip && goldens;
}

static kiln_weights *encoder_of(const kiln_value *v, size_t i)
{
    const kiln_clip *c = models()->clip(rig_ctx(), v);
    return CHECK_EQ(c->n_encoder, 2) ? kiln_clip_encoder_at(c, i)->weights : NULL;
}

static put_on put_xl(const char *name, kiln_value *text)
{
    char file[100];
    snprintf(file, sizeof file, "lora_xl/%s.safetensors", name);
    put_on r = put_lora(golden_path(file), STRENGTH, STRENGTH, model, text);
    CHECK_MSG(r.status == KILN_OK, "%s: %s", name, r.why);
    return r;
}

/* The golden has the first rows of each weight. */
static void check_rows(const char *which, const put_on *r)
{
    for (size_t i = 0; i < weights_count(goldens); i++) {
        kiln_weight_info info = {.size = sizeof info}, mine = {.size = sizeof mine};
        char what[400];
        weights_at(goldens, i, &info);
        const char *name = strchr(info.name, '.') + 1;
        kiln_weights *set = info.name[0] == 'u' ? unet_of(r->model) : encoder_of(r->clip, (size_t)(info.name[4] - '1'));
        array want = array_read(goldens, info.name);
        snprintf(what, sizeof what, "%s %s", which, info.name);
        if (!CHECK_MSG(weights_find(set, name, &mine) == KILN_OK, "%s", what)) continue;
        float *got = calloc(mine.bytes / 4 + 1, sizeof *got);
        CHECK_EQ(weights_read_f32(set, name, got, NULL), KILN_OK);
        check_array(got, want.data, want.n, WEIGHT, what, __FILE__, __LINE__);
        free(got);
        free(want.data);
    }
}

/* Tensors of b that are not those of a. */
static size_t count_patched(const kiln_weights *a, const kiln_weights *b)
{
    size_t n = 0;
    for (size_t i = 0; i < weights_count(a); i++) {
        kiln_weight_info info = {.size = sizeof info};
        char one[33], other[33];
        weights_at(a, i, &info);
        CHECK(weights_tensor_identity(a, info.name, one, NULL) == KILN_OK &&
              weights_tensor_identity(b, info.name, other, NULL) == KILN_OK);
        n += strcmp(one, other) != 0;
    }
    return n;
}

static void test_every_naming(void)
{
    static const char *const names[] = {"ldm", "kohya", "diffusers"};
    REQUIRE(open_xl());
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        put_on r = put_xl(names[i], clip);
        REQUIRE(r.model && r.clip);
        check_rows(names[i], &r);
        CHECK_EQ(count_patched(unet_of(model), unet_of(r.model)), 8);
        for (size_t k = 0; k < 2; k++) CHECK_EQ(count_patched(encoder_of(clip, k), encoder_of(r.clip, k)), 6);
        put_free(&r);
    }
}

static void test_model_only(void)
{
    REQUIRE(open_xl());
    put_on r = put_xl("ldm", NULL);
    CHECK(r.model && !r.clip && count_patched(unet_of(model), unet_of(r.model)) == 8);
    put_free(&r);
}

/* A file for the second encoder alone; its first's names, of which SD1's files have none with a number, go to the
 * first.
 */
static void test_one_encoder_of_two(void)
{
    static float up[112 * 2], down[2 * 112];
    static const struct {
        const char *stem;
        int64_t width;
        size_t encoder;
    } rows[] = {{"lora_te2_text_model_encoder_layers_0_self_attn_q_proj", 112, 1},
                {"text_encoder_2.text_model.encoder.layers.0.self_attn.q_proj", 112, 1},
                {"text_encoders.clip_g.transformer.text_model.encoder.layers.0.self_attn.q_proj", 112, 1},
                {"lora_te2_text_projection", 112, 1},
                {"lora_te_text_model_encoder_layers_0_self_attn_q_proj", 96, 0},
                {"text_encoders.clip_l.transformer.text_model.encoder.layers.0.self_attn.q_proj", 96, 0}};
    REQUIRE(open_xl());
    for (int i = 0; i < 224; i++) up[i] = down[i] = (float)(i % 7) * 0.01f;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char name[2][200];
        snprintf(name[0], sizeof name[0], "%s.lora_up.weight", rows[i].stem);
        snprintf(name[1], sizeof name[1], "%s.lora_down.weight", rows[i].stem);
        const safetensors_source t[] = {{.name = name[0], .dtype = KILN_F32, DIMS(rows[i].width, 2), .data = up},
                                        {.name = name[1], .dtype = KILN_F32, DIMS(2, rows[i].width), .data = down}};
        unlink(at_path("one.safetensors"));
        put_on r = put_lora(put_tensors("one.safetensors", t, 2), 1, 1, model, clip);
        if (!CHECK_MSG(r.status == KILN_OK, "%s: %s", rows[i].stem, r.why)) continue;
        CHECK_MSG(r.model == model, "%s", rows[i].stem);
        for (size_t k = 0; k < 2; k++)
            CHECK_EQ(count_patched(encoder_of(clip, k), encoder_of(r.clip, k)), k == rows[i].encoder);
        put_free(&r);
    }
}

static void test_sd1_files_are_refused(void)
{
    REQUIRE(open_xl());
    put_on r = put_lora(golden_path("lora/kohya.safetensors"), 1, 1, model, clip);
    CHECK(r.status != KILN_OK);
    CHECK_MSG(strstr(r.why, "does not fit") || strstr(r.why, "fits this model"), "%s", r.why);
    put_free(&r);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_every_naming),
        CASE(test_model_only),
        CASE(test_one_encoder_of_two),
        CASE(test_sd1_files_are_refused),
    };
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    value_unref(model);
    value_unref(clip);
    weights_unref(goldens);
    return status;
}
