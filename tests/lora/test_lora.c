/* test_lora.c - LoRA files on tiny-sd1 against diffusers' fused weights and outputs (tests/golden/lora*), chained, by
 * every name that files have for a module, and beside the base in one runtime.
 *
 * Tolerances: a fused weight is one f32 sum of three products, rounded once more when it is added: 1e-6. Outputs: 1e-4,
 * the bound of the parity table for a whole network; 1e-5 for the text encoder.
 */
#include "lora_rig.h"

#include "base/file.h"
#include "lora_names.h"

#define WEIGHT 1e-6
#define WHOLE 1e-4
#define TEXT 1e-5

static kiln_weights *goldens(void)
{
    static kiln_weights *g;
    if (!g) g = open_weights("tests/golden/lora.safetensors");
    return g;
}

/* ---- numbers ---- */

static void check_unet(const kiln_value *v, const char *which)
{
    const kiln_model *m = models()->model(rig_ctx(), v);
    const kiln_weights *g = goldens();
    piece c = piece_new(KILN_F32);
    kiln_denoise_inputs in = {.size = sizeof in};
    in.x = piece_input(&c, golden(g, "x"), KILN_F32);
    in.timestep = piece_input(&c, golden(g, "t"), KILN_F32);
    array context = golden(g, "context");
    kiln_named_tensor named = {.size = sizeof named, .name = "context", .tensor = piece_input(&c, context, KILN_F32)};
    in.input = &named, in.n_input = 1;
    piece_check(&c, m->denoiser->record(m->denoiser, c.ops, c.p, m->weights, &in), golden(g, "%s.out", which), WHOLE,
                which);
}

static void check_text(const kiln_value *v, const char *which)
{
    const kiln_clip *m = models()->clip(rig_ctx(), v);
    const kiln_weights *g = goldens();
    piece c = piece_new(KILN_F32);
    array ids = golden(g, "ids"), end = {.data = calloc(1, sizeof(float)), .rank = 1, .dim = {1}, .n = 1},
          want = golden(g, "%s.text", which);
    REQUIRE(ids.data && want.data);
    for (size_t i = 0; i < 2; i++) ids.dim[1 - i] = i ? 1 : ids.dim[0];
    ids.rank = 2;
    for (int i = 2; i > 0; i--) want.dim[i] = want.dim[i - 1];
    want.rank = 3, want.dim[0] = 1;
    kiln_text_inputs in = {.size = sizeof in, .layer = -1};
    kiln_text_features out = {.size = sizeof out};
    in.ids = piece_input(&c, ids, KILN_I32);
    in.end = piece_input(&c, end, KILN_I32);
    m->encoder->encoder->record(m->encoder->encoder, c.ops, c.p, m->encoder->weights, &in, &out);
    piece_check(&c, out.tokens, want, TEXT, which);
}

/* Every weight the golden holds of a case. */
static void check_weights(const char *which, const char *part, const kiln_weights *set, size_t least)
{
    const kiln_weights *g = goldens();
    char prefix[60];
    snprintf(prefix, sizeof prefix, "%s.%s.", which, part);
    size_t n = 0;
    for (size_t i = 0; i < weights_count(g); i++) {
        kiln_weight_info info = {.size = sizeof info}, mine = {.size = sizeof mine};
        weights_at(g, i, &info);
        if (strncmp(info.name, prefix, strlen(prefix)) != 0) continue;
        const char *name = info.name + strlen(prefix);
        array want = array_read(g, info.name);
        float *got = calloc(want.n + 1, sizeof *got);
        error e = {0};
        if (CHECK_MSG(weights_find(set, name, &mine) == KILN_OK && mine.bytes == want.n * 4, "%s", name) &&
            CHECK_MSG(weights_read_f32(set, name, got, &e) == KILN_OK, "%s", e.message))
            check_array(got, want.data, want.n, WEIGHT, name, __FILE__, __LINE__);
        free(got);
        free(want.data);
        n++;
    }
    CHECK_MSG(n >= least, "%zu weights of %s", n, prefix);
}

static void test_what_diffusers_fuses(void)
{
    static const struct {
        const char *name, *file;
        double model, clip;
    } rows[] = {{"kohya", "lora/kohya.safetensors", 0.8, 0.5}, {"peft", "lora/peft.safetensors", -0.6, 0.7}};
    REQUIRE(open_base() && goldens());
    check_unet(base_model, "none");
    check_text(base_clip, "none");
    for (size_t i = 0; i < 2; i++) {
        put_on r = put_lora(golden_path(rows[i].file), rows[i].model, rows[i].clip, base_model, base_clip);
        REQUIRE(CHECK_MSG(r.status == KILN_OK, "%s", r.why));
        check_weights(rows[i].name, "unet", unet_of(r.model), 8);
        check_weights(rows[i].name, "text", text_of(r.clip), 6);
        check_unet(r.model, rows[i].name);
        check_text(r.clip, rows[i].name);
        put_free(&r);
    }
    check_unet(base_model, "none");
}

static void test_chained_loaders_add_up(void)
{
    REQUIRE(open_base() && goldens());
    put_on a = put_lora(golden_path("lora/kohya.safetensors"), 0.8, 0.5, base_model, base_clip);
    REQUIRE(CHECK_MSG(a.status == KILN_OK, "%s", a.why));
    put_on b = put_lora(golden_path("lora/peft.safetensors"), -0.6, 0.7, a.model, a.clip);
    put_free(&a); /* b keeps what it needs */
    REQUIRE(CHECK_MSG(b.status == KILN_OK, "%s", b.why));
    check_unet(b.model, "both");
    check_text(b.clip, "both");
    put_free(&b);
}

static void test_model_only_leaves_the_text_encoder(void)
{
    REQUIRE(open_base());
    put_on r = put_lora(golden_path("lora/kohya.safetensors"), 0.8, 0, base_model, NULL);
    REQUIRE(CHECK_MSG(r.status == KILN_OK && !r.clip, "%s", r.why));
    check_unet(r.model, "kohya");
    put_free(&r);
}

static void test_strength_0_is_the_model_as_it_was(void)
{
    REQUIRE(open_base());
    put_on r = put_lora(golden_path("lora/kohya.safetensors"), 0, 0, base_model, base_clip);
    CHECK(r.status == KILN_OK && r.model == base_model && r.clip == base_clip);
    put_free(&r);
    r = put_lora(golden_path("lora/kohya.safetensors"), 0, 1, base_model, base_clip);
    CHECK(r.status == KILN_OK && r.model == base_model && r.clip != base_clip);
    put_free(&r);
}

/* ---- identities, memory ---- */

static digest digest_of_value(const kiln_value *v)
{
    digest d = {0};
    error e = {0};
    CHECK_MSG(value_digest(v, &d, &e) == KILN_OK, "%s", e.message);
    return d;
}

static void test_variants_have_keys_of_their_own(void)
{
    REQUIRE(open_base());
    const char *path = golden_path("lora/kohya.safetensors");
    put_on a = put_lora(path, 1, 1, base_model, base_clip), b = put_lora(path, 0.5, 1, base_model, base_clip),
           again = put_lora(path, 1, 1, base_model, base_clip);
    REQUIRE(a.model && b.model && again.model);
    const char *id[] = {weights_identity(unet_of(base_model), NULL), weights_identity(unet_of(a.model), NULL),
                        weights_identity(unet_of(b.model), NULL)};
    CHECK(strcmp(id[0], id[1]) && strcmp(id[1], id[2]) && strcmp(id[0], id[2]));
    CHECK_STR(weights_identity(unet_of(again.model), NULL), id[1]);
    CHECK(!digest_equal(digest_of_value(a.model), digest_of_value(b.model)) &&
          !digest_equal(digest_of_value(a.model), digest_of_value(base_model)));
    CHECK(digest_equal(digest_of_value(a.model), digest_of_value(again.model)) &&
          digest_equal(digest_of_value(a.clip), digest_of_value(b.clip)));
    CHECK(!digest_equal(digest_of_value(a.clip), digest_of_value(base_clip)));
    put_free(&a), put_free(&b), put_free(&again);
}

/* A planned UNet and what it makes of the golden's inputs. */
typedef struct {
    piece c;
    float out[8 * 12 * 4];
} drawn;

static int plan_unet(drawn *d, const kiln_value *v)
{
    const kiln_model *m = models()->model(rig_ctx(), v);
    const kiln_weights *g = goldens();
    d->c = piece_new(KILN_F32);
    kiln_denoise_inputs in = {.size = sizeof in};
    in.x = piece_input(&d->c, golden(g, "x"), KILN_F32);
    in.timestep = piece_input(&d->c, golden(g, "t"), KILN_F32);
    kiln_named_tensor named = {
        .size = sizeof named, .name = "context", .tensor = piece_input(&d->c, golden(g, "context"), KILN_F32)};
    in.input = &named, in.n_input = 1;
    d->c.ops->output(d->c.p, "out", m->denoiser->record(m->denoiser, d->c.ops, d->c.p, m->weights, &in));
    return CHECK_MSG(d->c.ops->plan(d->c.ctx, d->c.p, NULL) == KILN_OK, "%s", rig_message());
}

static int draw_unet(drawn *d)
{
    kiln_bind out = KILN_BIND("out", window_of(d->out, KILN_F32, 4, KILN_DIMS(1, 8, 12, 4)));
    memset(d->out, 0, sizeof d->out);
    return CHECK_MSG(d->c.ops->run(d->c.ctx, d->c.p, d->c.in, d->c.n_in, &out, 1) == KILN_OK, "%s", rig_message());
}

static void close_unet(drawn *d)
{
    for (size_t i = 0; i < d->c.n_owned; i++) free(d->c.owned[i]);
    d->c.ops->program_free(d->c.p);
}

static void test_base_and_two_variants_share_what_is_not_patched(void)
{
    static drawn d[3];
    static float before[8 * 12 * 4];
    char file[700];
    digest was, is;
    REQUIRE(open_base() && goldens());
    snprintf(file, sizeof file, "%s", golden_path("tiny-sd1/unet/diffusion_pytorch_model.safetensors"));
    REQUIRE(file_digest(file, &was, NULL) == KILN_OK);
    const char *lora = golden_path("lora/kohya.safetensors");
    put_on a = put_lora(lora, 1, 1, base_model, base_clip), b = put_lora(lora, -0.5, 1, base_model, base_clip);
    residency *r = runtime_residency(rig_runtime);
    size_t empty = residency_bytes(r), bytes[3];
    REQUIRE(a.model && b.model);
    const kiln_value *models_of[] = {base_model, a.model, b.model};
    uint64_t packed[4] = {residency_traffic_get(r).packed};
    for (int i = 0; i < 3; i++) {
        REQUIRE(plan_unet(&d[i], models_of[i]) && draw_unet(&d[i]));
        bytes[i] = residency_bytes(r);
        packed[i + 1] = residency_traffic_get(r).packed;
    }
    memcpy(before, d[0].out, sizeof before);
    CHECK(memcmp(d[0].out, d[1].out, sizeof before) && memcmp(d[1].out, d[2].out, sizeof before) &&
          memcmp(d[0].out, d[2].out, sizeof before));
    /* 18 modules, of which three and two are packed in one stack each */
    CHECK_EQ(packed[2] - packed[1], 18 - 2 - 1);
    CHECK_EQ(packed[3] - packed[2], 18 - 2 - 1);
    CHECK_EQ(bytes[1] - bytes[0], bytes[2] - bytes[1]);
    CHECK_MSG(bytes[1] - bytes[0] < (bytes[0] - empty) / 4, "%zu, then %zu more", bytes[0] - empty,
              bytes[1] - bytes[0]);
    REQUIRE(draw_unet(&d[0]));
    CHECK(memcmp(before, d[0].out, sizeof before) == 0);
    CHECK_EQ(residency_traffic_get(r).packed, packed[3]);
    for (int i = 3; i-- > 1;) close_unet(&d[i]);
    CHECK_EQ(residency_bytes(r), bytes[0]);
    close_unet(&d[0]);
    put_free(&a), put_free(&b);
    CHECK(file_digest(file, &is, NULL) == KILN_OK && digest_equal(was, is));
}

/* ---- the same numbers under every name ---- */

typedef struct {
    const char *what, *unet, *text;           /* prefixes */
    int dots, ldm, processor, bare, old_text; /* how modules are written */
    const char *up, *down;
    int no_alpha; /* then down is scaled instead */
} naming;

static const naming namings[] = {
    {.what = "kohya", .unet = "lora_unet_", .text = "lora_te_", .up = ".lora_up.weight", .down = ".lora_down.weight"},
    {.what = "kohya, single-file blocks",
     .unet = "lora_unet_",
     .text = "lora_te1_",
     .ldm = 1,
     .up = ".lora_up.weight",
     .down = ".lora_down.weight"},
    {.what = "lycoris", .unet = "lycoris_", .text = "lora_te_", .up = ".lora_up.weight", .down = ".lora_down.weight"},
    {.what = "single-file blocks with dots",
     .unet = "diffusion_model.",
     .text = "text_encoders.clip_l.transformer.",
     .dots = 1,
     .ldm = 1,
     .up = ".lora_up.weight",
     .down = ".lora_down.weight"},
    {.what = "peft in diffusers",
     .unet = "unet.",
     .text = "text_encoder.",
     .dots = 1,
     .up = ".lora_B.weight",
     .down = ".lora_A.weight"},
    {.what = "its newer text encoders",
     .unet = "unet.",
     .text = "text_encoder.",
     .dots = 1,
     .bare = 1,
     .up = ".lora_B.weight",
     .down = ".lora_A.weight"},
    {.what = "peft",
     .unet = "base_model.model.",
     .text = "base_model.model.",
     .dots = 1,
     .up = ".lora_B.default.weight",
     .down = ".lora_A.default.weight"},
    {.what = "diffusers' layers",
     .unet = "unet.",
     .text = "text_encoder.",
     .dots = 1,
     .up = ".lora.up.weight",
     .down = ".lora.down.weight",
     .no_alpha = 1},
    {.what = "diffusers' linear layers",
     .unet = "unet.",
     .text = "text_encoder.",
     .dots = 1,
     .up = ".lora_linear_layer.up.weight",
     .down = ".lora_linear_layer.down.weight"},
    {.what = "attention processors",
     .unet = "unet.",
     .text = "text_encoder.",
     .dots = 1,
     .processor = 1,
     .old_text = 1,
     .up = "_lora.up.weight",
     .down = "_lora.down.weight"},
    {.what = "attention processors by themselves",
     .unet = "",
     .text = "",
     .dots = 1,
     .processor = 1,
     .old_text = 1,
     .up = "_lora.up.weight",
     .down = "_lora.down.weight"},
    {.what = "without endings",
     .unet = "unet.",
     .text = "text_encoder.",
     .dots = 1,
     .up = ".lora_B",
     .down = ".lora_A"},
};

static void replace_end(char *text, const char *from, const char *to)
{
    size_t n = strlen(text), k = strlen(from);
    if (n >= k && strcmp(text + n - k, from) == 0) strcpy(text + n - k, to);
}

/* "unet/NAME" by tests/golden/single_file_names.txt, without ".weight". */
static int single_file_name(const char *module, char out[300])
{
    static char text[1 << 18];
    char wanted[300];
    if (!text[0]) {
        FILE *f = fopen(golden_path("single_file_names.txt"), "rb");
        if (!f) return 0;
        text[fread(text, 1, sizeof text - 1, f)] = '\0';
        fclose(f);
    }
    snprintf(wanted, sizeof wanted, "unet/%s.weight\tmodel.diffusion_model.", module);
    const char *at = strstr(text, wanted);
    if (!at) return 0;
    at += strlen(wanted);
    snprintf(out, 300, "%.*s", (int)(strcspn(at, "\n") - strlen(".weight")), at);
    return 1;
}

/* The module as this naming writes it. */
static void spell(const naming *n, const char *module, int is_text, char out[400])
{
    char name[300];
    snprintf(name, sizeof name, "%s", module);
    if (!is_text && n->ldm) CHECK_MSG(single_file_name(module, name), "%s", module);
    if (n->processor || n->old_text) {
        replace_end(name, "to_out.0", "to_out");
        char *attn = is_text ? NULL : strstr(name, "attn"), rest[300];
        if (attn && n->processor) {
            snprintf(rest, sizeof rest, "%s", attn + 5);
            snprintf(attn + 5, sizeof name - (size_t)(attn + 5 - name), ".processor%s", rest);
        }
        if (is_text) {
            replace_end(name, "q_proj", "to_q"), replace_end(name, "k_proj", "to_k"),
                replace_end(name, "v_proj", "to_v");
            replace_end(name, "out_proj", "to_out");
        }
    }
    snprintf(out, 400, "%s%s", is_text ? n->text : n->unet, name + (is_text && n->bare ? strlen("text_model.") : 0));
    for (char *p = out; *p && !n->dots; p++)
        if (*p == '.') *p = '_';
}

enum { MODULES_MAX = 40 };

/* kohya.safetensors written again in this naming. */
static const char *write_named(const naming *n, int number)
{
    static float data[MODULES_MAX * 2][8192], alpha = 2;
    static char name[MODULES_MAX * 3][500];
    static int64_t dim[MODULES_MAX * 2][4];
    safetensors_source t[MODULES_MAX * 3];
    kiln_weights *kohya = weights_open(golden_path("lora/kohya.safetensors"), NULL);
    lora_names names[2];
    size_t count = 0, modules = 0;
    const kiln_weights *unet = unet_of(base_model), *text = text_of(base_clip);
    kiln_ctx *ctx = rig_ctx(); /* whose scratch memory holds the names */
    CHECK(lora_names_make(rig_host(), ctx, unet, LORA_UNET, &names[0]) == KILN_OK &&
          lora_names_make(rig_host(), ctx, text, LORA_TEXT, &names[1]) == KILN_OK);
    for (size_t i = 0; i < weights_count(kohya); i++) {
        kiln_weight_info up = {.size = sizeof up}, down = {.size = sizeof down};
        char stem[400], spelled[400], other[500];
        weights_at(kohya, i, &up);
        char *end = strstr(up.name, ".lora_up.weight");
        if (!end || !CHECK(modules < MODULES_MAX)) continue;
        snprintf(stem, sizeof stem, "%.*s", (int)(end - up.name), up.name);
        snprintf(other, sizeof other, "%s.lora_down.weight", stem);
        int is_text = strncmp(stem, "lora_te_", 8) == 0;
        const char *module = lora_names_find(&names[is_text], stem + (is_text ? 8 : 10));
        if (!CHECK_MSG(module && weights_find(kohya, other, &down) == KILN_OK, "%s", stem)) continue;
        spell(n, module, is_text, spelled);
        const kiln_weight_info *both[] = {&up, &down};
        for (int k = 0; k < 2; k++) {
            size_t at = modules * 2 + (size_t)k;
            CHECK_EQ(weights_read_f32(kohya, both[k]->name, data[at], NULL), KILN_OK);
            for (int j = 0; k == 0 && n->no_alpha && j < 8192; j++)
                data[at][j] = (float)((double)data[at][j] * 2.0 / 3.0);
            memcpy(dim[at], both[k]->dim, sizeof dim[at]);
            snprintf(name[count], sizeof name[0], "%s%s", spelled, k ? n->down : n->up);
            t[count] = (safetensors_source){
                .name = name[count], .dtype = KILN_F32, .rank = both[k]->rank, .dim = dim[at], .data = data[at]};
            count++;
        }
        if (!n->no_alpha) {
            snprintf(name[count], sizeof name[0], "%s.alpha", spelled);
            t[count] = (safetensors_source){.name = name[count], .dtype = KILN_F32, .data = &alpha};
            count++;
        }
        modules++;
    }
    CHECK_EQ(modules, 30);
    weights_unref(kohya);
    char file[40];
    snprintf(file, sizeof file, "named%d.safetensors", number);
    return put_tensors(file, t, count);
}

static void test_every_way_to_name_a_module(void)
{
    REQUIRE(open_base() && goldens());
    for (size_t i = 0; i < sizeof namings / sizeof namings[0]; i++) {
        put_on r = put_lora(write_named(&namings[i], (int)i), 0.8, 0.5, base_model, base_clip);
        if (!CHECK_MSG(r.status == KILN_OK, "%s: %s", namings[i].what, r.why)) continue;
        check_weights("kohya", "unet", unet_of(r.model), 8);
        check_weights("kohya", "text", text_of(r.clip), 6);
        check_unet(r.model, "kohya");
        check_text(r.clip, "kohya");
        put_free(&r);
    }
}

/* The names of tiny-sd1's single file, and of SD1.5's with its two layers a block. */
static void test_single_file_names(void)
{
    static const struct {
        const char *module, *ldm;
        int attends;
    } rows[] = {{"down_blocks.0.resnets.0.conv1", "input_blocks.1.0.in_layers.2", 0},
                {"down_blocks.2.downsamplers.0.conv", "input_blocks.9.0.op", 0},
                {"down_blocks.3.resnets.1.conv2", "input_blocks.11.0.out_layers.3", 0},
                {"down_blocks.1.attentions.1.proj_in", "input_blocks.5.1.proj_in", 0},
                {"up_blocks.0.upsamplers.0.conv", "output_blocks.2.1.conv", 0},
                {"up_blocks.1.upsamplers.0.conv", "output_blocks.5.2.conv", 1},
                {"up_blocks.3.attentions.2.transformer_blocks.0.attn2.to_v",
                 "output_blocks.11.1.transformer_blocks.0.attn2.to_v", 1},
                {"mid_block.resnets.1.time_emb_proj", "middle_block.2.emb_layers.1", 0},
                {"mid_block.attentions.0.proj_out", "middle_block.1.proj_out", 0},
                {"conv_norm_out", "out.0", 0},
                {"down_blocks.x.resnets.0.conv1", NULL, 0},
                {"down_blocks.0.resnets.0.conv9", NULL, 0},
                {"mid_block.resnets.2.conv1", NULL, 0},
                {"down_blocks.99.resnets.0.conv1", NULL, 0},
                {"class_embedding", NULL, 0},
                {"", NULL, 0}};
    char got[LORA_NAME_CAPACITY], want[300];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int is = lora_ldm_name(rows[i].module, 2, rows[i].attends, got);
        if (CHECK_MSG(is == (rows[i].ldm != NULL), "%s", rows[i].module) && is) CHECK_STR(got, rows[i].ldm);
    }
    REQUIRE(open_base());
    const kiln_weights *unet = unet_of(base_model);
    size_t n = 0;
    for (size_t i = 0; i < weights_count(unet); i++) {
        kiln_weight_info info = {.size = sizeof info};
        char module[300];
        weights_at(unet, i, &info);
        size_t length = strlen(info.name);
        if (strcmp(info.name + length - 7, ".weight") != 0) continue;
        snprintf(module, sizeof module, "%.*s", (int)(length - 7), info.name);
        if (!CHECK_MSG(single_file_name(module, want), "%s", module)) continue;
        int attends = strncmp(module, "up_blocks.", 10) == 0 && module[10] != '0';
        if (CHECK_MSG(lora_ldm_name(module, 1, attends, got), "%s has no name", module)) CHECK_STR(got, want);
        n++;
    }
    CHECK(n > 100);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_what_diffusers_fuses),
        CASE(test_chained_loaders_add_up),
        CASE(test_model_only_leaves_the_text_encoder),
        CASE(test_strength_0_is_the_model_as_it_was),
        CASE(test_variants_have_keys_of_their_own),
        CASE(test_base_and_two_variants_share_what_is_not_patched),
        CASE(test_every_way_to_name_a_module),
        CASE(test_single_file_names),
    };
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    close_base();
    weights_unref(goldens());
    return status;
}
