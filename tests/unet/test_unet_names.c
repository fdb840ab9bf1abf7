/* test_unet_names.c - single files: the released UNets' tensors under ldm's names are diffusers' tensors, each one and
 * no more, and are known for what they are without a config.json; a small one of each kind computes the same bytes from
 * either layout; markers and metadata say what the network predicts. */
#include "unet_kinds_kit.h"

#include "kiln/standard_sampling.h"
#include "ldm_names.h"
#include "unet_architecture.h"
#include "unet_inputs.h"
#include "unet_ldm.h"
#include "unet_settings.h"

/* ---- the released ones ---- */

typedef struct {
    const char *layout;
    formula_file *file;
} list;

static void add_of_layout(void *arg, const char *line)
{
    const list *l = arg;
    size_t n = strlen(l->layout);
    if (strncmp(line, l->layout, n) == 0) CHECK(formula_add(l->file, line + n));
}

/* The released tensors of a layout, "ldm " or "diffusers ". */
static formula_file *released(const char *model, const char *layout)
{
    static formula_file ldm, diffusers;
    formula_file *f = layout[0] == 'l' ? &ldm : &diffusers;
    list l = {layout, f};
    f->n = 0, f->of = NULL;
    each_line("tests/golden/unet_names.txt.gz", "model", model, add_of_layout, &l);
    CHECK_MSG(f->n > 300, "%zu tensors of %s", f->n, model);
    return f;
}

static void put_prefix(formula_file *f, const char *prefix)
{
    char name[FORMULA_NAME];
    for (size_t i = 0; i < f->n; i++) {
        memcpy(name, f->tensor[i].name, sizeof name);
        snprintf(f->tensor[i].name, FORMULA_NAME, "%s%.160s", prefix, name);
    }
}

/* `view` has the tensors of f, and no others. */
static void check_tensors(const kiln_weights *view, const formula_file *f, const char *model)
{
    for (size_t i = 0; i < f->n; i++) {
        const formula_tensor *t = &f->tensor[i];
        kiln_weight_info info = {.size = sizeof info};
        if (!CHECK_MSG(weights_find(view, t->name, &info) == KILN_OK, "%s: %s is missing", model, t->name)) continue;
        int same = info.rank == (uint32_t)t->rank;
        for (int k = 0; same && k < t->rank; k++) same = info.dim[k] == t->dim[k];
        CHECK_MSG(same, "%s: %s has another shape", model, t->name);
    }
    CHECK_EQ(weights_count(view), f->n);
}

static void note_unused(void *arg, const kiln_weight_info *info) { snprintf(arg, 200, "%s", info->name); }

/* Records it at 8x8 cells with one of each input, as loaders do: every tensor is asked for, in its shape. */
static void check_bound(const unet_config *config, kiln_weights *view, const char *model)
{
    piece c = piece_new(KILN_F32);
    kiln_input_spec row[UNET_INPUTS_MAX];
    kiln_named_tensor named[UNET_INPUTS_MAX];
    kiln_denoise_inputs in = {.size = sizeof in, .input = named, .n_input = unet_input_rows(config, 0, row)};
    const char *message = "";
    char unused[200] = "";
    in.x = c.ops->input(c.p, "x", KILN_F32, 4, KILN_DIMS(1, 8, 8, 4));
    in.timestep = c.ops->input(c.p, "t", KILN_F32, 1, KILN_DIMS(1));
    for (size_t i = 0; i < in.n_input; i++) {
        int cells = row[i].kind == KILN_INPUT_MASK || row[i].kind == KILN_INPUT_LATENT;
        uint32_t rank = row[i].kind == KILN_INPUT_SCALAR ? 1 : row[i].kind == KILN_INPUT_TOKENS ? 3 : cells ? 4 : 2;
        const int64_t *dim = cells       ? KILN_DIMS(1, 8, 8, row[i].width)
                             : rank == 3 ? KILN_DIMS(1, 1, row[i].width)
                                         : KILN_DIMS(1, row[i].width, 0);
        named[i] = (kiln_named_tensor){.size = sizeof *named, .name = row[i].name};
        named[i].tensor =
            c.ops->input(c.p, row[i].name, row[i].kind == KILN_INPUT_IDS ? KILN_I32 : KILN_F32, rank, dim);
    }
    unet_record(config, c.ops, c.p, view, &in);
    CHECK_MSG(c.ops->error(c.p, &message) == KILN_OK, "%s: %s", model, message ? message : "");
    size_t n = weights_unused(view, note_unused, unused);
    CHECK_MSG(n == 0, "%s: %zu tensors are not asked for, %s among them", model, n, unused);
    c.ops->program_free(c.p);
}

/* Saved, its tensors have the names of the single file again, each once. */
static void check_saved_names(const unet_config *config, const kiln_weights *view, const char *model)
{
    const formula_file *ldm = released(model, "ldm ");
    char seen[4000] = "";
    size_t found = 0;
    for (size_t i = 0; i < weights_count(view); i++) {
        kiln_weight_info info = {.size = sizeof info};
        char name[UNET_LDM_NAME];
        size_t k = 0;
        CHECK(weights_at(view, i, &info) == KILN_OK && unet_ldm_name(config, info.name, name));
        while (k < ldm->n && strcmp(ldm->tensor[k].name, name) != 0) k++;
        if (CHECK_MSG(k < ldm->n && k < sizeof seen && !seen[k], "%s: %s is saved as %s", model, info.name, name))
            seen[k] = 1, found++;
    }
    CHECK_EQ(found, ldm->n);
}

static const struct {
    const char *model, *architecture;
} models[] = {{"SD1.5", "SD1.5"},
              {"SD1.5 inpainting", "SD1.5 inpainting"},
              {"SD1.5 instruct-pix2pix", "SD1.5 instruct-pix2pix"},
              {"SD2.1", "SD2.1 (eps)"},
              {"SD2.1 unCLIP-H", "SD2.1 unCLIP-H (eps)"},
              {"SDXL base", "SDXL base"},
              {"SDXL base inpainting", "SDXL base inpainting"},
              {"SDXL refiner", "SDXL refiner"},
              {"SSD-1B", "SSD-1B"},
              {"Segmind Vega", "Segmind Vega"},
              {"KOALA-700M", "KOALA-700M"},
              {"SD x4 upscaler", "SD x4 upscaler"}};

/* Without a MODEL: that would read the files, which are large and empty. */
static void check_released(const char *model, const char *layout, const char *prefix, const char *architecture)
{
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    formula_file *f = released(model, layout);
    char called[UNET_ARCHITECTURE_MAX] = "";
    unet_config config;
    ldm_rules rules = {0};
    error e = {0};
    put_prefix(f, prefix);
    kiln_weights *set = open_single("released", f, NULL);
    if (layout[0] == 'l') ldm_rules_make(w, set, prefix, &rules);
    kiln_weights *view = rules.n ? weights_view(set, rules.rule, rules.n, &e) : weights_ref(set);
    CHECK_MSG(view != NULL, "%s", e.message);
    CHECK_EQ(unet_family.detect(w, set), 90);
    check_tensors(view, released(model, "diffusers "), model);
    kiln_status status = unet_settings_read(rig_host(), rig_ctx(), &(unet_source){.set = set, .view = view}, &config);
    if (CHECK_MSG(status == KILN_OK, "%s: %s", model, rig_message())) {
        unet_architecture(&config, KILN_PREDICT_EPS, called);
        CHECK_STR(called, architecture);
        check_bound(&config, view, model);
        if (layout[0] == 'l') check_saved_names(&config, view, model);
    }
    ldm_rules_free(&rules);
    weights_unref(view);
    weights_unref(set);
}

static void test_M7_released_single_files_are_wholly_known(void)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        check_released(models[i].model, "ldm ", "model.diffusion_model.", models[i].architecture);
    check_released("SDXL refiner", "ldm ", "", "SDXL refiner");
    check_released("SSD-1B", "ldm ", "diffusion_model.", "SSD-1B");
}

static void test_M7_released_folders_are_known_without_a_config(void)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        check_released(models[i].model, "diffusers ", "", models[i].architecture);
}

/* ---- the same numbers from either layout ---- */

static void rename_tensor(void *arg, const char *line)
{
    formula_file *f = arg;
    size_t n = strcspn(line, " ");
    for (size_t i = 0; i < f->n; i++)
        if (strncmp(f->tensor[i].seed, line, n) == 0 && !f->tensor[i].seed[n])
            snprintf(f->tensor[i].name, FORMULA_NAME, "model.diffusion_model.%.150s", line + n + 1);
}

/* The tensors of a kind under ldm's names. */
static formula_file *single_of(const char *kind)
{
    formula_file *f = tensors_of(kind);
    each_line("tests/golden/unet_kinds/ldm_names.txt.gz", "kind", kind, rename_tensor, f);
    for (size_t i = 0; i < f->n; i++)
        CHECK_MSG(strcmp(f->tensor[i].name, f->tensor[i].seed) != 0, "%s of %s has no other name", f->tensor[i].name,
                  kind);
    return f;
}

static void test_M7_M9_both_layouts_give_the_same_bytes(void)
{
    static const char *const kinds[] = {"sd2", "base", "refiner", "ssd", "inpaint", "edit", "unclip", "upscaler"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        kiln_weights *folder = open_kind(kinds[i], tensors_of(kinds[i])),
                     *file = open_single(kinds[i], single_of(kinds[i]), NULL);
        kiln_value *a = open_unet(folder), *b = open_unet(file);
        if (a && b) {
            array x = evaluate(kinds[i], model_of(a)), y = evaluate(kinds[i], model_of(b));
            CHECK_MSG(x.n > 0 && x.n == y.n && memcmp(x.data, y.data, x.n * sizeof(float)) == 0, "%s: other bytes",
                      kinds[i]);
            CHECK_EQ(weights_unused(model_of(b)->weights, NULL, NULL), 0);
            free(x.data), free(y.data);
        }
        rig_host()->unref(a), rig_host()->unref(b);
        weights_unref(folder), weights_unref(file);
    }
}

/* A tensor below the prefix that no rule knows is still there, so that it can be named. */
static void test_M7_what_is_left_over_is_seen(void)
{
    formula_file *f = single_of("sd2");
    formula_add(f, "model.diffusion_model.input_blocks.9.1.mystery.weight 4");
    kiln_weights *set = open_single("more", f, NULL);
    kiln_value *v = open_unet(set);
    char unused[200] = "";
    if (v) {
        array x = evaluate("sd2", model_of(v));
        CHECK_EQ(weights_unused(model_of(v)->weights, note_unused, unused), 1);
        CHECK_MSG(strstr(unused, "mystery.weight") != NULL, "%s", unused);
        free(x.data);
    }
    rig_host()->unref(v);
    weights_unref(set);
}

/* ---- markers and metadata ---- */

static const struct {
    const char *kind, *tensors[4], *metadata;
    uint32_t prediction, time;
    double sigma_data, sigma_min, sigma_max, scale;
} markers[] = {
    {"base", {NULL}, NULL, KILN_PREDICT_EPS, KILN_TIME_INTERPOLATED, 1, 0.0291672, 14.6146412, 0.13025},
    {"base", {"v_pred 0"}, NULL, KILN_PREDICT_V, KILN_TIME_INTERPOLATED, 1, 0.0291672, 14.6146412, 0.13025},
    {"base", {"v_pred 0", "ztsnr 0"}, NULL, KILN_PREDICT_V, KILN_TIME_INTERPOLATED, 1, 0.0291672, 4518.73, 0.13025},
    {"base", {"edm_mean 4", "edm_std 4"}, NULL, KILN_PREDICT_EDM, KILN_TIME_LOG, 0.5, 0.002, 80, 0},
    {"base", {"edm_vpred.sigma_max"}, NULL, KILN_PREDICT_V, KILN_TIME_LOG, 1, 0.002, 0, 0.13025},
    {"base",
     {NULL},
     "\"__metadata__\":{\"modelspec.prediction_type\":\"v\"}",
     KILN_PREDICT_V,
     KILN_TIME_INTERPOLATED,
     1,
     0.0291672,
     14.6146412,
     0.13025},
    {"sd2", {NULL}, NULL, KILN_PREDICT_EPS, KILN_TIME_INTERPOLATED, 1, 0.0291672, 14.6146412, 0.18215},
    {"upscaler", {NULL}, NULL, KILN_PREDICT_V, KILN_TIME_INTERPOLATED, 1, 0.0100005, 36.9119117, 0.08333},
};

static void check_marker(size_t i)
{
    formula_file *f = single_of(markers[i].kind);
    for (int k = 0; k < 4 && markers[i].tensors[k]; k++) formula_add(f, markers[i].tensors[k]);
    for (size_t k = f->n - 4; k < f->n; k++) /* numbers about 1 */
        if (strncmp(f->tensor[k].name, "model.", 6) != 0) snprintf(f->tensor[k].seed, FORMULA_NAME, "marker.weight");
    kiln_weights *set = open_single("marked", f, markers[i].metadata);
    kiln_value *v = open_unet(set);
    if (v) {
        const kiln_denoiser *d = model_of(v)->denoiser;
        const kiln_standard_sampling *s = d->sampling->self;
        CHECK_MSG(s->row.prediction == markers[i].prediction, "row %zu: prediction %u", i, s->row.prediction);
        CHECK_MSG(s->row.time == markers[i].time, "row %zu: time %u", i, s->row.time);
        CHECK_NEAR(s->row.sigma_data, markers[i].sigma_data, 1e-12);
        CHECK_NEAR(d->sampling->sigma_min, markers[i].sigma_min, 1e-5);
        CHECK(d->sampling->sigma_max > 0.8);
        if (markers[i].sigma_max > 0) CHECK_NEAR(d->sampling->sigma_max, markers[i].sigma_max, 1e-5);
        if (markers[i].scale > 0) CHECK_NEAR(d->latent->scaling->scale[0], markers[i].scale, 1e-12);
        if (!(markers[i].scale > 0)) CHECK_EQ(d->latent->scaling->n, 4);
    }
    rig_host()->unref(v);
    weights_unref(set);
}

static void test_markers_say_what_is_predicted(void)
{
    for (size_t i = 0; i < sizeof markers / sizeof markers[0]; i++) check_marker(i);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_M7_released_single_files_are_wholly_known), CASE(test_M7_released_folders_are_known_without_a_config),
        CASE(test_M7_M9_both_layouts_give_the_same_bytes), CASE(test_M7_what_is_left_over_is_seen),
        CASE(test_markers_say_what_is_predicted)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
