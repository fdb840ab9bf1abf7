/* test_unet_kinds.c - every kind of UNet of the Stable Diffusion family against diffusers (unet_kinds.safetensors): a
 * whole evaluation in f32 with the kind's own inputs, from a folder and from a single file.
 *
 * Tolerance: torch's own f32 run is up to 1e-6 off its f64 one (noise_f32 of the golden); 1e-5 is what is aimed at.
 */
#include "unet_kinds_kit.h"

#include "kiln/standard_sampling.h"
#include "unet_embedding.h"

#define WHOLE 1e-5

static void check_evaluation(const char *kind, const kiln_model *m, double tolerance, const char *what)
{
    array got = evaluate(kind, m), wanted = golden(goldens(), "%s.out", kind);
    if (CHECK_EQ(got.n, wanted.n)) check_array(got.data, wanted.data, got.n, tolerance, what, __FILE__, __LINE__);
    free(got.data);
    free(wanted.data);
}

static const struct {
    const char *kind, *architecture, *range;
    uint32_t prediction;
} kinds[] = {{"sd2", "UNet like SD2's (v), 64 to 128 channels", NULL, KILN_PREDICT_V},
             {"base", "UNet like SDXL's, 64 to 128 channels", "base", KILN_PREDICT_EPS},
             {"refiner", "UNet like the SDXL refiner's, 64 to 128 channels", "refiner", KILN_PREDICT_EPS},
             {"ssd", "UNet like SDXL's, 64 to 128 channels", "base", KILN_PREDICT_EPS},
             {"vega", "UNet like SDXL's, 64 to 128 channels", "base", KILN_PREDICT_EPS},
             {"koala", "UNet like SDXL's, 64 to 128 channels", "base", KILN_PREDICT_EPS},
             {"inpaint", "UNet like SD1's inpainting, 32 to 64 channels", NULL, KILN_PREDICT_EPS},
             {"edit", "UNet like SD1's instruct-pix2pix, 32 to 64 channels", NULL, KILN_PREDICT_EPS},
             {"unclip", "UNet like unCLIP's (v), 64 to 128 channels", NULL, KILN_PREDICT_V},
             {"upscaler", "UNet like the x4 upscaler's (v), 32 to 128 channels", NULL, KILN_PREDICT_V},
             {"lcm", "UNet like SD1's LCM, 32 to 64 channels", NULL, KILN_PREDICT_EPS}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void test_M5_M8_M9_M13_every_kind_equals_diffusers(void)
{
    for (size_t i = 0; i < KINDS; i++) {
        kiln_weights *set = open_kind(kinds[i].kind, tensors_of(kinds[i].kind));
        kiln_value *v = open_unet(set);
        if (v) {
            const kiln_model *m = model_of(v);
            check_evaluation(kinds[i].kind, m, WHOLE, kinds[i].kind);
            CHECK_STR(m->denoiser->architecture, kinds[i].architecture);
            CHECK(kinds[i].range ? m->name && strcmp(m->name, kinds[i].range) == 0 : !m->name);
            CHECK_EQ(((const kiln_standard_sampling *)m->denoiser->sampling->self)->row.prediction,
                     kinds[i].prediction);
            CHECK_EQ(weights_unused(m->weights, NULL, NULL), 0);
        }
        rig_host()->unref(v);
        weights_unref(set);
    }
}

static void test_M5_the_size_embedding_alone(void)
{
    static const char *const with[] = {"base", "refiner"};
    static const char *const numbers[][6] = {{"height", "width", "crop_h", "crop_w", "target_height", "target_width"},
                                             {"height", "width", "crop_h", "crop_w", "aesthetic_score", NULL}};
    for (int k = 0; k < 2; k++) {
        piece c = piece_new(KILN_F32);
        unet_config config = {.cos_first = 1, .sinusoid = k ? 16 : 256, .n_number = k ? 5 : 6};
        kiln_named_tensor named[7] = {{.size = sizeof *named, .name = "pooled"}};
        kiln_denoise_inputs in = {.size = sizeof in, .input = named, .n_input = 1 + config.n_number};
        named[0].tensor = piece_input(&c, golden(goldens(), "%s.pooled", with[k]), KILN_F32);
        for (uint32_t i = 0; i < config.n_number; i++) {
            config.number[i] = numbers[k][i];
            named[1 + i] = (kiln_named_tensor){.size = sizeof *named, .name = numbers[k][i]};
            named[1 + i].tensor = piece_input(&c, column(golden(goldens(), "%s.numbers", with[k]), i), KILN_F32);
        }
        unet_recorder r = {.config = &config, .ops = c.ops, .p = c.p, .in = &in};
        /* torch's f32 angles of numbers near 1000 are off by up to 6e-5 */
        piece_check(&c, unet_sizes(&r), golden(goldens(), "%s.sizes", with[k]), 1.1e-4, with[k]);
    }
}

/* ---- places ---- */

enum { PLACES_MAX = 600 };
typedef struct {
    char name[PLACES_MAX][40];
    size_t n;
} places;

static void list_place(void *arg, const char *place, uint32_t kind)
{
    places *l = arg;
    (void)kind;
    if (l->n < PLACES_MAX) snprintf(l->name[l->n++], sizeof l->name[0], "%s", place);
}

static kiln_t pass_place(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    (void)r;
    list_place(h->self, info->place, 0);
    return x;
}

static void pass_attention(const kiln_hook *h, const kiln_recording *r, kiln_attention_info *a)
{
    (void)r;
    list_place(h->self, a->place, 0);
}

static int has_place(const places *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->name[i], name) == 0) return 1;
    return 0;
}

/* A hook meets the listed places, in their order. */
static void check_places(const char *kind, const char *there, const char *not_there)
{
    static places listed, passed;
    kiln_weights *set = open_kind(kind, tensors_of(kind));
    kiln_value *v = open_unet(set);
    REQUIRE(v);
    const kiln_model *m = model_of(v);
    kiln_hook hook = {
        .size = sizeof hook, .self = &passed, .identity = "test", .at = pass_place, .before_attention = pass_attention};
    const kiln_hook *hooks[] = {&hook};
    piece c = piece_new(KILN_F32);
    kiln_named_tensor named[12];
    kiln_denoise_inputs in = {.size = sizeof in, .input = named, .hook = hooks, .n_hook = 1};
    listed.n = passed.n = 0;
    in.x = piece_input(&c, golden(goldens(), "%s.x", kind), KILN_F32);
    in.timestep = piece_input(&c, golden(goldens(), "%s.t", kind), KILN_F32);
    in.n_input = bind_inputs(kind, m->denoiser, &c, named);
    m->denoiser->record(m->denoiser, c.ops, c.p, m->weights, &in);
    m->denoiser->places(m->denoiser, list_place, &listed);
    CHECK_EQ(passed.n, listed.n);
    for (size_t i = 0; i < passed.n && i < listed.n; i++) CHECK_STR(passed.name[i], listed.name[i]);
    CHECK_MSG(has_place(&listed, there), "%s has no %s", kind, there);
    CHECK_MSG(!has_place(&listed, not_there), "%s has %s", kind, not_there);
    for (size_t i = 0; i < c.n_owned; i++) free(c.owned[i]);
    c.ops->program_free(c.p);
    rig_host()->unref(v);
    weights_unref(set);
}

static void test_hooks_pass_the_listed_places_of_every_depth(void)
{
    check_places("base", "middle.1.t1.attn2.out", "input.1.attn1");
    check_places("ssd", "output.2.t2.attn1", "middle.1");
    check_places("koala", "input.5.t2.attn2.in", "middle.0");
}

/* ---- single files ---- */

/* diffusers' names under a prefix, as some tools write them. */
static void put_prefix(formula_file *f, const char *prefix)
{
    for (size_t i = 0; i < f->n; i++) formula_rename(&f->tensor[i], prefix);
}

static void test_diffusers_names_in_a_single_file(void)
{
    static const char *const prefixes[] = {"", "model.diffusion_model.", "diffusion_model.", "unet."};
    for (size_t i = 0; i < 4; i++) {
        formula_file *f = tensors_of("base");
        put_prefix(f, prefixes[i]);
        kiln_weights *set = open_single("names", f, NULL);
        CHECK_EQ(unet_family.detect(rig_host()->ability(KILN_WEIGHTS_ABILITY), set), 90);
        kiln_value *v = open_unet(set);
        if (v) check_evaluation("base", model_of(v), WHOLE, prefixes[i]);
        if (v) CHECK_NEAR(model_of(v)->denoiser->latent->scaling->scale[0], 0.13025, 1e-12);
        rig_host()->unref(v);
        weights_unref(set);
    }
}

/* [C,C] as [C,C,1,1], for projections whose name has `part`. */
static void make_convolutions(formula_file *f, const char *part)
{
    for (size_t i = 0; i < f->n; i++) {
        formula_tensor *t = &f->tensor[i];
        if (t->rank != 2 || !strstr(t->name, ".proj_") || !strstr(t->name, part)) continue;
        t->rank = 4, t->dim[2] = t->dim[3] = 1;
    }
}

static void test_M8_projections_may_be_stored_either_way(void)
{
    static const char *const parts[] = {".proj_", "up_blocks", "mid_block", ".proj_out"};
    for (size_t i = 0; i < 4; i++) {
        formula_file *f = tensors_of("sd2");
        make_convolutions(f, parts[i]);
        kiln_weights *set = open_kind("sd2", f);
        kiln_value *v = open_unet(set);
        if (v) check_evaluation("sd2", model_of(v), WHOLE, parts[i]);
        rig_host()->unref(v);
        weights_unref(set);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_M5_M8_M9_M13_every_kind_equals_diffusers), CASE(test_M5_the_size_embedding_alone),
        CASE(test_hooks_pass_the_listed_places_of_every_depth), CASE(test_diffusers_names_in_a_single_file),
        CASE(test_M8_projections_may_be_stored_either_way)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
