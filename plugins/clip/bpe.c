/* bpe.c - see bpe.h. The algorithm: of all neighbouring pairs the one learnt first is joined, everywhere
 * in the word at once by going left to right, until no pair is known (Sennrich et al. 2016). */
#include "bpe.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SYMBOL_BYTES_MAX = 1024, VOCAB_MAX = 1 << 20, NONE = -1 };
#define WORD_END "</w>"
#define START_TEXT "<|startoftext|>"
#define END_TEXT "<|endoftext|>"

typedef struct {
    int32_t left, right, joined; /* left NONE: an empty slot */
    int32_t rank;
} merge;

struct bpe {
    size_t n;           /* ids 0..n-1 */
    char **symbol;      /* [id]; NULL where no symbol has that id */
    uint32_t slots;     /* of `by_symbol`, a power of two */
    int32_t *by_symbol; /* hash table of ids */
    uint32_t merge_slots;
    merge *merges;                     /* hash table by (left, right) */
    int32_t byte[256], last_byte[256]; /* id of a byte inside and at the end of a word */
    int32_t start, end;
};

/* ---- tables ---- */

static uint32_t hash_bytes(const char *s, size_t n)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h ^ (h >> 15);
}

static uint32_t hash_pair(int32_t left, int32_t right)
{
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32);
}

static uint32_t slots_for(size_t n)
{
    uint32_t slots = 16;
    while (slots < 2 * n) slots *= 2;
    return slots;
}

static int32_t find_symbol(const bpe *b, const char *s, size_t n)
{
    for (uint32_t i = hash_bytes(s, n);; i++) {
        int32_t id = b->by_symbol[i & (b->slots - 1)];
        if (id == NONE) return NONE;
        if (strlen(b->symbol[id]) == n && memcmp(b->symbol[id], s, n) == 0) return id;
    }
}

static const merge *find_merge(const bpe *b, int32_t left, int32_t right)
{
    for (uint32_t i = hash_pair(left, right);; i++) {
        const merge *m = &b->merges[i & (b->merge_slots - 1)];
        if (m->left == NONE) return NULL;
        if (m->left == left && m->right == right) return m;
    }
}

static int put_symbol(bpe *b, const char *s, size_t n, int32_t id)
{
    if (!(b->symbol[id] = malloc(n + 1))) return 0;
    memcpy(b->symbol[id], s, n);
    b->symbol[id][n] = 0;
    uint32_t i = hash_bytes(s, n);
    while (b->by_symbol[i & (b->slots - 1)] != NONE) i++;
    b->by_symbol[i & (b->slots - 1)] = id;
    return 1;
}

static int make_symbols(bpe *b, size_t n)
{
    b->n = n;
    b->slots = slots_for(n);
    b->symbol = calloc(n, sizeof *b->symbol);
    b->by_symbol = malloc(b->slots * sizeof *b->by_symbol);
    if (!b->symbol || !b->by_symbol) return 0;
    memset(b->by_symbol, 0xff, b->slots * sizeof *b->by_symbol);
    return 1;
}

/* ---- bytes ---- */

/* GPT-2's table: printable Latin-1 bytes are themselves, the other 68 bytes are U+0100 and following. */
static uint32_t code_of_byte(uint32_t byte)
{
    uint32_t other = 0;
    for (uint32_t i = 0; i <= byte; i++) {
        int printable = (i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174;
        if (i == byte) return printable ? i : 256 + other;
        other += !printable;
    }
    return 0;
}

/* UTF-8 of the byte's printable character (below U+0800), then the ending; returns the length. */
static size_t spell_byte(uint32_t byte, const char *ending, char out[16])
{
    uint32_t code = code_of_byte(byte);
    size_t n = 0;
    if (code < 0x80) {
        out[n++] = (char)code;
    } else {
        out[n++] = (char)(0xc0 | code >> 6);
        out[n++] = (char)(0x80 | (code & 0x3f));
    }
    size_t m = strlen(ending);
    memcpy(out + n, ending, m);
    return n + m;
}

static int find_bytes(bpe *b, char why[300])
{
    char s[16];
    for (uint32_t i = 0; i < 256; i++) {
        size_t n = spell_byte(i, "", s);
        b->byte[i] = find_symbol(b, s, n);
        n = spell_byte(i, WORD_END, s);
        b->last_byte[i] = find_symbol(b, s, n);
        if (b->byte[i] == NONE || b->last_byte[i] == NONE) {
            snprintf(why, 300,
                     "vocab.json has no symbol for byte %u%s: CLIP's format lists all 256 bytes, each also with %s", i,
                     b->byte[i] == NONE ? "" : " at the end of a word", WORD_END);
            return 0;
        }
    }
    b->start = find_symbol(b, START_TEXT, strlen(START_TEXT));
    b->end = find_symbol(b, END_TEXT, strlen(END_TEXT));
    if (b->start != NONE && b->end != NONE) return 1;
    snprintf(why, 300, "vocab.json has no %s", b->start == NONE ? START_TEXT : END_TEXT);
    return 0;
}

/* ---- vocab.json ---- */

static int read_id(const char *key, const json_t *value, size_t n, char why[300])
{
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    size_t length = strlen(key);
    if (id >= 0 && (size_t)id < n && length > 0 && length <= SYMBOL_BYTES_MAX) return (int)id;
    snprintf(why, 300, "vocab.json: the entry '%.60s' must have an id from 0 to %zu", key, n - 1);
    return NONE;
}

/* Highest id + 1: at most a few more than there are entries, since added tokens may leave gaps. */
static size_t vocab_size(json_t *root, char why[300])
{
    const char *key;
    json_t *value;
    size_t count = json_object_size(root), n = 0;
    json_object_foreach(root, key, value)
    {
        int id = read_id(key, value, VOCAB_MAX, why);
        if (id == NONE) return 0;
        if ((size_t)id >= n) n = (size_t)id + 1;
    }
    if (n > 0 && n <= 2 * count + 1024) return n;
    snprintf(why, 300, "vocab.json has %zu entries and ids up to %zu; ids are expected to count up from 0", count, n);
    return 0;
}

static int read_vocab(bpe *b, const char *text, size_t bytes, char why[300])
{
    json_error_t at;
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &at);
    const char *key;
    json_t *value;
    int ok = 0;
    size_t n;
    if (!root || !json_is_object(root)) {
        snprintf(why, 300, "vocab.json:%d:%d: %.120s; a JSON map from symbol to id is expected", root ? 1 : at.line,
                 root ? 1 : at.column, root ? "not a map" : at.text);
        goto done;
    }
    if (!(n = vocab_size(root, why))) goto done;
    if (!make_symbols(b, n)) goto nomem;
    json_object_foreach(root, key, value)
    {
        int id = read_id(key, value, n, why);
        if (b->symbol[id]) {
            snprintf(why, 300, "vocab.json: '%.60s' and '%.60s' have the same id %d", b->symbol[id], key, id);
            goto done;
        }
        if (!put_symbol(b, key, strlen(key), id)) goto nomem;
    }
    ok = 1;
    goto done;
nomem:
    snprintf(why, 300, "no memory for the tokenizer");
done:
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

static size_t count_merges(const char *text, size_t bytes, char why[300])
{
    const char *at = text;
    size_t n = 0;
    int line = 0, got;
    pair p;
    while ((got = next_pair(&at, text + bytes, &line, &p)) == 1 && n <= VOCAB_MAX) n++;
    if (got == 0) return n;
    snprintf(why, 300, "merges.txt:%d: two symbols with one blank between them are expected", line);
    return SIZE_MAX;
}

static int put_merge(bpe *b, const pair *p, int32_t rank)
{
    char joined[SYMBOL_BYTES_MAX];
    memcpy(joined, p->left, p->n_left);
    memcpy(joined + p->n_left, p->right, p->n_right);
    merge m = {.left = find_symbol(b, p->left, p->n_left),
               .right = find_symbol(b, p->right, p->n_right),
               .joined = find_symbol(b, joined, p->n_left + p->n_right),
               .rank = rank};
    if (m.left == NONE || m.right == NONE || m.joined == NONE) return 0;
    if (find_merge(b, m.left, m.right)) return 1; /* the earlier one counts */
    uint32_t i = hash_pair(m.left, m.right);
    while (b->merges[i & (b->merge_slots - 1)].left != NONE) i++;
    b->merges[i & (b->merge_slots - 1)] = m;
    return 1;
}

static int read_merges(bpe *b, const char *text, size_t bytes, size_t n, char why[300])
{
    const char *at = text;
    int line = 0;
    pair p;
    b->merge_slots = slots_for(n);
    b->merges = malloc(b->merge_slots * sizeof *b->merges);
    if (!b->merges) {
        snprintf(why, 300, "no memory for the tokenizer");
        return 0;
    }
    memset(b->merges, 0xff, b->merge_slots * sizeof *b->merges);
    for (int32_t rank = 0; next_pair(&at, text + bytes, &line, &p) == 1; rank++)
        if (!put_merge(b, &p, rank)) {
            snprintf(why, 300, "merges.txt:%d: '%.*s' and '%.*s' joined, or one of them, is not in vocab.json", line,
                     (int)p.n_left, p.left, (int)p.n_right, p.right);
            return 0;
        }
    return 1;
}

/* CLIP's own order: the bytes as in GPT-2's table, printable ones first, the same with the word end, merges, specials.
 */
static int vocab_of_merges(bpe *b, const char *text, size_t bytes, size_t merges, char why[300])
{
    const char *at = text;
    char s[2 * SYMBOL_BYTES_MAX];
    int line = 0, ok = make_symbols(b, 512 + merges + 2);
    int32_t id = 0;
    pair p;
    for (int last = 0; last < 2; last++)
        for (int other = 0; other < 2; other++)
            for (uint32_t byte = 0; ok && byte < 256; byte++)
                if ((code_of_byte(byte) >= 256) == other)
                    ok = put_symbol(b, s, spell_byte(byte, last ? WORD_END : "", s), id++);
    while (ok && next_pair(&at, text + bytes, &line, &p) == 1) {
        memcpy(s, p.left, p.n_left);
        memcpy(s + p.n_left, p.right, p.n_right);
        ok = put_symbol(b, s, p.n_left + p.n_right, id++);
    }
    ok = ok && put_symbol(b, START_TEXT, strlen(START_TEXT), id++);
    ok = ok && put_symbol(b, END_TEXT, strlen(END_TEXT), id++);
    if (!ok) snprintf(why, 300, "no memory for the tokenizer");
    return ok;
}

/* ---- life ---- */

bpe *bpe_new(const char *vocab, size_t vocab_bytes, const char *merges, size_t merges_bytes, char why[300])
{
    size_t n = count_merges(merges, merges_bytes, why);
    if (n == SIZE_MAX) return NULL;
    bpe *b = calloc(1, sizeof *b);
    if (!b) {
        snprintf(why, 300, "no memory for the tokenizer");
        return NULL;
    }
    int ok = vocab ? read_vocab(b, vocab, vocab_bytes, why) : vocab_of_merges(b, merges, merges_bytes, n, why);
    if (ok && find_bytes(b, why) && read_merges(b, merges, merges_bytes, n, why)) return b;
    bpe_free(b);
    return NULL;
}

void bpe_free(bpe *b)
{
    if (!b) return;
    for (size_t i = 0; b->symbol && i < b->n; i++) free(b->symbol[i]);
    free(b->symbol);
    free(b->by_symbol);
    free(b->merges);
    free(b);
}

size_t bpe_size(const bpe *b) { return b->n; }
int32_t bpe_start(const bpe *b) { return b->start; }
int32_t bpe_end(const bpe *b) { return b->end; }

/* ---- words ---- */

static int32_t rank_of(const bpe *b, int32_t left, int32_t right)
{
    const merge *m = find_merge(b, left, right);
    return m ? m->rank : INT32_MAX;
}

size_t bpe_word(const bpe *b, const char *word, size_t n, int32_t *id, int32_t *work)
{
    int32_t *rank = work; /* of the pair (i, i+1) */
    for (size_t i = 0; i < n; i++)
        id[i] = i + 1 < n ? b->byte[(unsigned char)word[i]] : b->last_byte[(unsigned char)word[i]];
    for (size_t i = 0; i + 1 < n; i++) rank[i] = rank_of(b, id[i], id[i + 1]);
    while (n > 1) {
        size_t best = 0, to = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == INT32_MAX) break;
        const merge *m = find_merge(b, id[best], id[best + 1]);
        int32_t left = m->left, right = m->right, joined = m->joined;
        for (size_t i = 0; i < n; i++) {
            int join = i + 1 < n && id[i] == left && id[i + 1] == right;
            id[to++] = join ? joined : id[i];
            i += (size_t)join;
        }
        n = to;
        for (size_t i = 0; i + 1 < n; i++) rank[i] = rank_of(b, id[i], id[i + 1]);
    }
    return n;
}

size_t bpe_bytes(const bpe *b, int32_t id, char *out, size_t capacity)
{
    if (id < 0 || (size_t)id >= b->n || !b->symbol[id]) return 0;
    const char *s = b->symbol[id];
    size_t length = strlen(s), n = 0, ending = strlen(WORD_END);
    if (length > ending && strcmp(s + length - ending, WORD_END) == 0) length -= ending;
    for (size_t i = 0; i < length; n++) {
        uint32_t code = (unsigned char)s[i++];
        if (code >= 0xc0 && i < length) code = (code & 0x1f) << 6 | ((unsigned char)s[i++] & 0x3f);
        for (uint32_t byte = 0; byte < 256; byte++)
            if (code_of_byte(byte) == code && n < capacity) out[n] = (char)byte;
    }
    return n;
}
