/* test_unet_derive.c - what inpainting, editing and other models get beside x, made of an entry of a CONDITIONING:
 * against what ComfyUI makes of the same (unet_concat.safetensors), and what is refused.
 *
 * Tolerance: torch's bilinear sums are in f32, in another order.
 */
#include "golden_kit.h"

#include "unet_inputs.h"

#define TOLERANCE 1e-6
#define SCALE 0.18215f

enum { HEIGHT = 8, WIDTH = 12, CELLS = HEIGHT * WIDTH, GIVEN_MAX = 4 };

static const kiln_value_api *values(void) { return rig_host()->ability(KILN_VALUE_ABILITY); }

/* What derive() added. */
typedef struct {
    struct {
        char name[40];
        kiln_tensor tensor;
    } item[GIVEN_MAX];
    size_t n;
} given;

static void keep(const kiln_derivation *d, const char *name, const kiln_tensor *t)
{
    given *g = d->self;
    REQUIRE(g->n < GIVEN_MAX);
    snprintf(g->item[g->n].name, sizeof g->item[0].name, "%s", name);
    g->item[g->n++].tensor = *t;
}

static const kiln_tensor *find(const given *g, const char *name)
{
    for (size_t i = 0; i < g->n; i++)
        if (strcmp(g->item[i].name, name) == 0) return &g->item[i].tensor;
    return NULL;
}

/* map[key] = the tensor CASE.name of the golden, where there is one. */
static void put(kiln_value *map, const char *key, const kiln_weights *g, const char *which, const char *name)
{
    array a = golden(g, "%s.%s", which, name);
    kiln_tensor t = {.size = sizeof t};
    if (!a.data) return;
    kiln_value *v = rig_host()->tensor_new(rig_ctx(), KILN_F32, KILN_CPU, a.rank, a.dim);
    CHECK_EQ(rig_host()->view(rig_ctx(), v, &t), KILN_OK);
    memcpy(t.data, a.data, a.n * sizeof(float));
    CHECK_EQ(values()->map_set(map, key, v), KILN_OK);
    rig_host()->unref(v);
    free(a.data);
}

/* What torch draws of the seed 10 below. */
static uint64_t seed;
static array noise;

static void randn(const kiln_derivation *d, uint64_t of, float *out, size_t n)
{
    CHECK_EQ(of, d->seed - 10);
    REQUIRE(CHECK_EQ(n, noise.n));
    memcpy(out, noise.data, n * sizeof *out);
}

static kiln_status derive(const unet_config *c, const kiln_value *entry, const kiln_value *latent, given *out)
{
    static const int64_t dim[4] = {2, HEIGHT, WIDTH, 4};
    out->n = 0;
    return unet_derive(c, &(kiln_derivation){.size = sizeof(kiln_derivation),
                                             .host = rig_host(),
                                             .ctx = rig_ctx(),
                                             .conditioning = entry,
                                             .latent = latent,
                                             .dim = dim,
                                             .rank = 4,
                                             .self = out,
                                             .add = keep,
                                             .seed = seed,
                                             .randn = randn});
}

static float number_at(const kiln_tensor *t, int64_t picture, int64_t cell, int64_t channel)
{
    const float *data = t->data;
    return data[(picture % t->dim[0] * CELLS + cell) * t->dim[3] + channel];
}

/* The channels beside x as the network gets them: rows' fallbacks and scales are applied. */
static void lay_out(const unet_config *c, const given *g, int64_t channels, float *out)
{
    static const float blank[] = {0.8223f, -0.6876f, 0.6364f, 0.1380f};
    const kiln_tensor *mask = find(g, "mask"), *image = find(g, c->concat == UNET_EDIT ? "image" : "masked_image");
    float scale = c->concat == UNET_EDIT ? 1 : SCALE;
    int64_t first = c->concat == UNET_EDIT ? 0 : 1;
    for (int64_t p = 0; p < 2; p++)
        for (int64_t i = 0; i < CELLS; i++)
            for (int64_t k = 0; k < channels; k++) {
                float x = k < first ? mask ? number_at(mask, p, i, 0) : 1
                          : image   ? number_at(image, p, i, k - first) * scale
                          : first   ? blank[k - first]
                                    : 0;
                out[(p * CELLS + i) * channels + k] = x;
            }
}

static void check_case(const kiln_weights *g, const char *which)
{
    unet_config config = {.out_channels = 4, .concat = strncmp(which, "edit", 4) == 0 ? UNET_EDIT : UNET_INPAINT};
    kiln_value *entry = values()->new_map(rig_ctx()), *latent = values()->new_map(rig_ctx());
    array wanted = golden(g, "%s.out", which);
    given got;
    put(entry, "concat_mask", g, which, "mask");
    put(entry, "concat_latent_image", g, which, "image");
    put(latent, "noise_mask", g, which, "noise_mask");
    put(latent, "samples", g, which, "latent");
    if (CHECK_MSG(derive(&config, entry, latent, &got) == KILN_OK, "%s: %s", which, rig_message()) && wanted.data) {
        float *made = malloc(wanted.n * sizeof *made);
        lay_out(&config, &got, wanted.dim[3], made);
        check_array(made, wanted.data, wanted.n, TOLERANCE, which, __FILE__, __LINE__);
        free(made);
    }
    free(wanted.data);
    rig_host()->unref(entry), rig_host()->unref(latent);
}

static void test_channels_beside_x_are_comfyuis(void)
{
    static const char *const cases[] = {"pixels", "crop", "noise", "noise_image", "blank", "edit", "edit_blank"};
    kiln_weights *g = open_weights("tests/golden/unet_concat.safetensors");
    REQUIRE(g);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_case(g, cases[i]);
    weights_unref(g);
}

/* ---- numbers ---- */

static void set(kiln_value *map, const char *key, kiln_value *item)
{
    CHECK_EQ(values()->map_set(map, key, item), KILN_OK);
    rig_host()->unref(item);
}

static void test_guidance_of_a_consistency_model(void)
{
    unet_config config = {.out_channels = 4, .guidance = 16};
    kiln_value *entry = values()->new_map(rig_ctx());
    given got;
    CHECK_EQ(derive(&config, entry, NULL, &got), KILN_OK);
    REQUIRE(find(&got, "guidance") != NULL);
    CHECK_NEAR(*(const float *)find(&got, "guidance")->data, 7500, 1e-6);
    set(entry, "guidance", values()->new_float(rig_ctx(), 1.5));
    CHECK_EQ(derive(&config, entry, NULL, &got), KILN_OK);
    CHECK_NEAR(*(const float *)find(&got, "guidance")->data, 500, 1e-6);
    set(entry, "guidance", values()->new_string(rig_ctx(), "much", 4));
    CHECK(derive(&config, entry, NULL, &got) != KILN_OK);
    CHECK_MSG(strstr(rig_message(), "'guidance' has to be a number") != NULL, "%s", rig_message());
    rig_host()->unref(entry);
}

static void test_the_upscaler_s_picture_gets_noise(void)
{
    static const struct {
        double share;
        uint64_t seed;
    } rows[] = {{0.0, 7}, {0.3, 7}, {0.0005, 3}, {1.0, 11}};
    unet_config config = {.out_channels = 4, .beside = UNET_CLASS, .concat = UNET_UPSCALE};
    kiln_weights *g = open_weights("tests/golden/unet_concat.safetensors");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kiln_value *entry = values()->new_map(rig_ctx());
        char name[20];
        given got;
        snprintf(name, sizeof name, "upscale.%zu", i);
        array wanted = golden(g, "%s.out", name), level = golden(g, "%s.level", name);
        put(entry, "concat_image", g, "upscale", "image");
        set(entry, "noise_augmentation", values()->new_float(rig_ctx(), rows[i].share));
        seed = rows[i].seed, noise = golden(g, "%s.noise", name);
        CHECK_MSG(derive(&config, entry, NULL, &got) == KILN_OK, "%s", rig_message());
        REQUIRE(find(&got, "image") && find(&got, "noise_level") && wanted.data);
        CHECK_EQ(*(const int32_t *)find(&got, "noise_level")->data, (int32_t)level.data[0]);
        check_array(find(&got, "image")->data, wanted.data, wanted.n, TOLERANCE, name, __FILE__, __LINE__);
        free(wanted.data), free(level.data), free(noise.data);
        rig_host()->unref(entry);
    }
    weights_unref(g);
}

/* ---- pictures ---- */

enum { UNCLIP_WIDTH = 32, ITEMS_MAX = 2 };

typedef struct {
    double strength, share;
} unclip_item;

static void put_item(kiln_value *list, const kiln_weights *g, const char *which, size_t i, const unclip_item *item)
{
    kiln_value *map = values()->new_map(rig_ctx()), *output = values()->new_map(rig_ctx());
    char name[20];
    snprintf(name, sizeof name, "%zu.embeds", i);
    put(output, "image_embeds", g, which, name);
    set(map, "clip_vision_output", output);
    set(map, "strength", values()->new_float(rig_ctx(), item->strength));
    set(map, "noise_augmentation", values()->new_float(rig_ctx(), item->share));
    CHECK_EQ(values()->list_push(list, map), KILN_OK);
    rig_host()->unref(map);
}

static void test_pictures_of_unclip_are_comfyuis(void)
{
    static const struct {
        const char *name;
        uint64_t seed;
        size_t n;
        unclip_item item[ITEMS_MAX];
    } rows[] = {{"one", 7, 1, {{1, 0}}},
                {"noisy", 7, 1, {{0.8, 0.3}}},
                {"all", 0, 1, {{1, 1}}},
                {"two", 11, 2, {{1, 0.1}, {-0.5, 0}}},
                {"batch", 123456789, 1, {{0.7, 0.025}}}};
    unet_config unclip = {.out_channels = 4, .beside = UNET_VECTOR, .embedded = 2 * UNCLIP_WIDTH};
    unet_config xl = {
        .out_channels = 4, .beside = UNET_SIZES, .embedded = UNCLIP_WIDTH + 12, .sinusoid = 2, .n_number = 6};
    kiln_weights *g = open_weights("tests/golden/unclip.safetensors");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kiln_value *entry = values()->new_map(rig_ctx()), *list = values()->new_list(rig_ctx());
        array out = golden(g, "%s.out", rows[i].name), pooled = golden(g, "%s.pooled", rows[i].name);
        given got;
        for (size_t k = 0; k < rows[i].n; k++) put_item(list, g, rows[i].name, k, &rows[i].item[k]);
        set(entry, "unclip_conditioning", list);
        seed = rows[i].seed, noise = golden(g, "%s.noise", rows[i].name);
        CHECK_MSG(derive(&unclip, entry, NULL, &got) == KILN_OK, "%s", rig_message());
        const kiln_tensor *t = find(&got, "image_embedding");
        REQUIRE(t && out.data && t->rank == 2 && t->dim[1] == 2 * UNCLIP_WIDTH);
        check_array(t->data, out.data, out.n, TOLERANCE, rows[i].name, __FILE__, __LINE__);
        CHECK_MSG(derive(&xl, entry, NULL, &got) == KILN_OK, "%s", rig_message());
        t = find(&got, "pooled");
        REQUIRE(t && pooled.data && t->rank == 2 && t->dim[1] == UNCLIP_WIDTH);
        check_array(t->data, pooled.data, pooled.n, TOLERANCE, rows[i].name, __FILE__, __LINE__);
        unclip.embedded = 48;
        free(noise.data);
        noise = (array){.data = calloc(48, sizeof(float)), .n = 48};
        CHECK_EQ(derive(&unclip, entry, NULL, &got), KILN_ERR_INVALID);
        CHECK_MSG(strstr(rig_message(), "image_embeds are 32 wide, and this model wants 24") != NULL, "%s",
                  rig_message());
        unclip.embedded = 2 * UNCLIP_WIDTH;
        free(noise.data), free(out.data), free(pooled.data);
        rig_host()->unref(entry);
    }
    weights_unref(g);
}

static void test_what_is_not_there_yet_is_refused(void)
{
    unet_config unclip = {.out_channels = 4, .beside = UNET_VECTOR, .embedded = 2 * UNCLIP_WIDTH},
                upscaler = {.out_channels = 4, .beside = UNET_CLASS, .concat = UNET_UPSCALE},
                inpaint = {.out_channels = 4, .concat = UNET_INPAINT};
    kiln_value *entry = values()->new_map(rig_ctx());
    given got;
    set(entry, "noise_augmentation", values()->new_float(rig_ctx(), 1.5));
    CHECK_EQ(derive(&upscaler, entry, NULL, &got), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "'noise_augmentation' has to be a number from 0 to 1") != NULL, "%s",
              rig_message());
    CHECK_EQ(derive(&unclip, entry, NULL, &got), KILN_OK);
    CHECK_EQ(got.n, 0);
    set(entry, "unclip_conditioning", values()->new_list(rig_ctx()));
    noise = (array){.data = malloc(2 * UNCLIP_WIDTH * sizeof(float)), .n = 2 * UNCLIP_WIDTH};
    memset(noise.data, 0, noise.n * sizeof(float));
    CHECK_EQ(derive(&unclip, entry, NULL, &got), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "'unclip_conditioning' has to be a list") != NULL, "%s", rig_message());
    free(noise.data);
    set(entry, "concat_mask", values()->new_float(rig_ctx(), 1));
    CHECK_EQ(derive(&inpaint, entry, NULL, &got), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "'concat_mask' has to be a tensor") != NULL, "%s", rig_message());
    rig_host()->unref(entry);
}

/* ---- rows ---- */

static void test_rows_say_what_is_taken_where_nothing_is_given(void)
{
    static const char *const names[] = {"height", "width", "crop_h", "crop_w", "target_height", "target_width"};
    unet_config base = {.beside = UNET_SIZES, .embedded = 2816, .sinusoid = 256, .n_number = 6, .linear = 1},
                refiner = {.beside = UNET_SIZES, .embedded = 2560, .sinusoid = 256, .n_number = 5, .linear = 1};
    kiln_input_spec row[UNET_INPUTS_MAX];
    memcpy(base.number, names, sizeof names);
    memcpy(refiner.number, names, sizeof names);
    refiner.number[4] = "aesthetic_score";
    CHECK_EQ(unet_input_rows(&base, 0, row), 8);
    CHECK_STR(row[0].key, "tokens");
    CHECK_EQ(row[1].width, 1280);
    CHECK_STR(row[2].fallback_from, "latent.height");
    CHECK_STR(row[7].fallback_from, "width");
    CHECK_EQ(unet_input_rows(&refiner, 0, row), 7);
    CHECK_EQ(row[1].width, 1280);
    CHECK_STR(row[6].name, "aesthetic_score");
    CHECK((row[6].flags & KILN_INPUT_SIDED) != 0);
    CHECK_NEAR(row[6].fallback, 6, 0);
    CHECK_NEAR(row[6].fallback_unconditional, 2.5, 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_channels_beside_x_are_comfyuis),    CASE(test_guidance_of_a_consistency_model),
        CASE(test_the_upscaler_s_picture_gets_noise), CASE(test_pictures_of_unclip_are_comfyuis),
        CASE(test_what_is_not_there_yet_is_refused),  CASE(test_rows_say_what_is_taken_where_nothing_is_given)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
