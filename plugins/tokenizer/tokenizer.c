/* tokenizer.c - see tokenizer.h. */
#include "tokenizer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const role_names[ROLE_COUNT] = {"bos", "eos", "pad", "unk", "mask", "sep", "cls"};

/* ---- opening ---- */

int opening_fail(opening *o, const char *fmt, ...)
{
    va_list args;
    if (o->why[0]) return 0; /* the first reason */
    size_t n = o->file ? (size_t)snprintf(o->why, sizeof o->why, "%.80s: ", o->file) : 0;
    va_start(args, fmt);
    vsnprintf(o->why + n, sizeof o->why - n, fmt, args);
    va_end(args);
    return 0;
}

int opening_no_memory(opening *o)
{
    if (o->pool->failed != POOL_FULL) return opening_fail(o, "no memory for the tokenizer");
    return opening_fail(o, "the files make more than the %zu MiB that files of their size may", o->pool->limit >> 20);
}

int opening_added(opening *o, const char *text, size_t n, int32_t id, uint32_t flags)
{
    kiln_tokenizer *t = o->t;
    if (n == 0) return 1;
    if (n > PIECE_BYTES_MAX) return opening_fail(o, "an added token of %zu bytes; %d are the most", n, PIECE_BYTES_MAX);
    char *copy = token_pool_copy(o->pool, text, n);
    if (!copy || !token_pool_reserve(o->pool, &t->added, &t->added_capacity, t->n_added + 1, sizeof *t->added))
        return opening_no_memory(o);
    t->added[t->n_added++] = (added_token){copy, n, id, flags};
    return 1;
}

/* The vocabulary with room for the ids of added tokens. */
static int grow_words(opening *o, size_t n)
{
    vocabulary *w = &o->t->model.words;
    if (n <= w->n) return 1;
    token_piece *piece = token_pool_get(o->pool, n, sizeof *piece);
    if (!piece) return opening_no_memory(o);
    memcpy(piece, w->piece, w->n * sizeof *piece);
    w->piece = piece;
    w->n = n;
    if (o->t->model.reserved.slots) o->t->model.reserved.piece = piece;
    return 1;
}

static int put_added(opening *o)
{
    kiln_tokenizer *t = o->t;
    size_t n = t->model.words.n;
    for (size_t i = 0; i < t->n_added; i++)
        if ((size_t)t->added[i].id >= n) n = (size_t)t->added[i].id + 1;
    if (n > 2 * (t->model.words.n + t->n_added) + IDS_LEFT_OUT)
        return opening_fail(o, "an added token has the id %zu, of %zu tokens; ids are expected to count up from 0",
                            n - 1, t->model.words.n + t->n_added);
    if (!grow_words(o, n)) return 0;
    for (size_t i = 0; i < t->n_added; i++) {
        const added_token *x = &t->added[i];
        token_piece *piece = &t->model.words.piece[x->id];
        if (!piece->text) *piece = (token_piece){.text = x->text, .n = (uint32_t)x->n, .type = PIECE_USER};
        if (x->flags & ADDED_SPECIAL) piece->type = PIECE_CONTROL;
    }
    return 1;
}

static int put_names(opening *o)
{
    kiln_tokenizer *t = o->t;
    vocabulary names;
    if (!vocabulary_new(o->pool, &names, t->model.words.n)) return opening_no_memory(o);
    names.piece = t->model.words.piece;
    t->named = names;
    for (size_t i = 0; i < names.n; i++)
        if (names.piece[i].text) vocabulary_name(&t->named, (int32_t)i);
    return 1;
}

static int put_tries(opening *o)
{
    kiln_tokenizer *t = o->t;
    t->raw.item = t->normalized.item = t->added;
    for (size_t i = 0; i < t->n_added; i++) {
        const added_token *x = &t->added[i];
        aligned_text text = {0};
        int is_normal = (x->flags & ADDED_NORMALIZED) != 0;
        if (!text_original(o->pool, x->text, x->n, &text)) return opening_no_memory(o);
        if (is_normal && normalize(o->pool, t->normal, t->n_normal, &text) != 1)
            return o->pool->failed ? opening_no_memory(o)
                                   : opening_fail(o, "the added token '%.60s' cannot be normalised", x->text);
        if (text.n && !trie_put(o->pool, is_normal ? &t->normalized.trie : &t->raw.trie, text.s, text.n, (int32_t)i))
            return opening_no_memory(o);
    }
    return 1;
}

/* What the files prescribe for begin and end are tokens of theirs. */
static int check_ends(opening *o)
{
    const end_list *ends[] = {&o->t->begin, &o->t->end};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < ends[k]->n; i++)
            if ((size_t)ends[k]->id[i] >= o->t->model.words.n)
                return opening_fail(o, "the token %d at the begin or end is not in the vocabulary of %zu",
                                    ends[k]->id[i], o->t->model.words.n);
    return 1;
}

/* Roles that no file names, by what tokens of that role are called. */
static void find_roles(kiln_tokenizer *t)
{
    static const char *const usual[ROLE_COUNT][6] = {
        [ROLE_BOS] = {"<s>", "<bos>", "<|begin_of_text|>", "<|startoftext|>"},
        [ROLE_EOS] = {"</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"},
        [ROLE_PAD] = {"<pad>", "[PAD]", "<|finetune_right_pad_id|>", "<|endoftext|>"},
        [ROLE_UNK] = {"<unk>", "[UNK]"},
        [ROLE_MASK] = {"<mask>", "[MASK]"},
        [ROLE_SEP] = {"[SEP]", "</s>"},
        [ROLE_CLS] = {"[CLS]", "<s>"},
    };
    for (int r = 0; r < ROLE_COUNT; r++)
        for (int i = 0; i < 6 && usual[r][i] && t->role[r] == NO_TOKEN; i++)
            t->role[r] = vocabulary_find(&t->named, usual[r][i], strlen(usual[r][i]));
}

int opening_finish(opening *o)
{
    if (o->why[0] || !put_added(o) || !check_ends(o) || !put_names(o) || !put_tries(o)) return 0;
    find_roles(o->t);
    return !o->pool->failed || opening_no_memory(o);
}

int model_find_bytes(token_model *m, const vocabulary *v)
{
    char name[8];
    int all = 1;
    for (unsigned i = 0; i < 256; i++) {
        snprintf(name, sizeof name, "<0x%02X>", i);
        all &= (m->byte[i] = vocabulary_find(v, name, 6)) != NO_TOKEN;
    }
    return all;
}

void tokenizer_free(kiln_tokenizer *t)
{
    if (!t) return;
    token_pool_free(&t->pool);
    free(t);
}

/* ---- encoding ---- */

typedef struct {
    const kiln_tokenizer *t;
    token_pool pool;
    model_work work;
    token_list out;
    int special;
    uint32_t text_end;
} encoding;

/* One text between added tokens of the raw text. */
static int encode_text(encoding *e, aligned_text text, int is_first)
{
    const kiln_tokenizer *t = e->t;
    piece_list pieces = {0};
    int got = 1;
    if (t->is_sentencepiece) {
        sentencepiece_spec spec = t->sentencepiece;
        if (!is_first) spec.add_dummy_prefix = 0;
        if (!sentencepiece_normalize(&e->pool, &spec, &text, text.n ? text.to[text.n - 1] : e->text_end)) return 0;
        return model_encode(&t->model, &e->work, &text, &e->out);
    }
    if ((got = normalize(&e->pool, t->normal, t->n_normal, &text)) != 1) return got;
    if (!added_split(&e->pool, &t->normalized, &text, e->special, &pieces)) return 0;
    got = split_pieces(&e->pool, t->split, t->n_split, &pieces);
    for (size_t i = 0; got == 1 && i < pieces.n; i++) {
        const aligned_text *x = &pieces.item[i].text;
        if (pieces.item[i].id != NO_TOKEN)
            got = tokens_add(&e->out, pieces.item[i].id, x->from[0], x->to[x->n - 1]);
        else
            got = model_encode(&t->model, &e->work, x, &e->out);
    }
    return got;
}

static int encode_all(encoding *e, const char *s, size_t n)
{
    aligned_text text;
    piece_list pieces = {0};
    if (!text_original(&e->pool, s, n, &text)) return 0;
    if (!added_split(&e->pool, &e->t->raw, &text, e->special, &pieces)) return 0;
    int got = 1;
    for (size_t i = 0; got == 1 && i < pieces.n; i++) {
        const aligned_text *x = &pieces.item[i].text;
        if (pieces.item[i].id != NO_TOKEN)
            got = tokens_add(&e->out, pieces.item[i].id, x->from[0], x->to[x->n - 1]);
        else
            got = encode_text(e, *x, i == 0);
    }
    return got;
}

/* Room for n more; all arrays or none. */
static int reserve(kiln_encoding *out, size_t n)
{
    size_t all = out->n + n ? out->n + n : 1;
    int32_t *id = realloc(out->id, all * sizeof *id);
    if (id) out->id = id;
    float *weight = realloc(out->weight, all * sizeof *weight);
    if (weight) out->weight = weight;
    uint32_t *from = realloc(out->from, all * sizeof *from);
    if (from) out->from = from;
    uint32_t *to = realloc(out->to, all * sizeof *to);
    if (to) out->to = to;
    return id && weight && from && to;
}

static void put(kiln_encoding *out, int32_t id, float weight, uint32_t from, uint32_t to)
{
    out->id[out->n] = id;
    out->weight[out->n] = weight;
    out->from[out->n] = from;
    out->to[out->n++] = to;
}

static void put_all(const encoding *e, const kiln_tokenizer_input *in, kiln_encoding *out)
{
    const end_list none = {.n = 0}, *begin = in->ends ? &e->t->begin : &none, *end = in->ends ? &e->t->end : &none;
    float weight = in->weight ? *in->weight : 1;
    for (size_t i = 0; i < begin->n; i++) put(out, begin->id[i], weight, 0, 0);
    for (size_t i = 0; i < e->out.n; i++) put(out, e->out.id[i], weight, e->out.from[i], e->out.to[i]);
    for (size_t i = 0; i < end->n; i++) put(out, end->id[i], weight, (uint32_t)in->n, (uint32_t)in->n);
}

kiln_status tokenizer_encode(const kiln_tokenizer *t, const kiln_tokenizer_input *in, kiln_encoding *out, char *why)
{
    encoding e = {.t = t, .special = in->special != 0, .text_end = (uint32_t)in->n};
    e.out.pool = &e.pool;
    e.pool.limit = WORK_BYTES + WORK_BYTES_EACH * in->n;
    if (in->n > TEXT_BYTES_MAX) {
        snprintf(why, KILN_TOKENIZER_WHY, "the text has %zu bytes; %d are the most", in->n, TEXT_BYTES_MAX);
        return KILN_ERR_INVALID;
    }
    int got = in->n ? encode_all(&e, in->text, in->n) : 1;
    if (got == 1 && !reserve(out, e.out.n + 2 * ENDS_MAX)) got = 0;
    if (got == 1) put_all(&e, in, out);
    const int full = e.pool.failed == POOL_FULL;
    token_pool_free(&e.pool);
    if (got == 1) return KILN_OK;
    if (got == 0 && full) {
        snprintf(why, KILN_TOKENIZER_WHY,
                 "the tokenizer's steps make more than the %zu MiB that a text of %zu bytes may become",
                 (size_t)(WORK_BYTES + WORK_BYTES_EACH * in->n) >> 20, in->n);
        return KILN_ERR_INVALID;
    }
    if (got == 0)
        snprintf(why, KILN_TOKENIZER_WHY, "no memory for the tokens of a text of %zu bytes", in->n);
    else
        snprintf(
            why, KILN_TOKENIZER_WHY,
            "the text of %zu bytes cannot be cut into tokens: the tokenizer's pattern takes too long for it, or it "
            "has characters that are not in the vocabulary, which has no token for the unknown",
            in->n);
    return got == 0 ? KILN_ERR_NOMEM : KILN_ERR_INVALID;
}
