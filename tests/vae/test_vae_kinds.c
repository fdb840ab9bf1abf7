/* test_vae_kinds.c - autoencoders of SDXL's, the x4 upscaler's and TAESD's kind against diffusers
 * (tests/golden/vae_kinds.safetensors), which they are said to be, and the files that they come in.
 */
#include "golden_kit.h"
#include "weights/weights_kit.h"

#include "taesd_family.h"
#include "vae_family.h"

#define WHOLE 1e-5 /* measured 1e-6; the bound of the parity table is 1e-4 */

enum { WIDE = 1 << KILN_BF16 | 1 << KILN_F32, TENSORS = 400 };

static const kiln_weights_api *api(void) { return rig_host()->ability(KILN_WEIGHTS_ABILITY); }
static const kiln_model_api *models(void) { return rig_host()->ability(KILN_MODEL_ABILITY); }

/* As a loader does it. */
static kiln_value *open_any(kiln_weights *set)
{
    int kl = vae_family.detect(api(), set), tiny = taesd_family.detect(api(), set);
    const kiln_model_family *f = kl > tiny ? &vae_family : &taesd_family;
    return kl || tiny ? f->open(rig_host(), rig_ctx(), set) : NULL;
}

static kiln_value *open_path(const char *path)
{
    kiln_weights *set = opened(path);
    kiln_value *v = set ? open_any(set) : NULL;
    CHECK_MSG(v != NULL, "%s: %s", path, rig_message());
    weights_unref(set);
    return v;
}

static const char *kind_folder(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/tests/golden/tiny-vaes/%s", test_root(), name);
    return path;
}

static void check_way(const kiln_value *v, const kiln_weights *g, const char *name, int encode)
{
    const kiln_vae *vae = models()->vae(rig_ctx(), v);
    const kiln_autoencoder *a = vae->autoencoder;
    kiln_latent_distribution d = {.size = sizeof d};
    piece c = piece_new(KILN_F32);
    kiln_t x = piece_input(&c, golden(g, encode ? "%s.image" : "%s.latent", name), KILN_F32);
    if (encode)
        a->record_encode(a, c.ops, c.p, vae->weights, x, &d);
    else
        d.mean = a->record_decode(a, c.ops, c.p, vae->weights, x);
    piece_check(&c, d.mean, golden(g, encode ? "%s.mean" : "%s.out", name), WHOLE, name);
}

static void test_kinds_equal_diffusers(void)
{
    static const struct {
        const char *name, *architecture;
        uint32_t precisions;
        int factor, channels;
        double scale;
    } rows[] = {{"sdxl", "SDXL KL-f8", WIDE, 8, 4, 0.13025},
                {"x4", "x4 upscaler KL-f4", WIDE, 4, 4, 0.08333},
                {"taesdxl", "TAESDXL", 0, 8, 4, 0.13025},
                {"taesd3", "TAESD3", 0, 8, 16, 1.5305}};
    kiln_weights *g = open_weights("tests/golden/vae_kinds.safetensors");
    REQUIRE(g);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kiln_value *v = open_path(kind_folder(rows[i].name));
        REQUIRE(v);
        const kiln_autoencoder *a = models()->vae(rig_ctx(), v)->autoencoder;
        CHECK_STR(a->architecture, rows[i].architecture);
        CHECK_EQ(a->precisions, rows[i].precisions);
        CHECK_EQ(a->latent->factor, rows[i].factor);
        CHECK_EQ(a->latent->channels, rows[i].channels);
        CHECK(a->latent->scaling->scale[0] == rows[i].scale);
        check_way(v, g, rows[i].name, 0);
        check_way(v, g, rows[i].name, 1);
        rig_host()->unref(v);
    }
    weights_unref(g);
}

/* ---- files ---- */

/* The tensors of a set, to be written under other names. */
typedef struct {
    safetensors_source t[TENSORS];
    char name[TENSORS][200];
    int64_t dim[TENSORS][KILN_MAX_RANK];
    size_t n;
} listing;

static void list_set(const kiln_weights *set, listing *l)
{
    l->n = 0;
    for (size_t i = 0; i < weights_count(set) && l->n < TENSORS; i++) {
        kiln_weight_info info = {.size = sizeof info};
        weights_at(set, i, &info);
        snprintf(l->name[l->n], sizeof l->name[0], "%s", info.name);
        memcpy(l->dim[l->n], info.dim, info.rank * sizeof(int64_t));
        l->t[l->n] = (safetensors_source){.name = l->name[l->n],
                                          .dtype = info.dtype,
                                          .rank = info.rank,
                                          .dim = l->dim[l->n],
                                          .data = weights_bytes(set, info.name, &info)};
        l->n++;
    }
}

/* TAESD's own name of a tensor of diffusers', and which half it is of. */
static int original_name(const char *name, char *out, size_t size)
{
    int layer = 0, at = 0, decodes = strncmp(name, "decoder.", 8) == 0;
    sscanf(name + strlen("decoder.layers."), "%d%n", &layer, &at);
    snprintf(out, size, "%d%s", layer + decodes, name + strlen("decoder.layers.") + at);
    return decodes;
}

/* taesd's tensors in its own names: one half, or both with `prefix` (2: as a checkpoint has them). */
static const char *put_taesd(const char *file, const char *from, int halves, int prefix, float scale)
{
    static listing l, some;
    char name[200];
    kiln_weights *set = opened(kind_folder(from));
    if (!set) return file;
    list_set(set, &l);
    some.n = 0;
    for (size_t i = 0; i < l.n; i++) {
        int decodes = original_name(l.name[i], name, sizeof name);
        if (!(halves >> decodes & 1)) continue;
        some.t[some.n] = l.t[i];
        snprintf(some.name[some.n], sizeof some.name[0], "%s%s%.150s", prefix == 2 ? "first_stage_model." : "",
                 !prefix   ? ""
                 : decodes ? "taesd_decoder."
                           : "taesd_encoder.",
                 name);
        some.t[some.n].name = some.name[some.n];
        some.n++;
    }
    if (scale > 0)
        some.t[some.n++] = (safetensors_source){.name = "vae_scale", .dtype = KILN_F32, .rank = 0, .data = &scale};
    const char *path = put_tensors(file, some.t, some.n);
    weights_unref(set);
    return path;
}

enum { ENCODER = 1, DECODER = 2 };

static void test_taesd_comes_in_its_own_files(void)
{
    kiln_weights *g = open_weights("tests/golden/vae_kinds.safetensors");
    REQUIRE(g);
    /* two files: either opens the other */
    put_taesd("vae_approx/taesdxl_encoder.safetensors", "taesdxl", ENCODER, 0, 0);
    put_taesd("vae_approx/taesdxl_decoder.safetensors", "taesdxl", DECODER, 0, 0);
    static const char *const halves[] = {"vae_approx/taesdxl_decoder.safetensors",
                                         "vae_approx/taesdxl_encoder.safetensors"};
    for (int i = 0; i < 2; i++) {
        kiln_value *v = open_path(at_path(halves[i]));
        REQUIRE(v);
        check_way(v, g, "taesdxl", 0);
        check_way(v, g, "taesdxl", 1);
        rig_host()->unref(v);
    }
    /* one file with both, which says its scale; the name says nothing */
    kiln_value *v = open_path(put_taesd("both.safetensors", "taesdxl", ENCODER | DECODER, 1, 0.13025f));
    REQUIRE(v);
    CHECK_STR(models()->vae(rig_ctx(), v)->autoencoder->architecture, "TAESDXL");
    check_way(v, g, "taesdxl", 0);
    check_way(v, g, "taesdxl", 1);
    rig_host()->unref(v);
    /* both as a checkpoint has them; the file's name says whose */
    v = open_path(put_taesd("taesdxl_of_checkpoint.safetensors", "taesdxl", ENCODER | DECODER, 2, 0));
    REQUIRE(v);
    check_way(v, g, "taesdxl", 0);
    check_way(v, g, "taesdxl", 1);
    rig_host()->unref(v);
    /* a decoder alone */
    v = open_path(put_taesd("alone/taesd3_decoder.safetensors", "taesd3", DECODER, 0, 0));
    REQUIRE(v);
    CHECK(models()->vae(rig_ctx(), v)->autoencoder->record_encode == NULL);
    check_way(v, g, "taesd3", 0);
    rig_host()->unref(v);
    weights_unref(g);
}

static void test_taesd_is_not_guessed(void)
{
    kiln_weights *set = opened(put_taesd("some_decoder.safetensors", "taesdxl", DECODER, 0, 0));
    REQUIRE(set);
    CHECK(open_any(set) == NULL);
    contains(rig_message(), "nothing says whose latents of 4 channels");
    contains(rig_message(), "vae_scale");
    weights_unref(set);
    put_taesd("mixed/taesd_encoder.safetensors", "taesd3", ENCODER, 0, 0);
    set = opened(put_taesd("mixed/taesd_decoder.safetensors", "taesdxl", DECODER, 0, 0));
    REQUIRE(set);
    CHECK(open_any(set) == NULL);
    contains(rig_message(), "its encoder makes latents of 16 channels, its decoder takes 4");
    weights_unref(set);
}

/* ---- AutoencoderKL: names and facts ---- */

enum { NARROW = 32 };

/* sdxl_vae_names.txt: the tensors of SDXL's autoencoder as published, "NAME d,d,d,d". width: of all that is wide. */
static void read_names(listing *l, const char *prefix, int64_t width)
{
    char path[600], line[300], *at;
    snprintf(path, sizeof path, "%s/tests/golden/sdxl_vae_names.txt", test_root());
    FILE *f = fopen(path, "r");
    l->n = 0;
    if (!CHECK_MSG(f != NULL, "%s", path)) return;
    while (fgets(line, sizeof line, f) && l->n < TENSORS) {
        safetensors_source *t = &l->t[l->n];
        *t = (safetensors_source){.name = l->name[l->n], .dtype = KILN_F16, .dim = l->dim[l->n]};
        snprintf(l->name[l->n], sizeof l->name[0], "%s%.*s", prefix, (int)strcspn(line, " "), line);
        for (at = line + strcspn(line, " "); *at == ' ' || *at == ','; t->rank++) {
            int64_t d = strtoll(at + 1, &at, 10);
            l->dim[l->n][t->rank] = width && d >= 128 ? width : d;
        }
        l->n++;
    }
    fclose(f);
}

static size_t numbers_of(const safetensors_source *t)
{
    size_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) n *= (size_t)t->dim[i];
    return n;
}

/* Small numbers, those of norms about 1. */
static void fill_listing(listing *l)
{
    uint32_t state = 1;
    for (size_t i = 0; i < l->n; i++) {
        size_t n = numbers_of(&l->t[i]);
        uint16_t *data = malloc(n * sizeof *data);
        for (size_t k = 0; data && k < n; k++) {
            state = state * 1664525u + 1013904223u;
            data[k] = (uint16_t)((state >> 31 << 15) | (0x2800 + (state >> 16 & 0x7ff))); /* 0.03 to 0.12 */
        }
        l->t[i].data = data;
    }
}

static void free_listing(listing *l)
{
    for (size_t i = 0; i < l->n; i++) free((void *)(uintptr_t)l->t[i].data);
}

/* Another name before diffusers 0.12, [C,C,1,1] for the projections. */
static void make_old(listing *l)
{
    static const char *const names[][2] = {
        {"to_q", "query"}, {"to_k", "key"}, {"to_v", "value"}, {"to_out.0", "proj_attn"}};
    for (size_t i = 0; i < l->n; i++)
        for (size_t k = 0; k < 4 && strstr(l->name[i], "attentions"); k++) {
            char *at = strstr(l->name[i], names[k][0]), rest[60];
            if (!at) continue;
            snprintf(rest, sizeof rest, "%s", at + strlen(names[k][0]));
            snprintf(at, sizeof l->name[0] - (size_t)(at - l->name[i]), "%s%s", names[k][1], rest);
            if (l->t[i].rank == 2) l->dim[i][2] = l->dim[i][3] = 1, l->t[i].rank = 4;
        }
}

static void put_prefix(listing *l, const char *prefix)
{
    char name[200];
    for (size_t i = 0; i < l->n; i++) {
        snprintf(name, sizeof name, "%s%.150s", prefix, l->name[i]);
        memcpy(l->name[i], name, sizeof name);
    }
}

enum { SIDE = 4, PIXELS = SIDE * SIDE * 64 * 3 };

/* What becomes of a latent, and of which file. */
static void decode_file(const char *path, const char *architecture, float out[PIXELS])
{
    kiln_value *v = open_path(path);
    if (!v) return;
    const kiln_vae *vae = models()->vae(rig_ctx(), v);
    array x = {.rank = 4, .dim = {1, SIDE, SIDE, 4}, .n = (size_t)SIDE * SIDE * 4};
    x.data = malloc(x.n * sizeof *x.data);
    for (size_t i = 0; i < x.n; i++) x.data[i] = (float)(i * 37 % 101) / 50 - 1;
    CHECK_STR(vae->autoencoder->architecture, architecture);
    piece c = piece_new(KILN_F32);
    kiln_t t = piece_input(&c, x, KILN_F32);
    c.ops->output(c.p, "out", vae->autoencoder->record_decode(vae->autoencoder, c.ops, c.p, vae->weights, t));
    const int64_t dim[] = {1, SIDE * 8, SIDE * 8, 3};
    kiln_bind b = KILN_BIND("out", window_of(out, KILN_F32, 4, dim));
    kiln_status status = c.ops->plan(c.ctx, c.p, NULL);
    if (status == KILN_OK) status = c.ops->run(c.ctx, c.p, c.in, c.n_in, &b, 1);
    CHECK_MSG(status == KILN_OK, "%s: %s", path, rig_message());
    c.ops->program_free(c.p);
    free(c.owned[0]);
    rig_host()->unref(v);
}

/* One autoencoder under all the names it comes in: ldm's, diffusers', diffusers' old ones; alone and in a checkpoint.
 */
static void test_M10_names_make_no_difference(void)
{
    static listing ldm, other;
    static float wanted[PIXELS], got[PIXELS];
    static const char *const prefix[] = {"", "first_stage_model.", "vae."}, *const unknown = "KL-f8, 4 channels";
    read_names(&ldm, "", NARROW);
    fill_listing(&ldm);
    const char *path = put_tensors("ldm.safetensors", ldm.t, ldm.n);
    decode_file(path, unknown, wanted);
    CHECK(wanted[0] != 0 && wanted[0] != wanted[1]);
    kiln_weights *set = opened(path);
    kiln_value *v = set ? open_any(set) : NULL;
    REQUIRE(v);
    for (int old = 0; old < 2; old++)
        for (size_t i = 0; i < 3; i++) {
            char file[60];
            snprintf(file, sizeof file, "%s%zu.safetensors", old ? "old" : "new", i);
            list_set(models()->vae(rig_ctx(), v)->weights, &other);
            if (old) make_old(&other);
            put_prefix(&other, prefix[i]);
            memset(got, 0, sizeof got);
            decode_file(put_tensors(file, other.t, other.n), unknown, got);
            CHECK_MSG(memcmp(got, wanted, sizeof got) == 0, "%s draws something else", file);
        }
    put_prefix(&ldm, "vae.");
    memset(got, 0, sizeof got);
    decode_file(put_tensors("ldm-vae.safetensors", ldm.t, ldm.n), unknown, got);
    CHECK(memcmp(got, wanted, sizeof got) == 0);
    rig_host()->unref(v);
    weights_unref(set);
    free_listing(&ldm);
}

/* The model beside it says whose it is: its first convolution, and how wide its vector is. */
static void test_the_model_beside_it_says_whose_it_is(void)
{
    static listing l;
    static float zeros[4 * NARROW * 9], out[PIXELS];
    static uint16_t none[2816];
    static const struct {
        int64_t vector;
        const char *architecture;
        uint32_t precisions;
    } rows[] = {{0, "SD1 KL-f8", 0}, {2816, "SDXL KL-f8", WIDE}, {2560, "SDXL KL-f8", WIDE}, {2048, "SD1 KL-f8", 0}};
    read_names(&l, "first_stage_model.", NARROW);
    fill_listing(&l);
    size_t own = l.n;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t conv[] = {NARROW, 4, 3, 3}, label[] = {1, rows[i].vector};
        l.n = own;
        l.t[l.n++] = (safetensors_source){"model.diffusion_model.input_blocks.0.0.weight", KILN_F32, 4, conv, zeros};
        if (rows[i].vector)
            l.t[l.n++] = (safetensors_source){"model.diffusion_model.label_emb.0.0.weight", KILN_F16, 2, label, none};
        char file[40];
        snprintf(file, sizeof file, "beside%zu.safetensors", i);
        const char *path = put_tensors(file, l.t, l.n);
        decode_file(path, rows[i].architecture, out);
        kiln_value *v = open_path(path);
        if (v) CHECK_EQ(models()->vae(rig_ctx(), v)->autoencoder->precisions, rows[i].precisions);
        rig_host()->unref(v);
    }
    l.n = own;
    free_listing(&l);
}

/* SDXL's whole list of names and shapes, in a file of holes: all are asked for, none is left. */
static void test_M7_published_names_are_all_there(void)
{
    static listing l;
    str header = {0};
    size_t at = 0;
    read_names(&l, "first_stage_model.", 0);
    CHECK_EQ(l.n, 248);
    str_printf(&header, "{");
    for (size_t i = 0; i < l.n; i++) {
        size_t bytes = numbers_of(&l.t[i]) * 2;
        str_printf(&header, "%s\"%s\":{\"dtype\":\"F16\",\"shape\":[", i ? "," : "", l.name[i]);
        for (uint32_t d = 0; d < l.t[i].rank; d++) str_printf(&header, "%s%lld", d ? "," : "", (long long)l.dim[i][d]);
        str_printf(&header, "],\"data_offsets\":[%zu,%zu]}", at, at + bytes);
        at += bytes;
    }
    str_printf(&header, "}");
    size_t size;
    uint8_t *raw = raw_file(str_text(&header), header.len, 0, &size);
    const char *path = put_bytes("sdxl.safetensors", raw, size);
    CHECK_EQ(truncate(path, (off_t)(size + at)), 0);
    kiln_weights *set = opened(path);
    kiln_value *v = set ? open_any(set) : NULL;
    REQUIRE(CHECK_MSG(v != NULL, "%s", rig_message()));
    const kiln_vae *vae = models()->vae(rig_ctx(), v);
    CHECK_EQ(weights_count(vae->weights), l.n);
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
    CHECK_EQ(weights_unused(set, NULL, NULL), 0);
    rig_host()->unref(v);
    weights_unref(set);
    str_free(&header);
    free(raw);
}

/* ---- what is not supported says so ---- */

static void check_refused(const char *folder, const char *config, const char *says)
{
    char name[100];
    static listing l;
    kiln_weights *set = open_weights("tests/golden/tiny-vaes/sdxl");
    REQUIRE(set);
    list_set(set, &l);
    snprintf(name, sizeof name, "%s/diffusion_pytorch_model.safetensors", folder);
    put_tensors(name, l.t, l.n);
    snprintf(name, sizeof name, "%s/config.json", folder);
    put_text(name, config);
    kiln_weights *own = opened(at_path(folder));
    CHECK(own && open_any(own) == NULL);
    contains(rig_message(), says);
    weights_unref(own);
    weights_unref(set);
}

static void test_others_are_refused_by_name(void)
{
    check_refused("asymmetric", "{\"_class_name\": \"AsymmetricAutoencoderKL\", \"norm_num_groups\": 4}",
                  "it is an AsymmetricAutoencoderKL; of this kind only AutoencoderKL is supported");
    check_refused("video", "{\"_class_name\": \"AutoencoderKLTemporalDecoder\", \"norm_num_groups\": 4}",
                  "AutoencoderKLTemporalDecoder");
    /* a decoder with one resnet more than the encoder's plus one */
    check_refused("deep", "{\"norm_num_groups\": 4, \"layers_per_block\": 1}", "an asymmetric autoencoder");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_kinds_equal_diffusers),
                                      CASE(test_taesd_comes_in_its_own_files),
                                      CASE(test_taesd_is_not_guessed),
                                      CASE(test_M10_names_make_no_difference),
                                      CASE(test_the_model_beside_it_says_whose_it_is),
                                      CASE(test_M7_published_names_are_all_there),
                                      CASE(test_others_are_refused_by_name)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
