/* test_clip_vision.c - CLIP's vision encoders against transformers (clip_vision.safetensors), under transformers' names
 * and OpenCLIP's; the tensors of the released sizes; and what is said of others.
 *
 * Tolerance: torch's own f32 run is up to 5e-7 off its f64 one (noise_f32 of the golden); 1e-5 is what is aimed at.
 */
#include "clip_preprocess.h"
#include "clip_vision_family.h"
#include "vision_kit.h"

#define BLOCK 1e-5

static const struct {
    const char *kind, *architecture;
} kinds[] = {{"quick", "CLIP vision, 3 layers of 32"},
             {"gelu", "CLIP vision, 2 layers of 48"},
             {"bare", "CLIP vision, 1 layers of 32"},
             {"wide", "CLIP vision, 2 layers of 64"},
             {"llava", "CLIP vision, 2 layers of 32"}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static kiln_weights *goldens(void)
{
    static kiln_weights *g;
    if (!g) g = open_weights("tests/golden/clip_vision.safetensors");
    return g;
}

/* ---- one evaluation ---- */

typedef struct {
    const char *wanted;
    kiln_t found;
    size_t n;
} result;

static void note_result(const kiln_outputs *out, const char *name, kiln_t t)
{
    result *r = out->self;
    r->n++;
    if (strcmp(name, r->wanted) == 0) r->found = t;
}

static void check_features(const char *kind, const kiln_net *net, const char *features)
{
    piece c = piece_new(KILN_F32);
    result r = {.wanted = features};
    const kiln_outputs out = {.size = sizeof out, .self = &r, .add = note_result};
    kiln_named_tensor in = {
        .size = sizeof in, .name = "pixels", .tensor = piece_input(&c, golden(goldens(), "%s.pixels", kind), KILN_F32)};
    net->network->record(net->network, c.ops, c.p, net->weights, &in, 1, &out);
    CHECK_EQ(r.n, strcmp(kind, "llava") == 0 ? 4 : 3);
    piece_check(&c, r.found, golden(goldens(), "%s.%s", kind, features), BLOCK, features);
}

static void check_encoder(size_t kind, kiln_weights *set)
{
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    REQUIRE(set);
    CHECK_EQ(clip_vision_family.detect(w, set), 90);
    kiln_value *v = clip_vision_family.open(rig_host(), rig_ctx(), set);
    if (CHECK_MSG(v != NULL, "%s: %s", kinds[kind].kind, rig_message())) {
        const kiln_net *net = net_of(v, "CLIP_VISION");
        CHECK_STR(net->network->architecture, kinds[kind].architecture);
        check_features(kinds[kind].kind, net, "last_hidden_state");
        check_features(kinds[kind].kind, net, "penultimate_hidden_states");
        check_features(kinds[kind].kind, net, "image_embeds");
        if (strcmp(kinds[kind].kind, "llava") == 0) check_features(kinds[kind].kind, net, "mm_projected");
        CHECK_EQ(weights_unused(net->weights, NULL, NULL), 0);
    }
    rig_host()->unref(v);
    weights_unref(set);
}

static const char *config_of(const char *kind)
{
    char path[200];
    snprintf(path, sizeof path, "tests/golden/clip_vision/%s/config.json", kind);
    return text_of(path);
}

static void test_every_kind_equals_transformers(void)
{
    for (size_t i = 0; i < KINDS; i++)
        check_encoder(
            i, open_folder(tensors_of("clip_vision", kinds[i].kind), kinds[i].kind, config_of(kinds[i].kind), NULL));
}

/* Without a config.json the numbers that no shape shows come from the metadata; eps is that of all released ones. */
static void test_a_single_file_says_it_in_its_metadata(void)
{
    check_encoder(0, open_single(tensors_of("clip_vision", "quick"), "quick",
                                 "\"__metadata__\":{\"num_attention_heads\":\"4\"}"));
    check_encoder(2, open_single(tensors_of("clip_vision", "bare"), "bare",
                                 "\"__metadata__\":{\"num_attention_heads\":\"2\",\"hidden_act\":\"gelu\"}"));
}

static void test_a_whole_clip_is_read_for_its_half(void)
{
    char config[3000];
    formula_file *f = tensors_of("clip_vision", "quick");
    formula_add(f, "text_model.embeddings.token_embedding.weight 10 4");
    formula_add(f, "text_projection.weight 4 4");
    snprintf(config, sizeof config, "{\"model_type\":\"clip\",\"projection_dim\":20,\"vision_config\":%s}",
             config_of("quick"));
    check_encoder(0, open_folder(f, "whole", config, NULL));
}

/* ---- OpenCLIP's names ---- */

/* OpenCLIP's file has q, k and v in one, and the projection transposed: written with numbers of transformers' tensors.
 */
static void write_open_clip(const formula_file *f, const char *prefix, kiln_weights **out)
{
    static const char *const plain[][2] = {
        {"vision_model.embeddings.class_embedding", "class_embedding"},
        {"vision_model.embeddings.patch_embedding.weight", "conv1.weight"},
        {"vision_model.embeddings.position_embedding.weight", "positional_embedding"},
        {"vision_model.pre_layrnorm.", "ln_pre."},
        {"vision_model.post_layernorm.", "ln_post."},
        {"visual_projection.weight", "proj"},
    };
    static const char *const layer[][2] = {{"layer_norm1", "ln_1"},
                                           {"layer_norm2", "ln_2"},
                                           {"mlp.fc1", "mlp.c_fc"},
                                           {"mlp.fc2", "mlp.c_proj"},
                                           {"self_attn.out_proj", "attn.out_proj"},
                                           {"self_attn.q_proj", NULL}};
    char path[400], *header = NULL;
    size_t n_header = 0, at = 0;
    FILE *json = open_memstream(&header, &n_header), *data = tmpfile();
    error e = {0};
    fputc('{', json);
    for (size_t k = 0; k < f->n; k++) {
        const formula_tensor *t = &f->tensor[k];
        char name[200] = "", part[60], what[20], other[200];
        unsigned number = 0;
        for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
            if (strncmp(t->name, plain[i][0], strlen(plain[i][0])) == 0)
                snprintf(name, sizeof name, "%s%s%s", prefix, plain[i][1], t->name + strlen(plain[i][0]));
        int in_layer = sscanf(t->name, "vision_model.encoder.layers.%u.%59s", &number, part) == 2;
        char *dot = in_layer ? strrchr(part, '.') : NULL;
        if (dot) snprintf(what, sizeof what, "%s", dot + 1), *dot = 0;
        int fused = 0;
        for (size_t i = 0; dot && i < sizeof layer / sizeof layer[0]; i++) {
            if (strcmp(part, layer[i][0]) != 0) continue;
            fused = !layer[i][1];
            if (fused)
                snprintf(name, sizeof name, "%stransformer.resblocks.%u.attn.in_proj_%s", prefix, number, what);
            else
                snprintf(name, sizeof name, "%stransformer.resblocks.%u.%s.%s", prefix, number, layer[i][1], what);
        }
        if (!*name) continue; /* k and v go with q */
        int transposed = strcmp(t->name, "visual_projection.weight") == 0;
        size_t begin = at, parts = fused ? 3 : 1;
        for (size_t q = 0; q < parts; q++) {
            formula_tensor one = *t;
            if (fused) {
                snprintf(other, sizeof other, "vision_model.encoder.layers.%u.self_attn.%c_proj.%s", number, "qkv"[q],
                         what);
                memcpy(one.seed, other, sizeof one.seed);
            }
            uint64_t seed = formula_seed(f->of, one.seed), n = formula_count(&one);
            for (uint64_t i = 0; i < n; i++) {
                uint64_t rows = (uint64_t)one.dim[0], from = transposed ? i % rows * (n / rows) + i / rows : i;
                float x = formula_number(&one, seed, from);
                fwrite(&x, sizeof x, 1, data);
                at += sizeof x;
            }
        }
        fprintf(json, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[", k ? "," : "", name);
        for (int i = 0; i < t->rank; i++) {
            int64_t d = transposed ? t->dim[1 - i] : t->dim[i];
            fprintf(json, "%s%lld", i ? "," : "", (long long)(i == 0 && fused ? 3 * d : d));
        }
        fprintf(json, "],\"data_offsets\":[%zu,%zu]}", begin, at);
    }
    fprintf(json, ",\"__metadata__\":{\"num_attention_heads\":\"1\"}}");
    fclose(json);
    snprintf(path, sizeof path, "%s/open_clip.safetensors", test_folder());
    FILE *file = fopen(path, "wb");
    uint64_t length = n_header;
    fwrite(&length, sizeof length, 1, file);
    fwrite(header, 1, n_header, file);
    rewind(data);
    for (int byte; (byte = getc(data)) != EOF;) putc(byte, file);
    fclose(file), fclose(data), free(header);
    *out = weights_open(path, &e);
    CHECK_MSG(*out != NULL, "%s", e.message);
}

/* As inside a checkpoint, which does not say the activation: quick. Nor does one say the heads, where the width is a
 * released one's; this is narrower. */
static void test_open_clips_names(void)
{
    static const char *const prefix[] = {"visual.", "embedder.model.visual.",
                                         "conditioner.embedders.0.open_clip.model.visual.",
                                         "cond_stage_model.model.visual."};
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    for (size_t i = 0; i < sizeof prefix / sizeof prefix[0]; i++) {
        kiln_weights *set = NULL;
        formula_file *f = tensors_of("clip_vision", "wide");
        write_open_clip(f, prefix[i], &set);
        REQUIRE(set);
        CHECK_EQ(clip_vision_family.detect(w, set), 90);
        kiln_value *v = clip_vision_family.open(rig_host(), rig_ctx(), set);
        if (CHECK_MSG(v != NULL, "%s", rig_message())) {
            const kiln_net *net = net_of(v, "CLIP_VISION");
            check_features("wide", net, "last_hidden_state");
            check_features("wide", net, "image_embeds");
            CHECK_EQ(weights_unused(net->weights, NULL, NULL), 0);
        }
        rig_host()->unref(v);
        weights_unref(set);
    }
}

/* ---- the released sizes ---- */

static formula_file *released(const char *size)
{
    static formula_file f;
    char path[600], line[300], which[20], tensor[250], full[300];
    f.n = 0, f.of = NULL;
    snprintf(path, sizeof path, "%s/tests/golden/clip_vision_names.txt", test_root());
    FILE *in = fopen(path, "r");
    if (!CHECK(in != NULL)) return &f;
    while (fgets(line, sizeof line, in)) {
        if (line[0] == '#' || sscanf(line, "%19s %249[^\n]", which, tensor) != 2 || strcmp(which, size) != 0) continue;
        char *open = strchr(tensor, '{');
        int n = open ? atoi(open + 1) : 1;
        for (int i = 0; i < n; i++) {
            if (open) snprintf(full, sizeof full, "%.*s%d%s", (int)(open - tensor), tensor, i, strchr(open, '}') + 1);
            CHECK(formula_add(&f, open ? full : tensor));
        }
    }
    fclose(in);
    return &f;
}

static void drop_result(const kiln_outputs *out, const char *name, kiln_t t) { (void)out, (void)name, (void)t; }

/* All tensors are asked for in these shapes; heads and activation are in no shape, and so are in the family's name. */
static void test_every_tensor_of_the_released_sizes(void)
{
    static const struct {
        const char *size, *architecture, *family;
        size_t tensors;
    } rows[] = {{"L", "CLIP vision L/14", "clip-vision/24.16.224.14.4.1e-05.1.0", 392},
                {"H", "CLIP vision H/14", "clip-vision/32.16.224.14.2.1e-05.1.0", 520},
                {"bigG", "CLIP vision bigG/14", "clip-vision/48.16.224.14.2.1e-05.1.0", 776}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const formula_file *f = released(rows[i].size);
        CHECK_EQ(f->n, rows[i].tensors);
        kiln_weights *set = open_single(f, rows[i].size, NULL);
        kiln_value *v = set ? clip_vision_family.open(rig_host(), rig_ctx(), set) : NULL;
        if (CHECK_MSG(v != NULL, "%s: %s", rows[i].size, rig_message())) {
            const kiln_net *net = net_of(v, "CLIP_VISION");
            const char *message = "";
            piece c = piece_new(KILN_F32);
            const kiln_outputs out = {.size = sizeof out, .add = drop_result};
            kiln_named_tensor in = {.size = sizeof in, .name = "pixels"};
            in.tensor = c.ops->input(c.p, "pixels", KILN_F32, 4, KILN_DIMS(1, 224, 224, 3));
            net->network->record(net->network, c.ops, c.p, net->weights, &in, 1, &out);
            CHECK_MSG(c.ops->error(c.p, &message) == KILN_OK, "%s: %s", rows[i].size, message);
            c.ops->program_free(c.p);
            CHECK_STR(net->network->architecture, rows[i].architecture);
            CHECK_STR(net->network->family, rows[i].family);
            CHECK_EQ(weights_unused(net->weights, NULL, NULL), 0);
        }
        rig_host()->unref(v);
        weights_unref(set);
    }
}

/* ---- preprocessing ---- */

static void check_prepared(const char *picture, int crop, int channels)
{
    kiln_call call = {.size = sizeof call, .host = rig_host(), .ctx = rig_ctx()};
    clip_preprocessing how = {24, {0.48145466, 0.4578275, 0.40821073}, {0.26862954, 0.26130258, 0.27577711}, crop};
    array from = golden(goldens(), "picture.%s", picture);
    array wanted = golden(goldens(), "prepared.%s.%s", picture, crop ? "center" : "none");
    REQUIRE(from.data && wanted.data);
    size_t pixels = from.n / 3;
    float *given = malloc(pixels * (size_t)channels * sizeof *given), *out = malloc(wanted.n * sizeof *out);
    for (size_t i = 0; i < pixels * (size_t)channels; i++)
        given[i] = i % (size_t)channels < 3 ? from.data[i / (size_t)channels * 3 + i % (size_t)channels] : 0.5f;
    CHECK_EQ(clip_preprocess(&call, &how, &(clip_picture){given, from.dim[0], from.dim[1], channels}, out), KILN_OK);
    for (size_t i = 0; i < wanted.n; i++)
        if (!CHECK_MSG(fabsf(out[i] - wanted.data[i]) < 1e-5f, "%s: number %zu is %g, wanted %g", picture, i,
                       (double)out[i], (double)wanted.data[i]))
            break;
    free(given), free(out), free(from.data), free(wanted.data);
}

static void test_pictures_are_prepared_as_comfyui_does(void)
{
    static const char *const picture[] = {"tall", "wide", "narrow", "square"};
    for (size_t i = 0; i < sizeof picture / sizeof picture[0]; i++)
        for (int crop = 0; crop < 2; crop++) {
            check_prepared(picture[i], crop, 3);
            check_prepared(picture[i], crop, 4); /* what is transparent is looked at as if it were not */
        }
}

/* ---- others ---- */

static void refuses(kiln_weights *set, const char *what, const char *wanted)
{
    kiln_value *v = set ? clip_vision_family.open(rig_host(), rig_ctx(), set) : NULL;
    CHECK_MSG(!v && strstr(rig_message(), wanted), "%s: '%s'", what, rig_message());
    rig_host()->unref(v);
    weights_unref(set);
}

static void test_other_encoders_are_refused(void)
{
    static const struct {
        const char *tensor, *wanted;
    } rows[] = {{"vision_model.embeddings.patch_embedding.bias 8", "it is SigLIP's"},
                {"embeddings.cls_token 1 1 8", "it is DINO's"},
                {"visual.trunk.pos_embed 1 5 8", "a network of timm's"}};
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        static formula_file f;
        f.n = 0, f.of = NULL;
        formula_add(&f, rows[i].tensor);
        kiln_weights *set = open_single(&f, "other", NULL);
        CHECK_EQ(clip_vision_family.detect(w, set), 1);
        refuses(set, rows[i].tensor, rows[i].wanted);
    }
}

static void test_shapes_of_no_encoder_are_refused(void)
{
    static const struct {
        const char *name, *line, *wanted;
    } rows[] = {
        {"vision_model.embeddings.patch_embedding.weight", "vision_model.embeddings.patch_embedding.weight 32 1 4 4",
         "it looks at 1 colours; 3 are supported"},
        {"vision_model.embeddings.position_embedding.weight", "vision_model.embeddings.position_embedding.weight 38 32",
         "38 positions are not those of a class token and a square of patches"},
        {"vision_model.encoder.layers.0.mlp.fc1.weight", "nothing 1", "its first MLP is missing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        formula_file *f = tensors_of("clip_vision", "quick");
        for (size_t k = 0; k < f->n; k++)
            if (strcmp(f->tensor[k].name, rows[i].name) == 0) f->tensor[k] = f->tensor[--f->n];
        formula_add(f, rows[i].line);
        refuses(open_single(f, "odd", NULL), rows[i].line, rows[i].wanted);
    }
    refuses(open_single(tensors_of("clip_vision", "bare"), "headless", NULL), "no heads",
            "0 heads do not divide a width of 32; write \"num_attention_heads\" into");
    refuses(open_single(tensors_of("clip_vision", "bare"), "act",
                        "\"__metadata__\":{\"num_attention_heads\":\"2\",\"hidden_act\":\"relu\"}"),
            "relu", "hidden_act 'relu'");
}

static void test_a_configuration_of_another_encoder_is_refused(void)
{
    static const struct {
        const char *from, *to, *wanted;
    } rows[] = {
        {"\"hidden_size\": 32", "\"hidden_size\": 64", "'hidden_size' says 64, and the weights have 32"},
        {"\"num_hidden_layers\": 3", "\"num_hidden_layers\": 2", "'num_hidden_layers' says 2, and"},
        {"\"image_size\": 24", "\"image_size\": 32", "'image_size' says 32, and the weights have positions for 24"},
        {"\"patch_size\": 4", "\"patch_size\": 8", "'patch_size' says 8, and the weights have 4"},
        {"\"hidden_act\": \"quick_gelu\"", "\"hidden_act\": \"silu\"", "'hidden_act' is 'silu'"},
        {"\"num_attention_heads\": 4", "\"num_attention_heads\": 5", "5 heads do not divide a width of 32"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char config[3000];
        const char *whole = config_of("quick"), *at = strstr(whole, rows[i].from);
        REQUIRE(at);
        snprintf(config, sizeof config, "%.*s%s%s", (int)(at - whole), whole, rows[i].to, at + strlen(rows[i].from));
        refuses(open_folder(tensors_of("clip_vision", "quick"), "quick", config, NULL), rows[i].to, rows[i].wanted);
    }
}

static void test_the_processor_says_mean_and_deviation(void)
{
    const kiln_value_api *values = rig_host()->ability(KILN_VALUE_ABILITY);
    kiln_weights *set = open_folder(tensors_of("clip_vision", "quick"), "colours", config_of("quick"),
                                    "{\"image_mean\":[0.5,0.25,0],\"image_std\":[1,0.5,0.25],\"resample\":3}");
    kiln_value *v = clip_vision_family.open(rig_host(), rig_ctx(), set);
    if (CHECK_MSG(v != NULL, "%s", rig_message())) {
        const kiln_value *facts = net_of(v, "CLIP_VISION")->network->facts;
        double mean = 0, std = 0;
        values->get_float(values->list_at(values->map_get(facts, "mean"), 1), &mean);
        values->get_float(values->list_at(values->map_get(facts, "std"), 2), &std);
        CHECK(mean == 0.25 && std == 0.25);
    }
    rig_host()->unref(v);
    weights_unref(set);
    refuses(open_folder(tensors_of("clip_vision", "quick"), "colours", config_of("quick"), "{\"image_std\":[1,0,1]}"),
            "a deviation of 0", "'image_std' must be three numbers");
    refuses(open_folder(tensors_of("clip_vision", "quick"), "colours", config_of("quick"), "{\"resample\":2}"),
            "bilinear", "'resample' is 2; only 3 is supported");
}

/* Names cut out and shapes changed: there is a value or a message, and nothing else. */
static void test_damaged_files_are_refused_or_opened(void)
{
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    uint64_t z = 20261122;
    for (int round = 0; round < 300; round++) {
        formula_file *f = tensors_of("clip_vision", kinds[round % KINDS].kind);
        damage(f, 1 + round % 7, &z);
        kiln_weights *set = open_single(f, "damaged", "\"__metadata__\":{\"num_attention_heads\":\"2\"}");
        if (!set || !clip_vision_family.detect(w, set)) {
            weights_unref(set);
            continue;
        }
        kiln_value *v = clip_vision_family.open(rig_host(), rig_ctx(), set);
        CHECK(v || *rig_message());
        rig_host()->unref(v);
        weights_unref(set);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_every_kind_equals_transformers),
                                      CASE(test_a_single_file_says_it_in_its_metadata),
                                      CASE(test_a_whole_clip_is_read_for_its_half),
                                      CASE(test_open_clips_names),
                                      CASE(test_every_tensor_of_the_released_sizes),
                                      CASE(test_pictures_are_prepared_as_comfyui_does),
                                      CASE(test_other_encoders_are_refused),
                                      CASE(test_shapes_of_no_encoder_are_refused),
                                      CASE(test_a_configuration_of_another_encoder_is_refused),
                                      CASE(test_the_processor_says_mean_and_deviation),
                                      CASE(test_damaged_files_are_refused_or_opened)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
