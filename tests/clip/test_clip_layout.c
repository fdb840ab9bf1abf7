/* test_clip_layout.c - which encoders a checkpoint is said to hold, whatever its names are, and what is said of one
 * that is broken. */
#include "clip_kit.h"
#include "clip_tokenizer.h"
#include "file_outline.h"
#include "text_encode.h"

static const char *in_folder(const char *name)
{
    static char path[700];
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    return path;
}

static kiln_value *encode(kiln_value *clip, const char *text)
{
    return call_node(&node_clip_text_encode, clip, &(setting){.name = "text", .text = text}, 1);
}

/* 1: both conditionings have the same bytes under the key. */
static int same(const kiln_value *a, const kiln_value *b, const char *key)
{
    kiln_tensor x = entry_tensor(a, key), y = entry_tensor(b, key);
    size_t n = sizeof(float);
    if (!x.data || !y.data || x.rank != y.rank) return 0;
    for (uint32_t i = 0; i < x.rank; i++) {
        if (x.dim[i] != y.dim[i]) return 0;
        n *= (size_t)x.dim[i];
    }
    return memcmp(x.data, y.data, n) == 0;
}

/* ---- an encoder by itself ---- */

/* text_encoder PART of a golden as a folder of its own, with the tokenizer's files if it shall have them. */
static void copy_encoder(const char *golden_model, const char *part, const char *tokenizer, const char *to)
{
    static const char *const files[] = {"vocab.json", "merges.txt", "special_tokens_map.json", "tokenizer_config.json"};
    char from[100], name[100];
    for (int i = 0; i < 2; i++) {
        const char *file = i ? "model.safetensors" : "config.json";
        snprintf(from, sizeof from, "%s/%s", part, file);
        snprintf(name, sizeof name, "%s/%s", to, file);
        copy_golden(golden_model, from, test_folder(), name);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(from, sizeof from, "%s/%s", tokenizer, files[i]);
        snprintf(name, sizeof name, "%s/%s", to, files[i]);
        copy_golden(golden_model, from, test_folder(), name);
    }
}

static void check_sole(const char *folder, const char *name, const char *architecture, int layers, int layer)
{
    kiln_value *v = open_clip_in(in_folder(folder));
    if (!v) return;
    const kiln_clip_encoder *e = kiln_clip_encoder_at(clip_of(v), 0);
    CHECK_EQ(clip_of(v)->n_encoder, 1);
    CHECK_STR(e->name, name);
    CHECK_STR(e->encoder->architecture, architecture);
    CHECK_EQ(e->encoder->layers, layers);
    CHECK_EQ(e->encoder->default_layer, layer);
    rig_host()->unref(v);
}

static void test_kinds_of_small_encoders(void)
{
    copy_encoder("tiny-sdxl-text", "text_encoder", "tokenizer", "l");
    copy_encoder("tiny-sdxl-text", "text_encoder_2", "tokenizer_2", "g");
    copy_encoder("tiny-sd2-text", "text_encoder", "tokenizer", "h");
    check_sole("l", "l", "CLIP text encoder, 16x4", 4, -1);
    check_sole("g", "g", "CLIP text encoder, 64x3", 3, -2);
    check_sole("h", "h", "CLIP text encoder, 32x4", 4, -2); /* with the layer that the file leaves out */
}

static void test_the_config_of_a_whole_clip(void)
{
    copy_encoder("tiny-sdxl-text", "text_encoder_2", "tokenizer_2", "whole");
    write_text(test_folder(), "whole/config.json",
               "{\"model_type\": \"clip\", \"text_config\": {\"hidden_act\": \"gelu\", \"num_attention_heads\": 1}}");
    check_sole("whole", "g", "CLIP text encoder, 64x3", 3, -2);
}

/* ---- open_clip's names ---- */

typedef struct {
    char header[1 << 15];
    size_t used, end;
    FILE *data;
} writer;

static void put_header(writer *w, const char *name, uint32_t rank, const int64_t *dim, size_t bytes)
{
    char dims[80] = "";
    for (uint32_t i = 0; i < rank; i++)
        snprintf(dims + strlen(dims), sizeof dims - strlen(dims), "%s%lld", i ? "," : "", (long long)dim[i]);
    w->used += (size_t)snprintf(w->header + w->used, sizeof w->header - w->used,
                                "%c\"%s\":{\"dtype\":\"F16\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                                w->end ? ',' : '{', name, dims, w->end, w->end + bytes);
    w->end += bytes;
}

static void put_tensor(writer *w, const kiln_weights *set, const char *from, const char *to)
{
    kiln_weight_info info = {.size = sizeof info};
    const void *bytes = weights_bytes(set, from, &info);
    if (!CHECK_MSG(bytes != NULL, "no %s", from)) return;
    put_header(w, to, info.rank, info.dim, info.bytes);
    fwrite(bytes, 1, info.bytes, w->data);
}

/* q, k and v, one below the other. */
static void put_fused(writer *w, const kiln_weights *set, int layer, const char *end)
{
    char name[120];
    kiln_weight_info info = {.size = sizeof info};
    snprintf(name, sizeof name, "text_model.encoder.layers.%d.self_attn.q_proj.%s", layer, end);
    REQUIRE(weights_find(set, name, &info) == KILN_OK);
    int64_t dim[2] = {3 * info.dim[0], info.rank > 1 ? info.dim[1] : 0};
    snprintf(name, sizeof name, "transformer.resblocks.%d.attn.in_proj_%s", layer, end);
    put_header(w, name, info.rank, dim, 3 * info.bytes);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "text_model.encoder.layers.%d.self_attn.%c_proj.%s", layer, "qkv"[i], end);
        fwrite(weights_bytes(set, name, &info), 1, info.bytes, w->data);
    }
}

/* [out,in] as [in,out]. */
static void put_projection(writer *w, const kiln_weights *set)
{
    kiln_weight_info info = {.size = sizeof info};
    const uint16_t *x = weights_bytes(set, "text_projection.weight", &info);
    put_header(w, "text_projection", 2, (const int64_t[]){info.dim[1], info.dim[0]}, info.bytes);
    for (int64_t i = 0; i < info.dim[1]; i++)
        for (int64_t o = 0; o < info.dim[0]; o++) fwrite(&x[o * info.dim[1] + i], sizeof *x, 1, w->data);
}

static void put_layer(writer *w, const kiln_weights *set, int layer)
{
    static const char *const pairs[][2] = {{"self_attn.out_proj", "attn.out_proj"},
                                           {"mlp.fc1", "mlp.c_fc"},
                                           {"mlp.fc2", "mlp.c_proj"},
                                           {"layer_norm1", "ln_1"},
                                           {"layer_norm2", "ln_2"}};
    char from[120], to[120];
    for (int end = 0; end < 2; end++) {
        const char *what = end ? "bias" : "weight";
        put_fused(w, set, layer, what);
        for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
            snprintf(from, sizeof from, "text_model.encoder.layers.%d.%s.%s", layer, pairs[i][0], what);
            snprintf(to, sizeof to, "transformer.resblocks.%d.%s.%s", layer, pairs[i][1], what);
            put_tensor(w, set, from, to);
        }
    }
}

/* The tiny G under open_clip's names, fused and turned. */
static void write_open_clip(const char *name, int layers)
{
    static writer w;
    kiln_weights *set = open_weights("tests/golden/tiny-sdxl-text/text_encoder_2");
    char *data = NULL;
    size_t n = 0;
    w = (writer){.data = open_memstream(&data, &n)};
    REQUIRE(set);
    put_tensor(&w, set, "text_model.embeddings.token_embedding.weight", "token_embedding.weight");
    put_tensor(&w, set, "text_model.embeddings.position_embedding.weight", "positional_embedding");
    put_tensor(&w, set, "text_model.final_layer_norm.weight", "ln_final.weight");
    put_tensor(&w, set, "text_model.final_layer_norm.bias", "ln_final.bias");
    for (int i = 0; i < layers; i++) put_layer(&w, set, i);
    put_projection(&w, set);
    fclose(w.data);
    weights_unref(set);
    FILE *f = file_to_write(test_folder(), name);
    uint64_t length = w.used + 1;
    fwrite(&length, sizeof length, 1, f), fwrite(w.header, 1, w.used, f), fputc('}', f), fwrite(data, 1, n, f);
    fclose(f);
    free(data);
}

static void test_open_clips_names_give_the_same_bytes(void)
{
    static const char *const prompts[] = {"a cat", "a (cute:1.4) cat, (blurry:-0.5) background", ""};
    copy_encoder("tiny-sdxl-text", "text_encoder_2", "tokenizer_2", "theirs");
    copy_encoder("tiny-sdxl-text", "text_encoder_2", "tokenizer_2", "ours");
    remove(in_folder("theirs/config.json"));
    write_open_clip("theirs/model.safetensors", 3);
    check_sole("theirs", "g", "CLIP text encoder, 64x3", 3, -2);
    kiln_value *theirs = open_clip_in(in_folder("theirs")), *ours = open_clip_in(in_folder("ours"));
    REQUIRE(theirs && ours);
    for (size_t i = 0; i < 3; i++) {
        kiln_value *a = encode(theirs, prompts[i]), *b = encode(ours, prompts[i]);
        CHECK(a && b && same(a, b, "tokens") && same(a, b, "pooled"));
        rig_host()->unref(a), rig_host()->unref(b);
    }
    rig_host()->unref(theirs), rig_host()->unref(ours);
}

/* ---- broken ones ---- */

static void refused(const char *checkpoint, outline_edit edit, const char *wanted)
{
    outline o;
    kiln_value *v = clip_in(write_outline(checkpoint, &edit, &o));
    CHECK_MSG(v == NULL && strstr(rig_message(), wanted), "%s without %s, %s [%s]: %s", checkpoint,
              edit.without ? edit.without : "nothing", edit.name ? edit.name : "", edit.dims ? edit.dims : "",
              v ? "it was opened" : rig_message());
    rig_host()->unref(v);
}

static void test_broken_files_are_refused_with_a_sentence(void)
{
    refused("sdxl", (outline_edit){.without = "conditioner.embedders.1."},
            "CLIP L (conditioner.embedders.0.transformer.*) alone, OpenCLIP bigG (conditioner.embedders.1.model.*) is "
            "missing");
    refused("sdxl", (outline_edit){.without = "conditioner.embedders.0."}, "has OpenCLIP bigG");
    refused("refiner", (outline_edit){.without = "conditioner.embedders.0.model.text_projection"},
            "there is no 'conditioner.embedders.0.model.text_projection'");
    refused("refiner", (outline_edit){.name = "conditioner.embedders.0.model.text_projection", .dims = "1024x1280"},
            "text_projection' leads from 1024 numbers, and the text encoder is 1280 wide");
    refused("refiner",
            (outline_edit){.name = "conditioner.embedders.0.model.transformer.resblocks.{32}.attn.in_proj_weight",
                           .dims = "3000x1280"},
            "attn.in_proj_weight' has 3000 rows; q, k and v of a text encoder of width 1280 have 3840");
    refused("sdxl", (outline_edit){.name = "conditioner.embedders.1.model.token_embedding.weight", .dims = "1000x1280"},
            "there is no tokenizer beside the text encoder, and CLIP's own has ids up to 49407, its table 1000 rows");
    refused("sd2", (outline_edit){.name = "cond_stage_model.model.positional_embedding", .dims = "78848"},
            "no two-dimensional tensor 'text_model.embeddings.position_embedding.weight'");
}

static void test_broken_folders_are_refused_with_a_sentence(void)
{
    static const char *const parts[] = {"text_encoder/config.json", "text_encoder/model.safetensors",
                                        "tokenizer/vocab.json", "tokenizer/merges.txt"};
    for (size_t i = 0; i < 4; i++) {
        char to[80];
        snprintf(to, sizeof to, "half/%s", parts[i]);
        copy_golden("tiny-sdxl-text", parts[i], test_folder(), to);
    }
    copy_golden("tiny-sdxl-text", "model_index.json", test_folder(), "half/model_index.json");
    CHECK(clip_in(in_folder("half")) == NULL);
    CHECK_MSG(
        strstr(rig_message(), "names text_encoder_2 (CLIPTextModelWithProjection), and the folder has no tensors"),
        "%s", rig_message());

    write_text(test_folder(), "half/model_index.json",
               "{\"text_encoder\": [\"transformers\", \"CLIPTextModel\"], \"text_encoder_2\": [\"transformers\", "
               "\"T5EncoderModel\"]}");
    CHECK(clip_in(in_folder("half")) == NULL);
    CHECK_MSG(strstr(rig_message(), "names text_encoder_2, a T5EncoderModel; of text encoders kiln reads CLIP L"), "%s",
              rig_message());

    copy_encoder("tiny-sdxl-text", "text_encoder_2", "tokenizer_2", "pad");
    write_text(test_folder(), "pad/special_tokens_map.json", "{\"pad_token\": \"<nothing>\"}");
    CHECK(clip_in(in_folder("pad")) == NULL);
    CHECK_MSG(strstr(rig_message(), "special_tokens_map.json: pad_token is '<nothing>'"), "%s", rig_message());

    copy_encoder("tiny-sdxl-text", "text_encoder_2", "tokenizer_2", "other");
    copy_golden("tiny-sd1", "tokenizer/vocab.json", test_folder(), "other/vocab.json");
    copy_golden("tiny-sd1", "tokenizer/merges.txt", test_folder(), "other/merges.txt");
    CHECK(clip_in(in_folder("other")) == NULL);
    CHECK_MSG(strstr(rig_message(), "the tokenizer has ids up to 713, the text encoder's table 554 rows"), "%s",
              rig_message());

    copy_encoder("tiny-sdxl-text", "text_encoder_2", "tokenizer_2", "act");
    write_text(test_folder(), "act/config.json", "{\"hidden_act\": \"relu\", \"num_attention_heads\": 1}");
    CHECK(clip_in(in_folder("act")) == NULL);
    CHECK_MSG(strstr(rig_message(), "'hidden_act' is 'relu'"), "%s", rig_message());
}

/* A layer of another width than the rest: the tensor is named when the network is recorded. */
static void test_a_layer_of_another_width(void)
{
    outline o;
    kiln_value *v = clip_in(write_outline(
        "refiner",
        &(outline_edit){.name = "conditioner.embedders.0.model.transformer.resblocks.{32}.ln_1.weight", .dims = "1024"},
        &o));
    REQUIRE(v);
    const kiln_clip_encoder *e = kiln_clip_encoder_at(clip_of(v), 0);
    const char *message = "";
    piece c = piece_new(KILN_F32);
    kiln_text_inputs in = {.size = sizeof in, .layer = -2};
    kiln_text_features out = {.size = sizeof out};
    in.ids = c.ops->input(c.p, "ids", KILN_I32, 2, KILN_DIMS(1, 77));
    in.end = c.ops->input(c.p, "end", KILN_I32, 1, KILN_DIMS(1));
    e->encoder->record(e->encoder, c.ops, c.p, e->weights, &in, &out);
    CHECK(c.ops->error(c.p, &message) != KILN_OK);
    CHECK_MSG(strstr(message, "layer_norm1.weight' is [1024], this model wants [1280]"), "%s", message);
    c.ops->program_free(c.p);
    rig_host()->unref(v);
}

int main(int argc, char **argv)
{
    char data[600];
    if (!tokenizers()) return 1;
    snprintf(data, sizeof data, "%s/plugins/clip/data", test_root());
    clip_tokenizer_data(data);
    static const test_case cases[] = {CASE(test_kinds_of_small_encoders),
                                      CASE(test_the_config_of_a_whole_clip),
                                      CASE(test_open_clips_names_give_the_same_bytes),
                                      CASE(test_broken_files_are_refused_with_a_sentence),
                                      CASE(test_broken_folders_are_refused_with_a_sentence),
                                      CASE(test_a_layer_of_another_width)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
