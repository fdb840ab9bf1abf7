/* test_gemma_files.c - one model in many files: transformers' folder, whole and in shards; GGUF in f32, bf16 and by
 * blocks; names that older files have. What is wrong with a file is said.
 *
 * Tolerances: the same numbers in another file 1e-5, as in test_gemma_network.c. Stored by blocks: against a file of
 * the f32 that the blocks stand for 1e-5 too, since products are made with those.
 */
#include "text_kit.h"
#include "tiny_files.h"
#include "tokenizer_kit.h"

#include "text_loader.h"

#include <jansson.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CANVAS = 16, WORDS = 512 };
#define CLOSE 1e-5

static const char *path_of(const char *name)
{
    static char path[2][600];
    static int turn;
    char *p = path[turn ^= 1];
    snprintf(p, sizeof path[0], "%s/%s", test_folder(), name);
    return p;
}

static kiln_call call(void) { return (kiln_call){.size = sizeof(kiln_call), .host = rig_host(), .ctx = rig_ctx()}; }

/* NULL: refused. The caller unrefs. */
static kiln_value *load(const char *path)
{
    kiln_value *v = NULL;
    kiln_call c = call();
    tiny_host();
    kiln_status status = text_load(&c, path, &v);
    CHECK((status == KILN_OK) == (v != NULL));
    return v;
}

/* The first logits behind the prompt of 21 tokens. */
static void logits_of(const kiln_value *v, float got[CANVAS * WORDS])
{
    const kiln_value_api *values = rig_host()->ability(KILN_VALUE_ABILITY);
    const text_diffusion_model *m = values->object(v, "TEXT_DIFFUSION");
    int64_t n, c;
    int32_t *prompt = ids_of(&n, "prompt.21", 0), *canvas = ids_of(&c, "canvases", 0);
    kiln_states *s = td_ops->states_new(rig_ctx(), "test");
    pass job = {.m = m, .precision = KILN_F32, .t = n, .capacity = 96, .longest = 64, .ids = prompt};
    CHECK_EQ(pass_run(&job, s), KILN_OK);
    job = (pass){.m = m,
                 .is_canvas = 1,
                 .precision = KILN_F32,
                 .t = c,
                 .capacity = 96,
                 .longest = 64,
                 .ids = canvas,
                 .offset = 21,
                 .look = "logits",
                 .out = got,
                 .out_dtype = KILN_F32,
                 .out_rank = 3,
                 .out_dim = KILN_DIMS(1, CANVAS, WORDS)};
    CHECK_EQ(pass_run(&job, s), KILN_OK);
    td_ops->states_free(s);
    free(prompt), free(canvas);
}

static void check_file(const char *path, const char *what)
{
    static float got[CANVAS * WORDS];
    array wanted = golden(tiny_goldens(), "logits.21");
    kiln_value *v = load(path);
    if (CHECK_MSG(v != NULL, "%s: %s", what, rig_message())) {
        logits_of(v, got);
        check_array(got, wanted.data, wanted.n, CLOSE, what, __FILE__, __LINE__);
    }
    rig_host()->unref(v);
    free(wanted.data);
}

static int copy_file(const char *name, const char *folder)
{
    char command[1500];
    snprintf(command, sizeof command, "cp '%s/tests/text_diffusion/dg-tiny/%s' '%s/'", test_root(), name, folder);
    return CHECK(system(command) == 0);
}

static void test_folder_of_transformers(void)
{
    char path[600];
    snprintf(path, sizeof path, "%s/tests/text_diffusion/dg-tiny", test_root());
    check_file(path, "folder");
}

static void test_shards(void)
{
    const char *folder = path_of("shards");
    REQUIRE(mkdir(folder, 0700) == 0 && tiny_write_shards(folder));
    REQUIRE(copy_file("config.json", folder) && copy_file("tokenizer.json", folder));
    check_file(folder, "shards"); /* and without a generation_config.json */
}

static void test_gguf(void)
{
    static tiny_file f;
    REQUIRE(tiny_load(&f));
    for (int bf16 = 0; bf16 < 2; bf16++) {
        const char *path = path_of(bf16 ? "bf16.gguf" : "f32.gguf");
        const tiny_changes c = {.bf16 = bf16};
        if (tiny_write(&f, &c, path)) check_file(path, bf16 ? "bf16" : "f32");
    }
    tiny_free(&f);
}

/* By the first of several; and by the folder that has nothing but a file. */
static void test_gguf_in_parts_and_in_a_folder(void)
{
    static tiny_file f;
    char path[700];
    const char *folder = path_of("parts"), *alone = path_of("alone");
    const tiny_changes none = {0};
    REQUIRE(tiny_load(&f) && mkdir(folder, 0700) == 0 && mkdir(alone, 0700) == 0);
    for (int part = 2; part > 0; part--) {
        const tiny_changes c = {.part = part};
        snprintf(path, sizeof path, "%s/tiny-0000%d-of-00002.gguf", folder, part);
        REQUIRE(tiny_write(&f, &c, path));
    }
    check_file(path, "parts");
    snprintf(path, sizeof path, "%s/tiny.gguf", alone);
    if (tiny_write(&f, &none, path)) check_file(alone, "folder of one file");
    tiny_free(&f);
}

/* ---- by blocks ---- */

static int quantise(const char *from, const char *to, const char *options)
{
    char command[2000];
    snprintf(command, sizeof command, "'%s/kiln' quantize '%s/%s' '%s/%s' %s >/dev/null", test_build(), test_folder(),
             from, test_folder(), to, options);
    return CHECK_MSG(system(command) == 0, "%s", command);
}

static uint32_t dtype_of(const kiln_weights *set, const char *name)
{
    kiln_weight_info info = {.size = sizeof info};
    return weights_find(set, name, &info) == KILN_OK ? info.dtype : 0;
}

/* quantised.gguf against a file of its numbers; of what type its matrices are, and what stands where rows are short */
static void check_quantised(const char *what, uint32_t matrices, uint32_t down)
{
    static float got[CANVAS * WORDS], wanted[CANVAS * WORDS];
    static tiny_file f;
    error e = {0};
    const tiny_changes none = {0};
    kiln_weights *set = weights_open(path_of("quantised.gguf"), &e);
    REQUIRE(set && tiny_load_set(&f, set));
    CHECK_EQ(dtype_of(set, "token_embd.weight"), matrices);
    CHECK_EQ(dtype_of(set, "blk.0.ffn_gate_up_exps.weight"), matrices);
    CHECK_EQ(dtype_of(set, "blk.1.ffn_down_exps.weight"), down);
    CHECK_EQ(dtype_of(set, "blk.1.ffn_gate_inp.weight"), KILN_F32);
    weights_unref(set);
    REQUIRE(tiny_write(&f, &none, path_of("numbers.gguf")));
    kiln_value *a = load(path_of("quantised.gguf")), *b = load(path_of("numbers.gguf"));
    if (CHECK_MSG(a && b, "%s: %s", what, rig_message())) {
        logits_of(a, got), logits_of(b, wanted);
        check_array(got, wanted, COUNT(got), CLOSE, what, __FILE__, __LINE__);
    }
    rig_host()->unref(a), rig_host()->unref(b);
    tiny_free(&f);
    unlink(path_of("quantised.gguf"));
}

static void test_by_blocks(void)
{
    static tiny_file f;
    const tiny_changes none = {0};
    REQUIRE(tiny_load(&f) && tiny_write(&f, &none, path_of("whole.gguf")));
    REQUIRE(quantise("whole.gguf", "quantised.gguf", "--type q8_0 --keep '*gate_inp*'"));
    check_quantised("q8_0", KILN_Q8_0, KILN_Q8_0);
    /* as Q4_K_M is mixed: rows of 32 and 64 in Q5_0 */
    REQUIRE(quantise("whole.gguf", "half.gguf", "--type q5_0 -k '*attn*' -k '*gate*' -k '*_up*' -k '*embd*'") &&
            quantise("half.gguf", "quantised.gguf", "--type q4_k -k '*gate_inp*' -k '*_down*'"));
    check_quantised("q4_k and q5_0", KILN_Q4_K, KILN_Q5_0);
    tiny_free(&f);
}

/* ---- what older files have ---- */

static void split_experts(tiny_file *f)
{
    for (int layer = 0; layer < 4; layer++) {
        char name[80];
        snprintf(name, sizeof name, "blk.%d.ffn_gate_up_exps.weight", layer);
        tiny_tensor *both = tiny_find(f, name), *up = &f->tensor[f->n++];
        const size_t e = 6, half = 32 * 256;
        *up = *both;
        up->dim[1] = both->dim[1] = 32;
        up->data = malloc(e * half * sizeof(float));
        float *gate = malloc(e * half * sizeof(float));
        for (size_t i = 0; i < e; i++) {
            memcpy(gate + i * half, both->data + 2 * i * half, half * sizeof(float));
            memcpy(up->data + i * half, both->data + (2 * i + 1) * half, half * sizeof(float));
        }
        free(both->data);
        both->data = gate;
        snprintf(both->name, sizeof both->name, "blk.%d.ffn_gate_exps.weight", layer);
        snprintf(up->name, sizeof up->name, "blk.%d.ffn_up_exps.weight", layer);
        snprintf(name, sizeof name, "blk.%d.post_ffw_norm_1.weight", layer);
        snprintf(tiny_find(f, name)->name, 80, "blk.%d.ffn_post_norm_1.weight", layer);
        snprintf(name, sizeof name, "blk.%d.ffn_down_exps.scale", layer);
        snprintf(tiny_find(f, name)->name, 80, "blk.%d.ffn_gate_inp.per_expert_scale", layer);
    }
}

static void test_older_names(void)
{
    static tiny_file f;
    const tiny_changes none = {0};
    REQUIRE(tiny_load(&f));
    split_experts(&f);
    tiny_drop(&f, "rope_freqs.weight"); /* a quarter of the pairs turn then */
    const char *path = path_of("older.gguf");
    if (tiny_write(&f, &none, path)) check_file(path, "older");
    tiny_free(&f);
}

/* Without the encoder's scalars the decoder's are taken: other logits, and no error. */
static void test_one_scalar_for_both(void)
{
    static float got[CANVAS * WORDS];
    static tiny_file f;
    const tiny_changes none = {0};
    array other = golden(tiny_goldens(), "logits.21");
    REQUIRE(tiny_load(&f));
    for (int layer = 0; layer < 4; layer++) {
        char name[80];
        snprintf(name, sizeof name, "blk.%d.enc_layer_output_scale.weight", layer);
        tiny_drop(&f, name);
    }
    const char *path = path_of("scalar.gguf");
    REQUIRE(tiny_write(&f, &none, path));
    kiln_value *v = load(path);
    REQUIRE(CHECK_MSG(v != NULL, "%s", rig_message()));
    logits_of(v, got);
    double most = 0;
    for (size_t i = 0; i < other.n; i++)
        most =
            fabs((double)got[i] - (double)other.data[i]) > most ? fabs((double)got[i] - (double)other.data[i]) : most;
    CHECK_MSG(most > 0.1, "the encoder's scalars change logits by %g", most);
    rig_host()->unref(v);
    free(other.data);
    tiny_free(&f);
}

/* ---- the tokenizer of a GGUF file ---- */

static void check_text(const kiln_tokenizer *t, const json_t *said)
{
    const kiln_tokenizer_api *api = tokenizers();
    const char *text = json_string_value(json_object_get(said, "text"));
    const json_t *wanted = json_object_get(said, "ids");
    kiln_encoding e = {.size = sizeof e};
    char why[KILN_TOKENIZER_WHY] = "", back[400];
    const kiln_tokenizer_input in = {.size = sizeof in, .text = text, .n = strlen(text)};
    CHECK_MSG(api->encode(t, &in, &e, why) == KILN_OK, "%s", why);
    CHECK_MSG(e.n == json_array_size(wanted), "'%s': %zu tokens, wanted %zu", text, e.n, json_array_size(wanted));
    for (size_t i = 0; i < e.n && i < json_array_size(wanted); i++)
        CHECK_MSG(e.id[i] == json_integer_value(json_array_get(wanted, i)), "'%s': token %zu is %d", text, i, e.id[i]);
    size_t n = api->decode(t, e.id, e.n, 0, back, sizeof back - 1);
    back[n < sizeof back ? n : sizeof back - 1] = 0;
    CHECK_STR(back, text);
    api->encoding_free(&e);
}

static void test_tokenizers_agree(void)
{
    static tiny_file f = {.n = 0};
    const tiny_changes none = {0};
    char folder[600], path[600];
    snprintf(folder, sizeof folder, "%s/tests/text_diffusion/dg-tiny", test_root());
    snprintf(path, sizeof path, "%s/tests/text_diffusion/tokens.json", test_root());
    json_t *said = json_load_file(path, 0, NULL);
    REQUIRE(said && tiny_write(&f, &none, path_of("words.gguf")));
    tiny_host();
    kiln_tokenizer *both[] = {text_tokenizer(rig_ctx(), path_of("words.gguf")), text_tokenizer(rig_ctx(), folder)};
    for (int k = 0; k < 2; k++) {
        if (!CHECK_MSG(both[k] != NULL, "%s", rig_message())) continue;
        const json_t *texts = json_object_get(said, "texts");
        for (size_t i = 0; i < json_array_size(texts); i++) {
            const json_t *one = json_array_get(texts, i);
            if (!strstr(json_string_value(json_object_get(one, "text")), "<turn|>")) check_text(both[k], one);
        }
        CHECK_EQ(tokenizers()->special(both[k], "<turn|>"), 106);
        CHECK_EQ(tokenizers()->special(both[k], "<|tool_response>"), 50);
        CHECK_EQ(tokenizers()->special(both[k], "bos"), 2);
        tokenizers()->unref(both[k]);
    }
    json_decref(said);
}

/* Special tokens are tokens where that is asked for, and <|tool_response> is one though the file calls it normal. */
static void test_special_tokens(void)
{
    static tiny_file f = {.n = 0};
    const tiny_changes none = {0};
    static const char text[] = "<|turn>user\na<turn|>\n<|tool_response>";
    static const int32_t wanted[] = {105, -1, 107, -1, 106, 107, 50};
    char why[KILN_TOKENIZER_WHY];
    kiln_encoding e = {.size = sizeof e};
    REQUIRE(tiny_write(&f, &none, path_of("words.gguf")));
    tiny_host();
    kiln_tokenizer *t = text_tokenizer(rig_ctx(), path_of("words.gguf"));
    REQUIRE(t);
    const kiln_tokenizer_input in = {.size = sizeof in, .text = text, .n = strlen(text), .special = 1};
    CHECK_EQ(tokenizers()->encode(t, &in, &e, why), KILN_OK);
    CHECK_EQ(e.n, COUNT(wanted));
    for (size_t i = 0; i < e.n && i < COUNT(wanted); i++) CHECK(wanted[i] < 0 || e.id[i] == wanted[i]);
    tokenizers()->encoding_free(&e);
    tokenizers()->unref(t);
}

/* A run of newlines that is a token is that token, whatever merges there are. */
static void test_runs_of_newlines(void)
{
    static tiny_file f = {.n = 0};
    const tiny_changes c = {.no_newline_merges = 1};
    char why[KILN_TOKENIZER_WHY];
    kiln_encoding e = {.size = sizeof e};
    REQUIRE(tiny_write(&f, &c, path_of("words.gguf")));
    tiny_host();
    kiln_tokenizer *t = text_tokenizer(rig_ctx(), path_of("words.gguf"));
    REQUIRE(t);
    const kiln_tokenizer_input in = {.size = sizeof in, .text = "\n\n\na\n", .n = 5};
    CHECK_EQ(tokenizers()->encode(t, &in, &e, why), KILN_OK);
    CHECK(e.n == 3 && e.id[0] == 109 && e.id[2] == 107);
    tokenizers()->encoding_free(&e);
    tokenizers()->unref(t);
}

/* ---- bad files ---- */

static void refused(const tiny_file *f, const tiny_changes *c, const char *words)
{
    const char *path = path_of("bad.gguf");
    REQUIRE(tiny_write(f, c, path));
    kiln_value *v = load(path);
    CHECK_MSG(!v && strstr(rig_message(), words), "'%s' is wanted, got '%s'", words, v ? "a model" : rig_message());
    rig_host()->unref(v);
}

static void without(const char *name, const char *words)
{
    static tiny_file f;
    const tiny_changes none = {0};
    REQUIRE(tiny_load(&f));
    tiny_drop(&f, name);
    refused(&f, &none, words);
    tiny_free(&f);
}

static void test_missing_tensors(void)
{
    without("token_embd.weight", "'embed_tokens.weight' is missing");
    without("blk.2.attn_v.weight", "layers.2.self_attn.v_proj.weight");
    without("blk.1.attn_q_norm.weight", "'layers.1.self_attn.q_norm.weight' is missing");
    without("blk.3.ffn_down_exps.weight", "layers.3.experts.down_proj");
    without("blk.3.ffn_gate_up_exps.weight", "layers.3.experts.gate_up_proj");
    without("blk.0.layer_output_scale.weight", "layers.0.layer_scalar");
    without("self_cond_down.weight", "self_conditioning.down_proj.weight");
    without("output_norm.weight", "norm.weight");
}

static void misshapen(const char *name, int axis, int64_t size, const char *words)
{
    static tiny_file f;
    const tiny_changes none = {0};
    REQUIRE(tiny_load(&f));
    tiny_tensor *t = tiny_find(&f, name);
    size_t had = sizeof(float);
    for (uint32_t i = 0; t && i < t->rank; i++) had *= (size_t)t->dim[i];
    const size_t more = 4u << 20; /* of a larger one, zeros */
    REQUIRE(t && had <= more && (t->data = realloc(t->data, more)));
    memset((char *)t->data + had, 0, more - had);
    t->dim[axis] = size;
    refused(&f, &none, words);
    tiny_free(&f);
}

static void test_misshapen_tensors(void)
{
    misshapen("blk.2.ffn_down_exps.weight", 0, 5, "layers.2.experts.down_proj"); /* an expert is missing */
    misshapen("blk.1.ffn_gate_up_exps.weight", 1, 60, "layers.1.experts.gate_up_proj");
    misshapen("blk.0.attn_q.weight", 0, 48, "which are not 4 heads");
    misshapen("output_norm.weight", 0, 128, "norm.weight");
    misshapen("blk.0.attn_k.weight", 0, 48, "which are not 4 heads and a part of them");
    misshapen("blk.0.attn_k.weight", 0, 40, "which are not 4 heads and a part of them");
}

static void test_keys_that_are_wrong(void)
{
    static tiny_file f;
    REQUIRE(tiny_load(&f));
    refused(&f, &(tiny_changes){.canvas = 1},
            "diffusion.canvas_length is 0; a whole number from 1 to 4096 is expected");
    refused(&f, &(tiny_changes){.canvas = 70000}, "diffusion.canvas_length is 69999");
    refused(&f, &(tiny_changes){.heads = 5}, "which are not 5 heads");
    refused(&f, &(tiny_changes){.chosen = 7}, "expert_used_count is 7; a whole number from 1 to 6");
    refused(&f, &(tiny_changes){.no_pattern = 1}, "whether layer 0 is a sliding or a full one");
    refused(&f, &(tiny_changes){.architecture = "llama"}, "no model that writes by diffusion");
    refused(&f, &(tiny_changes){.tokens = 513}, "the tokenizer has 513 tokens, the model 512");
    refused(&f, &(tiny_changes){.no_merges = 1}, "there is no list tokenizer.ggml.merges");
    refused(&f, &(tiny_changes){.wrong_types = 1}, "has a score or a type that is none");
    tiny_free(&f);
}

/* Sizes that would overflow what is made of them. */
static void test_sizes_that_overflow(void)
{
    static tiny_file f;
    REQUIRE(tiny_load(&f));
    refused(&f, &(tiny_changes){.layers = 4294967295}, "block_count is 4.29497e+09; a whole number from 1 to 512");
    refused(&f, &(tiny_changes){.layers = 5}, "layer 4 is a sliding or a full one"); /* more than the pattern has */
    refused(&f, &(tiny_changes){.context = 4294967295}, "context_length is 4.29497e+09; a whole number from 1 to");
    refused(&f, &(tiny_changes){.heads = 4294967295}, "attention.head_count is 4.29497e+09");
    tiny_free(&f);
}

/* A head of its own, which has not the vocabulary's rows, or is as wide as something else. */
static void test_a_head_that_does_not_fit(void)
{
    static const int64_t size[][2] = {{500, 256}, {512, 128}};
    for (size_t i = 0; i < COUNT(size); i++) {
        static tiny_file f;
        const tiny_changes none = {0};
        REQUIRE(tiny_load(&f));
        f.tensor[f.n++] = (tiny_tensor){.name = "output.weight",
                                        .rank = 2,
                                        .dim = {size[i][0], size[i][1]},
                                        .data = calloc((size_t)(size[i][0] * size[i][1]), sizeof(float))};
        refused(&f, &none, "output.weight");
        tiny_free(&f);
    }
}

/* Cut anywhere in its head or its data, a file is refused with a sentence. */
static void test_cut_files(void)
{
    static tiny_file f;
    const tiny_changes none = {0};
    REQUIRE(tiny_load(&f) && tiny_write(&f, &none, path_of("cut.gguf")));
    const char *path = path_of("cut.gguf");
    struct stat at;
    REQUIRE(stat(path, &at) == 0);
    for (int64_t size = at.st_size - 40000; size > 0; size -= at.st_size / 23) {
        REQUIRE(truncate(path, size) == 0);
        kiln_value *v = load(path);
        CHECK_MSG(!v && rig_message()[0], "cut to %lld bytes: '%s'", (long long)size, rig_message());
        rig_host()->unref(v);
    }
    tiny_free(&f);
}

static void test_no_tokenizer(void)
{
    const char *folder = path_of("mute");
    REQUIRE(mkdir(folder, 0700) == 0 && copy_file("config.json", folder) && copy_file("model.safetensors", folder));
    kiln_value *v = load(folder);
    CHECK_MSG(!v && strstr(rig_message(), "there is no tokenizer"), "%s", rig_message());
    rig_host()->unref(v);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_folder_of_transformers),
                                      CASE(test_shards),
                                      CASE(test_gguf),
                                      CASE(test_gguf_in_parts_and_in_a_folder),
                                      CASE(test_by_blocks),
                                      CASE(test_older_names),
                                      CASE(test_one_scalar_for_both),
                                      CASE(test_tokenizers_agree),
                                      CASE(test_special_tokens),
                                      CASE(test_runs_of_newlines),
                                      CASE(test_missing_tensors),
                                      CASE(test_misshapen_tensors),
                                      CASE(test_keys_that_are_wrong),
                                      CASE(test_sizes_that_overflow),
                                      CASE(test_a_head_that_does_not_fit),
                                      CASE(test_cut_files),
                                      CASE(test_no_tokenizer)};
    if (!tokenizers()) return 1;
    return test_main(argc, argv, cases, COUNT(cases));
}
