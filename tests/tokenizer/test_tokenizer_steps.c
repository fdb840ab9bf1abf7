/* test_tokenizer_steps.c - single steps of a tokenizer.json: where each behavior of a Split cuts (answers of the
 * library tokenizers 0.23), what a BertNormalizer does by default, and the kind that a tokenizer is said to have.
 */
#include "source_files.h"

static kiln_tokenizer *open_text(const char *json)
{
    char why[KILN_TOKENIZER_WHY] = "";
    const kiln_tokenizer_file file = {sizeof file, "tokenizer.json", json, strlen(json)};
    kiln_tokenizer *t = tokenizer_open(
        &(kiln_tokenizer_source){.size = sizeof(kiln_tokenizer_source), .file = &file, .n_file = 1}, why);
    CHECK_MSG(t != NULL, "%s: %s", json, why);
    return t;
}

/* ---- where a text is cut ---- */

/* Every piece that any behavior makes of it is a word. */
#define WORDS                                                                                                          \
    "{\"type\": \"Unigram\", \"unk_id\": 0, \"byte_fallback\": false, \"vocab\": [[\"<unk>\", 0], [\"the\", -1], "     \
    "[\"the-\", -1], [\"-final\", -1], [\"final\", -1], [\"final-\", -1], [\"-\", -1], [\"--\", -1], "                 \
    "[\"countdown\", -1], [\"-countdown\", -1], [\"the-final--countdown\", -1]]}"

/* The pieces with a bar between each two. */
static void cut(const kiln_tokenizer *t, const char *text, char *out, size_t capacity)
{
    kiln_encoding e = encode_text(t, text, strlen(text), 0, 0);
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < e.n && used < capacity; i++)
        used += (size_t)snprintf(out + used, capacity - used, "%s%.*s", i ? "|" : "", (int)(e.to[i] - e.from[i]),
                                 text + e.from[i]);
    tokenizer_api.encoding_free(&e);
}

static void check_cut(const char *splitter, const char *text, const char *want)
{
    char json[1200], got[120];
    snprintf(json, sizeof json, "{\"model\": " WORDS ", \"pre_tokenizer\": %s}", splitter);
    kiln_tokenizer *t = open_text(json);
    if (!t) return;
    cut(t, text, got, sizeof got);
    CHECK_MSG(strcmp(got, want) == 0, "%s: '%s' is cut into %s, not %s", splitter, text, got, want);
    tokenizer_api.unref(t);
}

static const struct {
    const char *behavior, *plain, *inverted, *runs;
} cuts[] = {
    {"Removed", "the|final|countdown", "-|-|-", "the"},
    {"Isolated", "the|-|final|-|-|countdown", "the|-|final|-|-|countdown", "-|-|the|-"},
    {"MergedWithPrevious", "the-|final-|-|countdown", "the|-final|-|-countdown", "-|-|the-"},
    {"MergedWithNext", "the|-final|-|-countdown", "the-|final-|-|countdown", "-|-|the|-"},
    {"Contiguous", "the|-|final|--|countdown", "the|-|final|--|countdown", "--|the|-"},
};

static void test_each_behavior_cuts_as_it_is_said(void)
{
    char s[200];
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        for (int inverted = 0; inverted < 2; inverted++) {
            snprintf(s, sizeof s,
                     "{\"type\": \"Split\", \"pattern\": {\"String\": \"-\"}, \"behavior\": \"%s\", \"invert\": %s}",
                     cuts[i].behavior, inverted ? "true" : "false");
            check_cut(s, "the-final--countdown", inverted ? cuts[i].inverted : cuts[i].plain);
            if (!inverted) check_cut(s, "--the-", cuts[i].runs);
        }
        snprintf(s, sizeof s, "{\"type\": \"Punctuation\", \"behavior\": \"%s\"}", cuts[i].behavior);
        check_cut(s, "the-final--countdown", cuts[i].plain);
    }
}

/* ---- a BertNormalizer ---- */

static void check_ids(const char *normalizer, const char *text, int32_t want)
{
    char json[500];
    snprintf(json, sizeof json,
             "{\"model\": {\"type\": \"WordPiece\", \"unk_token\": \"[UNK]\", \"vocab\": {\"[UNK]\": 0, \"ab\": 1, "
             "\"e\": 2, \"\xc3\xa9\": 3, \"E\": 4}}, \"normalizer\": {\"type\": \"BertNormalizer\"%s}, "
             "\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}}",
             normalizer);
    kiln_tokenizer *t = open_text(json);
    if (!t) return;
    kiln_encoding e = encode_text(t, text, strlen(text), 0, 0);
    CHECK_MSG(e.n == 1 && e.id[0] == want, "%s: '%s' is %zu tokens, the first %d, wanted %d", normalizer, text, e.n,
              e.n ? (int)e.id[0] : -1, (int)want);
    tokenizer_api.encoding_free(&e);
    tokenizer_api.unref(t);
}

/* Accents go where letters are made small, unless strip_accents says otherwise. */
static void test_what_a_bert_normalizer_leaves_out_is_on(void)
{
    check_ids("",
              "a\x01"
              "b",
              1);
    check_ids("", "AB", 1);
    check_ids("", "\xc3\x89", 2);
    check_ids(", \"clean_text\": false",
              "a\x01"
              "b",
              0);
    check_ids(", \"lowercase\": false", "AB", 0);
    check_ids(", \"lowercase\": false", "\xc3\xa9", 3);
    check_ids(", \"lowercase\": false, \"strip_accents\": true", "\xc3\x89", 4);
    check_ids(", \"strip_accents\": false", "\xc3\x89", 3);
}

/* ---- kinds ---- */

static void check_kind(const char *model, const char *steps, const char *want)
{
    char json[700];
    snprintf(json, sizeof json, "{\"model\": %s%s}", model, steps);
    kiln_tokenizer *t = open_text(json);
    if (!t) return;
    CHECK_MSG(strcmp(tokenizer_api.kind(t), want) == 0, "%s is said to be %s, not %s", json, tokenizer_api.kind(t),
              want);
    tokenizer_api.unref(t);
}

#define BPE(more) "{\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []" more "}"

static void test_kinds_by_what_the_file_holds(void)
{
    check_kind(WORDS, "", "sp-unigram");
    check_kind("{\"type\": \"WordPiece\", \"unk_token\": \"u\", \"vocab\": {\"u\": 0}}", "", "wordpiece");
    check_kind(BPE(", \"end_of_word_suffix\": \"</w>\""), "", "clip-bpe");
    check_kind(BPE(""), "", "sp-bpe");
    check_kind(BPE(""), ", \"normalizer\": {\"type\": \"Lowercase\"}", "sp-bpe");
    check_kind(BPE(""),
               ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, "
               "{\"type\": \"ByteLevel\"}]}",
               "byte-bpe");
    check_kind(BPE(""), ", \"pre_tokenizer\": {\"type\": \"Punctuation\", \"behavior\": \"Isolated\"}", "sp-bpe");
    check_kind(BPE(""), ", \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}", "byte-bpe");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_each_behavior_cuts_as_it_is_said),
                                      CASE(test_what_a_bert_normalizer_leaves_out_is_on),
                                      CASE(test_kinds_by_what_the_file_holds)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
