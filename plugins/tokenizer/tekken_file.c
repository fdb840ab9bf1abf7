/* tekken_file.c - tekken.json of Mistral: tokens as base64 bytes in order of rank, special tokens before them. Joined
 * is what has the lowest rank, so ranks are scores with the sign turned. */
#include "sources.h"

#include <jansson.h>
#include <string.h>

static size_t whole(const json_t *o, const char *key)
{
    const json_t *x = json_object_get(o, key);
    json_int_t n = json_is_integer(x) ? json_integer_value(x) : -1;
    return n >= 0 && n <= TOKENS_MAX ? (size_t)n : SIZE_MAX;
}

static int add_special(opening *o, const json_t *list, size_t n)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *x = json_array_get(list, i), *text = json_object_get(x, "token_str");
        size_t rank = whole(x, "rank");
        if (!json_is_string(text) || rank >= n) return opening_fail(o, "special_tokens: token %zu is none", i);
        if (!opening_added(o, json_string_value(text), json_string_length(text), (int32_t)rank, ADDED_SPECIAL))
            return 0;
    }
    return 1;
}

static int add_tokens(opening *o, const json_t *list, size_t first, size_t n)
{
    token_model *m = &o->t->model;
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_object_get(json_array_get(list, i), "token_bytes");
        unsigned char *bytes = NULL;
        size_t length = 0;
        if (!json_is_string(text) ||
            !base64_decode(o->pool, json_string_value(text), json_string_length(text), &bytes, &length) || !length ||
            length > PIECE_BYTES_MAX)
            return opening_fail(o, "vocab: token %zu has no token_bytes", i);
        int32_t id = (int32_t)(first + i);
        vocabulary_set(&m->words, id, (const char *)bytes, length);
        m->words.piece[id].score = -(double)i;
        if (!vocabulary_name(&m->words, id)) return opening_fail(o, "vocab: token %zu is there twice", i);
    }
    for (unsigned b = 0; b < 256; b++) {
        char byte = (char)b;
        if (vocabulary_find(&m->words, &byte, 1) == NO_TOKEN) return opening_fail(o, "vocab: no token for byte %u", b);
    }
    return 1;
}

static int read_root(opening *o, const json_t *root)
{
    const json_t *config = json_object_get(root, "config"), *list = json_object_get(root, "vocab");
    size_t all = whole(config, "default_vocab_size"), special = whole(config, "default_num_special_tokens"), n;
    const json_t *source = json_object_get(config, "pattern");
    kiln_tokenizer *t = o->t;
    char why[300];
    if (!json_is_string(source) || all == SIZE_MAX || special >= all)
        return opening_fail(o, "config has no pattern, default_vocab_size or default_num_special_tokens");
    n = all - special;
    if (n > json_array_size(list))
        return opening_fail(o, "vocab has %zu tokens, %zu are wanted", json_array_size(list), n);
    if (!vocabulary_new(o->pool, &t->model.words, all)) return opening_no_memory(o);
    if (!add_tokens(o, list, special, n) || !add_special(o, json_object_get(root, "special_tokens"), special)) return 0;
    split_step *split = token_pool_get(o->pool, 1, sizeof *split);
    if (!split) return opening_no_memory(o);
    *split = (split_step){.kind = SPLIT_PATTERN, .behavior = SPLIT_ISOLATED};
    if (!(split->pattern = pattern_new(o->pool, json_string_value(source), json_string_length(source), why)))
        return opening_fail(o, "%.300s", why);
    t->split = split;
    t->n_split = 1;
    t->model.kind = MODEL_SCORES;
    t->model.bytes_alone = 1;
    t->kind = "byte-bpe";
    return 1;
}

int read_tekken(opening *o, const kiln_tokenizer_file *file)
{
    json_error_t at;
    o->file = "tekken.json";
    json_t *root = json_loadb(file->data, file->bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &at);
    if (!root) return opening_fail(o, "line %d, column %d: %.150s", at.line, at.column, at.text);
    int ok = read_root(o, root);
    json_decref(root);
    return ok;
}
