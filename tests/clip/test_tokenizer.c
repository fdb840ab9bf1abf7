/* test_tokenizer.c - CLIP's tokenizer and the prompt syntax against transformers' ids (tests/golden).
 * Everything here is exact: ids are whole numbers, weights are products of decimals rounded once. */
#include "harness.h"

#include "base/file.h"
#include "bpe.h"
#include "prompt.h"
#include "weights/weights.h"
#include "words.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static bpe *open_bpe(const char *folder, int merges_only)
{
    size_t n_vocab = 0, n_merges = 0;
    char why[300] = "no such file", *vocab = read_all(folder, "vocab.json", &n_vocab),
         *merges = read_all(folder, "merges.txt", &n_merges);
    bpe *b = vocab && merges ? bpe_new(merges_only ? NULL : vocab, n_vocab, merges, n_merges, why) : NULL;
    CHECK_MSG(b != NULL, "%s: %s", folder, why);
    free(vocab);
    free(merges);
    return b;
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

typedef struct {
    const bpe *b;
    int32_t *id, *work;
    size_t n;
} collected;

static int collect(void *arg, word_kind kind, const char *word, size_t n)
{
    collected *c = arg;
    if (kind == WORD_PLAIN)
        c->n += bpe_word(c->b, word, n, c->id + c->n, c->work);
    else
        c->id[c->n++] = kind == WORD_START_TOKEN ? bpe_start(c->b) : bpe_end(c->b);
    return 1;
}

static int32_t ids_capacity[1 << 16], work_capacity[1 << 17];

static size_t ids_of(const bpe *b, const char *text, size_t n)
{
    collected c = {b, ids_capacity, work_capacity, 0};
    size_t bad = 0;
    CHECK_EQ(words_each(text, n, collect, &c, &bad), 1);
    return c.n;
}

/* ---- ids ---- */

static void equal_golden(const char *folder, const char *name, int merges_only)
{
    bpe *b = open_bpe(folder, merges_only);
    kiln_weights *w = golden(name);
    REQUIRE(b && w);
    int64_t n = 0;
    const void *ids = data(w, "ids", NULL), *ids_first = data(w, "ids_first", &n), *first = data(w, "text_first", NULL);
    const char *bytes = data(w, "text_bytes", NULL);
    CHECK(n > 100);
    for (int64_t i = 0; i + 1 < n; i++) {
        const char *text = bytes + number(first, i);
        int64_t length = number(first, i + 1) - number(first, i), at = number(ids_first, i),
                wanted = number(ids_first, i + 1) - at - 2;
        size_t got = ids_of(b, text, (size_t)length);
        int same =
            (int64_t)got == wanted && number(ids, at) == bpe_start(b) && number(ids, at + 1 + wanted) == bpe_end(b);
        for (int64_t k = 0; same && k < wanted; k++) same = ids_capacity[k] == number(ids, at + 1 + k);
        CHECK_MSG(same, "text %lld '%.*s': %zu ids, %lld wanted, or others", (long long)i,
                  length < 60 ? (int)length : 60, text, got, (long long)wanted);
    }
    weights_unref(w);
    bpe_free(b);
}

static void test_T2_ids_equal_transformers(void) { equal_golden(OFFICIAL, "tokenizer", 0); }
static void test_ids_of_another_vocabulary(void) { equal_golden(TINY, "tokenizer_tiny", 0); }
static void test_merges_alone_give_the_official_ids(void) { equal_golden(OFFICIAL, "tokenizer", 1); }

static void test_T2_known_ids(void)
{
    static const struct {
        const char *text;
        int32_t id;
    } known[] = {{"a", 320}, {"cat", 2368}, {"cute", 2242}};
    bpe *b = open_bpe(OFFICIAL, 0);
    REQUIRE(b);
    for (size_t i = 0; i < 3; i++) {
        CHECK_EQ(ids_of(b, known[i].text, strlen(known[i].text)), 1);
        CHECK_EQ(ids_capacity[0], known[i].id);
    }
    CHECK_EQ(bpe_start(b), 49406);
    CHECK_EQ(bpe_end(b), 49407);
    CHECK_EQ(bpe_size(b), 49408);
    bpe_free(b);
}

static void test_T1_same_ids_every_time(void)
{
    static const char text[] = "a photo of a cute cat, très coöperate 日本 1234";
    int32_t first[64];
    size_t n = 0;
    for (int made = 0; made < 3; made++) {
        bpe *b = open_bpe(OFFICIAL, 0);
        REQUIRE(b);
        for (int run = 0; run < 100; run++) {
            size_t got = ids_of(b, text, sizeof text - 1);
            if (n == 0) memcpy(first, ids_capacity, (n = got) * sizeof *first);
            CHECK(got == n && memcmp(first, ids_capacity, n * sizeof *first) == 0);
        }
        bpe_free(b);
    }
}

/* Every byte that is no blank comes back from the ids: nothing is dropped, known word or not. */
static void test_T5_bytes_come_back(void)
{
    static const char *const texts[] = {"xqzjvk 😀👨‍👩‍👧 日本語 \x01\x7f \xef\xbf\xbd ٣٤٥ ½",
                                        "\xf4\x8f\xbf\xbf\xee\x80\x80"};
    const char *const folders[] = {OFFICIAL, TINY};
    for (size_t f = 0; f < 2; f++) {
        bpe *b = open_bpe(folders[f], 0);
        REQUIRE(b);
        for (size_t t = 0; t < 2; t++) {
            char back[500], wanted[500];
            size_t n = ids_of(b, texts[t], strlen(texts[t])), at = 0, m = 0;
            for (size_t i = 0; i < n; i++) at += bpe_bytes(b, ids_capacity[i], back + at, sizeof back - at);
            for (const char *s = texts[t]; *s; s++)
                if (*s != ' ') wanted[m++] = *s;
            CHECK_EQ(at, m);
            CHECK(at == m && memcmp(back, wanted, m) == 0);
        }
        bpe_free(b);
    }
}

static void test_T5_invalid_utf8_is_refused(void)
{
    bpe *b = open_bpe(TINY, 0);
    prompt p;
    prompt_chunks c;
    char why[300] = "";
    REQUIRE(b);
    CHECK(prompt_parse("a \xff cat", &p, why));
    CHECK(!prompt_tokenise(b, &p, 77, &c, why));
    CHECK_MSG(strstr(why, "UTF-8: byte 2") != NULL, "%s", why);
    prompt_free(&p);
    prompt_chunks_free(&c);
    bpe_free(b);
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
    bpe *b = open_bpe(TINY, 0);
    REQUIRE(b);
    pthread_t thread[4];
    void *sum[4];
    for (int i = 0; i < 4; i++) REQUIRE(pthread_create(&thread[i], NULL, tokenise_often, b) == 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], &sum[i]);
    void *alone = tokenise_often(b);
    CHECK(alone != NULL);
    for (int i = 0; i < 4; i++) CHECK(sum[i] == alone);
    bpe_free(b);
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
    bpe *b = open_bpe(OFFICIAL, 0);
    kiln_weights *w = golden("prompt");
    REQUIRE(b && w);
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
        CHECK_MSG(prompt_parse(text, &p, why) && prompt_tokenise(b, &p, 77, &c, why), "'%.60s': %s", text, why);
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
        for (size_t k = 0; k < c.n_chunk; k++) CHECK_EQ(c.id[77 * k + 76], bpe_end(b));
        prompt_free(&p);
        prompt_chunks_free(&c);
    }
    weights_unref(w);
    bpe_free(b);
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

/* ---- bad files ---- */

static void check_refused(const char *vocab, const char *merges, const char *wanted)
{
    char why[300] = "";
    bpe *b = bpe_new(vocab, strlen(vocab), merges, strlen(merges), why);
    CHECK_MSG(!b && strstr(why, wanted), "wanted a sentence with '%s', got '%s'", wanted, why);
    bpe_free(b);
}

static void test_bad_tokenizer_files(void)
{
    size_t n = 0;
    char *vocab = read_all(TINY, "vocab.json", &n);
    REQUIRE(vocab);
    check_refused("{", "", "vocab.json:1");
    check_refused("[]", "", "not a map");
    check_refused("{}", "", "0 entries");
    check_refused("{\"a\": -1}", "", "'a'");
    check_refused("{\"a\": 0, \"b\": 0}", "", "same id");
    check_refused("{\"a\": 1000000}", "", "count up");
    check_refused("{\"a\": 0, \"a\": 1}", "", "duplicate");
    check_refused("{\"a\": 0}", "", "byte 0");
    check_refused(vocab, "#version: 0.2\na\n", "merges.txt:2");
    check_refused(vocab, "#version: 0.2\na b c\n", "merges.txt:2");
    check_refused(vocab, "#version: 0.2\nq q\n", "merges.txt:2");
    vocab[n / 2] = 0; /* cut short */
    check_refused(vocab, "", "vocab.json:");
    free(vocab);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_T2_known_ids),
                                      CASE(test_T2_ids_equal_transformers),
                                      CASE(test_ids_of_another_vocabulary),
                                      CASE(test_merges_alone_give_the_official_ids),
                                      CASE(test_T1_same_ids_every_time),
                                      CASE(test_T5_bytes_come_back),
                                      CASE(test_T5_invalid_utf8_is_refused),
                                      CASE(test_T10_several_threads),
                                      CASE(test_T3_T4_prompts_equal_the_golden),
                                      CASE(test_embeddings_are_refused),
                                      CASE(test_hostile_prompts),
                                      CASE(test_bad_tokenizer_files)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
