/* test_gguf.c - the head of a GGUF file: what it says is read, and what no writer writes is refused with its place. */
#include "source_files.h"

#include "gguf_metadata.h"

typedef struct {
    unsigned char s[4096];
    size_t n;
} bytes;

static void put(bytes *b, uint64_t x, size_t n)
{
    for (size_t i = 0; i < n; i++) b->s[b->n++] = (unsigned char)(x >> (8 * i));
}

static void put_text(bytes *b, const char *s)
{
    put(b, strlen(s), 8);
    memcpy(b->s + b->n, s, strlen(s));
    b->n += strlen(s);
}

static bytes head(uint64_t pairs)
{
    bytes b = {.n = 4};
    memcpy(b.s, "GGUF", 4);
    put(&b, 3, 4);
    put(&b, 0, 8);
    put(&b, pairs, 8);
    return b;
}

static void put_number(bytes *b, const char *key, uint32_t type, uint64_t x, size_t n)
{
    put_text(b, key);
    put(b, type, 4);
    put(b, x, n);
}

/* The copy ends where the data do, so that AddressSanitizer sees a read behind them. */
static void check(const bytes *b, const char *wanted)
{
    token_pool memory = {0};
    gguf_metadata m;
    char why[300] = "";
    unsigned char *copy = malloc(b->n ? b->n : 1);
    REQUIRE(copy);
    memcpy(copy, b->s, b->n);
    int ok = gguf_read(&memory, copy, b->n, &m, why);
    CHECK_MSG(wanted ? !ok && strstr(why, wanted) && strncmp(why, "byte ", 5) == 0 : ok, "'%s' is wanted, got '%s'",
              wanted ? wanted : "metadata", why);
    token_pool_free(&memory);
    free(copy);
}

static void test_values_are_read(void)
{
    bytes b = head(6);
    put_number(&b, "i8", GGUF_I8, 0xff, 1);
    put_number(&b, "u32", GGUF_U32, 7, 4);
    put_number(&b, "i64", GGUF_I64, (uint64_t)-9, 8);
    put_number(&b, "yes", GGUF_BOOL, 1, 1);
    put_text(&b, "text");
    put(&b, GGUF_STRING, 4);
    put_text(&b, "hello");
    put_text(&b, "list");
    put(&b, GGUF_ARRAY, 4);
    put(&b, GGUF_F32, 4);
    put(&b, 2, 8);
    put(&b, 0x3f800000, 4);
    put(&b, 0xc0000000, 4);
    token_pool memory = {0};
    gguf_metadata m;
    char why[300] = "";
    CHECK_MSG(gguf_read(&memory, b.s, b.n, &m, why), "%s", why);
    CHECK_EQ(gguf_integer(&m, "i8", 0), -1);
    CHECK_EQ(gguf_integer(&m, "u32", 0), 7);
    CHECK_EQ(gguf_integer(&m, "i64", 0), -9);
    CHECK_EQ(gguf_integer(&m, "yes", 0), 1);
    CHECK_EQ(gguf_integer(&m, "text", 5), 5);
    CHECK_EQ(gguf_integer(&m, "absent", 6), 6);
    size_t n = 0;
    const char *text = gguf_text(&m, "text", &n);
    CHECK(text && n == 5 && memcmp(text, "hello", 5) == 0);
    CHECK(!gguf_text(&m, "u32", &n));
    const gguf_value *list = gguf_array(&m, "list", GGUF_F32);
    REQUIRE(list && list->count == 2);
    CHECK(gguf_number_at(list, 0) == 1 && gguf_number_at(list, 1) == -2);
    CHECK(!gguf_array(&m, "list", GGUF_I32));
    token_pool_free(&memory);
}

static void test_heads_that_are_none(void)
{
    bytes b = head(0);
    check(&b, NULL);
    b.s[0] = 'X';
    check(&b, "does not begin with GGUF");
    b = head(0), b.s[4] = 1;
    check(&b, "version");
    b = head(0), b.s[4] = 0, b.s[7] = 3;
    check(&b, "big-endian");
    for (size_t n = 0; n < 24; n++) {
        b = head(0), b.n = n;
        check(&b, n < 4 ? "GGUF" : "ends");
    }
    b = head(1);
    check(&b, "more pairs");
    b = head(UINT64_MAX);
    check(&b, "more pairs");
    b = head(0), memset(b.s + 8, 0xff, 8);
    check(&b, "more pairs or tensors");
}

static void test_pairs_that_lie(void)
{
    bytes b = head(1);
    put(&b, UINT64_MAX, 8); /* a key longer than the file */
    put(&b, 0, 8);
    check(&b, "longer than");
    b = head(1);
    put_number(&b, "", GGUF_U32, 0, 4);
    check(&b, "empty");
    b = head(1);
    put_number(&b, "k", 13, 0, 4);
    check(&b, "type that is not known");
    b = head(1);
    put_number(&b, "k", GGUF_BOOL, 2, 1);
    check(&b, "neither 0 nor 1");
    b = head(1);
    put_number(&b, "k", GGUF_F64, 0, 4);
    check(&b, "ends in the middle");
    b = head(2);
    put_number(&b, "k", GGUF_U32, 0, 4);
    put_number(&b, "k", GGUF_U32, 0, 4);
    check(&b, "twice");
    b = head(1);
    put_number(&b, "general.alignment", GGUF_U32, 48, 4);
    check(&b, "power of two");
    b = head(1);
    put_number(&b, "general.alignment", GGUF_U32, 64, 4);
    check(&b, NULL);
    b = head(1);
    put_text(&b, "k");
    put(&b, GGUF_STRING, 4);
    put(&b, (uint64_t)1 << 62, 8);
    check(&b, "longer than");
}

static void put_array(bytes *b, uint32_t type, uint64_t count)
{
    *b = head(1);
    put_text(b, "k");
    put(b, GGUF_ARRAY, 4);
    put(b, type, 4);
    put(b, count, 8);
}

static void test_arrays_that_lie(void)
{
    bytes b;
    put_array(&b, GGUF_ARRAY, 1);
    check(&b, "array of arrays");
    put_array(&b, 99, 1);
    check(&b, "not known");
    put_array(&b, GGUF_U64, (uint64_t)1 << 61);
    check(&b, "more items");
    put_array(&b, GGUF_STRING, UINT64_MAX / 8);
    check(&b, "more items");
    put_array(&b, GGUF_STRING, 1);
    put(&b, 100, 8);
    check(&b, "longer than");
    put_array(&b, GGUF_BOOL, 2);
    put(&b, 0x0301, 2);
    check(&b, "neither 0 nor 1");
    put_array(&b, GGUF_U8, 0);
    check(&b, NULL);
}

/* A head that is whole, of a tokenizer that is not. */
static void check_tokenizer(const bytes *b, const char *wanted)
{
    char why[KILN_TOKENIZER_WHY] = "";
    const kiln_tokenizer_file file = {sizeof file, "model.gguf", b->s, b->n};
    kiln_tokenizer *t = tokenizer_open(
        &(kiln_tokenizer_source){.size = sizeof(kiln_tokenizer_source), .file = &file, .n_file = 1}, why);
    CHECK_MSG(!t && strstr(why, wanted) && strncmp(why, "model.gguf: ", 12) == 0, "'%s' is wanted, got '%s'", wanted,
              why);
    tokenizer_api.unref(t);
}

static void put_tokens(bytes *b, const char *model, uint64_t types)
{
    static const char *const tokens[] = {"a", "b", "ab"};
    put_text(b, "tokenizer.ggml.model");
    put(b, GGUF_STRING, 4);
    put_text(b, model);
    put_text(b, "tokenizer.ggml.tokens");
    put(b, GGUF_ARRAY, 4);
    put(b, GGUF_STRING, 4);
    put(b, 3, 8);
    for (int i = 0; i < 3; i++) put_text(b, tokens[i]);
    put_text(b, "tokenizer.ggml.token_type");
    put(b, GGUF_ARRAY, 4);
    put(b, GGUF_I32, 4);
    put(b, types, 8);
    for (uint64_t i = 0; i < types; i++) put(b, 1, 4);
}

/* Of WordPiece, words begin with U+2581 and what goes on in one has no mark, from the first token to the last. */
static void test_wordpiece_tokens(void)
{
    static const char *const tokens[2][3] = {{"\xe2\x96\x81the", "ing", "[UNK]"}, {"ing", "[UNK]", "\xe2\x96\x81the"}};
    static const int32_t types[2][3] = {{1, 1, 2}, {1, 2, 1}}, said[2][4] = {{0, 1, 0, 0}, {2, 0, 2, 2}};
    for (int i = 0; i < 2; i++) {
        bytes b = head(3);
        char why[KILN_TOKENIZER_WHY] = "", text[40] = "";
        put_text(&b, "tokenizer.ggml.model"), put(&b, GGUF_STRING, 4), put_text(&b, "bert");
        put_text(&b, "tokenizer.ggml.tokens"), put(&b, GGUF_ARRAY, 4), put(&b, GGUF_STRING, 4), put(&b, 3, 8);
        for (int k = 0; k < 3; k++) put_text(&b, tokens[i][k]);
        put_text(&b, "tokenizer.ggml.token_type"), put(&b, GGUF_ARRAY, 4), put(&b, GGUF_I32, 4), put(&b, 3, 8);
        for (int k = 0; k < 3; k++) put(&b, (uint64_t)types[i][k], 4);
        const kiln_tokenizer_file file = {sizeof file, "model.gguf", b.s, b.n};
        kiln_tokenizer *t = tokenizer_open(
            &(kiln_tokenizer_source){.size = sizeof(kiln_tokenizer_source), .file = &file, .n_file = 1}, why);
        if (!CHECK_MSG(t != NULL, "%s", why)) continue;
        tokenizer_api.decode(t, said[i], 4, 0, text, sizeof text - 1);
        CHECK_STR(text, "theing the the");
        tokenizer_api.unref(t);
    }
}

static void test_tokenizers_that_are_none(void)
{
    bytes b = head(0);
    check_tokenizer(&b, "is not known; llama, t5, gpt2, bert and gemma4 are");
    b = head(1);
    put_text(&b, "tokenizer.ggml.model");
    put(&b, GGUF_STRING, 4);
    put_text(&b, "rwkv");
    check_tokenizer(&b, "'rwkv'");
    b = head(3);
    put_tokens(&b, "llama", 2);
    check_tokenizer(&b, "same length");
    b = head(3);
    put_tokens(&b, "llama", 3);
    check_tokenizer(&b, "unknown");
    b = head(3);
    put_tokens(&b, "gpt2", 3);
    check_tokenizer(&b, "no list tokenizer.ggml.merges");
    b = head(4);
    put_tokens(&b, "gpt2", 3);
    put_text(&b, "tokenizer.ggml.pre");
    put(&b, GGUF_STRING, 4);
    put_text(&b, "strange");
    check_tokenizer(&b, "the pattern 'strange'");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_values_are_read),          CASE(test_heads_that_are_none),
                                      CASE(test_pairs_that_lie),           CASE(test_arrays_that_lie),
                                      CASE(test_tokenizers_that_are_none), CASE(test_wordpiece_tokens)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
