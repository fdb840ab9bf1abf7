/* test_clip_bpe.c - CLIP's tokenizer against transformers' ids (tests/golden): its files, the merges alone, another
 * vocabulary of the same form, and files that are none. Ids are exact. */
#include "harness.h"

#include "tokenizer_api.h"
#include "weights/weights.h"

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

static kiln_tokenizer *open_texts(const char *vocab, size_t n_vocab, const char *merges, size_t n_merges, char *why)
{
    const kiln_tokenizer_file files[] = {{sizeof *files, "merges.txt", merges, n_merges},
                                         {sizeof *files, "vocab.json", vocab, n_vocab}};
    return tokenizer_open(&(kiln_tokenizer_source){sizeof(kiln_tokenizer_source), "clip-bpe", files, vocab ? 2 : 1},
                          why);
}

static kiln_tokenizer *open_folder(const char *folder, int merges_only)
{
    size_t n_vocab = 0, n_merges = 0;
    char why[KILN_TOKENIZER_WHY] = "no such file", *vocab = read_all(folder, "vocab.json", &n_vocab),
         *merges = read_all(folder, "merges.txt", &n_merges);
    kiln_tokenizer *t = NULL;
    if (vocab && merges) t = open_texts(merges_only ? NULL : vocab, n_vocab, merges, n_merges, why);
    CHECK_MSG(t != NULL, "%s: %s", folder, why);
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

/* The ids of a text with begin and end; the caller frees them. */
static kiln_encoding ids_of(const kiln_tokenizer *t, const char *text, size_t n, uint32_t ends)
{
    kiln_encoding e = {.size = sizeof e};
    char why[KILN_TOKENIZER_WHY] = "";
    const kiln_tokenizer_input in = {.size = sizeof in, .text = text, .n = n, .special = 1, .ends = ends};
    CHECK_MSG(tokenizer_api.encode(t, &in, &e, why) == KILN_OK, "%s", why);
    return e;
}

/* ---- ids ---- */

static void equal_golden(const char *folder, const char *name, int merges_only)
{
    kiln_tokenizer *t = open_folder(folder, merges_only);
    kiln_weights *w = golden(name);
    REQUIRE(t && w);
    int64_t n = 0;
    const void *ids = data(w, "ids", NULL), *ids_first = data(w, "ids_first", &n), *first = data(w, "text_first", NULL);
    const char *bytes = data(w, "text_bytes", NULL);
    CHECK(n > 100);
    for (int64_t i = 0; i + 1 < n; i++) {
        const char *text = bytes + number(first, i);
        int64_t length = number(first, i + 1) - number(first, i), at = number(ids_first, i),
                wanted = number(ids_first, i + 1) - at;
        kiln_encoding e = ids_of(t, text, (size_t)length, 1);
        int same = (int64_t)e.n == wanted;
        for (int64_t k = 0; same && k < wanted; k++) same = e.id[k] == number(ids, at + k);
        CHECK_MSG(same, "text %lld '%.*s': %zu ids, %lld wanted, or others", (long long)i,
                  length < 60 ? (int)length : 60, text, e.n, (long long)wanted);
        tokenizer_api.encoding_free(&e);
    }
    weights_unref(w);
    tokenizer_api.unref(t);
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
    kiln_tokenizer *t = open_folder(OFFICIAL, 0);
    REQUIRE(t);
    for (size_t i = 0; i < 3; i++) {
        kiln_encoding e = ids_of(t, known[i].text, strlen(known[i].text), 0);
        CHECK_EQ(e.n, 1);
        CHECK_EQ(e.id[0], known[i].id);
        tokenizer_api.encoding_free(&e);
    }
    CHECK_EQ(tokenizer_api.special(t, "bos"), 49406);
    CHECK_EQ(tokenizer_api.special(t, "eos"), 49407);
    CHECK_EQ(tokenizer_api.special(t, "cat</w>"), 2368);
    CHECK_EQ(tokenizer_api.special(t, "no such token"), -1);
    CHECK_EQ(tokenizer_api.count(t), 49408);
    CHECK_STR(tokenizer_api.kind(t), "clip-bpe");
    tokenizer_api.unref(t);
}

/* Every byte that is no blank comes back from the ids: nothing is dropped, known word or not. */
static void test_T5_bytes_come_back(void)
{
    static const char *const texts[] = {"xqzjvk 😀👨‍👩‍👧 日本語 \x01\x7f \xef\xbf\xbd ٣٤٥ ½",
                                        "\xf4\x8f\xbf\xbf\xee\x80\x80"};
    const char *const folders[] = {OFFICIAL, TINY};
    for (size_t f = 0; f < 2; f++) {
        kiln_tokenizer *t = open_folder(folders[f], 0);
        REQUIRE(t);
        for (size_t i = 0; i < 2; i++) {
            char back[500], wanted[500];
            kiln_encoding e = ids_of(t, texts[i], strlen(texts[i]), 1);
            size_t n = tokenizer_api.decode(t, e.id, e.n, 0, back, sizeof back), at = 0, m = 0;
            for (size_t k = 0; k < n; k++)
                if (back[k] != ' ') back[at++] = back[k];
            for (const char *s = texts[i]; *s; s++)
                if (*s != ' ') wanted[m++] = *s;
            CHECK_EQ(at, m);
            CHECK(at == m && memcmp(back, wanted, m) == 0);
            tokenizer_api.encoding_free(&e);
        }
        tokenizer_api.unref(t);
    }
}

/* ---- bad files ---- */

static void check_refused(const char *vocab, const char *merges, const char *wanted)
{
    char why[KILN_TOKENIZER_WHY] = "";
    kiln_tokenizer *t = open_texts(vocab, strlen(vocab), merges, strlen(merges), why);
    CHECK_MSG(!t && strstr(why, wanted), "wanted a sentence with '%s', got '%s'", wanted, why);
    tokenizer_api.unref(t);
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
                                      CASE(test_T5_bytes_come_back),
                                      CASE(test_bad_tokenizer_files)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
