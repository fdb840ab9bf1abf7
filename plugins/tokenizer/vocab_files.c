/* vocab_files.c - vocab.json with merges.txt (CLIP's, GPT-2's), merges.txt alone (CLIP's order of ids), vocab.txt
 * (BERT's). What such files do not say (how text is cut) is what their models do. */
#include "known_patterns.h"
#include "plain_map.h"
#include "sources.h"
#include "unicode.h"
#include "unicode_forms.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

enum { SYMBOL_BYTES_MAX = 1024, VOCAB_MAX = 1 << 20 };
#define WORD_END "</w>"
#define START_TEXT "<|startoftext|>"
#define END_TEXT "<|endoftext|>"

/* ---- vocab.json ---- */

static int put(opening *o, int32_t id, const char *s, size_t n)
{
    char *copy = token_pool_copy(o->pool, s, n);
    if (!copy) return opening_no_memory(o);
    vocabulary_set(&o->t->model.words, id, copy, n);
    vocabulary_name(&o->t->model.words, id);
    return 1;
}

static int32_t read_id(opening *o, const char *key, const json_t *value, size_t n)
{
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    size_t length = strlen(key);
    if (id >= 0 && (size_t)id < n && length > 0 && length <= SYMBOL_BYTES_MAX) return (int32_t)id;
    opening_fail(o, "vocab.json: the entry '%.60s' must have an id from 0 to %zu", key, n - 1);
    return NO_TOKEN;
}

/* Highest id + 1: at most a few more than there are entries, since added tokens may leave gaps. */
static size_t vocab_size(opening *o, json_t *root)
{
    const char *key;
    json_t *value;
    size_t count = json_object_size(root), n = 0;
    json_object_foreach(root, key, value)
    {
        int32_t id = read_id(o, key, value, VOCAB_MAX);
        if (id == NO_TOKEN) return 0;
        if ((size_t)id >= n) n = (size_t)id + 1;
    }
    if (n > 0 && n <= 2 * count + 1024) return n;
    opening_fail(o, "vocab.json has %zu entries and ids up to %zu; ids are expected to count up from 0", count, n);
    return 0;
}

static int read_root(opening *o, json_t *root)
{
    const char *key;
    json_t *value;
    size_t n = vocab_size(o, root);
    if (n == 0) return 0;
    if (!vocabulary_new(o->pool, &o->t->model.words, n)) return opening_no_memory(o);
    json_object_foreach(root, key, value)
    {
        int32_t id = (int32_t)json_integer_value(value);
        const char *taken = o->t->model.words.piece[id].text;
        if (taken) return opening_fail(o, "vocab.json: '%.60s' and '%.60s' have the same id %d", taken, key, id);
        if (!put(o, id, key, strlen(key))) return 0;
    }
    return 1;
}

/* Ids as of vocab_size. 0: it is not plain. */
static size_t plain_size(const kiln_tokenizer_file *file)
{
    plain_map m = plain_map_of(file->data, file->bytes);
    size_t count = 0, n = 0;
    int got;
    for (; (got = plain_map_next(&m)) == 1; count++)
        if ((size_t)m.number >= n) n = (size_t)m.number + 1;
    return got == 0 && n <= VOCAB_MAX && n <= 2 * count + 1024 ? n : 0;
}

/* 0: it is not plain, or something is said twice, or there is no memory; nothing is read then. */
static int read_plain(opening *o, const kiln_tokenizer_file *file)
{
    plain_map m = plain_map_of(file->data, file->bytes);
    vocabulary *words = &o->t->model.words;
    size_t n = plain_size(file);
    int ok = n > 0 && vocabulary_new(o->pool, words, n);
    while (ok && plain_map_next(&m) == 1) {
        char *copy = words->piece[m.number].text ? NULL : token_pool_copy(o->pool, m.key, m.n);
        if ((ok = copy != NULL)) vocabulary_set(words, m.number, copy, m.n), ok = vocabulary_name(words, m.number);
    }
    if (!ok) *words = (vocabulary){0};
    return ok;
}

static int read_vocab(opening *o, const kiln_tokenizer_file *file)
{
    json_error_t at;
    if (read_plain(o, file)) return 1;
    json_t *root = json_loadb(file->data, file->bytes, JSON_REJECT_DUPLICATES, &at);
    if (!root || !json_is_object(root)) {
        opening_fail(o, "vocab.json:%d:%d: %.120s; a JSON map from symbol to id is expected", root ? 1 : at.line,
                     root ? 1 : at.column, root ? "not a map" : at.text);
        json_decref(root);
        return 0;
    }
    int ok = read_root(o, root);
    json_decref(root);
    return ok;
}

/* ---- merges.txt ---- */

typedef struct {
    const char *left, *right;
    size_t n_left, n_right;
} pair;

/* Reads the next pair at *at. 1: read, 0: the end, -1: a line that is not a pair. */
static int next_pair(const char **at, const char *end, int *line, pair *p)
{
    while (*at < end) {
        const char *s = *at, *stop = memchr(s, '\n', (size_t)(end - s));
        size_t n = stop ? (size_t)(stop - s) : (size_t)(end - s);
        *at = stop ? stop + 1 : end;
        (*line)++;
        if (n > 0 && s[n - 1] == '\r') n--;
        if (n == 0 || (*line == 1 && n > 8 && memcmp(s, "#version", 8) == 0)) continue;
        const char *blank = memchr(s, ' ', n);
        if (!blank || blank == s || blank == s + n - 1 || n > SYMBOL_BYTES_MAX) return -1;
        *p = (pair){s, blank + 1, (size_t)(blank - s), n - 1 - (size_t)(blank - s)};
        return memchr(p->right, ' ', p->n_right) ? -1 : 1;
    }
    return 0;
}

static size_t count_merges(opening *o, const kiln_tokenizer_file *file)
{
    const char *at = file->data, *end = at + file->bytes;
    size_t n = 0;
    int line = 0, got;
    pair p;
    while ((got = next_pair(&at, end, &line, &p)) == 1 && n <= VOCAB_MAX) n++;
    if (got == 0) return n;
    opening_fail(o, "merges.txt:%d: two symbols with one blank between them are expected", line);
    return SIZE_MAX;
}

static int read_merges(opening *o, const kiln_tokenizer_file *file)
{
    const char *at = file->data, *end = at + file->bytes;
    token_model *m = &o->t->model;
    int line = 0;
    pair p;
    for (int32_t rank = 0; next_pair(&at, end, &line, &p) == 1; rank++) {
        char joined[SYMBOL_BYTES_MAX];
        memcpy(joined, p.left, p.n_left);
        memcpy(joined + p.n_left, p.right, p.n_right);
        int32_t left = vocabulary_find(&m->words, p.left, p.n_left),
                right = vocabulary_find(&m->words, p.right, p.n_right),
                both = vocabulary_find(&m->words, joined, p.n_left + p.n_right);
        if (left == NO_TOKEN || right == NO_TOKEN || both == NO_TOKEN)
            return opening_fail(o, "merges.txt:%d: '%.*s' and '%.*s' joined, or one of them, is not in vocab.json",
                                line, (int)p.n_left, p.left, (int)p.n_right, p.right);
        if (!pairs_put(o->pool, &m->merges, left, right, both, rank)) return opening_no_memory(o);
    }
    return 1;
}

/* ---- CLIP ---- */

/* UTF-8 of the byte's printable character, then the ending; returns the length. */
static size_t spell_byte(uint32_t byte, const char *ending, char out[16])
{
    size_t n = utf8_put(byte_to_code((uint8_t)byte), out), m = strlen(ending);
    memcpy(out + n, ending, m);
    return n + m;
}

/* CLIP's own order: the bytes as in GPT-2's table, printable ones first, the same with the word end, merges, specials.
 */
static int vocab_of_merges(opening *o, const kiln_tokenizer_file *file, size_t merges)
{
    const char *at = file->data, *end = at + file->bytes;
    char s[2 * SYMBOL_BYTES_MAX];
    int line = 0, ok = 1;
    int32_t id = 0;
    pair p;
    if (!vocabulary_new(o->pool, &o->t->model.words, 512 + merges + 2)) return opening_no_memory(o);
    for (int last = 0; last < 2; last++)
        for (int other = 0; other < 2; other++)
            for (uint32_t byte = 0; ok && byte < 256; byte++)
                if ((byte_to_code((uint8_t)byte) >= 256) == other)
                    ok = put(o, id++, s, spell_byte(byte, last ? WORD_END : "", s));
    while (ok && next_pair(&at, end, &line, &p) == 1) {
        memcpy(s, p.left, p.n_left);
        memcpy(s + p.n_left, p.right, p.n_right);
        ok = put(o, id++, s, p.n_left + p.n_right);
    }
    return ok && put(o, id++, START_TEXT, strlen(START_TEXT)) && put(o, id++, END_TEXT, strlen(END_TEXT));
}

static int check_bytes(opening *o, int with_ends)
{
    const vocabulary *v = &o->t->model.words;
    char s[16];
    for (uint32_t i = 0; i < 256; i++)
        for (int last = 0; last <= with_ends; last++)
            if (vocabulary_find(v, s, spell_byte(i, last ? WORD_END : "", s)) == NO_TOKEN)
                return opening_fail(o, "vocab.json has no symbol for byte %u%s: %s format lists all 256 bytes%s", i,
                                    last ? " at the end of a word" : "", with_ends ? "CLIP's" : "this",
                                    with_ends ? ", each also with " WORD_END : "");
    return 1;
}

static int clip_steps(opening *o)
{
    static const char cut[] = "<\\|startoftext\\|>|<\\|endoftext\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|"
                              "[^\\s\\p{L}\\p{N}]+";
    kiln_tokenizer *t = o->t;
    char why[300];
    t->normal = token_pool_get(o->pool, 3, sizeof *t->normal);
    t->split = token_pool_get(o->pool, 2, sizeof *t->split);
    t->decode = token_pool_get(o->pool, 3, sizeof *t->decode);
    const pattern *blanks = pattern_new(o->pool, "\\s+", 3, why),
                  *words = pattern_new(o->pool, cut, sizeof cut - 1, why),
                  *bytes = pattern_new(o->pool, gpt2_pattern, strlen(gpt2_pattern), why);
    if (!t->normal || !t->split || !t->decode || !blanks || !words || !bytes) return opening_no_memory(o);
    t->normal[0] = (normalize_step){.kind = NORMALIZE_FORM, .flags = FORM_COMPOSE};
    t->normal[1] = (normalize_step){.kind = NORMALIZE_REPLACE, .pattern = blanks, .text = " ", .n = 1};
    t->normal[2] = (normalize_step){.kind = NORMALIZE_LOWER};
    t->split[0] = (split_step){.kind = SPLIT_PATTERN, .behavior = SPLIT_REMOVED, .invert = 1, .pattern = words};
    t->split[1] = (split_step){.kind = SPLIT_BYTES, .pattern = bytes};
    t->decode[0] = (decode_step){.kind = DECODE_SUFFIX, .text = WORD_END, .n = 4};
    t->decode[1] = (decode_step){.kind = DECODE_REPLACE, .text = " ", .n = 1, .other = "\xc4\xa0", .n_other = 2};
    t->decode[2] = (decode_step){.kind = DECODE_BYTES};
    t->n_normal = 3, t->n_split = 2, t->n_decode = 3;
    return 1;
}

static int finish_clip(opening *o)
{
    kiln_tokenizer *t = o->t;
    token_model *m = &t->model;
    int32_t start = vocabulary_find(&m->words, START_TEXT, strlen(START_TEXT)),
            end = vocabulary_find(&m->words, END_TEXT, strlen(END_TEXT));
    if (start == NO_TOKEN || end == NO_TOKEN)
        return opening_fail(o, "vocab.json has no %s", start == NO_TOKEN ? START_TEXT : END_TEXT);
    m->suffix = WORD_END;
    m->n_suffix = 4;
    t->begin = (end_list){{start}, 1};
    t->end = (end_list){{end}, 1};
    t->role[ROLE_BOS] = start;
    t->role[ROLE_EOS] = t->role[ROLE_PAD] = t->role[ROLE_UNK] = end;
    t->kind = "clip-bpe";
    return opening_added(o, START_TEXT, strlen(START_TEXT), start, ADDED_SPECIAL) &&
           opening_added(o, END_TEXT, strlen(END_TEXT), end, ADDED_SPECIAL) && clip_steps(o);
}

static int finish_gpt2(opening *o, const char *pattern_name)
{
    kiln_tokenizer *t = o->t;
    const known_pattern *k = known_pattern_find(pattern_name, strlen(pattern_name));
    if (k && k->nfc) {
        if (!(t->normal = token_pool_get(o->pool, 1, sizeof *t->normal))) return opening_no_memory(o);
        t->normal[t->n_normal++] = (normalize_step){.kind = NORMALIZE_FORM, .flags = FORM_COMPOSE};
    }
    t->model.ignore_merges = k && k->ignore_merges;
    t->kind = "byte-bpe";
    for (size_t i = 0; i < t->model.words.n; i++) { /* <|endoftext|>, <|im_start|>, ... */
        const token_piece *x = &t->model.words.piece[i];
        if (x->n > 4 && memcmp(x->text, "<|", 2) == 0 && memcmp(x->text + x->n - 2, "|>", 2) == 0 &&
            !opening_added(o, x->text, x->n, (int32_t)i, ADDED_SPECIAL))
            return 0;
    }
    return opening_byte_split(o, k ? k->pattern : NULL);
}

int read_vocab_and_merges(opening *o, const kiln_tokenizer_file *vocab, const kiln_tokenizer_file *merges, int is_clip,
                          const char *pattern_name)
{
    o->file = NULL; /* the messages name it */
    o->t->model.kind = MODEL_MERGES;
    size_t n = count_merges(o, merges);
    if (n == SIZE_MAX) return 0;
    if (!vocab && is_clip == 0)
        return opening_fail(o, "merges.txt alone is enough for CLIP's vocabulary only; give vocab.json too");
    if (!(vocab ? read_vocab(o, vocab) : vocab_of_merges(o, merges, n))) return 0;
    if (is_clip < 0) {
        const vocabulary *v = &o->t->model.words;
        is_clip = vocabulary_find(v, START_TEXT, strlen(START_TEXT)) != NO_TOKEN &&
                  vocabulary_find(v, "a" WORD_END, 5) != NO_TOKEN;
    }
    if (!check_bytes(o, is_clip)) return 0;
    return (is_clip ? finish_clip(o) : finish_gpt2(o, pattern_name)) && read_merges(o, merges);
}

/* ---- vocab.txt ---- */

int finish_wordpiece(opening *o, int lower)
{
    kiln_tokenizer *t = o->t;
    token_model *m = &t->model;
    m->kind = MODEL_WORDPIECE;
    m->prefix = "##";
    m->n_prefix = 2;
    m->characters_max = 100;
    m->unknown = vocabulary_find(&m->words, "[UNK]", 5);
    t->kind = "wordpiece";
    t->normal = token_pool_get(o->pool, 1, sizeof *t->normal);
    t->split = token_pool_get(o->pool, 1, sizeof *t->split);
    t->decode = token_pool_get(o->pool, 1, sizeof *t->decode);
    if (!t->normal || !t->split || !t->decode) return opening_no_memory(o);
    t->normal[t->n_normal++] = (normalize_step){
        .kind = NORMALIZE_BERT, .flags = BERT_CLEAN | BERT_CHINESE | (lower ? BERT_ACCENTS | BERT_LOWER : 0)};
    t->split[t->n_split++] = (split_step){.kind = SPLIT_BERT};
    t->decode[t->n_decode++] = (decode_step){.kind = DECODE_WORDPIECE, .text = "##", .n = 2, .flag = 1};
    int32_t cls = vocabulary_find(&m->words, "[CLS]", 5), sep = vocabulary_find(&m->words, "[SEP]", 5);
    if (cls != NO_TOKEN) t->begin = (end_list){{cls}, 1};
    if (sep != NO_TOKEN) t->end = (end_list){{sep}, 1};
    return 1;
}

static size_t line_at(const char *s, const char *end, const char **next)
{
    const char *stop = memchr(s, '\n', (size_t)(end - s));
    size_t n = (size_t)((stop ? stop : end) - s);
    *next = stop ? stop + 1 : end;
    while (n > 0 && (s[n - 1] == '\r' || s[n - 1] == ' ' || s[n - 1] == '\t')) n--;
    return n;
}

int read_vocab_txt(opening *o, const kiln_tokenizer_file *file)
{
    static const char *const special[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
    const char *begin = file->data, *end = begin + file->bytes, *s, *next;
    vocabulary *v = &o->t->model.words;
    size_t n = 0;
    o->file = "vocab.txt";
    for (s = begin; s < end; s = next, n++) line_at(s, end, &next);
    if (n == 0 || n > VOCAB_MAX) return opening_fail(o, "%zu lines; from 1 to %d tokens are expected", n, VOCAB_MAX);
    if (!vocabulary_new(o->pool, v, n)) return opening_no_memory(o);
    for (s = begin, n = 0; s < end; s = next, n++) {
        size_t bytes = line_at(s, end, &next);
        if (bytes > SYMBOL_BYTES_MAX) return opening_fail(o, "line %zu has %zu bytes", n + 1, bytes);
        char *copy = token_pool_copy(o->pool, s, bytes);
        if (!copy) return opening_no_memory(o);
        vocabulary_set(v, (int32_t)n, copy, bytes);
        if (bytes) vocabulary_name(v, (int32_t)n);
    }
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) {
        int32_t id = vocabulary_find(v, special[i], strlen(special[i]));
        if (id != NO_TOKEN && !opening_added(o, special[i], strlen(special[i]), id, ADDED_SPECIAL)) return 0;
    }
    if (vocabulary_find(v, "[UNK]", 5) == NO_TOKEN) return opening_fail(o, "there is no [UNK]");
    return finish_wordpiece(o, 1);
}
