/* test_clip_family.c - which checkpoints hold a text encoder of SD1.x's kind, under which names, with which tokenizer.
 */
#include "golden_kit.h"

#include "clip_family.h"
#include "tokenizer_kit.h"

static const kiln_weights_api *api(void) { return rig_host()->ability(KILN_WEIGHTS_ABILITY); }

static const kiln_clip *clip_of(const kiln_value *v)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    return models->clip(rig_ctx(), v);
}

static void note_name(void *arg, const kiln_weight_info *info) { snprintf(arg, 100, "%s", info->name); }

/* All of the view but the position_ids buffer, which published files carry and nothing needs. */
static void test_M7_every_tensor_is_asked_for(void)
{
    kiln_weights *set = open_weights("tests/golden/tiny-sd1");
    REQUIRE(set);
    kiln_value *v = clip_family.open(rig_host(), rig_ctx(), set);
    REQUIRE(v);
    const kiln_clip *clip = clip_of(v);
    const char *message = "";
    piece c = piece_new(KILN_F32);
    kiln_text_inputs in = {.size = sizeof in, .layer = -2};
    kiln_text_features out = {.size = sizeof out};
    in.ids = c.ops->input(c.p, "ids", KILN_I32, 2, KILN_DIMS(1, 77));
    in.end = c.ops->input(c.p, "end", KILN_I32, 1, KILN_DIMS(1));
    const kiln_clip_encoder *e = kiln_clip_encoder_at(clip, 0);
    e->encoder->record(e->encoder, c.ops, c.p, e->weights, &in, &out);
    CHECK_MSG(c.ops->error(c.p, &message) == KILN_OK, "%s", message);
    c.ops->program_free(c.p);
    char name[100] = "";
    CHECK_EQ(weights_unused(e->weights, note_name, name), 1);
    CHECK_STR(name, "text_model.embeddings.position_ids");
    rig_host()->unref(v);
    weights_unref(set);
}

static void test_M7_single_file_names_are_all_mapped(void)
{
    kiln_weights *set = open_weights("tests/golden/tiny-sd1");
    REQUIRE(set);
    kiln_weights *file = single_file_view(set, "text_encoder/");
    REQUIRE(file);
    CHECK(clip_family.detect(api(), file) >= 50);
    /* A single file has no tokenizer: CLIP's own is taken, which this tiny encoder's table is too small for. */
    CHECK(clip_family.open(rig_host(), rig_ctx(), file) == NULL);
    CHECK_MSG(strstr(rig_message(), "heads") || strstr(rig_message(), "tokenizer"), "%s", rig_message());
    weights_unref(file);
    weights_unref(set);
}

static void test_names_without_text_model(void)
{
    const kiln_weight_rule bare[] = {KILN_RULE(.from = "text_encoder/text_model.*", .to = "text_encoder/*")};
    kiln_weights *set = open_weights("tests/golden/tiny-sd1");
    error e = {0};
    REQUIRE(set);
    kiln_weights *view = weights_view(set, bare, 1, &e);
    REQUIRE(view);
    kiln_value *v = clip_family.open(rig_host(), rig_ctx(), view);
    CHECK_MSG(v != NULL, "%s", rig_message());
    if (v) check_same_tensors(set, "text_encoder/", kiln_clip_encoder_at(clip_of(v), 0)->weights, NULL);
    rig_host()->unref(v);
    weights_unref(view);
    weights_unref(set);
}

/* What SD1's programs are kept under: a view of another kind or another name would record them anew. */
static void test_sd1_keeps_its_programs(void)
{
    const kiln_weight_rule plain = KILN_RULE(.from = "text_encoder/text_model.*", .to = "text_model.*");
    kiln_weights *set = open_weights("tests/golden/tiny-sd1");
    error e = {0};
    REQUIRE(set);
    kiln_value *v = clip_family.open(rig_host(), rig_ctx(), set);
    kiln_weights *view = weights_view(set, &plain, 1, &e);
    REQUIRE(v && view);
    const kiln_clip_encoder *l = kiln_clip_encoder_at(clip_of(v), 0);
    char family[80];
    snprintf(family, sizeof family, "sd1-clip/714x32x64x77.4.2.%d.1e-05", KILN_ACT_QUICK_GELU);
    CHECK_STR(l->encoder->family, family);
    CHECK_STR(l->encoder->architecture, "CLIP text encoder, 32x4");
    CHECK_EQ(weights_count(l->weights), weights_count(view));
    CHECK_STR(api()->identity(rig_ctx(), l->weights), api()->identity(rig_ctx(), view));
    rig_host()->unref(v);
    weights_unref(view);
    weights_unref(set);
}

int main(int argc, char **argv)
{
    if (!tokenizers()) return 1;
    static const test_case cases[] = {CASE(test_M7_every_tensor_is_asked_for),
                                      CASE(test_M7_single_file_names_are_all_mapped),
                                      CASE(test_names_without_text_model), CASE(test_sd1_keeps_its_programs)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
