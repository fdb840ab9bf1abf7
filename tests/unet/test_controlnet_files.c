/* test_controlnet_files.c - which files are taken for a ControlNet: released ones of both namings, wholly known; and
 * what is said of those that are broken, or are others. */
#include "controlnet_kit.h"

#include "controlnet_names.h"
#include "controlnet_settings.h"
#include "unet_architecture.h"
#include "unet_inputs.h"
#include "unet_view.h"

static const kiln_weights_api *api(void) { return rig_host()->ability(KILN_WEIGHTS_ABILITY); }

/* ---- released ones, as names and shapes ---- */

typedef struct {
    formula_file *f;
    const char *layout; /* "cldm " or "diffusers " */
} wanted_lines;

static void add_released(void *arg, const char *line)
{
    const wanted_lines *w = arg;
    size_t n = strlen(w->layout);
    if (strncmp(line, w->layout, n) == 0) CHECK(formula_add(w->f, line + n));
}

static formula_file *released(const char *model, const char *layout)
{
    static formula_file f;
    f.n = 0, f.of = NULL;
    each_line("tests/golden/controlnets/released.txt.gz", "model", model, add_released, &(wanted_lines){&f, layout});
    CHECK_MSG(f.n > 100, "%zu tensors of %s", f.n, model);
    return &f;
}

static void note_unused(void *arg, const kiln_weight_info *info) { snprintf(arg, 200, "%s", info->name); }

static void ignore_result(const kiln_outputs *out, const char *place, kiln_t t)
{
    (void)place, (void)t;
    ++*(size_t *)out->self;
}

/* Records it at 8x8 cells; the program's error, or "". */
static const char *recording_error(const controlnet_config *c, const kiln_input_spec *row, uint32_t n,
                                   kiln_weights *view, size_t *given)
{
    static char text[1000];
    const char *message = NULL;
    piece p = piece_new(KILN_F32);
    kiln_named_tensor named[16];
    const kiln_outputs out = {.size = sizeof out, .self = given, .add = ignore_result};
    kiln_denoise_inputs in = {.size = sizeof in, .input = named, .n_input = n};
    in.x = p.ops->input(p.p, "x", KILN_F32, 4, KILN_DIMS(1, 8, 8, c->unet.in_channels));
    in.timestep = p.ops->input(p.p, "t", KILN_F32, 1, KILN_DIMS(1));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t rank = row[i].kind == KILN_INPUT_SCALAR ? 1 : row[i].kind == KILN_INPUT_TOKENS ? 3 : 2;
        int64_t dim[4] = {1, rank == 3 ? 1 : row[i].width, row[i].width, row[i].width};
        if (row[i].kind == KILN_INPUT_IMAGE) rank = 4, dim[1] = dim[2] = 64;
        named[i] = (kiln_named_tensor){.size = sizeof *named, .name = row[i].name};
        named[i].tensor = p.ops->input(p.p, row[i].name, KILN_F32, rank, dim);
    }
    *given = 0;
    controlnet_record(c, p.ops, p.p, view, &in, &out);
    p.ops->error(p.p, &message);
    snprintf(text, sizeof text, "%s", message ? message : "");
    p.ops->program_free(p.p);
    return text;
}

static const struct {
    const char *model, *architecture;
    int cldm;
    size_t given;
    int64_t types;
} models[] = {{"control_v11p_sd15_canny", "SD1.5", 1, 13, 0},
              {"thibaud/controlnet-sd21", "SD2.1", 1, 13, 0},
              {"controlnet-canny-sdxl-1.0", "SDXL base", 1, 10, 0},
              {"controlnet-canny-sdxl-1.0-small", "UNet like SDXL's, 320 to 1280 channels", 0, 10, 0},
              {"controlnet-union-sdxl-1.0", "SDXL base", 0, 10, 6},
              {"controlnet-union-sdxl-1.0 promax", "SDXL base", 0, 10, 8}};

/* Without a CONTROL_NET: that would read the files, which are large and empty. */
static void check_released(size_t number, const char *layout, const char *prefix)
{
    const char *model = models[number].model;
    formula_file *f = released(model, layout);
    controlnet_config c;
    kiln_input_spec row[UNET_INPUTS_MAX + 2];
    char called[UNET_ARCHITECTURE_MAX] = "", unused[200] = "";
    ldm_rules rules = {0};
    size_t given;
    put_prefix_on(f, prefix);
    kiln_weights *set = open_single("released", f, NULL);
    CHECK_EQ(controlnet_family.detect(api(), set), 90);
    CHECK_EQ(unet_family.detect(api(), set), 0);
    controlnet_rules_make(api(), set, prefix, layout[0] == 'c', &rules);
    kiln_weights *view = unet_view(api(), rig_ctx(), set, &rules);
    kiln_status status =
        view ? controlnet_settings_read(rig_host(), rig_ctx(), &(unet_source){set, view, NULL, 1}, &c) : KILN_ERR_NOMEM;
    if (CHECK_MSG(status == KILN_OK, "%s: %s", model, rig_message())) {
        unet_architecture(&c.unet, 0, called);
        CHECK_STR(called, models[number].architecture);
        CHECK_EQ(c.types, models[number].types);
        uint32_t n = unet_input_rows(&c.unet, 0, row);
        row[n++] = (kiln_input_spec){.kind = KILN_INPUT_IMAGE, .name = "hint", .width = 3};
        if (c.types) row[n++] = (kiln_input_spec){.kind = KILN_INPUT_VECTOR, .name = "control_type", .width = c.types};
        const char *said = recording_error(&c, row, n, view, &given);
        CHECK_MSG(!*said, "%s: %s", model, said);
        CHECK_EQ(given, models[number].given);
        CHECK_MSG(weights_unused(view, note_unused, unused) == 0, "%s: %s", model, unused);
    }
    weights_unref(view);
    weights_unref(set);
}

static void test_released_files_are_wholly_known(void)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        check_released(i, "diffusers ", "");
        if (models[i].cldm) check_released(i, "cldm ", "control_model."), check_released(i, "cldm ", "");
    }
}

/* ---- broken ones ---- */

/* Records the control with the inputs of a small SDXL; the program's error, or "". */
static const char *says_when_recorded(const kiln_net *net)
{
    static char text[1000];
    const char *message = NULL;
    piece p = piece_new(KILN_F32);
    kiln_named_tensor named[16];
    size_t given = 0;
    const kiln_outputs out = {.size = sizeof out, .self = &given, .add = ignore_result};
    size_t n = bind_control("sdxl", net->network, 0, &p, named);
    net->network->record(net->network, p.ops, p.p, net->weights, named, n, &out);
    p.ops->error(p.p, &message);
    snprintf(text, sizeof text, "%s", message ? message : "");
    for (size_t i = 0; i < p.n_owned; i++) free(p.owned[i]);
    p.ops->program_free(p.p);
    return text;
}

/* Opens and records; `wanted` stands in the first message there is. */
static void check_says(kiln_weights *set, const char *what, const char *wanted)
{
    kiln_value *v = set ? controlnet_family.open(rig_host(), rig_ctx(), set) : NULL;
    char opened[1200];
    snprintf(opened, sizeof opened, "%s", v ? "" : rig_message());
    const char *said = v ? says_when_recorded(control_of(v)) : opened;
    CHECK_MSG(*wanted ? strstr(said, wanted) != NULL : !*said, "%s: '%s' does not say '%s'", what, said, wanted);
    rig_host()->unref(v);
    weights_unref(set);
}

static formula_file *holes(void)
{
    formula_file *f = control_tensors("sdxl");
    f->of = NULL;
    return f;
}

static size_t index_of(const formula_file *f, const char *name)
{
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->tensor[i].name, name) == 0) return i;
    CHECK_MSG(0, "no %s", name);
    return 0;
}

static void test_a_missing_tensor_is_named(void)
{
    check_says(open_control_folder("sdxl", holes()), "whole", "");
    static const char *const names[] = {"conv_in.bias",
                                        "controlnet_mid_block.weight",
                                        "controlnet_down_blocks.4.bias",
                                        "controlnet_down_blocks.8.weight",
                                        "controlnet_cond_embedding.blocks.2.weight",
                                        "controlnet_cond_embedding.conv_out.bias",
                                        "add_embedding.linear_2.weight",
                                        "down_blocks.1.attentions.0.norm.weight",
                                        "mid_block.resnets.1.conv2.bias"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        formula_file *f = holes();
        f->tensor[index_of(f, names[i])] = f->tensor[f->n - 1];
        f->n--;
        check_says(open_control_folder("sdxl", f), names[i], names[i]);
    }
}

static void test_a_misshapen_tensor_is_named(void)
{
    static const struct {
        const char *name, *wanted;
        int dim;
        int64_t to;
    } rows[] = {{"controlnet_down_blocks.3.weight", "controlnet_down_blocks.3.weight", 0, 8},
                {"controlnet_cond_embedding.blocks.1.weight",
                 "'conditioning_embedding_out_channels' says 8, and the weights have 9", 0, 9},
                {"controlnet_cond_embedding.conv_in.weight", "its hint has 17 channels; 1 to 16 are supported", 1, 17},
                {"conv_in.weight", "'in_channels' says 4, and the weights have 9", 1, 9}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        formula_file *f = holes();
        f->tensor[index_of(f, rows[i].name)].dim[rows[i].dim] = rows[i].to;
        check_says(open_control_folder("sdxl", f), rows[i].name, rows[i].wanted);
    }
}

static void test_relatives_are_refused_by_name(void)
{
    static const struct {
        const char *tensor, *wanted;
    } rows[] = {{"down_blocks.0.motion_modules.0.proj_in.weight 4 4", "SparseCtrl"},
                {"controlnet_blocks.0.weight 4 4", "transformers such as SD3"},
                {"after_proj_list.18.bias 4", "Hunyuan-DiT"},
                {"up_blocks.0.resnets.0.conv1.weight 64 64 3 3", "this ControlNet: it has up blocks too"},
                {"down_blocks.12.resnets.0.norm1.weight 64", "larger than this plugin reads"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        formula_file *f = holes();
        formula_add(f, rows[i].tensor);
        kiln_weights *set = open_control_folder("sdxl", f);
        CHECK(controlnet_family.detect(api(), set) > 0);
        check_says(set, rows[i].tensor, rows[i].wanted);
    }
}

/* Names cut out, shapes changed, files cut short: whatever is there, there is a value or a message, and nothing else.
 */
static void test_damaged_files_are_refused_or_opened(void)
{
    uint64_t z = 20261122;
    for (int round = 0; round < 300; round++) {
        formula_file *f = round % 2 ? control_tensors("union") : holes();
        f->of = NULL;
        for (int k = 0; k < 1 + round % 7; k++) {
            z = z * 6364136223846793005u + 1442695040888963407u;
            formula_tensor *t = &f->tensor[(z >> 33) % f->n];
            switch (z >> 60 & 3) {
            case 0: *t = f->tensor[--f->n]; break;
            case 1: t->dim[(z >> 20) % (uint64_t)t->rank] = (int64_t)(z >> 50 & 7); break;
            case 2: t->rank = 1 + (int)(z >> 21 & 3), t->dim[1] = t->dim[2] = t->dim[3] = 1; break;
            default: snprintf(t->name, FORMULA_NAME, "controlnet_cond_embedding.blocks.%d.weight", (int)(z >> 40 & 31));
            }
        }
        error e = {0};
        char path[400];
        snprintf(path, sizeof path, "%s/damaged.safetensors", test_folder());
        CHECK(formula_write(f, path, NULL));
        kiln_weights *set = weights_open(path, &e); /* two tensors of one name are refused here */
        if (!set) continue;
        kiln_value *v =
            controlnet_family.detect(api(), set) ? controlnet_family.open(rig_host(), rig_ctx(), set) : NULL;
        CHECK(v || !controlnet_family.detect(api(), set) || *rig_message());
        rig_host()->unref(v);
        weights_unref(set);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_released_files_are_wholly_known), CASE(test_a_missing_tensor_is_named),
                                      CASE(test_a_misshapen_tensor_is_named), CASE(test_relatives_are_refused_by_name),
                                      CASE(test_damaged_files_are_refused_or_opened)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
