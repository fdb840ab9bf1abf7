/* test_unet_family.c - which checkpoints are taken for an SD1.x UNet, under which names, and what is said otherwise. */
#include "golden_kit.h"

#include "ldm_names.h"
#include "unet_family.h"

static const kiln_weights_api *api(void) { return rig_host()->ability(KILN_WEIGHTS_ABILITY); }

static void test_M7_single_file_names_are_all_mapped(void)
{
    kiln_weights *set = open_weights("tests/golden/tiny-sd1");
    REQUIRE(set);
    kiln_weights *file = single_file_view(set, "unet/");
    REQUIRE(file);
    ldm_rules rules = {0};
    error e = {0};
    ldm_rules_make(api(), file, "model.diffusion_model.", &rules);
    kiln_weights *view = weights_view(file, rules.rule, rules.n, &e);
    CHECK_MSG(view != NULL, "%s", e.message);
    if (view) check_same_tensors(set, "unet/", view, NULL);
    CHECK(unet_family.detect(api(), file) >= 50);
    ldm_rules_free(&rules);
    weights_unref(view);
    weights_unref(file);
    weights_unref(set);
}

static kiln_t record(const kiln_model *m, piece *c)
{
    kiln_denoise_inputs in = {.size = sizeof in};
    in.x = c->ops->input(c->p, "x", KILN_F32, 4, KILN_DIMS(1, 8, 8, 4));
    in.timestep = c->ops->input(c->p, "t", KILN_F32, 1, KILN_DIMS(1));
    kiln_named_tensor named = {.size = sizeof named, .name = "context"};
    in.input = &named, in.n_input = 1;
    named.tensor = c->ops->input(c->p, "context", KILN_F32, 3, KILN_DIMS(1, 3, 32));
    return m->denoiser->record(m->denoiser, c->ops, c->p, m->weights, &in);
}

static void note_name(void *arg, const kiln_weight_info *info) { snprintf(arg, 100, "%s", info->name); }

/* Records the UNet of tiny-sd1 seen through `rule`; the program's error goes to message. */
static kiln_status record_through(const kiln_weight_rule *rule, size_t n, char message[1024], size_t *unused,
                                  char name[100])
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    kiln_weights *set = open_weights("tests/golden/tiny-sd1");
    error e = {0};
    kiln_weights *view = set ? weights_view(set, rule, n, &e) : NULL;
    kiln_value *v = view ? unet_family.open(rig_host(), rig_ctx(), view) : NULL;
    kiln_status status = KILN_ERR_BUG;
    snprintf(message, 1024, "%s", v ? "" : rig_message());
    if (v) {
        const char *text = "";
        piece c = piece_new(KILN_F32);
        record(models->model(rig_ctx(), v), &c);
        status = c.ops->error(c.p, &text);
        snprintf(message, 1024, "%s", text ? text : "");
        c.ops->program_free(c.p);
        *unused = weights_unused(models->model(rig_ctx(), v)->weights, note_name, name);
        rig_host()->unref(v);
    }
    weights_unref(view);
    weights_unref(set);
    return status;
}

static void test_M6_M7_every_tensor_is_asked_for(void)
{
    char message[1024], name[100] = "";
    size_t unused = 999;
    CHECK_EQ(record_through(&(kiln_weight_rule)KILN_RULE(.from = "*", .to = "*"), 1, message, &unused, name), KILN_OK);
    CHECK_MSG(unused == 0, "%zu not asked for: %s; %s", unused, name, message);
}

static void test_M7_a_missing_tensor_is_named(void)
{
    const kiln_weight_rule rules[] = {
        KILN_RULE(.from = "unet/up_blocks.1.attentions.0.proj_out.bias", .to = "unet/lost"),
        KILN_RULE(.from = "*", .to = "*")};
    char message[1024], name[100] = "";
    size_t unused = 999;
    CHECK(record_through(rules, 2, message, &unused, name) != KILN_OK);
    CHECK_MSG(strstr(message, "up_blocks.1.attentions.0.proj_out.bias") != NULL, "%s", message);
}

static void test_M7_a_tensor_too_many_is_counted(void)
{
    const kiln_weight_rule rules[] = {KILN_RULE(.from = "vae/quant_conv.bias", .to = "unet/middle_nowhere.bias"),
                                      KILN_RULE(.from = "*", .to = "*")};
    char message[1024], name[100] = "";
    size_t unused = 0;
    CHECK_EQ(record_through(rules, 2, message, &unused, name), KILN_OK);
    CHECK_EQ(unused, 1);
    CHECK_MSG(strstr(name, "middle_nowhere.bias") != NULL, "%s", name);
}

static void check_stranger(const kiln_weight_rule *rule, size_t n, const char *wanted)
{
    kiln_weights *set = open_weights("tests/golden/tiny-sd1");
    error e = {0};
    REQUIRE(set);
    kiln_weights *view = weights_view(set, rule, n, &e);
    REQUIRE(view);
    CHECK_EQ(unet_family.detect(api(), view), 1); /* anyone who knows it better wins */
    kiln_value *v = unet_family.open(rig_host(), rig_ctx(), view);
    CHECK_MSG(!v && strstr(rig_message(), wanted), "wanted '%s', got '%s'", wanted, rig_message());
    weights_unref(view);
    weights_unref(set);
}

static void test_other_models_are_refused_with_a_sentence(void)
{
    const kiln_weight_rule motion[] = {
        KILN_RULE(.from = "vae/quant_conv.bias", .to = "unet/down_blocks.0.motion_modules.0.norm.bias"),
        KILN_RULE(.from = "*", .to = "*")};
    const kiln_weight_rule video[] = {
        KILN_RULE(.from = "vae/quant_conv.bias", .to = "unet/down_blocks.0.resnets.0.time_mixer.mix_factor"),
        KILN_RULE(.from = "*", .to = "*")};
    check_stranger(motion, 2, "AnimateDiff");
    check_stranger(video, 2, "Stable Video Diffusion");
    kiln_weights *set = open_weights("tests/golden/text_encoder.safetensors");
    REQUIRE(set);
    CHECK_EQ(unet_family.detect(api(), set), 0);
    weights_unref(set);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_M7_single_file_names_are_all_mapped), CASE(test_M6_M7_every_tensor_is_asked_for),
        CASE(test_M7_a_missing_tensor_is_named), CASE(test_M7_a_tensor_too_many_is_counted),
        CASE(test_other_models_are_refused_with_a_sentence)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
