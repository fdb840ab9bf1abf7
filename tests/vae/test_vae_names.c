/* test_vae_names.c - which checkpoints hold an autoencoder of SD1.x's kind, and under which names. */
#include "golden_kit.h"

#include "vae_family.h"
#include "vae_names.h"

static const kiln_weights_api *api(void) { return rig_host()->ability(KILN_WEIGHTS_ABILITY); }

static void test_M7_single_file_names_are_all_mapped(void)
{
    static vae_rules rules;
    kiln_weights *set = open_weights("tests/golden/tiny-sd1");
    REQUIRE(set);
    kiln_weights *file = single_file_view(set, "vae/");
    REQUIRE(file);
    error e = {0};
    vae_rules_ldm(&rules, "first_stage_model.", 4);
    kiln_weights *view = weights_view(file, rules.rule, rules.n, &e);
    CHECK_MSG(view != NULL, "%s", e.message);
    if (view) check_same_tensors(set, "vae/", view, NULL);
    CHECK(vae_family.detect(api(), file) >= 50);
    weights_unref(view);
    weights_unref(file);
    weights_unref(set);
}

static void test_M10_old_names_are_mapped(void)
{
    static const kiln_weight_rule old[] = {
        KILN_RULE(.from = "vae/{}.mid_block.attentions.0.to_q.*", .to = "vae/{}.mid_block.attentions.0.query.*"),
        KILN_RULE(.from = "vae/{}.mid_block.attentions.0.to_k.*", .to = "vae/{}.mid_block.attentions.0.key.*"),
        KILN_RULE(.from = "vae/{}.mid_block.attentions.0.to_v.*", .to = "vae/{}.mid_block.attentions.0.value.*"),
        KILN_RULE(.from = "vae/{}.mid_block.attentions.0.to_out.0.*",
                  .to = "vae/{}.mid_block.attentions.0.proj_attn.*"),
        KILN_RULE(.from = "vae/*", .to = "vae/*")};
    static vae_rules rules;
    kiln_weights *set = open_weights("tests/golden/tiny-sd1");
    error e = {0};
    REQUIRE(set);
    kiln_weights *file = weights_view(set, old, sizeof old / sizeof old[0], &e);
    REQUIRE(file);
    vae_rules_diffusers(&rules, "vae/");
    kiln_weights *view = weights_view(file, rules.rule, rules.n, &e);
    CHECK_MSG(view != NULL, "%s", e.message);
    if (view) check_same_tensors(set, "vae/", view, NULL);
    weights_unref(view);
    weights_unref(file);
    weights_unref(set);
}

static void note_name(void *arg, const kiln_weight_info *info) { snprintf(arg, 100, "%s", info->name); }

static void test_M7_every_tensor_is_asked_for(void)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    kiln_weights *set = open_weights("tests/golden/tiny-sd1");
    REQUIRE(set);
    kiln_value *v = vae_family.open(rig_host(), rig_ctx(), set);
    REQUIRE(v);
    const kiln_vae *vae = models->vae(rig_ctx(), v);
    for (int encode = 0; encode < 2; encode++) {
        const char *message = "";
        piece c = piece_new(KILN_F32);
        kiln_t x = c.ops->input(c.p, "x", KILN_F32, 4, encode ? KILN_DIMS(1, 16, 16, 3) : KILN_DIMS(1, 2, 2, 4));
        kiln_latent_distribution d = {.size = sizeof d};
        if (encode)
            vae->autoencoder->record_encode(vae->autoencoder, c.ops, c.p, vae->weights, x, &d);
        else
            vae->autoencoder->record_decode(vae->autoencoder, c.ops, c.p, vae->weights, x);
        CHECK_MSG(c.ops->error(c.p, &message) == KILN_OK, "%s", message);
        c.ops->program_free(c.p);
    }
    char name[100] = "";
    size_t unused = weights_unused(vae->weights, note_name, name);
    CHECK_MSG(unused == 0, "%zu not asked for: %s", unused, name);
    rig_host()->unref(v);
    weights_unref(set);
}

static void test_what_is_no_autoencoder(void)
{
    const kiln_weight_rule unet_only = KILN_RULE(.from = "unet/*", .to = "unet/*");
    kiln_weights *set = open_weights("tests/golden/tiny-sd1");
    error e = {0};
    REQUIRE(set);
    kiln_weights *view = weights_view(set, &unet_only, 1, &e);
    REQUIRE(view);
    CHECK_EQ(vae_family.detect(api(), view), 0);
    CHECK(vae_family.open(rig_host(), rig_ctx(), view) == NULL);
    CHECK_MSG(strstr(rig_message(), "AutoencoderKL") != NULL, "%s", rig_message());
    weights_unref(view);
    weights_unref(set);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_M7_single_file_names_are_all_mapped),
                                      CASE(test_M10_old_names_are_mapped), CASE(test_M7_every_tensor_is_asked_for),
                                      CASE(test_what_is_no_autoencoder)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
