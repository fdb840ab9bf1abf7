/* test_prompt.c - the prompt syntax and its chunks against the golden (tests/golden), over the tokenizer plugin.
 * Everything here is exact: ids are whole numbers, weights are products of decimals rounded once. */
#include "tokenizer_kit.h"

#include "prompt.h"
#include "weights/weights.h"

#include <pthread.h>

#define OFFICIAL "tests/golden/clip-tokenizer"
#define TINY "tests/golden/tiny-sd1/tokenizer"

static char *read_all(const char *folder, const char *name, size_t *n)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s/%s", test_root(), folder, name);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = malloc(4 << 20);
    *n = fread(text, 1, (4 << 20) - 1, f);
    text[*n] = 0;
    fclose(f);
    return text;
}

static kiln_tokenizer *open_tokenizer(const char *folder, prompt_tokenizer *out)
{
    size_t n_vocab = 0, n_merges = 0;
    char *vocab = read_all(folder, "vocab.json", &n_vocab), *merges = read_all(folder, "merges.txt", &n_merges);
    const kiln_tokenizer_file files[] = {{sizeof *files, "vocab.json", vocab, n_vocab},
                                         {sizeof *files, "merges.txt", merges, n_merges}};
    const kiln_tokenizer_api *api = tokenizers();
    const kiln_tokenizer_source source = {.size = sizeof source, .file = files, .n_file = 2};
    kiln_tokenizer *t = api && vocab && merges ? api->open(rig_ctx(), &source) : NULL;
    CHECK_MSG(t != NULL, "%s: %s", folder, rig_message());
    if (t) *out = prompt_tokenizer_of(api, t);
    free(vocab);
    free(merges);
    return t;
}

static kiln_weights *golden(const char *name)
{
    char path[500];
    error e = {0};
    snprintf(path, sizeof path, "%s/tests/golden/%s.safetensors", test_root(), name);
    kiln_weights *w = weights_open(path, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

static const void *data(const kiln_weights *w, const char *name, int64_t *n)
{
    kiln_weight_info info = {.size = sizeof info};
    const void *p = weights_bytes(w, name, &info);
    CHECK_MSG(p != NULL, "the golden has no %s", name);
    if (n) *n = p ? info.dim[0] : 0;
    return p;
}

static int64_t number(const void *p, int64_t i) /* the map may lie at any alignment */
{
    int64_t v;
    memcpy(&v, (const char *)p + 8 * i, 8);
    return v;
}

static void test_T5_invalid_utf8_is_refused(void)
{
    static const char *const texts[] = {"a \xff cat", "a \xc0\xaf", "a \xed\xa0\x80", "a \xf4\x90\x80\x80",
                                        "a \xe6\x97"};
    prompt_tokenizer t;
    kiln_tokenizer *opened = open_tokenizer(TINY, &t);
    REQUIRE(opened);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        prompt p;
        prompt_chunks c;
        char why[300] = "";
        CHECK(prompt_parse(texts[i], &p, why));
        CHECK(!prompt_tokenise(&t, &p, 77, &c, why));
        CHECK_MSG(strstr(why, "UTF-8: byte 2") != NULL, "%s", why);
        prompt_free(&p);
        prompt_chunks_free(&c);
    }
    t.api->unref(opened);
}

/* ---- threads ---- */

static void *tokenise_often(void *arg)
{
    prompt p;
    prompt_chunks c;
    char why[300];
    uintptr_t sum = 0;
    for (int i = 0; i < 200; i++) {
        if (!prompt_parse("a (cute:1.4) cat in the (garden)", &p, why) || !prompt_tokenise(arg, &p, 77, &c, why))
            return NULL;
        for (size_t k = 0; k < 77; k++) sum = sum * 31 + (uintptr_t)c.id[k];
        prompt_free(&p);
        prompt_chunks_free(&c);
    }
    return (void *)sum;
}

static void test_T10_several_threads(void)
{
    prompt_tokenizer t;
    kiln_tokenizer *opened = open_tokenizer(TINY, &t);
    REQUIRE(opened);
    pthread_t thread[4];
    void *sum[4];
    for (int i = 0; i < 4; i++) REQUIRE(pthread_create(&thread[i], NULL, tokenise_often, &t) == 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], &sum[i]);
    void *alone = tokenise_often(&t);
    CHECK(alone != NULL);
    for (int i = 0; i < 4; i++) CHECK(sum[i] == alone);
    t.api->unref(opened);
}

/* ---- prompts ---- */

/* Segments from..to of the golden, their texts one after the other from *bytes on. */
static void check_segments(const prompt *p, int64_t from, int64_t to, const char **bytes, const float *weight,
                           const char *text)
{
    CHECK_MSG((int64_t)p->n == to - from, "'%.60s': %zu segments, %lld wanted", text, p->n, (long long)(to - from));
    for (int64_t k = 0; (int64_t)p->n == to - from && k < to - from; k++) {
        const prompt_segment *s = &p->segment[k];
        float wanted;
        memcpy(&wanted, weight + from + k, sizeof wanted);
        CHECK_MSG(memcmp(s->text, *bytes, s->n) == 0 && s->weight == wanted,
                  "'%.60s': segment %lld is '%.40s' x %.9g, wanted x %.9g", text, (long long)k, s->text,
                  (double)s->weight, (double)wanted);
        *bytes += s->n;
    }
}

static void test_T3_T4_prompts_equal_the_golden(void)
{
    prompt_tokenizer t;
    kiln_tokenizer *opened = open_tokenizer(OFFICIAL, &t);
    kiln_weights *w = golden("prompt");
    REQUIRE(opened && w);
    int64_t n = 0;
    const void *first = data(w, "prompt_first", &n), *chunk_first = data(w, "chunk_first", NULL),
               *ids = data(w, "ids", NULL);
    const void *segment_first = data(w, "segment_first", NULL);
    const char *bytes = data(w, "prompt_bytes", NULL), *segment_bytes = data(w, "segment_bytes", NULL);
    const float *weights = data(w, "weights", NULL), *segment_weight = data(w, "segment_weight", NULL);
    CHECK(n > 40);
    for (int64_t i = 0; i + 1 < n; i++) {
        char text[2000], why[300] = "";
        int64_t length = number(first, i + 1) - number(first, i), from = number(chunk_first, i),
                count = number(chunk_first, i + 1) - from;
        snprintf(text, sizeof text, "%.*s", (int)length, bytes + number(first, i));
        prompt p;
        prompt_chunks c = {0};
        CHECK_MSG(prompt_parse(text, &p, why) && prompt_tokenise(&t, &p, 77, &c, why), "'%.60s': %s", text, why);
        check_segments(&p, number(segment_first, i), number(segment_first, i + 1), &segment_bytes, segment_weight,
                       text);
        CHECK_MSG((int64_t)c.n_chunk == count, "'%.60s': %zu chunks, %lld wanted", text, c.n_chunk, (long long)count);
        for (int64_t k = 0; (int64_t)c.n_chunk == count && k < 77 * count; k++) {
            float wanted;
            memcpy(&wanted, weights + 77 * from + k, sizeof wanted);
            if (!CHECK_MSG(c.id[k] == number(ids, 77 * from + k) && c.weight[k] == wanted,
                           "'%.60s': place %lld is %d x %g", text, (long long)k, c.id[k], (double)c.weight[k]))
                break;
        }
        for (size_t k = 0; k < c.n_chunk; k++) {
            CHECK(c.id[77 * k] == t.start && c.id[77 * k + 76] == t.end);
            CHECK(c.end[k] > 0 && c.id[77 * k + (size_t)c.end[k]] == t.end &&
                  c.id[77 * k + (size_t)c.end[k] - 1] != t.end);
        }
        prompt_free(&p);
        prompt_chunks_free(&c);
    }
    weights_unref(w);
    t.api->unref(opened);
}

static void test_embeddings_are_refused(void)
{
    static const struct {
        const char *text;
        int ok;
    } cases[] = {{"embedding:bad", 0},
                 {"a cat, embedding:bad, x", 0},
                 {"(embedding:bad:1.2)", 0},
                 {"noembedding:x", 1},
                 {"an embedding", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        prompt p;
        char why[300] = "";
        CHECK_MSG(prompt_parse(cases[i].text, &p, why) == cases[i].ok, "'%s': %s", cases[i].text, why);
        if (!cases[i].ok) CHECK_MSG(strstr(why, "textual inversion") != NULL, "%s", why);
        prompt_free(&p);
    }
}

static void test_hostile_prompts(void)
{
    static char text[PROMPT_BYTES_MAX + 10];
    prompt p;
    char why[300] = "";
    memset(text, 'a', sizeof text - 1);
    CHECK(!prompt_parse(text, &p, why));
    CHECK_MSG(strstr(why, "are the most") != NULL, "%s", why);
    prompt_free(&p);
    memset(text, '(', 300);
    memset(text + 300, ')', 300);
    text[600] = 0;
    CHECK(!prompt_parse(text, &p, why));
    CHECK_MSG(strstr(why, "parentheses") != NULL, "%s", why);
    prompt_free(&p);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_T5_invalid_utf8_is_refused), CASE(test_T10_several_threads),
                                      CASE(test_T3_T4_prompts_equal_the_golden), CASE(test_embeddings_are_refused),
                                      CASE(test_hostile_prompts)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
