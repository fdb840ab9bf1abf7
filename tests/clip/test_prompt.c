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

/* Row r of embedding e is the number 1000 e + r. */
static int find_embedding(void *self, const char *name, const float **rows, size_t *n, char why[300])
{
    static const struct {
        const char *name;
        size_t n;
    } all[] = {{"foo", 2}, {"long-7", 9}, {"one", 1}, {"huge", 80}};
    static float memory[4][80];
    (void)self;
    for (size_t e = 0; e < 4; e++) {
        for (size_t r = 0; r < 80; r++) memory[e][r] = (float)(1000 * e + r);
        if (strncmp(name, all[e].name, strlen(all[e].name)) != 0) continue; /* with .safetensors as well */
        *rows = memory[e], *n = all[e].n;
        return 1;
    }
    snprintf(why, 300, "there is no embedding '%s'", name);
    return 0;
}

static void check_place(const prompt_chunks *c, size_t k, int64_t id, float weight, const char *text)
{
    int64_t have = c->vector[k] ? -(int64_t)*c->vector[k] - 1 : c->id[k];
    CHECK_MSG(have == id && c->weight[k] == weight, "'%.60s': place %zu is %lld x %g, wanted %lld x %g", text, k,
              (long long)have, (double)c->weight[k], (long long)id, (double)weight);
}

static void test_embeddings_equal_comfyui(void)
{
    const prompt_embeddings embeddings = {.find = find_embedding, .width = 1};
    prompt_tokenizer t;
    kiln_tokenizer *opened = open_tokenizer(OFFICIAL, &t);
    kiln_weights *w = golden("embeddings");
    int64_t n = 0;
    REQUIRE(opened && w);
    t.embeddings = &embeddings;
    const void *first = data(w, "prompt_first", &n), *chunk_first = data(w, "chunk_first", NULL),
               *ids = data(w, "ids", NULL);
    const char *bytes = data(w, "prompt_bytes", NULL);
    const float *weights = data(w, "weights", NULL);
    CHECK(n > 15);
    for (int64_t i = 0; i + 1 < n; i++) {
        char text[2000], why[300] = "";
        int64_t from = 77 * number(chunk_first, i), to = 77 * number(chunk_first, i + 1);
        snprintf(text, sizeof text, "%.*s", (int)(number(first, i + 1) - number(first, i)), bytes + number(first, i));
        prompt p;
        prompt_chunks c = {0};
        CHECK_MSG(prompt_parse(text, &p, why) && prompt_tokenise(&t, &p, 77, &c, why), "'%.60s': %s", text, why);
        if (CHECK_MSG((int64_t)c.n_chunk * 77 == to - from, "'%.60s': %zu chunks", text, c.n_chunk))
            for (int64_t k = from; k < to; k++) {
                float weight;
                memcpy(&weight, weights + k, sizeof weight);
                check_place(&c, (size_t)(k - from), number(ids, k), weight, text);
            }
        CHECK_EQ(c.has_vectors, strstr(text, "noembedding") == NULL);
        prompt_free(&p);
        prompt_chunks_free(&c);
    }
    weights_unref(w);
    t.api->unref(opened);
}

/* 819 times 80 rows are 65,520 tokens. */
static void test_tokens_end_somewhere(void)
{
    const prompt_embeddings embeddings = {.find = find_embedding, .width = 1};
    prompt_tokenizer t;
    kiln_tokenizer *opened = open_tokenizer(TINY, &t);
    static char text[820 * 15 + 1];
    REQUIRE(opened);
    t.embeddings = &embeddings;
    for (size_t n = 819; n <= 820; n++) {
        prompt p;
        prompt_chunks c = {0};
        char why[300] = "";
        for (size_t i = 0; i < n; i++) memcpy(text + 15 * i, "embedding:huge ", 16);
        CHECK(prompt_parse(text, &p, why));
        CHECK_EQ(prompt_tokenise(&t, &p, 77, &c, why), n == 819);
        CHECK_STR(why, n == 819 ? "" : "the prompt's embeddings and words are more than 65536 tokens");
        prompt_free(&p);
        prompt_chunks_free(&c);
    }
    t.api->unref(opened);
}

typedef struct {
    char text[300];
} names;

static void add_name(void *self, const char *param, const char *folder, const char *name)
{
    names *to = self;
    size_t n = strlen(to->text);
    snprintf(to->text + n, sizeof to->text - n, "%s/%s/%s ", param, folder, name);
}

static void test_embeddings_are_named(void)
{
    static const struct {
        const char *text, *names, *why;
    } cases[] = {{"embedding:bad", "text/embeddings/bad ", "takes none"},
                 {"a cat, embedding:bad, x", "text/embeddings/bad ", "takes none"},
                 {"(embedding:bad:1.2) embedding:sub/b<", "text/embeddings/bad text/embeddings/sub/b ", "takes none"},
                 {"embedding:", "text/embeddings/ ", "takes none"},
                 {"noembedding:x", "", ""},
                 {"an embedding", "", ""}};
    prompt_tokenizer t;
    kiln_tokenizer *opened = open_tokenizer(TINY, &t);
    REQUIRE(opened);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        prompt p;
        prompt_chunks c = {0};
        char why[300] = "";
        names found = {0};
        prompt_names_files(cases[i].text, "text", &(kiln_file_names){sizeof(kiln_file_names), &found, add_name});
        CHECK_STR(found.text, cases[i].names);
        CHECK(prompt_parse(cases[i].text, &p, why));
        CHECK_EQ(prompt_tokenise(&t, &p, 77, &c, why), cases[i].why[0] == 0);
        CHECK_MSG(strstr(why, cases[i].why) != NULL, "%s", why);
        prompt_free(&p);
        prompt_chunks_free(&c);
    }
    prompt_names_files(NULL, "text", NULL); /* a text that only a run will know */
    t.api->unref(opened);
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
    static const test_case cases[] = {CASE(test_T5_invalid_utf8_is_refused),
                                      CASE(test_T10_several_threads),
                                      CASE(test_T3_T4_prompts_equal_the_golden),
                                      CASE(test_embeddings_equal_comfyui),
                                      CASE(test_embeddings_are_named),
                                      CASE(test_tokens_end_somewhere),
                                      CASE(test_hostile_prompts)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
