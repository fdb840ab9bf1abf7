/* gguf_tokenizer.c - the tokenizer.ggml.* keys of a GGUF file, as llama.cpp writes them: "llama" and "t5" are
 * SentencePiece's tables, "gpt2" byte-level BPE with a named pattern, "gemma4" BPE of characters, "bert" WordPiece. */
#include "gguf_metadata.h"
#include "known_patterns.h"
#include "sources.h"
#include "unicode_forms.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define KEY "tokenizer.ggml."

static int read_tokens(opening *o, const gguf_metadata *m)
{
    const gguf_value *tokens = gguf_array(m, KEY "tokens", GGUF_STRING),
                     *scores = gguf_array(m, KEY "scores", GGUF_F32),
                     *types = gguf_array(m, KEY "token_type", GGUF_I32);
    vocabulary *v = &o->t->model.words;
    if (!tokens) return opening_fail(o, "there is no list " KEY "tokens");
    uint64_t n = tokens->count;
    if (n == 0 || n > TOKENS_MAX) return opening_fail(o, KEY "tokens has %llu tokens", (unsigned long long)n);
    if ((scores && scores->count != n) || (types && types->count != n))
        return opening_fail(o, KEY "tokens, scores and token_type do not have the same length");
    if (!vocabulary_new(o->pool, v, (size_t)n)) return opening_no_memory(o);
    const unsigned char *at = tokens->data;
    for (uint64_t i = 0; i < n; i++) {
        size_t bytes;
        const char *text = gguf_next_text(&at, &bytes);
        if (bytes > PIECE_BYTES_MAX) return opening_fail(o, "token %llu has %zu bytes", (unsigned long long)i, bytes);
        char *copy = token_pool_copy(o->pool, text, bytes);
        if (!copy) return opening_no_memory(o);
        vocabulary_set(v, (int32_t)i, copy, bytes);
        token_piece *x = &v->piece[i];
        if (scores) x->score = gguf_number_at(scores, i);
        if (types) {
            const double type = gguf_number_at(types, i);
            x->type = type >= PIECE_NORMAL && type <= PIECE_BYTE ? (uint32_t)type : 0;
        }
        if (!isfinite(x->score) || x->type < PIECE_NORMAL || x->type > PIECE_BYTE)
            return opening_fail(o, "token %llu has a score or a type that is none", (unsigned long long)i);
    }
    return 1;
}

static void read_roles(opening *o, const gguf_metadata *m)
{
    static const struct {
        const char *key;
        int role;
    } keys[] = {{KEY "bos_token_id", ROLE_BOS},     {KEY "eos_token_id", ROLE_EOS},
                {KEY "unknown_token_id", ROLE_UNK}, {KEY "padding_token_id", ROLE_PAD},
                {KEY "mask_token_id", ROLE_MASK},   {KEY "seperator_token_id", ROLE_SEP},
                {KEY "cls_token_id", ROLE_CLS}};
    kiln_tokenizer *t = o->t;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        int64_t id = gguf_integer(m, keys[i].key, NO_TOKEN);
        if (id >= 0 && (size_t)id < t->model.words.n) t->role[keys[i].role] = (int32_t)id;
    }
}

static void read_ends(opening *o, const gguf_metadata *m, int begin, int end)
{
    kiln_tokenizer *t = o->t;
    if (gguf_integer(m, KEY "add_bos_token", begin) && t->role[ROLE_BOS] != NO_TOKEN)
        t->begin = (end_list){{t->role[ROLE_BOS]}, 1};
    if (gguf_integer(m, KEY "add_eos_token", end) && t->role[ROLE_EOS] != NO_TOKEN)
        t->end = (end_list){{t->role[ROLE_EOS]}, 1};
}

static int sentencepiece(opening *o, const gguf_metadata *m, int is_unigram)
{
    kiln_tokenizer *t = o->t;
    char why[300] = "";
    int bytes = 0;
    const gguf_value *map = gguf_array(m, KEY "precompiled_charsmap", GGUF_U8);
    if (!map) map = gguf_array(m, KEY "precompiled_charsmap", GGUF_I8);
    t->sentencepiece = (sentencepiece_spec){.add_dummy_prefix = gguf_integer(m, KEY "add_space_prefix", 1) != 0,
                                            .remove_extra_whitespaces =
                                                gguf_integer(m, KEY "remove_extra_whitespaces", is_unigram) != 0,
                                            .escape_whitespaces = 1};
    if (map && map->count && !(t->sentencepiece.map = charsmap_new(o->pool, map->data, (size_t)map->count, why)))
        return opening_fail(o, "%s", why);
    for (size_t i = 0; i < t->model.words.n; i++) bytes += t->model.words.piece[i].type == PIECE_BYTE;
    if (!finish_sentencepiece(o, is_unigram, bytes > 0)) return 0;
    read_ends(o, m, !is_unigram, is_unigram);
    return 1;
}

static int read_merges(opening *o, const gguf_metadata *m)
{
    const gguf_value *merges = gguf_array(m, KEY "merges", GGUF_STRING);
    token_model *k = &o->t->model;
    if (!merges || merges->count > TOKENS_MAX) return opening_fail(o, "there is no list " KEY "merges");
    const unsigned char *at = merges->data;
    for (uint64_t i = 0; i < merges->count; i++) {
        size_t n;
        const char *s = gguf_next_text(&at, &n), *blank = n > 2 ? memchr(s + 1, ' ', n - 2) : NULL;
        char joined[2048];
        if (!blank || n > sizeof joined)
            return opening_fail(o, KEY "merges: merge %llu is not two tokens", (unsigned long long)i);
        size_t a = (size_t)(blank - s), b = n - a - 1;
        memcpy(joined, s, a);
        memcpy(joined + a, blank + 1, b);
        int32_t left = vocabulary_find(&k->words, s, a), right = vocabulary_find(&k->words, blank + 1, b),
                both = vocabulary_find(&k->words, joined, a + b);
        if (left == NO_TOKEN || right == NO_TOKEN || both == NO_TOKEN)
            return opening_fail(o, KEY "merges: merge %llu is not of tokens", (unsigned long long)i);
        if (!pairs_put(o->pool, &k->merges, left, right, both, (int32_t)i)) return opening_no_memory(o);
    }
    return 1;
}

static int put_names(opening *o)
{
    vocabulary *v = &o->t->model.words;
    for (size_t i = 0; i < v->n; i++) {
        const token_piece *x = &v->piece[i];
        vocabulary_name(v, (int32_t)i);
        if (x->type != PIECE_CONTROL && x->type != PIECE_USER && x->type != PIECE_UNKNOWN) continue;
        if (!opening_added(o, x->text, x->n, (int32_t)i, x->type == PIECE_USER ? 0 : ADDED_SPECIAL)) return 0;
    }
    return 1;
}

static int byte_bpe(opening *o, const gguf_metadata *m)
{
    size_t n = 0;
    const char *pre = gguf_text(m, KEY "pre", &n);
    const known_pattern *k = pre ? known_pattern_find(pre, n) : known_pattern_find("default", 7);
    kiln_tokenizer *t = o->t;
    if (!k) return opening_fail(o, "the pattern '%.*s' (" KEY "pre) is not known", n < 40 ? (int)n : 40, pre);
    t->model.kind = MODEL_MERGES;
    t->model.ignore_merges = k->ignore_merges;
    t->kind = "byte-bpe";
    if (k->nfc) {
        if (!(t->normal = token_pool_get(o->pool, 1, sizeof *t->normal))) return opening_no_memory(o);
        t->normal[t->n_normal++] = (normalize_step){.kind = NORMALIZE_FORM, .flags = FORM_COMPOSE};
    }
    if (!put_names(o) || !read_merges(o, m) || !opening_byte_split(o, k->pattern)) return 0;
    read_ends(o, m, 0, 0);
    return 1;
}

/* "<|turn>", "<turn|>", "<|think|>": control tokens, also where a file calls them something else. */
static int is_spelt_as_control(const token_piece *x)
{
    const size_t n = x->n;
    if (n < 4 || x->text[0] != '<' || x->text[n - 1] != '>') return 0;
    return x->text[1] == '|' || x->text[n - 2] == '|';
}

/* Gemma 4's: blanks as U+2581, runs of newlines apart, which are one token where there is one; merges of characters;
 * bytes for what is no token. Scores are not looked at. */
static int gemma4(opening *o, const gguf_metadata *m)
{
    static const char blank[] = "\xe2\x96\x81", runs[] = "[^\n]+|[\n]+";
    static const decode_step decode[] = {{.kind = DECODE_REPLACE, .text = blank, .n = 3, .other = " ", .n_other = 1},
                                         {.kind = DECODE_FALLBACK},
                                         {.kind = DECODE_FUSE}};
    kiln_tokenizer *t = o->t;
    char why[300] = "";
    const pattern *space = pattern_new(o->pool, " ", 1, why), *lines = pattern_new(o->pool, runs, sizeof runs - 1, why);
    if (!space || !lines) return opening_fail(o, "%s", why);
    t->normal = token_pool_get(o->pool, 1, sizeof *t->normal);
    t->split = token_pool_get(o->pool, 1, sizeof *t->split);
    t->decode = token_pool_get(o->pool, 3, sizeof *t->decode);
    if (!t->normal || !t->split || !t->decode) return opening_no_memory(o);
    t->normal[t->n_normal++] = (normalize_step){.kind = NORMALIZE_REPLACE, .pattern = space, .text = blank, .n = 3};
    t->split[t->n_split++] = (split_step){.kind = SPLIT_PATTERN, .behavior = SPLIT_ISOLATED, .pattern = lines};
    memcpy(t->decode, decode, sizeof decode);
    t->n_decode = 3;
    t->model.kind = MODEL_MERGES;
    t->model.whole_newlines = t->model.byte_fallback = 1;
    t->kind = "byte-bpe";
    for (size_t i = 0; i < t->model.words.n; i++) {
        token_piece *x = &t->model.words.piece[i];
        if (x->type == PIECE_NORMAL && is_spelt_as_control(x)) x->type = PIECE_CONTROL;
    }
    t->model.unknown = t->role[ROLE_UNK];
    if (!put_names(o) || !read_merges(o, m)) return 0;
    if (!model_find_bytes(&t->model, &t->model.words))
        return opening_fail(o, "not all of <0x00> to <0xFF> are among " KEY "tokens");
    read_ends(o, m, 1, 0);
    return 1;
}

/* llama.cpp writes "##ing" as "ing" and "the" as "\u2581the". */
static int wordpiece(opening *o, const gguf_metadata *m)
{
    vocabulary *v = &o->t->model.words;
    for (size_t i = 0; i < v->n; i++) {
        token_piece *x = &v->piece[i];
        if (x->type != PIECE_NORMAL) continue;
        if (x->n >= 3 && memcmp(x->text, "\xe2\x96\x81", 3) == 0) {
            x->text += 3;
            x->n -= 3;
            continue;
        }
        char *text = token_pool_get(o->pool, (size_t)x->n + 3, 1);
        if (!text) return opening_no_memory(o);
        text[0] = text[1] = '#';
        memcpy(text + 2, x->text, x->n);
        x->text = text;
        x->n += 2;
    }
    if (!put_names(o) || !finish_wordpiece(o, 1)) return 0;
    (void)m;
    return 1;
}

int read_gguf(opening *o, const kiln_tokenizer_file *file)
{
    gguf_metadata m;
    char why[300];
    size_t n = 0;
    o->file = file->name;
    if (!gguf_read(o->pool, file->data, file->bytes, &m, why)) return opening_fail(o, "%s", why);
    const char *model = gguf_text(&m, KEY "model", &n), *chat;
    static const char *const models[] = {"llama", "t5", "gpt2", "bert", "gemma4"};
    size_t k = 0;
    while (k < 5 && !(model && strlen(models[k]) == n && memcmp(models[k], model, n) == 0)) k++;
    if (k == 5)
        return opening_fail(o, "the tokenizer '%.*s' (" KEY "model) is not known; llama, t5, gpt2, bert and gemma4 are",
                            model ? (n < 40 ? (int)n : 40) : 0, model ? model : "");
    if (!read_tokens(o, &m)) return 0;
    read_roles(o, &m);
    if ((chat = gguf_text(&m, "tokenizer.chat_template", &n))) o->t->chat_template = chat_template_of(chat, n);
    if (k < 2) return sentencepiece(o, &m, k == 1);
    if (k == 4) return gemma4(o, &m);
    return k == 2 ? byte_bpe(o, &m) : wordpiece(o, &m);
}
