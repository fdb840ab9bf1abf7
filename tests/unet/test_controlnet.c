/* test_controlnet.c - every kind of ControlNet of the Stable Diffusion family against diffusers
 * (controlnets.safetensors): each result of an evaluation in f32, from a folder and from a single file of the
 * ControlNet source.
 *
 * Tolerance: torch's own f32 run is up to 1e-6 off its f64 one (noise_f32 of the golden); 1e-5 is what is aimed at.
 */
#include "controlnet_kit.h"

#define BLOCK 1e-5

static const struct {
    const char *kind, *architecture;
    size_t results;
} kinds[] = {{"sd1", "ControlNet for UNet like SD1's, 32 to 64 channels", 5},
             {"sd2", "ControlNet for UNet like SD2's, 64 to 128 channels", 5},
             {"sdxl", "ControlNet for UNet like SDXL's, 64 to 128 channels", 10},
             {"small", "ControlNet for UNet like SDXL's, 64 to 128 channels", 10},
             {"shuffle", "ControlNet for UNet like SD1's, 32 to 64 channels", 5},
             {"union", "ControlNet Union for UNet like SDXL's, 64 to 128 channels", 10}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void check_control(const char *kind, const char *name, const kiln_net *net, size_t wanted)
{
    results r = {.n = 0};
    if (evaluate_control(kind, net, strcmp(name, "union.untyped") != 0, &r) == KILN_OK) {
        CHECK_EQ(r.n, wanted);
        check_results(name, &r, BLOCK);
    }
    results_free(&r);
}

static void test_every_kind_equals_diffusers(void)
{
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    for (size_t i = 0; i < KINDS; i++) {
        kiln_weights *set = open_control_folder(kinds[i].kind, control_tensors(kinds[i].kind));
        CHECK_EQ(controlnet_family.detect(w, set), 90);
        CHECK_EQ(unet_family.detect(w, set), 0);
        kiln_value *v = open_control(set);
        if (v) {
            CHECK_STR(control_of(v)->network->architecture, kinds[i].architecture);
            check_control(kinds[i].kind, kinds[i].kind, control_of(v), kinds[i].results);
            CHECK_EQ(weights_unused(control_of(v)->weights, NULL, NULL), 0);
        }
        rig_host()->unref(v);
        weights_unref(set);
    }
}

static void test_a_union_may_be_told_no_kind(void)
{
    kiln_weights *set = open_control_folder("union", control_tensors("union"));
    kiln_value *v = open_control(set);
    if (v) check_control("union", "union.untyped", control_of(v), 10);
    rig_host()->unref(v);
    weights_unref(set);
}

/* The same network of another size: a control that pools gives one number a channel, whatever the size. */
static void test_pooled_results_have_one_cell(void)
{
    results r = {.n = 0};
    kiln_weights *set = open_control_folder("shuffle", control_tensors("shuffle"));
    kiln_value *v = open_control(set);
    if (v && evaluate_control("shuffle", control_of(v), 1, &r) == KILN_OK)
        for (size_t i = 0; i < r.n; i++)
            CHECK(r.value[i].rank == 4 && r.value[i].dim[1] == 1 && r.value[i].dim[2] == 1);
    results_free(&r);
    rig_host()->unref(v);
    weights_unref(set);
}

/* ---- single files ---- */

static const char *prefix;

static void rename_tensor(void *arg, const char *line)
{
    formula_file *f = arg;
    size_t n = strcspn(line, " ");
    for (size_t i = 0; i < f->n; i++)
        if (strncmp(f->tensor[i].seed, line, n) == 0 && !f->tensor[i].seed[n])
            snprintf(f->tensor[i].name, FORMULA_NAME, "%.40s%.150s", prefix, line + n + 1);
}

/* The kind's tensors under the names of the ControlNet source. */
static formula_file *cldm_of(const char *kind, const char *below)
{
    formula_file *f = control_tensors(kind);
    prefix = below;
    each_line("tests/golden/controlnets/cldm_names.txt.gz", "kind", kind, rename_tensor, f);
    for (size_t i = 0; i < f->n; i++)
        CHECK_MSG(strcmp(f->tensor[i].name, f->tensor[i].seed) != 0, "%s of %s has no other name", f->tensor[i].name,
                  kind);
    return f;
}

/* The configuration that heads of a small file follow from, as its metadata has it. */
static const char *heads_of(const char *kind)
{
    return strcmp(kind, "sd1") == 0   ? "\"__metadata__\":{\"unet_config\":\"{\\\"attention_head_dim\\\": 8}\"}"
           : strcmp(kind, "sd2") == 0 ? "\"__metadata__\":{\"unet_config\":\"{\\\"attention_head_dim\\\": [1, 2]}\"}"
                                      : NULL;
}

static void test_cldm_files_equal_diffusers(void)
{
    static const char *const of[] = {"sd1", "sd2", "sdxl"}, *const below[] = {"control_model.", ""};
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 2; k++) {
            kiln_weights *set = open_single(of[i], cldm_of(of[i], below[k]), heads_of(of[i]));
            CHECK_EQ(controlnet_family.detect(rig_host()->ability(KILN_WEIGHTS_ABILITY), set), 90);
            kiln_value *v = open_control(set);
            if (v) check_control(of[i], of[i], control_of(v), i == 2 ? 10 : 5);
            if (v) CHECK_EQ(weights_unused(control_of(v)->weights, NULL, NULL), 0);
            rig_host()->unref(v);
            weights_unref(set);
        }
}

static void test_diffusers_names_in_a_single_file(void)
{
    formula_file *f = control_tensors("sdxl");
    kiln_weights *set = open_single("sdxl", f, NULL);
    kiln_value *v = open_control(set);
    if (v) check_control("sdxl", "sdxl", control_of(v), 10);
    rig_host()->unref(v);
    weights_unref(set);
}

/* The file name says that control_v11e_sd15_shuffle pools; everything else is as in other ControlNets. */
static void test_shuffle_pools_by_its_name(void)
{
    static const char *const names[] = {"control_shuffle", "control_shuffle_fp16", "control_canny"};
    for (size_t i = 0; i < 3; i++) {
        results r = {.n = 0};
        kiln_weights *set = open_single(names[i], cldm_of("sd1", "control_model."), heads_of("sd1"));
        kiln_value *v = open_control(set);
        if (v && evaluate_control("sd1", control_of(v), 1, &r) == KILN_OK)
            CHECK_MSG((r.value[0].dim[1] == 1) == (i < 2), "%s", names[i]);
        results_free(&r);
        rig_host()->unref(v);
        weights_unref(set);
    }
}

/* ---- Control-LoRA ---- */

/* A Control-LoRA over the UNet "base", as the sampling takes it. */
static void test_a_control_lora_equals_the_sum(void)
{
    kiln_weights *base = open_kind("base", tensors_of("base")),
                 *set = open_single("lora", control_tensors("lora"), NULL);
    kiln_value *unet = open_unet(base), *v = open_control(set);
    if (unet && v) {
        const kiln_net *own = control_of(v);
        CHECK_STR(own->network->architecture, "Control-LoRA for UNet like SDXL's, 64 to 128 channels");
        kiln_weights *of = model_of(unet)->weights;
        const kiln_net *net = own->network->over(own->network, rig_ctx(), own->weights, of);
        if (CHECK_MSG(net != NULL, "%s", rig_message())) {
            results r = {.n = 0};
            CHECK(strcmp(net->network->family, own->network->family) != 0);
            CHECK(own->network->over(own->network, rig_ctx(), own->weights, of) == net);
            if (evaluate_control("sdxl", net, 0, &r) == KILN_OK) {
                CHECK_EQ(r.n, 10);
                check_results("lora", &r, BLOCK);
            }
            results_free(&r);
        }
    }
    rig_host()->unref(v), rig_host()->unref(unet);
    weights_unref(set), weights_unref(base);
}

/* Of a denoiser that has none of its tensors, and of none at all. */
static void test_a_control_lora_wants_its_denoiser(void)
{
    kiln_weights *other = open_weights("tests/golden/tiny-dit.safetensors");
    kiln_weights *set = open_single("lora", control_tensors("lora"), NULL);
    kiln_value *v = open_control(set);
    if (v && other) {
        const kiln_net *own = control_of(v);
        CHECK(!own->network->over(own->network, rig_ctx(), own->weights, other));
        CHECK_MSG(strstr(rig_message(), "made for another family of models"), "%s", rig_message());
        piece c = piece_new(KILN_F32);
        kiln_named_tensor named[16];
        results r = {.n = 0};
        const kiln_outputs to = {.size = sizeof to, .self = &r, .add = note_result};
        const char *message = NULL;
        size_t n = bind_control("sdxl", own->network, 0, &c, named);
        own->network->record(own->network, c.ops, c.p, own->weights, named, n, &to);
        c.ops->error(c.p, &message);
        CHECK_MSG(message && strstr(message, "has not been given any"), "%s", message ? message : "");
        for (size_t i = 0; i < c.n_owned; i++) free(c.owned[i]);
        c.ops->program_free(c.p);
    }
    rig_host()->unref(v);
    weights_unref(set), weights_unref(other);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_every_kind_equals_diffusers),      CASE(test_a_union_may_be_told_no_kind),
        CASE(test_pooled_results_have_one_cell),     CASE(test_cldm_files_equal_diffusers),
        CASE(test_diffusers_names_in_a_single_file), CASE(test_shuffle_pools_by_its_name),
        CASE(test_a_control_lora_equals_the_sum),    CASE(test_a_control_lora_wants_its_denoiser)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
