/* test_hostile.c - files that are cut, changed or made to hurt, and memory that runs out: a sentence, never a crash.
 * Run it under AddressSanitizer to see that nothing is read or lost where it should not be. */
#include "source_files.h"

#include "token_pool.h"

#include <jansson.h>

static const struct {
    const char *path, *name;
} sources[] = {
    {"gpt2/tokenizer.json", "tokenizer.json"},
    {"llama3/tokenizer.json", "tokenizer.json"},
    {"qwen2/tokenizer.json", "tokenizer.json"},
    {"llama-json/tokenizer.json", "tokenizer.json"},
    {"t5-json/tokenizer.json", "tokenizer.json"},
    {"bert/tokenizer.json", "tokenizer.json"},
    {"tekken/tekken.json", "tekken.json"},
    {"bert/vocab.txt", "vocab.txt"},
    {"llama/tokenizer.model", "tokenizer.model"},
    {"nfkc-bpe/tokenizer.model", "tokenizer.model"},
    {"t5/tokenizer.model", "spiece.model"},
    {"unigram-bytes/tokenizer.model", "tokenizer.model"},
    {"llama/llama.gguf", "model.gguf"},
    {"qwen2/qwen2.gguf", "model.gguf"},
    {"t5/t5.gguf", "model.gguf"},
};
enum { N_SOURCE = sizeof sources / sizeof sources[0] };

static uint64_t state = 1;
static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % below;
}

static const char text[] =
    "a photo of 日本 caf\xc3\xa9 e\xcc\x81 \xf0\x9f\x98\x80 <s> <|im_start|>\n\n  1234 \xff\xc3 \xef\xbc\xa1";

/* Opens what may be a tokenizer and lets it do everything. 1: it opened. */
static int try_bytes(const char *name, const char *data, size_t n)
{
    char why[KILN_TOKENIZER_WHY] = "", out[600];
    const kiln_tokenizer_file file = {sizeof file, name, data, n};
    const kiln_tokenizer_source source = {.size = sizeof source, .file = &file, .n_file = 1};
    kiln_tokenizer *t = tokenizer_open(&source, why);
    if (!t) {
        CHECK_MSG(why[0] && memchr(why, 0, sizeof why), "no reason");
        return 0;
    }
    kiln_encoding e = {.size = sizeof e};
    const kiln_tokenizer_input in = {.size = sizeof in, .text = text, .n = sizeof text - 1, .special = 1, .ends = 1};
    if (tokenizer_api.encode(t, &in, &e, why) == KILN_OK)
        for (size_t i = 0; i < e.n; i++)
            CHECK(e.id[i] >= 0 && e.id[i] < tokenizer_api.count(t) && e.from[i] <= e.to[i] && e.to[i] < sizeof text);
    tokenizer_api.decode(t, e.id, e.n, draw(2), out, sizeof out);
    tokenizer_api.encoding_free(&e);
    tokenizer_api.unref(t);
    return 1;
}

static void each_source(void (*fn)(const char *name, const char *data, size_t n))
{
    for (size_t i = 0; i < N_SOURCE; i++) {
        char path[200];
        source_files f = {.n = 0};
        snprintf(path, sizeof path, DATA "%s", sources[i].path);
        if (!files_add(&f, path, sources[i].name)) continue;
        fn(sources[i].name, f.data[0], f.bytes[0]);
        files_free(&f);
    }
}

/* A copy of exactly n bytes, so that a read behind its end is seen. */
static char *exact(const char *data, size_t n)
{
    char *copy = malloc(n ? n : 1);
    if (copy && n) memcpy(copy, data, n);
    return copy;
}

static void cut(const char *name, const char *data, size_t n)
{
    for (size_t i = 0; i < 40; i++) {
        size_t length = i < 20 ? i : draw((uint32_t)n);
        char *copy = exact(data, length);
        REQUIRE(copy);
        int opened = try_bytes(name, copy, length);
        CHECK_MSG(!opened || strcmp(name, "vocab.txt") == 0, "%s of %zu bytes opened", name, length);
        free(copy);
    }
}

static void test_cut_files(void) { each_source(cut); }

static void change(const char *name, const char *data, size_t n)
{
    for (size_t i = 0; i < 60; i++) {
        char *copy = exact(data, n);
        REQUIRE(copy);
        for (uint32_t k = 1 + draw(4); k > 0; k--) {
            size_t at = draw(2) ? draw((uint32_t)n) : draw(n < 400 ? (uint32_t)n : 400);
            copy[at] = (char)(draw(2) ? (unsigned char)copy[at] ^ 1u << draw(8) : draw(256));
        }
        try_bytes(name, copy, n);
        free(copy);
    }
}

static void test_changed_files(void) { each_source(change); }

static void test_noise_is_no_tokenizer(void)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model", "tekken.json", "a.gguf", "spiece.model"};
    char noise[300];
    for (int i = 0; i < 500; i++) {
        size_t n = draw(sizeof noise);
        for (size_t k = 0; k < n; k++) noise[k] = (char)draw(256);
        CHECK(!try_bytes(names[i % 5], noise, n));
    }
}

/* ---- memory ---- */

static void fail_each(const char *name, const char *data, size_t n)
{
    char why[KILN_TOKENIZER_WHY] = "";
    const kiln_tokenizer_file file = {sizeof file, name, data, n};
    const kiln_tokenizer_source source = {.size = sizeof source, .file = &file, .n_file = 1};
    token_pool_fail_at(INT64_MAX);
    kiln_tokenizer *t = tokenizer_open(&source, why);
    int64_t blocks = token_pool_asked();
    CHECK(t && blocks > 0);
    for (int64_t k = 0; k < blocks; k++) {
        token_pool_fail_at(k);
        kiln_tokenizer *no = tokenizer_open(&source, why);
        CHECK_MSG(!no && strstr(why, "no memory"), "%s, block %lld: %s", name, (long long)k, no ? "opened" : why);
        tokenizer_api.unref(no);
    }
    const kiln_tokenizer_input in = {.size = sizeof in, .text = text, .n = sizeof text - 1, .special = 1};
    for (int64_t k = 0; k < 4; k++) {
        kiln_encoding e = {.size = sizeof e};
        token_pool_fail_at(k);
        kiln_status status = tokenizer_api.encode(t, &in, &e, why);
        CHECK(status == KILN_OK ? token_pool_asked() <= k : status == KILN_ERR_NOMEM && e.n == 0);
        tokenizer_api.encoding_free(&e);
    }
    token_pool_fail_at(-1);
    tokenizer_api.unref(t);
}

static void test_without_memory(void) { each_source(fail_each); }

static int64_t json_left = INT64_MAX;
static void *json_alloc(size_t n) { return json_left-- > 0 ? malloc(n) : NULL; }

static void fail_json(const char *name, const char *data, size_t n)
{
    char why[KILN_TOKENIZER_WHY] = "";
    const kiln_tokenizer_file file = {sizeof file, name, data, n};
    const kiln_tokenizer_source source = {.size = sizeof source, .file = &file, .n_file = 1};
    if (!strstr(name, ".json")) return;
    for (int64_t k = 0; k < 4000; k += k < 40 ? 1 : 211) {
        json_left = k;
        kiln_tokenizer *t = tokenizer_open(&source, why);
        CHECK(t ? json_left > 0 : why[0] != 0);
        tokenizer_api.unref(t);
    }
    json_left = INT64_MAX;
}

static void test_without_memory_for_json(void)
{
    json_set_alloc_funcs(json_alloc, free);
    each_source(fail_json);
}

/* ---- made to hurt ---- */

static void check_json(const char *json, const char *wanted)
{
    char why[KILN_TOKENIZER_WHY] = "";
    const kiln_tokenizer_file file = {sizeof file, "tokenizer.json", json, strlen(json)};
    kiln_tokenizer *t = tokenizer_open(
        &(kiln_tokenizer_source){.size = sizeof(kiln_tokenizer_source), .file = &file, .n_file = 1}, why);
    CHECK_MSG(!t && strstr(why, wanted) && strncmp(why, "tokenizer.json: ", 16) == 0, "'%s' is wanted, got '%s'",
              wanted, why);
    tokenizer_api.unref(t);
}

#define MODEL "\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"[UNK]\":0},\"unk_token\":\"[UNK]\"}"

static void test_json_that_says_what_is_not_known(void)
{
    check_json("{", "line 1");
    check_json("[]", "not a map");
    check_json("{}", "no model");
    check_json("{\"model\":{\"type\":\"Magic\"}}", "'Magic' is not known");
    check_json("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}", "same id");
    check_json("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":16000000},\"merges\":[]}}", "count up");
    check_json("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", "must have an id");
    check_json("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}", "not two tokens");
    check_json("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a a\"]}}", "not in the vocabulary");
    check_json("{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"vocab\":{\"a\":0},\"merges\":[]}}", "by chance");
    check_json("{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",\"b\"]]}}", "piece 0");
    check_json("{" MODEL ",\"normalizer\":{\"type\":\"Magic\"}}", "normalizer 'Magic'");
    check_json("{" MODEL ",\"pre_tokenizer\":{\"type\":\"Magic\"}}", "pre_tokenizer 'Magic'");
    check_json("{" MODEL ",\"post_processor\":{\"type\":\"Magic\"}}", "post_processor 'Magic'");
    check_json("{" MODEL ",\"decoder\":{\"type\":\"Magic\"}}", "decoder 'Magic'");
    check_json("{" MODEL
               ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?<=a)b\"},\"behavior\":\"Isolated\"}}",
               "look-behind");
    check_json("{" MODEL ",\"added_tokens\":[{\"id\":99999999,\"content\":\"x\"}]}", "must have an id");
    char deep[4000] = "{" MODEL ",\"normalizer\":";
    for (int i = 0; i < 20; i++) strcat(deep, "{\"type\":\"Sequence\",\"normalizers\":[");
    for (int i = 0; i < 20; i++) strcat(deep, "]}");
    strcat(deep, "}");
    check_json(deep, "nested deeper");
}

/* A pattern with 2^n ways through a text ends with a sentence, and soon. */
static void test_a_pattern_that_would_take_for_ever(void)
{
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"unk_token\":\"a\",\"merges\":[]},"
        "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a+a+)+b\"},\"behavior\":\"Isolated\"}}";
    char why[KILN_TOKENIZER_WHY] = "", many[2001];
    const kiln_tokenizer_file file = {sizeof file, "tokenizer.json", json, sizeof json - 1};
    kiln_tokenizer *t = tokenizer_open(
        &(kiln_tokenizer_source){.size = sizeof(kiln_tokenizer_source), .file = &file, .n_file = 1}, why);
    REQUIRE(t);
    memset(many, 'a', 2000);
    kiln_encoding e = {.size = sizeof e};
    const kiln_tokenizer_input in = {.size = sizeof in, .text = many, .n = 2000};
    CHECK_EQ(tokenizer_api.encode(t, &in, &e, why), KILN_ERR_INVALID);
    CHECK_MSG(strstr(why, "takes too long") != NULL, "%s", why);
    tokenizer_api.unref(t);
}

/* The sentence of a tokenizer.json that is not opened, or (text) does not cut that text; "": it does. */
static const char *sentence(const char *json, const char *cut)
{
    static char why[KILN_TOKENIZER_WHY];
    const kiln_tokenizer_file file = {sizeof file, "tokenizer.json", json, strlen(json)};
    kiln_encoding e = {.size = sizeof e};
    why[0] = 0;
    kiln_tokenizer *t = tokenizer_open(
        &(kiln_tokenizer_source){.size = sizeof(kiln_tokenizer_source), .file = &file, .n_file = 1}, why);
    const kiln_tokenizer_input in = {.size = sizeof in, .text = cut, .n = strlen(cut)};
    if (t) CHECK((tokenizer_api.encode(t, &in, &e, why) == KILN_OK) == !why[0]);
    tokenizer_api.encoding_free(&e);
    tokenizer_api.unref(t);
    return why;
}

static void check_sentence(const char *json, const char *wanted)
{
    const char *why = sentence(json, "aa");
    CHECK_MSG(strstr(why, wanted), "%.300s: '%s' is wanted, got '%s'", json, wanted, why);
}

static void test_ids_that_no_vocabulary_has(void)
{
    check_sentence("{" MODEL ",\"added_tokens\":[{\"content\":\"x\",\"id\":16000000}]}", "count up");
    check_sentence("{" MODEL ",\"added_tokens\":[{\"content\":\"x\",\"id\":65000}]}", "");
    check_sentence("{" MODEL ",\"post_processor\":{\"type\":\"BertProcessing\",\"cls\":[\"a\",0],\"sep\":[\"b\",1]}}",
                   "the token 1 at the begin or end is not in the vocabulary of 1");
}

/* Each of 60 steps makes a text twice as long. */
static void check_doubling(const char *before, const char *step, const char *after, const char *wanted)
{
    char json[16384];
    size_t n = (size_t)snprintf(json, sizeof json, "{" MODEL "%s", before);
    for (int i = 0; i < 60; i++) n += (size_t)snprintf(json + n, sizeof json - n, "%s%s", i ? "," : "", step);
    snprintf(json + n, sizeof json - n, "%s}", after);
    check_sentence(json, wanted);
}

static void test_steps_that_double_a_text(void)
{
    const char *twice = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aa\"}",
               *bytes = "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}";
    check_doubling(",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[", twice, "]}",
                   "the tokenizer's steps make more than the 16 MiB");
    check_doubling(",\"added_tokens\":[{\"content\":\"a\",\"id\":1}],\"normalizer\":{\"type\":\"Sequence\","
                   "\"normalizers\":[",
                   twice, "]}", "make more than the 6");
    check_doubling(",\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"\u00e9\"},\"pre_tokenizer\":{\"type\":"
                   "\"Sequence\",\"pretokenizers\":[",
                   bytes, "]}", "the tokenizer's steps make more than the 16 MiB");
}

/* What decodes to more than it may decodes to nothing, as when memory ends. */
static void test_decoders_that_double_a_text(void)
{
    const char *twice = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"U\"},\"content\":\"UU\"}";
    char json[16384], out[8], why[KILN_TOKENIZER_WHY] = "";
    for (int steps = 3; steps <= 60; steps += 57) {
        size_t n = (size_t)snprintf(json, sizeof json, "{" MODEL ",\"decoder\":{\"type\":\"Sequence\",\"decoders\":[");
        for (int i = 0; i < steps; i++) n += (size_t)snprintf(json + n, sizeof json - n, "%s%s", i ? "," : "", twice);
        snprintf(json + n, sizeof json - n, "]}}");
        const kiln_tokenizer_file file = {sizeof file, "tokenizer.json", json, strlen(json)};
        kiln_tokenizer *t = tokenizer_open(
            &(kiln_tokenizer_source){.size = sizeof(kiln_tokenizer_source), .file = &file, .n_file = 1}, why);
        REQUIRE(t != NULL);
        CHECK(tokenizer_api.decode(t, (int32_t[]){0}, 1, 1, out, sizeof out) == (steps == 3 ? 12 : 0));
        tokenizer_api.unref(t);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_cut_files),
                                      CASE(test_changed_files),
                                      CASE(test_noise_is_no_tokenizer),
                                      CASE(test_without_memory),
                                      CASE(test_json_that_says_what_is_not_known),
                                      CASE(test_ids_that_no_vocabulary_has),
                                      CASE(test_steps_that_double_a_text),
                                      CASE(test_decoders_that_double_a_text),
                                      CASE(test_a_pattern_that_would_take_for_ever),
                                      CASE(test_without_memory_for_json)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
