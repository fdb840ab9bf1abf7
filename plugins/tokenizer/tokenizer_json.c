/* tokenizer_json.c - tokenizer.json, the form of the `tokenizers` library: a model and the steps round it. Steps that
 * are not known are refused by name, not left out. */
#include "known_patterns.h"
#include "sources.h"
#include "unicode_forms.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS_MAX = 64, SEQUENCE_DEPTH_MAX = 8 };

/* ---- fields ---- */

static const char *text_of(const json_t *o, const char *key, size_t *n)
{
    const json_t *x = json_object_get(o, key);
    *n = json_is_string(x) ? json_string_length(x) : 0;
    return json_string_value(x);
}

static int flag_of(const json_t *o, const char *key, int otherwise)
{
    const json_t *x = json_object_get(o, key);
    return json_is_boolean(x) ? json_is_true(x) : otherwise;
}

static const char *type_of(const json_t *o)
{
    const char *type = json_string_value(json_object_get(o, "type"));
    return type ? type : "";
}

static int32_t id_of(opening *o, const json_t *x, const char *what)
{
    json_int_t id = json_is_integer(x) ? json_integer_value(x) : -1;
    if (id >= 0 && id < TOKENS_MAX) return (int32_t)id;
    opening_fail(o, "%.60s must have an id from 0 to %d", what, TOKENS_MAX - 1);
    return NO_TOKEN;
}

/* {"String": ".."} or {"Regex": ".."} */
static const pattern *pattern_of(opening *o, const json_t *x)
{
    size_t n = 0;
    char why[300] = "";
    const char *text = text_of(x, "String", &n);
    if (text) return pattern_literal(o->pool, text, n);
    if (!(text = text_of(x, "Regex", &n))) {
        opening_fail(o, "a pattern has neither String nor Regex");
        return NULL;
    }
    const pattern *p = pattern_new(o->pool, text, n, why);
    if (!p) opening_fail(o, "%.300s", why);
    return p;
}

/* Calls `one` for an item, or for each of a Sequence's under `key`. */
static int each_step(opening *o, const json_t *x, const char *key, int depth, int (*one)(opening *, const json_t *))
{
    if (!x || json_is_null(x)) return 1;
    if (strcmp(type_of(x), "Sequence") != 0) return one(o, x);
    if (depth == SEQUENCE_DEPTH_MAX) return opening_fail(o, "Sequences nested deeper than %d", SEQUENCE_DEPTH_MAX);
    const json_t *list = json_object_get(x, key);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (!each_step(o, json_array_get(list, i), key, depth + 1, one)) return 0;
    return 1;
}

/* ---- normalizer ---- */

static int add_normal(opening *o, normalize_step s)
{
    kiln_tokenizer *t = o->t;
    if (!t->normal && !(t->normal = token_pool_get(o->pool, STEPS_MAX, sizeof s))) return opening_no_memory(o);
    if (t->n_normal == STEPS_MAX) return opening_fail(o, "more than %d normalizers", STEPS_MAX);
    t->normal[t->n_normal++] = s;
    return 1;
}

static int add_charsmap(opening *o, const json_t *x)
{
    size_t n = 0, bytes = 0;
    unsigned char *data = NULL;
    char why[300] = "no base64";
    const char *text = text_of(x, "precompiled_charsmap", &n);
    if (!text || n == 0) return 1;
    if (!base64_decode(o->pool, text, n, &data, &bytes)) return opening_fail(o, "precompiled_charsmap is no base64");
    const charsmap *map = charsmap_new(o->pool, data, bytes, why);
    return map ? add_normal(o, (normalize_step){.kind = NORMALIZE_CHARSMAP, .map = map}) : opening_fail(o, "%s", why);
}

static int add_bert(opening *o, const json_t *x)
{
    int lower = flag_of(x, "lowercase", 1);
    uint32_t flags = (flag_of(x, "clean_text", 1) ? BERT_CLEAN : 0) |
                     (flag_of(x, "handle_chinese_chars", 1) ? BERT_CHINESE : 0) |
                     (flag_of(x, "strip_accents", lower) ? BERT_ACCENTS : 0) | (lower ? BERT_LOWER : 0);
    return add_normal(o, (normalize_step){.kind = NORMALIZE_BERT, .flags = flags});
}

static int add_replace(opening *o, const json_t *x)
{
    size_t n = 0;
    const char *by = text_of(x, "content", &n);
    const pattern *p = pattern_of(o, json_object_get(x, "pattern"));
    char *copy = by ? token_pool_copy(o->pool, by, n) : NULL;
    if (!p || !copy) return opening_fail(o, "a Replace without pattern or content");
    return add_normal(o, (normalize_step){.kind = NORMALIZE_REPLACE, .pattern = p, .text = copy, .n = n});
}

static int one_normalizer(opening *o, const json_t *x)
{
    static const struct {
        const char *name;
        normalize_step step;
    } plain[] = {{"NFD", {.kind = NORMALIZE_FORM}},
                 {"NFC", {.kind = NORMALIZE_FORM, .flags = FORM_COMPOSE}},
                 {"NFKD", {.kind = NORMALIZE_FORM, .flags = FORM_COMPATIBLE}},
                 {"NFKC", {.kind = NORMALIZE_FORM, .flags = FORM_COMPOSE | FORM_COMPATIBLE}},
                 {"Lowercase", {.kind = NORMALIZE_LOWER}},
                 {"StripAccents", {.kind = NORMALIZE_STRIP_ACCENTS}},
                 {"ByteLevel", {.kind = NORMALIZE_BYTES}}};
    const char *type = type_of(x);
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (strcmp(type, plain[i].name) == 0) return add_normal(o, plain[i].step);
    if (strcmp(type, "BertNormalizer") == 0) return add_bert(o, x);
    if (strcmp(type, "Precompiled") == 0) return add_charsmap(o, x);
    if (strcmp(type, "Replace") == 0) return add_replace(o, x);
    if (strcmp(type, "Strip") == 0)
        return add_normal(o, (normalize_step){.kind = NORMALIZE_STRIP,
                                              .flags = (flag_of(x, "strip_left", 1) ? 1u : 0) |
                                                       (flag_of(x, "strip_right", 1) ? 2u : 0)});
    if (strcmp(type, "Prepend") == 0) {
        size_t n = 0;
        const char *text = text_of(x, "prepend", &n);
        char *copy = text ? token_pool_copy(o->pool, text, n) : NULL;
        if (!copy) return opening_fail(o, "a Prepend without text");
        return add_normal(o, (normalize_step){.kind = NORMALIZE_PREPEND, .text = copy, .n = n});
    }
    return opening_fail(o, "the normalizer '%.40s' is not known", type);
}

/* ---- pre_tokenizer ---- */

static int add_split(opening *o, split_step s)
{
    kiln_tokenizer *t = o->t;
    if (!t->split && !(t->split = token_pool_get(o->pool, STEPS_MAX, sizeof s))) return opening_no_memory(o);
    if (t->n_split == STEPS_MAX) return opening_fail(o, "more than %d pre_tokenizers", STEPS_MAX);
    t->split[t->n_split++] = s;
    return 1;
}

static int behavior_of(opening *o, const json_t *x, split_behavior otherwise, split_behavior *out)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    size_t n = 0;
    const char *name = text_of(x, "behavior", &n);
    *out = otherwise;
    if (!name) return 1;
    for (unsigned i = 0; i < 5; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (split_behavior)i;
            return 1;
        }
    return opening_fail(o, "the behavior '%.40s' is not known", name);
}

static int prefix_of(const json_t *x)
{
    size_t n = 0;
    const char *scheme = text_of(x, "prepend_scheme", &n);
    if (!scheme) return flag_of(x, "add_prefix_space", 1) ? PREFIX_ALWAYS : PREFIX_NEVER;
    return strcmp(scheme, "never") == 0 ? PREFIX_NEVER : strcmp(scheme, "first") == 0 ? PREFIX_FIRST : PREFIX_ALWAYS;
}

static int add_metaspace(opening *o, const json_t *x)
{
    size_t n = 0;
    const char *text = text_of(x, "replacement", &n);
    if (!text || n == 0 || n > 4) return opening_fail(o, "a Metaspace without a replacement of one character");
    split_step s = {.kind = SPLIT_METASPACE,
                    .prefix = prefix_of(x),
                    .cut = flag_of(x, "split", 1),
                    .text = token_pool_copy(o->pool, text, n),
                    .n = n,
                    .pattern = pattern_literal(o->pool, text, n),
                    .blank = pattern_literal(o->pool, " ", 1)};
    return add_split(o, s);
}

static int add_byte_level(opening *o, const json_t *x)
{
    char why[300];
    split_step s = {.kind = SPLIT_BYTES, .prefix = flag_of(x, "add_prefix_space", 1)};
    if (flag_of(x, "use_regex", 1) && !(s.pattern = pattern_new(o->pool, gpt2_pattern, strlen(gpt2_pattern), why)))
        return opening_no_memory(o);
    return add_split(o, s);
}

static int one_splitter(opening *o, const json_t *x)
{
    const char *type = type_of(x);
    split_behavior how = SPLIT_ISOLATED;
    if (strcmp(type, "ByteLevel") == 0) return add_byte_level(o, x);
    if (strcmp(type, "Metaspace") == 0) return add_metaspace(o, x);
    if (strcmp(type, "Whitespace") == 0) return add_split(o, (split_step){.kind = SPLIT_WORDS});
    if (strcmp(type, "WhitespaceSplit") == 0) return add_split(o, (split_step){.kind = SPLIT_BLANKS});
    if (strcmp(type, "BertPreTokenizer") == 0) return add_split(o, (split_step){.kind = SPLIT_BERT});
    if (strcmp(type, "Digits") == 0) {
        how = flag_of(x, "individual_digits", 0) ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
        return add_split(o, (split_step){.kind = SPLIT_DIGITS, .behavior = how});
    }
    if (!behavior_of(o, x, SPLIT_ISOLATED, &how)) return 0;
    if (strcmp(type, "Punctuation") == 0) return add_split(o, (split_step){.kind = SPLIT_PUNCTUATION, .behavior = how});
    if (strcmp(type, "Split") == 0) {
        split_step s = {.kind = SPLIT_PATTERN, .behavior = how, .invert = flag_of(x, "invert", 0)};
        s.pattern = pattern_of(o, json_object_get(x, "pattern"));
        return s.pattern ? add_split(o, s) : opening_no_memory(o);
    }
    return opening_fail(o, "the pre_tokenizer '%.40s' is not known", type);
}

/* ---- post_processor ---- */

static int add_end(opening *o, end_list *l, int32_t id)
{
    if (l->n == ENDS_MAX) return opening_fail(o, "more than %d tokens at the begin or end", ENDS_MAX);
    l->id[l->n++] = id;
    return 1;
}

static int template_ends(opening *o, const json_t *x)
{
    const json_t *list = json_object_get(x, "single"), *tokens = json_object_get(x, "special_tokens");
    end_list *to = &o->t->begin;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        if (json_object_get(item, "Sequence")) {
            to = &o->t->end;
            continue;
        }
        size_t n = 0;
        const char *name = text_of(json_object_get(item, "SpecialToken"), "id", &n);
        const json_t *ids = name ? json_object_get(json_object_get(tokens, name), "ids") : NULL;
        if (!ids) return opening_fail(o, "the template names a special token without ids");
        for (size_t k = 0; k < json_array_size(ids); k++) {
            int32_t id = id_of(o, json_array_get(ids, k), "a special token of the template");
            if (id == NO_TOKEN || !add_end(o, to, id)) return 0;
        }
    }
    return 1;
}

static int one_ender(opening *o, const json_t *x)
{
    const char *type = type_of(x);
    if (strcmp(type, "ByteLevel") == 0) return 1; /* shortens spans only */
    if (strcmp(type, "TemplateProcessing") == 0) return template_ends(o, x);
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0) {
        int32_t cls = id_of(o, json_array_get(json_object_get(x, "cls"), 1), "the cls token"),
                sep = id_of(o, json_array_get(json_object_get(x, "sep"), 1), "the sep token");
        return cls != NO_TOKEN && sep != NO_TOKEN && add_end(o, &o->t->begin, cls) && add_end(o, &o->t->end, sep);
    }
    return opening_fail(o, "the post_processor '%.40s' is not known", type);
}

/* ---- decoder ---- */

static int one_decoder(opening *o, const json_t *x)
{
    static const struct {
        const char *name, *text, *otherwise;
        decode_kind kind;
    } kinds[] = {{"ByteLevel", NULL, "", DECODE_BYTES},
                 {"WordPiece", "prefix", "##", DECODE_WORDPIECE},
                 {"Metaspace", "replacement", "\xe2\x96\x81", DECODE_METASPACE},
                 {"BPEDecoder", "suffix", "</w>", DECODE_SUFFIX},
                 {"Replace", "content", "", DECODE_REPLACE},
                 {"ByteFallback", NULL, "", DECODE_FALLBACK},
                 {"Fuse", NULL, "", DECODE_FUSE},
                 {"Strip", "content", "", DECODE_STRIP}};
    kiln_tokenizer *t = o->t;
    size_t i = 0, count = sizeof kinds / sizeof kinds[0], n = 0;
    while (i < count && strcmp(type_of(x), kinds[i].name) != 0) i++;
    if (i == count) return opening_fail(o, "the decoder '%.40s' is not known", type_of(x));
    if (!t->decode && !(t->decode = token_pool_get(o->pool, STEPS_MAX, sizeof *t->decode))) return opening_no_memory(o);
    if (t->n_decode == STEPS_MAX) return opening_fail(o, "more than %d decoders", STEPS_MAX);
    decode_step *s = &t->decode[t->n_decode++];
    const char *text = kinds[i].text ? text_of(x, kinds[i].text, &n) : NULL;
    if (!text) text = kinds[i].otherwise, n = strlen(text);
    *s = (decode_step){.kind = kinds[i].kind, .text = token_pool_copy(o->pool, text, n), .n = n};
    if (s->kind == DECODE_WORDPIECE) s->flag = flag_of(x, "cleanup", 1);
    if (s->kind == DECODE_METASPACE) s->flag = prefix_of(x) != PREFIX_NEVER;
    if (s->kind == DECODE_STRIP) {
        s->start = (int)json_integer_value(json_object_get(x, "start"));
        s->stop = (int)json_integer_value(json_object_get(x, "stop"));
    }
    if (s->kind == DECODE_REPLACE) { /* pattern by content */
        const char *what = text_of(json_object_get(x, "pattern"), "String", &n);
        if (!what) return opening_fail(o, "the decoder Replace has a pattern that is no String");
        s->other = s->text;
        s->n_other = s->n;
        s->text = token_pool_copy(o->pool, what, n);
        s->n = n;
    }
    return (s->text && (s->kind != DECODE_REPLACE || s->other)) || opening_no_memory(o);
}

/* ---- model ---- */

static int put_word(opening *o, int32_t id, const char *text, size_t n)
{
    token_model *m = &o->t->model;
    if (n > PIECE_BYTES_MAX) return opening_fail(o, "a token of %zu bytes; %d are the most", n, PIECE_BYTES_MAX);
    if (m->words.piece[id].text)
        return opening_fail(o, "'%.40s' and '%.40s' have the same id %d", m->words.piece[id].text, text, id);
    char *copy = token_pool_copy(o->pool, text, n);
    if (!copy) return opening_no_memory(o);
    vocabulary_set(&m->words, id, copy, n);
    vocabulary_name(&m->words, id);
    return 1;
}

static int read_vocab_map(opening *o, json_t *vocab)
{
    const char *key;
    json_t *value;
    size_t n = 0, count = json_object_size(vocab);
    if (!json_is_object(vocab)) return opening_fail(o, "model.vocab is not a map from token to id");
    json_object_foreach(vocab, key, value)
    {
        int32_t id = id_of(o, value, key);
        if (id == NO_TOKEN) return 0;
        if ((size_t)id >= n) n = (size_t)id + 1;
    }
    if (n > 2 * count + IDS_LEFT_OUT)
        return opening_fail(o, "model.vocab has %zu entries and ids up to %zu; ids are expected to count up from 0",
                            count, n);
    if (!vocabulary_new(o->pool, &o->t->model.words, n)) return opening_no_memory(o);
    json_object_foreach(vocab, key, value)
    {
        if (!put_word(o, (int32_t)json_integer_value(value), key, strlen(key))) return 0;
    }
    return 1;
}

static const char *model_text(opening *o, const json_t *x, const char *key, size_t *n)
{
    const char *text = text_of(x, key, n);
    if (*n > 64) opening_fail(o, "model.%s has more than 64 bytes", key);
    return text && *n ? token_pool_copy(o->pool, text, *n) : NULL;
}

static int find_unknown(opening *o, const json_t *x)
{
    size_t n = 0;
    const char *text = text_of(x, "unk_token", &n);
    token_model *m = &o->t->model;
    m->unknown = text ? vocabulary_find(&m->words, text, n) : NO_TOKEN;
    return 1;
}

static int add_merge(opening *o, const char *a, size_t n_a, const char *b, size_t n_b, int32_t rank)
{
    token_model *m = &o->t->model;
    char joined[2 * 1024];
    size_t skip = n_b >= m->n_prefix && memcmp(b, m->prefix ? m->prefix : "", m->n_prefix) == 0 ? m->n_prefix : 0;
    if (n_a > 1024 || n_b > 1024) return opening_fail(o, "model.merges: merge %d has more than 1024 bytes", rank);
    memcpy(joined, a, n_a);
    memcpy(joined + n_a, b + skip, n_b - skip);
    int32_t left = vocabulary_find(&m->words, a, n_a), right = vocabulary_find(&m->words, b, n_b),
            both = vocabulary_find(&m->words, joined, n_a + n_b - skip);
    if (left == NO_TOKEN || right == NO_TOKEN || both == NO_TOKEN)
        return opening_fail(o, "model.merges: '%.*s' and '%.*s' joined, or one of them, is not in the vocabulary",
                            n_a < 60 ? (int)n_a : 60, a, n_b < 60 ? (int)n_b : 60, b);
    return pairs_put(o->pool, &m->merges, left, right, both, rank) || opening_no_memory(o);
}

static int read_merge_list(opening *o, const json_t *list)
{
    if (!json_is_array(list)) return opening_fail(o, "model.merges is not a list");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i), *left = json_array_get(x, 0), *right = json_array_get(x, 1);
        if (json_is_string(left) && json_is_string(right)) {
            if (!add_merge(o, json_string_value(left), json_string_length(left), json_string_value(right),
                           json_string_length(right), (int32_t)i))
                return 0;
            continue;
        }
        const char *text = json_string_value(x), *blank = text ? strchr(text, ' ') : NULL;
        if (!blank) return opening_fail(o, "model.merges: merge %zu is not two tokens", i);
        if (!add_merge(o, text, (size_t)(blank - text), blank + 1, strlen(blank + 1), (int32_t)i)) return 0;
    }
    return 1;
}

static int read_bpe(opening *o, const json_t *x)
{
    token_model *m = &o->t->model;
    m->kind = MODEL_MERGES;
    if (json_number_value(json_object_get(x, "dropout")) > 0)
        return opening_fail(o, "model.dropout is set: ids would be drawn by chance");
    if (!read_vocab_map(o, json_object_get(x, "vocab"))) return 0;
    m->prefix = model_text(o, x, "continuing_subword_prefix", &m->n_prefix);
    m->suffix = model_text(o, x, "end_of_word_suffix", &m->n_suffix);
    m->fuse_unknown = flag_of(x, "fuse_unk", 0);
    m->ignore_merges = flag_of(x, "ignore_merges", 0);
    m->byte_fallback = flag_of(x, "byte_fallback", 0);
    model_find_bytes(m, &m->words);
    return !o->why[0] && find_unknown(o, x) && read_merge_list(o, json_object_get(x, "merges"));
}

static int read_wordpiece(opening *o, const json_t *x)
{
    token_model *m = &o->t->model;
    const json_t *most = json_object_get(x, "max_input_chars_per_word");
    m->kind = MODEL_WORDPIECE;
    json_int_t characters = json_is_integer(most) ? json_integer_value(most) : 100;
    if (characters < 1 || characters > 200)
        return opening_fail(o, "model.max_input_chars_per_word must be from 1 to 200");
    m->characters_max = (size_t)characters;
    if (!read_vocab_map(o, json_object_get(x, "vocab"))) return 0;
    m->prefix = model_text(o, x, "continuing_subword_prefix", &m->n_prefix);
    return !o->why[0] && find_unknown(o, x);
}

static int read_unigram(opening *o, const json_t *x)
{
    const json_t *list = json_object_get(x, "vocab"), *unknown = json_object_get(x, "unk_id");
    token_model *m = &o->t->model;
    size_t n = json_array_size(list);
    m->kind = MODEL_UNIGRAM;
    m->in_one_unknown = 1;
    if (n == 0 || n > TOKENS_MAX) return opening_fail(o, "model.vocab is not a list of pieces and scores");
    if (!vocabulary_new(o->pool, &m->words, n)) return opening_no_memory(o);
    for (size_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(list, i), *text = json_array_get(row, 0), *score = json_array_get(row, 1);
        if (!json_is_string(text) || !json_is_number(score) || !isfinite(json_number_value(score)))
            return opening_fail(o, "model.vocab: piece %zu is not a text and a score", i);
        if (!put_word(o, (int32_t)i, json_string_value(text), json_string_length(text))) return 0;
        token_piece *piece = &m->words.piece[i];
        piece->score = json_number_value(score);
        if (i == 0 || piece->score < m->score_min) m->score_min = piece->score;
        if (piece->n && !trie_put(o->pool, &m->pieces, piece->text, piece->n, (int32_t)i)) return opening_no_memory(o);
    }
    m->score_unknown = m->score_min - 10;
    m->byte_fallback = flag_of(x, "byte_fallback", 0) && model_find_bytes(m, &m->words);
    m->unknown = json_is_integer(unknown) && json_integer_value(unknown) >= 0 && (size_t)json_integer_value(unknown) < n
                     ? (int32_t)json_integer_value(unknown)
                     : NO_TOKEN;
    return 1;
}

static int read_model(opening *o, const json_t *x)
{
    const char *type = type_of(x);
    if (!json_is_object(x)) return opening_fail(o, "there is no model");
    if (strcmp(type, "BPE") == 0 || (!*type && json_object_get(x, "merges"))) return read_bpe(o, x);
    if (strcmp(type, "Unigram") == 0 || (!*type && json_is_array(json_object_get(x, "vocab"))))
        return read_unigram(o, x);
    if (strcmp(type, "WordPiece") == 0 || (!*type && json_object_get(x, "max_input_chars_per_word")))
        return read_wordpiece(o, x);
    return opening_fail(o, "the model '%.40s' is not known; BPE, Unigram and WordPiece are", type);
}

/* ---- all ---- */

static int read_added(opening *o, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i);
        size_t n = 0;
        const char *text = text_of(x, "content", &n);
        if (!text) return opening_fail(o, "added_tokens: token %zu has no content", i);
        int32_t id = id_of(o, json_object_get(x, "id"), text);
        uint32_t flags = (flag_of(x, "special", 0) ? ADDED_SPECIAL : 0u) |
                         (flag_of(x, "normalized", 1) ? ADDED_NORMALIZED : 0u) |
                         (flag_of(x, "lstrip", 0) ? ADDED_LSTRIP : 0u) | (flag_of(x, "rstrip", 0) ? ADDED_RSTRIP : 0u) |
                         (flag_of(x, "single_word", 0) ? ADDED_SINGLE_WORD : 0u);
        if (id == NO_TOKEN || !opening_added(o, text, n, id, flags)) return 0;
    }
    return 1;
}

static const char *kind_of(const kiln_tokenizer *t)
{
    int bytes = 0;
    if (t->model.kind == MODEL_WORDPIECE) return "wordpiece";
    if (t->model.kind == MODEL_UNIGRAM) return "sp-unigram";
    if (t->model.n_suffix) return "clip-bpe";
    for (size_t i = 0; i < t->n_split; i++) bytes |= t->split[i].kind == SPLIT_BYTES;
    for (size_t i = 0; i < t->n_normal; i++) bytes |= t->normal[i].kind == NORMALIZE_BYTES;
    return bytes ? "byte-bpe" : "sp-bpe";
}

int read_tokenizer_json(opening *o, const kiln_tokenizer_file *file)
{
    json_error_t at;
    o->file = "tokenizer.json";
    json_t *root = json_loadb(file->data, file->bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &at);
    if (!root) return opening_fail(o, "line %d, column %d: %.150s", at.line, at.column, at.text);
    int ok = json_is_object(root) || opening_fail(o, "not a map");
    ok = ok && read_model(o, json_object_get(root, "model")) && read_added(o, json_object_get(root, "added_tokens"));
    ok = ok && each_step(o, json_object_get(root, "normalizer"), "normalizers", 0, one_normalizer);
    ok = ok && each_step(o, json_object_get(root, "pre_tokenizer"), "pretokenizers", 0, one_splitter);
    ok = ok && each_step(o, json_object_get(root, "post_processor"), "processors", 0, one_ender);
    ok = ok && each_step(o, json_object_get(root, "decoder"), "decoders", 0, one_decoder);
    json_decref(root);
    if (ok) o->t->kind = kind_of(o->t);
    if (ok && o->pool->failed) return opening_no_memory(o);
    return ok;
}
