/* tokenizer_api.c - see tokenizer_api.h. */
#include "tokenizer_api.h"

#include "chat_template.h"
#include "kept_tokenizers.h"
#include "sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const kiln_host *host;

void tokenizer_api_host(const kiln_host *h) { host = h; }

/* ---- which files ---- */

const kiln_tokenizer_file *file_at(const file_set *f, size_t i)
{
    const char *first = (const char *)f->source->file;
    return (const kiln_tokenizer_file *)(const void *)(first + i * f->source->file->size);
}

const kiln_tokenizer_file *file_named(const file_set *f, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < f->source->n_file; i++) {
        const kiln_tokenizer_file *x = file_at(f, i);
        size_t m = strlen(x->name);
        if (m >= n && strcmp(x->name + m - n, name) == 0 && (m == n || name[0] == '.' || x->name[m - n - 1] == '/'))
            return x;
    }
    return NULL;
}

static int wants(const char *kind, const char *name) { return !kind || strcmp(kind, name) == 0; }

/* The first form that is there and may be what is wanted. */
static int read_files(opening *o, const file_set *f)
{
    const char *kind = f->source->kind, *cut = "gpt2";
    const kiln_tokenizer_file *x, *merges = file_named(f, "merges.txt"), *config;
    if ((x = file_named(f, "tokenizer.json"))) return read_tokenizer_json(o, x);
    if ((x = file_named(f, "tokenizer.model"))) return read_sentencepiece(o, x, 0);
    if ((x = file_named(f, "spiece.model"))) return read_sentencepiece(o, x, 1);
    if ((x = file_named(f, "tekken.json"))) return read_tekken(o, x);
    if ((x = file_named(f, ".gguf"))) return read_gguf(o, x);
    if ((x = file_named(f, "vocab.txt"))) return read_vocab_txt(o, x);
    if (merges) {
        if ((config = file_named(f, "tokenizer_config.json")) && pattern_of_config(o->pool, config))
            cut = pattern_of_config(o->pool, config);
        x = file_named(f, "vocab.json");
        int is_clip = !kind ? (x ? -1 : 1) : strcmp(kind, "clip-bpe") == 0;
        return read_vocab_and_merges(o, x, merges, is_clip, cut);
    }
    return opening_fail(o, "no tokenizer among the files; tokenizer.json, tokenizer.model, spiece.model, tekken.json, "
                           "vocab.json with merges.txt, vocab.txt or a .gguf file is expected");
}

static int check_kind(opening *o, const char *wanted)
{
    const char *is = o->t->kind;
    o->file = NULL;
    if (wants(wanted, is) || (strcmp(wanted, "sentencepiece") == 0 && strncmp(is, "sp-", 3) == 0)) return 1;
    return opening_fail(o, "the files are of a tokenizer of kind '%s', and '%.40s' is wanted", is, wanted);
}

/* 32 hex digits of a kind and of the files, by which everything is decided that is read from them. 0: no memory */
static int digest_of(const char *kind, const file_set *f, char digest[33])
{
    XXH3_state_t *state = XXH3_createState();
    if (!state) return 0;
    XXH3_128bits_reset(state);
    XXH3_128bits_update(state, kind, strlen(kind) + 1);
    for (size_t i = 0; i < f->source->n_file; i++) {
        const kiln_tokenizer_file *x = file_at(f, i);
        const char *slash = strrchr(x->name, '/'), *name = slash ? slash + 1 : x->name;
        uint64_t bytes = x->bytes;
        XXH3_128bits_update(state, name, strlen(name) + 1);
        XXH3_128bits_update(state, &bytes, sizeof bytes);
        if (bytes) XXH3_128bits_update(state, x->data, x->bytes);
    }
    XXH128_hash_t h = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    snprintf(digest, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
    return 1;
}

static int make_identity(opening *o, const file_set *f)
{
    return digest_of(o->t->kind, f, o->t->identity) || opening_no_memory(o);
}

static int check_source(opening *o, const kiln_tokenizer_source *s)
{
    static const char *const kinds[] = {"clip-bpe", "byte-bpe", "sentencepiece", "sp-bpe", "sp-unigram", "wordpiece"};
    size_t k = 0;
    while (s->kind && k < 6 && strcmp(kinds[k], s->kind) != 0) k++;
    if (k == 6)
        return opening_fail(o, "the kind '%.40s' is not known; clip-bpe, byte-bpe, sentencepiece and wordpiece are",
                            s->kind);
    if (s->n_file && s->file->size < sizeof(kiln_tokenizer_file))
        return opening_fail(o, "kiln_tokenizer_file.size is not set");
    for (size_t i = 0; i < s->n_file; i++) {
        const kiln_tokenizer_file *x = file_at(&(file_set){s}, i);
        if (!x->name || (!x->data && x->bytes)) return opening_fail(o, "file %zu has no name or no data", i);
    }
    return 1;
}

/* Of a tokenizer in memory. */
static size_t open_limit(const kiln_tokenizer_source *s)
{
    enum { OPEN_BYTES = 64 << 20, OPEN_BYTES_EACH = 512 };
    size_t bytes = 0;
    for (size_t i = 0; i < s->n_file; i++) bytes += file_at(&(file_set){s}, i)->bytes;
    return bytes > (SIZE_MAX - OPEN_BYTES) / OPEN_BYTES_EACH ? 0 : OPEN_BYTES + OPEN_BYTES_EACH * bytes;
}

kiln_tokenizer *tokenizer_open(const kiln_tokenizer_source *source, char *why)
{
    kiln_tokenizer *t = calloc(1, sizeof *t);
    opening o = {.t = t};
    file_set files = {source};
    if (!t) {
        snprintf(why, KILN_TOKENIZER_WHY, "no memory for the tokenizer");
        return NULL;
    }
    o.pool = &t->pool;
    t->references = 1;
    t->model.unknown = NO_TOKEN;
    for (int r = 0; r < ROLE_COUNT; r++) t->role[r] = NO_TOKEN;
    const kiln_tokenizer_file *config = NULL;
    int ok = check_source(&o, source);
    if (ok) t->pool.limit = open_limit(source);
    ok = ok && read_files(&o, &files) && check_kind(&o, source->kind);
    if (ok) config = file_named(&files, "tokenizer_config.json");
    if (ok && config) ok = read_tokenizer_config(&o, config);
    o.file = NULL;
    if (ok && opening_finish(&o) && make_identity(&o, &files)) return t;
    snprintf(why, KILN_TOKENIZER_WHY, "%s", o.why[0] ? o.why : "no memory for the tokenizer");
    tokenizer_free(t);
    return NULL;
}

/* The one that is kept for such files and such a wish; *key: "" where there can be none. */
static kiln_tokenizer *find_kept(const kiln_tokenizer_source *source, char key[33])
{
    opening o = {0};
    key[0] = '\0';
    if (!check_source(&o, source) || !digest_of(source->kind ? source->kind : "", &(file_set){source}, key))
        return NULL;
    return kept_tokenizer(key);
}

static kiln_tokenizer *open_in_call(kiln_ctx *ctx, const kiln_tokenizer_source *source)
{
    char why[KILN_TOKENIZER_WHY] = "", key[33];
    kiln_tokenizer *t = find_kept(source, key);
    if (t) return t;
    t = tokenizer_open(source, why);
    if (!t) host->fail(ctx, strstr(why, "no memory") ? KILN_ERR_NOMEM : KILN_ERR_INVALID, "%s", why);
    if (t && key[0]) keep_tokenizer(key, t);
    return t;
}

/* ---- the rest of the table ---- */

static kiln_status encode(const kiln_tokenizer *t, const kiln_tokenizer_input *in, kiln_encoding *out, char *why)
{
    return tokenizer_encode(t, in, out, why);
}

static void encoding_free(kiln_encoding *e)
{
    free(e->id);
    free(e->weight);
    free(e->from);
    free(e->to);
    *e = (kiln_encoding){.size = e->size};
}

static const token_piece *piece_of(const kiln_tokenizer *t, int32_t id)
{
    if (id < 0 || (size_t)id >= t->model.words.n) return NULL;
    const token_piece *x = &t->model.words.piece[id];
    return x->text ? x : NULL;
}

static size_t decode(const kiln_tokenizer *t, const int32_t *id, size_t n, uint32_t special, char *out, size_t capacity)
{
    token_pool pool = {0};
    decoded_list l = {.item = token_pool_get(&pool, n + 1, sizeof *l.item)};
    size_t written = 0;
    for (size_t i = 0; l.item && i < n; i++) {
        const token_piece *x = piece_of(t, id[i]);
        if (!x || (x->type == PIECE_CONTROL && !special)) continue;
        char *copy = token_pool_copy(&pool, x->text, x->n);
        l.item[l.n++] = (decoded){copy, copy ? x->n : 0};
        if (t->is_sentencepiece && x->type == PIECE_UNKNOWN) l.item[l.n - 1] = (decoded){" \xe2\x81\x87 ", 5};
    }
    pool.limit = WORK_BYTES + 64 * pool.bytes;
    if (l.item && !pool.failed && decode_tokens(&pool, t->decode, t->n_decode, &l) && l.n) {
        written = l.item[0].n;
        if (written && capacity) memcpy(out, l.item[0].s, written < capacity ? written : capacity);
    }
    token_pool_free(&pool);
    return written;
}

static int32_t special_id(const kiln_tokenizer *t, const char *name)
{
    for (int r = 0; r < ROLE_COUNT; r++)
        if (strcmp(role_names[r], name) == 0) return t->role[r];
    return vocabulary_find(&t->named, name, strlen(name));
}

static size_t render(const kiln_tokenizer *t, const char *name, const kiln_chat_message *m, size_t n,
                     uint32_t open_turn, char *out, size_t capacity, char *why)
{
    const token_piece *bos = piece_of(t, t->role[ROLE_BOS]);
    return chat_render(name ? name : t->chat_template, bos ? bos->text : "", m, n, open_turn, out, capacity, why);
}

static int32_t count(const kiln_tokenizer *t) { return (int32_t)t->model.words.n; }
static const char *kind(const kiln_tokenizer *t) { return t->kind; }
static const char *identity(const kiln_tokenizer *t) { return t->identity; }

const kiln_tokenizer_api tokenizer_api = {.size = sizeof(kiln_tokenizer_api),
                                          .open = open_in_call,
                                          .ref = tokenizer_ref,
                                          .unref = tokenizer_unref,
                                          .encode = encode,
                                          .encoding_free = encoding_free,
                                          .decode = decode,
                                          .special = special_id,
                                          .render = render,
                                          .count = count,
                                          .kind = kind,
                                          .identity = identity};
