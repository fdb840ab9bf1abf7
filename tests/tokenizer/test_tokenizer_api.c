/* test_tokenizer_api.c - what the table of kiln.tokenizer/1 promises beside ids: spans, appending, weights, roles, chat
 * templates, identity, threads, and that long texts take time in proportion. */
#include "kept_tokenizers.h"
#include "source_files.h"

#include <pthread.h>
#include <time.h>

#define GPT2 "gpt2/tokenizer.json", "tokenizer.json"
#define LLAMA "llama/tokenizer.model", "tokenizer.model"

static void test_spans_are_places_of_the_original(void)
{
    /* U+FB01 becomes two letters, an invalid byte U+FFFD, e + accent one letter */
    static const char text[] = "\xef\xac\x81 \xff e\xcc\x81";
    kiln_tokenizer *t = data_open("unigram/tokenizer.model", "tokenizer.model");
    REQUIRE(t);
    kiln_encoding e = encode_text(t, text, sizeof text - 1, 0, 0);
    CHECK(e.n > 2);
    uint32_t last = 0;
    for (size_t i = 0; i < e.n; i++) {
        CHECK(e.from[i] <= e.to[i] && e.to[i] <= sizeof text - 1 && e.from[i] >= last);
        last = e.from[i];
    }
    CHECK_EQ(e.from[0], 0);
    CHECK_EQ(e.to[e.n - 1], sizeof text - 1);
    tokenizer_api.encoding_free(&e);
    tokenizer_api.unref(t);
}

static void test_segments_follow_one_another_with_their_weights(void)
{
    kiln_tokenizer *t = data_open(GPT2);
    REQUIRE(t);
    char why[KILN_TOKENIZER_WHY];
    kiln_encoding e = {.size = sizeof e};
    const float half = 0.5f, none = 0;
    kiln_tokenizer_input in = {.size = sizeof in, .text = "a cat", .n = 5};
    CHECK_EQ(tokenizer_api.encode(t, &in, &e, why), KILN_OK);
    size_t n = e.n;
    in.weight = &half;
    CHECK_EQ(tokenizer_api.encode(t, &in, &e, why), KILN_OK);
    in.weight = &none;
    CHECK_EQ(tokenizer_api.encode(t, &in, &e, why), KILN_OK);
    CHECK(n > 0 && e.n == 3 * n);
    for (size_t i = 0; i < n; i++) {
        CHECK(e.id[i] == e.id[i + n] && e.from[i] == e.from[i + n] && e.to[i] == e.to[i + 2 * n]);
        CHECK(e.weight[i] == 1 && e.weight[i + n] == 0.5f && e.weight[i + 2 * n] == 0);
    }
    tokenizer_api.encoding_free(&e);
    CHECK(e.n == 0 && !e.id && e.size == sizeof e);
    tokenizer_api.unref(t);
}

static void test_special_tokens_by_flag(void)
{
    static const char text[] = "<|im_start|>a";
    kiln_tokenizer *t = data_open("qwen2/tokenizer.json", "tokenizer.json");
    REQUIRE(t);
    int32_t start = tokenizer_api.special(t, "<|im_start|>");
    CHECK(start > 255);
    kiln_encoding with = encode_text(t, text, strlen(text), 1, 0), without = encode_text(t, text, strlen(text), 0, 0);
    CHECK(with.n == 2 && with.id[0] == start && with.to[0] == 12);
    CHECK(without.n > 2);
    for (size_t i = 0; i < without.n; i++) CHECK(without.id[i] != start);
    char out[60];
    CHECK_EQ(tokenizer_api.decode(t, with.id, with.n, 0, out, sizeof out), 1);
    CHECK_EQ(tokenizer_api.decode(t, with.id, with.n, 1, out, sizeof out), 13);
    CHECK_EQ(tokenizer_api.decode(t, with.id, with.n, 1, out, 0), 13);
    const int32_t no_ids[] = {-1, INT32_MAX, start};
    CHECK_EQ(tokenizer_api.decode(t, no_ids, 3, 0, out, sizeof out), 0);
    tokenizer_api.encoding_free(&with);
    tokenizer_api.encoding_free(&without);
    tokenizer_api.unref(t);
}

/* SentencePiece puts its blank before the text, not before what follows a special token. */
static void test_the_blank_before_a_text_comes_once(void)
{
    kiln_tokenizer *t = data_open(LLAMA);
    REQUIRE(t);
    kiln_encoding a = encode_text(t, "cat<s>cat", 9, 1, 0), b = encode_text(t, "cat", 3, 1, 0);
    char out[60];
    CHECK(a.n > 2 * b.n);
    for (size_t i = 0; i < b.n; i++) CHECK_EQ(a.id[i], b.id[i]);
    CHECK_EQ(a.id[b.n], tokenizer_api.special(t, "bos"));
    size_t n = tokenizer_api.decode(t, a.id, a.n, 1, out, sizeof out);
    CHECK(n == 9 && memcmp(out, "cat<s>cat", 9) == 0);
    tokenizer_api.encoding_free(&a);
    tokenizer_api.encoding_free(&b);
    tokenizer_api.unref(t);
}

static void test_begin_and_end_by_flag(void)
{
    static const struct {
        const char *path, *name;
        const char *begin, *end;
    } rows[] = {{"llama3/tokenizer.json", "tokenizer.json", "<|begin_of_text|>", NULL},
                {"gemma-json/tokenizer.json", "tokenizer.json", "<s>", "</s>"},
                {"bert/vocab.txt", "vocab.txt", "cls", "sep"},
                {LLAMA, "bos", NULL},
                {"llama/llama.gguf", "a.gguf", "bos", NULL},
                {"t5/t5.gguf", "a.gguf", NULL, "eos"},
                {"t5/tokenizer.model", "spiece.model", NULL, "eos"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kiln_tokenizer *t = data_open(rows[i].path, rows[i].name);
        REQUIRE(t);
        kiln_encoding e = encode_text(t, "a", 1, 0, 1), bare = encode_text(t, "a", 1, 0, 0);
        size_t first = rows[i].begin != NULL;
        CHECK_EQ(e.n, bare.n + first + (rows[i].end != NULL));
        if (first) CHECK_EQ(e.id[0], tokenizer_api.special(t, rows[i].begin));
        if (first) CHECK(e.id[0] >= 0 && e.from[0] == 0 && e.to[0] == 0);
        if (rows[i].end) CHECK_EQ(e.id[e.n - 1], tokenizer_api.special(t, rows[i].end));
        if (rows[i].end) CHECK(e.id[e.n - 1] >= 0 && e.from[e.n - 1] == 1 && e.to[e.n - 1] == 1);
        for (size_t k = 0; k < bare.n; k++) CHECK_EQ(e.id[first + k], bare.id[k]);
        tokenizer_api.encoding_free(&e);
        tokenizer_api.encoding_free(&bare);
        tokenizer_api.unref(t);
    }
}

static void test_a_config_beside_the_model(void)
{
    static const char config[] =
        "{\"add_bos_token\": false, \"add_eos_token\": true, \"pad_token\": {\"content\": \"<unk>\"},"
        "\"chat_template\": \"{{ '[SYSTEM_PROMPT]' }}\"}";
    char why[KILN_TOKENIZER_WHY], out[200];
    source_files f = {.n = 0};
    REQUIRE(files_add(&f, DATA "llama/tokenizer.model", "tokenizer.model"));
    f.file[f.n++] = (kiln_tokenizer_file){sizeof f.file[0], "tokenizer_config.json", config, sizeof config - 1};
    kiln_tokenizer *t = files_open(&f, "sentencepiece", why);
    f.n = 1;
    files_free(&f);
    REQUIRE(t);
    kiln_encoding e = encode_text(t, "a", 1, 0, 1);
    CHECK(e.n >= 2 && e.id[0] != tokenizer_api.special(t, "bos") && e.id[e.n - 1] == tokenizer_api.special(t, "eos"));
    CHECK_EQ(tokenizer_api.special(t, "pad"), tokenizer_api.special(t, "<unk>"));
    const kiln_chat_message m = {sizeof m, "user", "hi"};
    CHECK_EQ(tokenizer_api.render(t, NULL, &m, 1, 1, out, sizeof out, why), strlen("<s>[INST]hi[/INST]"));
    CHECK(memcmp(out, "<s>[INST]hi[/INST]", 18) == 0);
    tokenizer_api.encoding_free(&e);
    tokenizer_api.unref(t);
}

static void test_chat_templates(void)
{
    static const struct {
        const char *name, *text;
    } rows[] = {{"chatml", "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n hi "
                           "<|im_end|>\n<|im_start|>assistant\nyo<|im_end|>\n"
                           "<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n"},
                {"llama3", "<|start_header_id|>system<|end_header_id|>\n\nBe "
                           "brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nhi<|eot_id|>"
                           "<|start_header_id|>assistant<|end_header_id|>\n\nyo<|eot_id|><|start_header_id|>user<|end_"
                           "header_id|>\n\nbye<|eot_id|>"
                           "<|start_header_id|>assistant<|end_header_id|>\n\n"},
                {"gemma", "<start_of_turn>user\nBe brief.\n\nhi<end_of_turn>\n<start_of_turn>model\nyo<end_of_turn>\n"
                          "<start_of_turn>user\nbye<end_of_turn>\n<start_of_turn>model\n"},
                {"phi3", "<|system|>\nBe brief.<|end|>\n<|user|>\n hi "
                         "<|end|>\n<|assistant|>\nyo<|end|>\n<|user|>\nbye<|end|>\n<|assistant|>\n"},
                {"mistral", "<s>[SYSTEM_PROMPT]Be brief.[/SYSTEM_PROMPT][INST] hi [/INST]yo</s>[INST]bye[/INST]"},
                {"mistral-v3", "<s>[INST] hi [/INST]yo</s>[INST]Be brief.\n\nbye[/INST]"}};
    struct { /* a message of a later version of the contract */
        kiln_chat_message m;
        uint64_t more;
    } talk[] = {{{sizeof talk[0], "system", "Be brief."}, 1},
                {{sizeof talk[0], "user", " hi "}, 2},
                {{sizeof talk[0], "assistant", "yo"}, 3},
                {{sizeof talk[0], "user", "bye"}, 4}};
    kiln_tokenizer *t = data_open(GPT2);
    REQUIRE(t);
    char out[2000], why[KILN_TOKENIZER_WHY] = "";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n = tokenizer_api.render(t, rows[i].name, &talk[0].m, 4, 1, out, sizeof out - 1, why);
        out[n < sizeof out ? n : 0] = 0;
        CHECK_STR(out, rows[i].text);
        memset(out, 'x', 20);
        CHECK_EQ(tokenizer_api.render(t, rows[i].name, &talk[0].m, 4, 1, out, 7, why), n);
        CHECK(memcmp(out, rows[i].text, 7) == 0 && out[7] == 'x');
    }
    CHECK_EQ(tokenizer_api.render(t, "gemma", &talk[1].m, 1, 0, out, sizeof out, why),
             strlen("<start_of_turn>user\nhi<end_of_turn>\n"));
    talk[1].m.role = "tool";
    CHECK_EQ(tokenizer_api.render(t, "gemma", &talk[0].m, 4, 1, out, sizeof out, why), 0);
    CHECK_MSG(strstr(why, "'tool'") && strstr(why, "gemma"), "%s", why);
    CHECK_EQ(tokenizer_api.render(t, "nonsense", &talk[0].m, 4, 1, out, sizeof out, why), 0);
    CHECK_MSG(strstr(why, "'nonsense' is not known") && strstr(why, "llama3"), "%s", why);
    CHECK_EQ(tokenizer_api.render(t, NULL, &talk[0].m, 4, 1, out, sizeof out, why), 0);
    CHECK_MSG(strstr(why, "none in the model's files") != NULL, "%s", why);
    tokenizer_api.unref(t);
    REQUIRE(t = data_open("qwen2/qwen2.gguf", "a.gguf"));
    CHECK_EQ(tokenizer_api.render(t, NULL, &talk[3].m, 1, 1, out, sizeof out, why),
             strlen("<|im_start|>user\nbye<|im_end|>\n<|im_start|>assistant\n"));
    tokenizer_api.unref(t);
}

static void test_identity_kind_and_count(void)
{
    kiln_tokenizer *a = data_open(GPT2), *b = data_open(GPT2), *c = data_open("qwen2/tokenizer.json", "tokenizer.json");
    REQUIRE(a && b && c);
    CHECK_EQ(strlen(tokenizer_api.identity(a)), 32);
    CHECK_STR(tokenizer_api.identity(a), tokenizer_api.identity(b));
    CHECK(strcmp(tokenizer_api.identity(a), tokenizer_api.identity(c)) != 0);
    CHECK_STR(tokenizer_api.kind(a), "byte-bpe");
    CHECK_EQ(tokenizer_api.count(c), tokenizer_api.special(c, "<|im_end|>") + 1);
    CHECK(tokenizer_api.ref(a) == a);
    tokenizer_api.unref(a);
    CHECK_STR(tokenizer_api.kind(a), "byte-bpe");
    tokenizer_api.unref(a);
    tokenizer_api.unref(b);
    tokenizer_api.unref(c);
    tokenizer_api.unref(NULL);
}

static void check_source(const char *path, const char *name, const char *kind, const char *wanted)
{
    char why[KILN_TOKENIZER_WHY];
    source_files f = {.n = 0};
    if (path && !files_add(&f, path, name)) return;
    kiln_tokenizer *t = files_open(&f, kind, why);
    CHECK_MSG(wanted ? !t && strstr(why, wanted) : t != NULL, "'%s' is wanted, got '%s'",
              wanted ? wanted : "a tokenizer", why);
    tokenizer_api.unref(t);
    files_free(&f);
}

static void test_what_is_asked_for_and_what_is_there(void)
{
    check_source(NULL, NULL, NULL, "no tokenizer among the files");
    check_source(DATA "gpt2/tokenizer.json", "README.md", NULL, "no tokenizer among the files");
    check_source(DATA "gpt2/tokenizer.json", "tokenizer.json", "wordpiece", "'byte-bpe', and 'wordpiece' is wanted");
    check_source(DATA "gpt2/tokenizer.json", "tokenizer.json", "nonsense", "'nonsense' is not known");
    check_source(DATA "llama/tokenizer.model", "text_encoder/tokenizer.model", "sentencepiece", NULL);
    check_source(DATA "t5/tokenizer.model", "spiece.model", "sentencepiece", NULL);
    check_source(DATA "gpt2/merges.txt", "merges.txt", "byte-bpe", "vocab.json too");
    const kiln_tokenizer_file no_size = {0, "tokenizer.json", "{}", 2};
    char why[KILN_TOKENIZER_WHY] = "";
    CHECK(!tokenizer_open(
        &(kiln_tokenizer_source){.size = sizeof(kiln_tokenizer_source), .file = &no_size, .n_file = 1}, why));
    CHECK_MSG(strstr(why, "size") != NULL, "%s", why);
}

/* ---- those that are kept ---- */

static kiln_tokenizer *api_open(const source_files *f, const char *kind)
{
    const kiln_tokenizer_source s = {
        .size = sizeof(kiln_tokenizer_source), .kind = kind, .file = f->file, .n_file = f->n};
    return tokenizer_api.open(NULL, &s);
}

static void test_the_same_files_are_one_tokenizer(void)
{
    source_files f = {.n = 0}, other = {.n = 0};
    REQUIRE(files_add(&f, DATA "gpt2/tokenizer.json", "tokenizer.json"));
    REQUIRE(files_add(&other, DATA "qwen2/tokenizer.json", "tokenizer.json"));
    kiln_tokenizer *one = api_open(&f, NULL), *two = api_open(&f, NULL), *three = api_open(&other, NULL),
                   *asked = api_open(&f, "byte-bpe");
    REQUIRE(one && three && asked);
    CHECK(one == two && one != three && one != asked);
    CHECK(strcmp(tokenizer_api.identity(one), tokenizer_api.identity(asked)) == 0);
    tokenizer_api.unref(one), tokenizer_api.unref(two), tokenizer_api.unref(three), tokenizer_api.unref(asked);
    two = api_open(&f, NULL); /* nobody had it meanwhile */
    CHECK(two == one);
    kiln_encoding e = encode_text(two, "a cat", 5, 0, 0);
    CHECK(e.n > 0);
    tokenizer_api.encoding_free(&e);
    tokenizer_api.unref(two);
    files_free(&f), files_free(&other);
}

static void test_the_oldest_and_the_largest_are_not_kept(void)
{
    kiln_tokenizer *t[KEPT_TOKENIZERS + 1];
    char key[8];
    for (int i = 0; i <= KEPT_TOKENIZERS; i++) {
        REQUIRE((t[i] = data_open(GPT2)));
        snprintf(key, sizeof key, "key %d", i);
        keep_tokenizer(key, t[i]), keep_tokenizer(key, t[i]);
        CHECK_EQ(t[i]->references, 2);
        if (i == 1) tokenizer_unref(kept_tokenizer("key 0")); /* asked for after it was: newer than it */
    }
    CHECK(!kept_tokenizer("key 1") && t[1]->references == 1);
    CHECK_EQ(t[0]->references, 2);
    const size_t bytes = t[0]->pool.bytes;
    t[1]->pool.bytes = KEPT_BYTES + 1;
    keep_tokenizer("large", t[1]);
    CHECK(!kept_tokenizer("large") && t[1]->references == 1);
    t[1]->pool.bytes = KEPT_BYTES - bytes; /* with that there is room for one beside it */
    keep_tokenizer("large", t[1]);
    CHECK_EQ(t[1]->references, 2);
    CHECK_EQ(t[KEPT_TOKENIZERS]->references, 2);
    for (int i = 2; i < KEPT_TOKENIZERS; i++) CHECK_EQ(t[i]->references, 1);
    CHECK_EQ(t[0]->references, 1);
    keep_tokenizer("last", t[0]);
    t[1]->pool.bytes = bytes;
    for (int i = 0; i <= KEPT_TOKENIZERS; i++) tokenizer_unref(t[i]);
}

static void *open_often(void *arg)
{
    for (int i = 0; i < 200; i++) {
        kiln_tokenizer *t = api_open((const source_files *)arg + i % 2, i % 3 ? NULL : "byte-bpe");
        if (!t) return NULL;
        tokenizer_api.unref(t);
    }
    return arg;
}

static void test_several_threads_open_the_same(void)
{
    source_files f[2] = {{.n = 0}, {.n = 0}};
    REQUIRE(files_add(f, DATA "gpt2/tokenizer.json", "tokenizer.json"));
    REQUIRE(files_add(f + 1, DATA "qwen2/tokenizer.json", "tokenizer.json"));
    pthread_t thread[4];
    void *result[4];
    for (int i = 0; i < 4; i++) REQUIRE(pthread_create(&thread[i], NULL, open_often, f) == 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], &result[i]);
    for (int i = 0; i < 4; i++) CHECK(result[i] == f);
    files_free(f), files_free(f + 1);
}

/* ---- many threads, long texts ---- */

static void *encode_often(void *arg)
{
    uintptr_t sum = 1;
    for (int i = 0; i < 300; i++) {
        kiln_encoding e = encode_text(arg, "A photo of a cat \xe6\x97\xa5\xe6\x9c\xac, <user> 1234", 34, 1, 1);
        for (size_t k = 0; k < e.n; k++) sum = sum * 31 + (uintptr_t)e.id[k] + e.to[k];
        tokenizer_api.encoding_free(&e);
    }
    return (void *)sum;
}

static void test_several_threads(void)
{
    kiln_tokenizer *t = data_open(LLAMA);
    REQUIRE(t);
    pthread_t thread[4];
    void *sum[4], *alone = encode_often(t);
    for (int i = 0; i < 4; i++) REQUIRE(pthread_create(&thread[i], NULL, encode_often, t) == 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], &sum[i]);
    for (int i = 0; i < 4; i++) CHECK(sum[i] == alone);
    tokenizer_api.unref(t);
}

/* This thread's own time: other work on the machine does not count. */
static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds_for(const kiln_tokenizer *t, const char *text, size_t n)
{
    double begin = thread_seconds();
    kiln_encoding e = encode_text(t, text, n, 0, 0);
    double took = thread_seconds() - begin;
    tokenizer_api.encoding_free(&e);
    return took;
}

/* One word, blanks, marks and words of half a MiB: eight times the text takes about eight times as long; where the work
 * grew with its square it would be 64 times. */
static void test_long_texts_take_time_in_proportion(void)
{
    enum { LONG = 1 << 19, SHORT = LONG / 8 };
    static const struct {
        const char *path, *name;
    } rows[] = {{GPT2},
                {"llama3/tokenizer.json", "tokenizer.json"},
                {"qwen2/tokenizer.json", "tokenizer.json"},
                {LLAMA},
                {"unigram/tokenizer.model", "tokenizer.model"},
                {"t5-json/tokenizer.json", "tokenizer.json"},
                {"bert/vocab.txt", "vocab.txt"},
                {"tekken/tekken.json", "tekken.json"}};
    static const char *const units[] = {"a", " ", "e\xcc\x81", "a cat, ", "\xe6\x97\xa5", "\xcc\x81\xcc\xa7", "1"};
    char *text = malloc(LONG + 8);
    REQUIRE(text);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        kiln_tokenizer *t = data_open(rows[r].path, rows[r].name);
        REQUIRE(t);
        for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
            size_t n = strlen(units[u]), fits = LONG / n * n;
            for (size_t i = 0; i < fits; i += n) memcpy(text + i, units[u], n);
            text[fits - 1] = n == 1 && units[u][0] == ' ' ? 'x' : text[fits - 1];
            double small = seconds_for(t, text + fits - SHORT / n * n, SHORT / n * n),
                   large = seconds_for(t, text, fits);
            CHECK_MSG(large < 30 * small + 0.3, "%s, '%s': %.3f s for 64 KiB, %.3f s for 512 KiB", rows[r].path,
                      units[u], small, large);
        }
        tokenizer_api.unref(t);
    }
    free(text);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_spans_are_places_of_the_original),
                                      CASE(test_segments_follow_one_another_with_their_weights),
                                      CASE(test_special_tokens_by_flag),
                                      CASE(test_the_blank_before_a_text_comes_once),
                                      CASE(test_begin_and_end_by_flag),
                                      CASE(test_a_config_beside_the_model),
                                      CASE(test_chat_templates),
                                      CASE(test_identity_kind_and_count),
                                      CASE(test_what_is_asked_for_and_what_is_there),
                                      CASE(test_the_same_files_are_one_tokenizer),
                                      CASE(test_the_oldest_and_the_largest_are_not_kept),
                                      CASE(test_several_threads_open_the_same),
                                      CASE(test_several_threads),
                                      CASE(test_long_texts_take_time_in_proportion)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
