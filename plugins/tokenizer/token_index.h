/* token_index.h - tables that tokenizers look in: a vocabulary by id and by text, pairs of ids, a trie of bytes.
 *
 * All live in a pool; a table is filled once and then only read, by any number of threads. A failed allocation leaves
 * the pool failed and the table unusable.
 */
#ifndef KILN_TOKENIZER_INDEX_H
#define KILN_TOKENIZER_INDEX_H

#include "token_pool.h"

enum { NO_TOKEN = -1, TOKENS_MAX = 1 << 24, PIECE_BYTES_MAX = 1 << 16 };

/* The numbers of sentencepiece's ModelProto and of GGUF's token_type. */
enum { PIECE_NORMAL = 1, PIECE_UNKNOWN, PIECE_CONTROL, PIECE_USER, PIECE_UNUSED, PIECE_BYTE };

typedef struct {
    const char *text; /* NULL: no token has this id */
    uint32_t n;
    uint32_t type;
    double score;
} token_piece;

typedef struct {
    size_t n; /* ids 0..n-1 */
    token_piece *piece;
    uint32_t slots; /* of `by_text`, a power of two */
    int32_t *by_text;
} vocabulary;

int vocabulary_new(token_pool *, vocabulary *, size_t n);
/* Puts a token at its id; `text` is kept. It is not found by its text before vocabulary_name(). */
void vocabulary_set(vocabulary *, int32_t id, const char *text, size_t n);
/* Makes an id findable by its text. 0: the text is taken, and stays the earlier id's. */
int vocabulary_name(vocabulary *, int32_t id);
int32_t vocabulary_find(const vocabulary *, const char *text, size_t n);

/* (a, b) -> value, value2 */
typedef struct {
    int32_t a, b, value, value2; /* value NO_TOKEN: an empty slot */
} pair_row;
typedef struct {
    size_t n;
    uint32_t slots;
    pair_row *row;
} pair_table;

int pairs_put(token_pool *, pair_table *, int32_t a, int32_t b, int32_t value,
              int32_t value2); /* the first one counts */
const pair_row *pairs_find(const pair_table *, int32_t a, int32_t b);

/* Texts as paths of bytes: node 0 is the empty text. */
typedef struct {
    pair_table step; /* (node, byte) -> node */
    int32_t *value;  /* [node]: of the text that ends there, or NO_TOKEN */
    size_t n, capacity;
} byte_trie;

int trie_put(token_pool *, byte_trie *, const char *text, size_t n, int32_t value); /* the last one counts */
static inline int32_t trie_step(const byte_trie *t, int32_t node, char byte)
{
    const pair_row *r = t->n ? pairs_find(&t->step, node, (unsigned char)byte) : NULL;
    return r ? r->value : NO_TOKEN;
}
/* Bytes of the longest text of the trie at s[0..n); *value: its value. 0: none. */
size_t trie_longest(const byte_trie *, const char *s, size_t n, int32_t *value);

#endif
