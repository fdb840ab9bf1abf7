/* test_sentencepiece_models.c - SentencePiece models of a few pieces, written here: what decides between two ways to
 * cut a text, what is never joined, and files that contradict themselves. What is wanted was asked of sentencepiece. */
#include "source_files.h"

#include "token_index.h"

typedef struct {
    const char *text;
    float score;
    unsigned type;
} row;

typedef struct {
    unsigned char s[4096];
    size_t n;
} bytes;

static void put(bytes *b, const void *s, size_t n)
{
    memcpy(b->s + b->n, s, n);
    b->n += n;
}

/* A length-delimited field; all of ours are short. */
static void put_field(bytes *b, unsigned number, const void *s, size_t n)
{
    put(b, (unsigned char[]){(unsigned char)(number << 3 | 2), (unsigned char)n}, 2);
    put(b, s, n);
}

/* unigram 1 or BPE 2, no blank before the text, blanks as they are. */
static bytes model_of(unsigned type, const row *rows, size_t n)
{
    bytes b = {.n = 0};
    for (size_t i = 0; i < n; i++) {
        bytes piece = {.n = 0};
        put_field(&piece, 1, rows[i].text, strlen(rows[i].text));
        put(&piece, (unsigned char[]){2 << 3 | 5}, 1);
        put(&piece, &rows[i].score, 4);
        put(&piece, (unsigned char[]){3 << 3, (unsigned char)rows[i].type}, 2);
        put_field(&b, 1, piece.s, piece.n);
    }
    put_field(&b, 2, (unsigned char[]){3 << 3, (unsigned char)type}, 2);
    put_field(&b, 3, (unsigned char[]){3 << 3, 0, 4 << 3, 0}, 4);
    return b;
}

static kiln_tokenizer *open_bytes(const char *name, const void *data, size_t n, char *why)
{
    const kiln_tokenizer_file file = {sizeof file, name, data, n};
    why[0] = 0;
    return tokenizer_open(&(kiln_tokenizer_source){.size = sizeof(kiln_tokenizer_source), .file = &file, .n_file = 1},
                          why);
}

static void check_ids(kiln_tokenizer *t, const char *text, const int32_t *id, size_t n)
{
    REQUIRE(t);
    kiln_encoding e = encode_text(t, text, strlen(text), 0, 0);
    int same = e.n == n;
    for (size_t i = 0; same && i < n; i++) same = e.id[i] == id[i];
    CHECK_MSG(same, "'%s': %zu ids from %d on", text, e.n, e.n ? e.id[0] : -1);
    tokenizer_api.encoding_free(&e);
    tokenizer_api.unref(t);
}

/* a + bc and ab + c are equal in single precision, where the first one found stays; in double ab + c is better. Where
 * the sum so far is large it is taken away, and single precision tells them apart as well. */
static void test_sums_are_the_librarys(void)
{
    static const row near[] = {{"<unk>", 0, PIECE_UNKNOWN},
                               {"a", -65536, PIECE_NORMAL},
                               {"bc", -0.001f, PIECE_NORMAL},
                               {"ab", -65536, PIECE_NORMAL},
                               {"c", -0.0005f, PIECE_NORMAL}},
                     far[] = {{"<unk>", 0, PIECE_UNKNOWN},
                              {"a", -16777216, PIECE_NORMAL},
                              {"bc", -0.5f, PIECE_NORMAL},
                              {"ab", -16777216, PIECE_NORMAL},
                              {"c", -0.25f, PIECE_NORMAL}};
    static const char json[] = "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],[\"a\",-65536],"
                               "[\"bc\",-0.001],[\"ab\",-65536],[\"c\",-0.0005]]}}";
    char why[KILN_TOKENIZER_WHY];
    bytes b = model_of(1, near, 5);
    check_ids(open_bytes("tokenizer.model", b.s, b.n, why), "abc", (int32_t[]){1, 2}, 2);
    check_ids(open_bytes("tokenizer.json", json, sizeof json - 1, why), "abc", (int32_t[]){3, 4}, 2);
    b = model_of(1, far, 5);
    check_ids(open_bytes("tokenizer.model", b.s, b.n, why), "abc", (int32_t[]){3, 4}, 2);
}

/* What is unknown costs ten more than the worst piece, which single precision makes twelve here. */
static void test_what_the_unknown_costs(void)
{
    static const row rows[] = {{"<unk>", 0, PIECE_UNKNOWN}, {"ua", -33554436, PIECE_NORMAL}, {"a", 11, PIECE_NORMAL}};
    static const char json[] = "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"<unk>\",0],"
                               "[\"ua\",-33554436],[\"a\",11]]}}";
    char why[KILN_TOKENIZER_WHY];
    bytes b = model_of(1, rows, 3);
    check_ids(open_bytes("tokenizer.model", b.s, b.n, why), "ua", (int32_t[]){1}, 1);
    check_ids(open_bytes("tokenizer.json", json, sizeof json - 1, why), "ua", (int32_t[]){0, 2}, 2);
}

static void test_pieces_of_the_user_stay_whole(void)
{
    static const row rows[] = {{"<unk>", 0, PIECE_UNKNOWN}, {"a", -3, PIECE_NORMAL},  {"b", -3, PIECE_NORMAL},
                               {"c", -3, PIECE_NORMAL},     {"ab", 0, PIECE_USER},    {"abc", -0.1f, PIECE_NORMAL},
                               {"bc", -0.2f, PIECE_NORMAL}, {"ca", -5, PIECE_NORMAL}, {"cab", -1, PIECE_NORMAL}};
    char why[KILN_TOKENIZER_WHY];
    bytes bpe = model_of(2, rows, 9), unigram = model_of(1, rows, 9);
    check_ids(open_bytes("tokenizer.model", bpe.s, bpe.n, why), "abcab", (int32_t[]){4, 3, 4}, 3);
    check_ids(open_bytes("tokenizer.model", unigram.s, unigram.n, why), "abcab", (int32_t[]){5, 4}, 2);
}

static void test_unused_pieces_are_taken_apart(void)
{
    static const row rows[] = {{"<unk>", 0, PIECE_UNKNOWN}, {"a", -3, PIECE_NORMAL},    {"b", -3, PIECE_NORMAL},
                               {"ab", -1, PIECE_UNUSED},    {"abab", -2, PIECE_NORMAL}, {"aba", -0.5f, PIECE_UNUSED}};
    char why[KILN_TOKENIZER_WHY];
    bytes bpe = model_of(2, rows, 6);
    check_ids(open_bytes("tokenizer.model", bpe.s, bpe.n, why), "ab", (int32_t[]){1, 2}, 2);
    check_ids(open_bytes("tokenizer.model", bpe.s, bpe.n, why), "aba", (int32_t[]){1, 2, 1}, 3);
}

static void check_refused(bytes b, const char *wanted)
{
    char why[KILN_TOKENIZER_WHY];
    kiln_tokenizer *t = open_bytes("tokenizer.model", b.s, b.n, why);
    CHECK_MSG(!t && strstr(why, wanted) && strncmp(why, "tokenizer.model: ", 17) == 0, "'%s' is wanted, got '%s'",
              wanted, why);
    tokenizer_api.unref(t);
}

static void test_models_that_contradict_themselves(void)
{
    static const row unknown = {"<unk>", 0, PIECE_UNKNOWN}, a = {"a", 0, PIECE_NORMAL},
                     byte = {"<0x00>", 0, PIECE_BYTE};
    check_refused(model_of(1, &a, 1), "for the unknown");
    check_refused(model_of(1, (row[]){unknown, {"<x>", 0, PIECE_UNKNOWN}}, 2), "two pieces");
    check_refused(model_of(1, (row[]){unknown, a, a}, 3), "twice");
    check_refused(model_of(1, (row[]){unknown, {"", 0, PIECE_NORMAL}}, 2), "no text");
    check_refused(model_of(1, (row[]){unknown, {"x", 0, 9}}, 2), "type 9");
    check_refused(model_of(3, (row[]){unknown, a}, 2), "model type 3");
    check_refused(model_of(1, (row[]){unknown, {"x", (float)(1e30 * 1e30), PIECE_NORMAL}}, 2), "no number");
    check_refused(model_of(1, NULL, 0), "0 pieces");
    bytes b = model_of(1, (row[]){unknown, byte}, 2);
    put_field(&b, 2, (unsigned char[]){0x98, 0x02, 1}, 3); /* byte_fallback, field 35 */
    check_refused(b, "<0x00> to <0xFF>");
    b = model_of(1, (row[]){unknown, a}, 2);
    put_field(&b, 3, (unsigned char[]){2 << 3 | 2, 6, 200, 0, 0, 0, 1, 2}, 8); /* a map whose trie is not there */
    check_refused(b, "trie of 200 bytes");
}

static void test_identity_hangs_on_every_byte(void)
{
    row rows[] = {{"<unk>", 0, PIECE_UNKNOWN}, {"a", -3, PIECE_NORMAL}};
    char why[KILN_TOKENIZER_WHY];
    bytes one = model_of(1, rows, 2), two;
    rows[1].score = -4;
    two = model_of(1, rows, 2);
    kiln_tokenizer *t[3] = {open_bytes("tokenizer.model", one.s, one.n, why),
                            open_bytes("tokenizer.model", two.s, two.n, why),
                            open_bytes("tokenizer/tokenizer.model", one.s, one.n, why)};
    REQUIRE(t[0] && t[1] && t[2]);
    CHECK(one.n == two.n && strcmp(tokenizer_api.identity(t[0]), tokenizer_api.identity(t[1])) != 0);
    CHECK_STR(tokenizer_api.identity(t[0]), tokenizer_api.identity(t[2]));
    for (int i = 0; i < 3; i++) tokenizer_api.unref(t[i]);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_sums_are_the_librarys),
                                      CASE(test_what_the_unknown_costs),
                                      CASE(test_pieces_of_the_user_stay_whole),
                                      CASE(test_unused_pieces_are_taken_apart),
                                      CASE(test_models_that_contradict_themselves),
                                      CASE(test_identity_hangs_on_every_byte)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
