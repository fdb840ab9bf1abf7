/* sentencepiece_file.c - tokenizer.model and spiece.model: a protocol buffer (sentencepiece_model.proto), read by hand.
 * Only the fields that decide ids are looked at. */
#include "sources.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the wire ---- */

typedef struct {
    const unsigned char *s, *end;
} wire;

typedef struct {
    uint32_t number, type; /* 0 varint, 1 fixed64, 2 bytes, 5 fixed32 */
    uint64_t value;        /* varint, fixed32 */
    wire bytes;
} wire_field;

static int varint(wire *w, uint64_t *out)
{
    *out = 0;
    for (uint32_t shift = 0; w->s < w->end && shift < 64; shift += 7) {
        unsigned char byte = *w->s++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return 1;
    }
    return 0;
}

/* 1: a field, 0: the end, -1: broken. */
static int next_field(wire *w, wire_field *f)
{
    uint64_t key, n;
    if (w->s == w->end) return 0;
    if (!varint(w, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX >> 3) return -1;
    *f = (wire_field){.number = (uint32_t)(key >> 3), .type = key & 7};
    size_t left;
    switch (f->type) {
    case 0: return varint(w, &f->value) ? 1 : -1;
    case 1:
    case 5:
        n = f->type == 1 ? 8 : 4;
        left = (size_t)(w->end - w->s);
        if (left < n) return -1;
        for (uint64_t i = 0; i < n; i++) f->value |= (uint64_t)w->s[i] << (8 * i);
        w->s += n;
        return 1;
    case 2:
        if (!varint(w, &n) || n > (uint64_t)(w->end - w->s)) return -1;
        f->bytes = (wire){w->s, w->s + n};
        w->s += n;
        return 1;
    default: return -1;
    }
}

static int broken(opening *o, const char *what)
{
    return opening_fail(o, "%s is cut off or damaged; this is no SentencePiece model, or not all of it", what);
}

/* ---- pieces ---- */

static int read_piece(opening *o, wire w, int32_t id)
{
    token_piece piece = {.type = PIECE_NORMAL};
    wire_field f;
    int got;
    while ((got = next_field(&w, &f)) == 1) {
        if (f.number == 1 && f.type == 2) {
            piece.text = (const char *)f.bytes.s;
            size_t n = (size_t)(f.bytes.end - f.bytes.s);
            if (n > PIECE_BYTES_MAX) return opening_fail(o, "piece %d has %zu bytes", id, n);
            piece.n = (uint32_t)n;
        } else if (f.number == 2 && f.type == 5) {
            uint32_t bits = (uint32_t)f.value;
            float score;
            memcpy(&score, &bits, sizeof score);
            piece.score = (double)score;
        } else if (f.number == 3 && f.type == 0) {
            piece.type = (uint32_t)f.value;
        }
    }
    if (got < 0) return broken(o, "a piece");
    if (!piece.text || piece.n == 0) return opening_fail(o, "piece %d has no text", id);
    if (!isfinite(piece.score)) return opening_fail(o, "piece %d has a score that is no number", id);
    if (piece.type < PIECE_NORMAL || piece.type > PIECE_BYTE)
        return opening_fail(o, "piece %d has the type %u, which is not known", id, piece.type);
    if (!(piece.text = token_pool_copy(o->pool, piece.text, piece.n))) return opening_no_memory(o);
    o->t->model.words.piece[id] = piece;
    return 1;
}

static int put_piece_name(opening *o, int32_t id)
{
    token_model *m = &o->t->model;
    token_piece *x = &m->words.piece[id];
    int is_text = x->type == PIECE_NORMAL || x->type == PIECE_USER || x->type == PIECE_UNUSED;
    if (!vocabulary_name(is_text ? &m->words : &m->reserved, id))
        return opening_fail(o, "the piece '%.60s' is there twice", x->text);
    if (x->type == PIECE_UNKNOWN && m->unknown != NO_TOKEN) return opening_fail(o, "two pieces are for the unknown");
    if (x->type == PIECE_UNKNOWN) m->unknown = id;
    if (x->type == PIECE_CONTROL && !opening_added(o, x->text, x->n, id, ADDED_SPECIAL)) return 0;
    if (x->type == PIECE_USER && !trie_put(o->pool, &m->user, x->text, x->n, id)) return opening_no_memory(o);
    if (is_text && m->kind == MODEL_UNIGRAM && !trie_put(o->pool, &m->pieces, x->text, x->n, id))
        return opening_no_memory(o);
    if (x->type == PIECE_NORMAL && x->score < m->score_min) m->score_min = x->score;
    return 1;
}

static int add_sentencepiece_decode(opening *o)
{
    static const decode_step steps[] = {
        {.kind = DECODE_LEAD, .text = "\xe2\x96\x81", .n = 3},
        {.kind = DECODE_REPLACE, .text = "\xe2\x96\x81", .n = 3, .other = " ", .n_other = 1},
        {.kind = DECODE_FALLBACK, .flag = 1},
        {.kind = DECODE_FUSE}};
    kiln_tokenizer *t = o->t;
    const sentencepiece_spec *s = &t->sentencepiece;
    decode_step *own = token_pool_get(o->pool, 4, sizeof *steps);
    if (!own) return opening_no_memory(o);
    memcpy(own, steps, sizeof steps);
    own[0].flag = s->remove_extra_whitespaces;
    int leads = s->add_dummy_prefix || s->remove_extra_whitespaces;
    t->decode = leads ? own : own + 1;
    t->n_decode = leads ? 4 : 3;
    return 1;
}

int finish_sentencepiece(opening *o, int is_unigram, int byte_fallback)
{
    kiln_tokenizer *t = o->t;
    token_model *m = &t->model;
    vocabulary reserved;
    m->kind = is_unigram ? MODEL_UNIGRAM : MODEL_SCORES;
    m->single_precision = m->in_one_unknown = 1;
    m->score_min = FLT_MAX;
    if (!vocabulary_new(o->pool, &reserved, m->words.n)) return opening_no_memory(o);
    reserved.piece = m->words.piece;
    m->reserved = reserved;
    for (size_t i = 0; i < m->words.n; i++)
        if (!put_piece_name(o, (int32_t)i)) return 0;
    m->score_unknown = (double)((float)m->score_min - 10); /* sentencepiece's, in single precision */
    if (m->unknown == NO_TOKEN) return opening_fail(o, "no piece is for the unknown");
    if (byte_fallback && !model_find_bytes(m, &m->reserved))
        return opening_fail(o, "byte fallback is on, but not all of <0x00> to <0xFF> are byte pieces");
    m->byte_fallback = byte_fallback;
    t->is_sentencepiece = 1;
    t->sentencepiece.user = &m->user;
    t->kind = is_unigram ? "sp-unigram" : "sp-bpe";
    return add_sentencepiece_decode(o);
}

/* ---- the file ---- */

typedef struct {
    uint64_t model_type, byte_fallback, whitespace_as_suffix;
    int32_t role[ROLE_COUNT];
    int parts; /* 1: the trainer's, 2: the normaliser's */
} trainer;

static int read_trainer(opening *o, wire w, trainer *out)
{
    static const struct {
        uint32_t number;
        int role;
    } roles[] = {{40, ROLE_UNK}, {41, ROLE_BOS}, {42, ROLE_EOS}, {43, ROLE_PAD}};
    wire_field f;
    int got;
    while ((got = next_field(&w, &f)) == 1) {
        if (f.type != 0) continue;
        if (f.number == 3) out->model_type = f.value;
        if (f.number == 24) out->whitespace_as_suffix = f.value;
        if (f.number == 35) out->byte_fallback = f.value;
        for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
            if (f.number == roles[i].number) out->role[roles[i].role] = (int32_t)(int64_t)f.value;
    }
    return got == 0 || broken(o, "the trainer's part");
}

static int read_normalizer(opening *o, wire w, sentencepiece_spec *out)
{
    wire_field f;
    int got;
    char why[300] = "";
    while ((got = next_field(&w, &f)) == 1) {
        size_t n = (size_t)(f.bytes.end - f.bytes.s);
        if (f.number == 2 && f.type == 2 && n > 0 && !(out->map = charsmap_new(o->pool, f.bytes.s, n, why)))
            return opening_fail(o, "%s", why);
        if (f.type != 0) continue;
        if (f.number == 3) out->add_dummy_prefix = f.value != 0;
        if (f.number == 4) out->remove_extra_whitespaces = f.value != 0;
        if (f.number == 5) out->escape_whitespaces = f.value != 0;
    }
    return got == 0 || broken(o, "the normaliser's part");
}

/* Pieces are counted before memory is asked for. */
static int read_parts(opening *o, wire file, trainer *train)
{
    wire_field f;
    wire w = file;
    size_t n = 0;
    int got;
    while ((got = next_field(&w, &f)) == 1) n += f.number == 1 && f.type == 2;
    if (got < 0) return broken(o, "the file");
    if (n == 0 || n > TOKENS_MAX) return opening_fail(o, "%zu pieces; from 1 to %d are expected", n, TOKENS_MAX);
    if (!vocabulary_new(o->pool, &o->t->model.words, n)) return opening_no_memory(o);
    for (w = file, n = 0; next_field(&w, &f) == 1;) {
        if (f.type != 2) continue;
        if (f.number == 2 || f.number == 3) train->parts |= (int)f.number - 1;
        if (f.number == 1 && !read_piece(o, f.bytes, (int32_t)n++)) return 0;
        if (f.number == 2 && !read_trainer(o, f.bytes, train)) return 0;
        if (f.number == 3 && !read_normalizer(o, f.bytes, &o->t->sentencepiece)) return 0;
    }
    return train->parts == 3 || broken(o, "the end of the file"); /* both come behind the pieces */
}

static void take_roles(kiln_tokenizer *t, const trainer *train)
{
    for (int r = 0; r < ROLE_COUNT; r++) {
        int32_t id = train->role[r];
        if (id >= 0 && (size_t)id < t->model.words.n) t->role[r] = id;
    }
}

int read_sentencepiece(opening *o, const kiln_tokenizer_file *file, int is_t5)
{
    kiln_tokenizer *t = o->t;
    const unsigned char *data = file->data;
    trainer train = {.model_type = 1};
    for (int r = 0; r < ROLE_COUNT; r++) train.role[r] = NO_TOKEN;
    train.role[ROLE_UNK] = 0, train.role[ROLE_BOS] = 1, train.role[ROLE_EOS] = 2;
    o->file = file->name;
    t->sentencepiece =
        (sentencepiece_spec){.add_dummy_prefix = 1, .remove_extra_whitespaces = 1, .escape_whitespaces = 1};
    if (!read_parts(o, (wire){data, data + file->bytes}, &train)) return 0;
    if (train.model_type != 1 && train.model_type != 2)
        return opening_fail(o, "the model type %llu is not known; 1 (unigram) and 2 (BPE) are",
                            (unsigned long long)train.model_type);
    t->sentencepiece.whitespace_as_suffix = train.whitespace_as_suffix != 0;
    if (!finish_sentencepiece(o, train.model_type == 1, train.byte_fallback != 0)) return 0;
    take_roles(t, &train);
    if (is_t5 && t->role[ROLE_EOS] != NO_TOKEN) t->end = (end_list){{t->role[ROLE_EOS]}, 1};
    if (!is_t5 && t->role[ROLE_BOS] != NO_TOKEN) t->begin = (end_list){{t->role[ROLE_BOS]}, 1};
    return 1;
}
