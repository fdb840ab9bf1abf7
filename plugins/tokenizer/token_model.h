/* token_model.h - how the words of a text become ids: BPE by merges, BPE by scores, unigram, WordPiece. */
#ifndef KILN_TOKENIZER_MODEL_H
#define KILN_TOKENIZER_MODEL_H

#include "aligned_text.h"
#include "token_index.h"

typedef enum {
    MODEL_MERGES,   /* pairs of ids, the one learnt first is joined first */
    MODEL_SCORES,   /* SentencePiece's BPE: the two whose joined text has the best score; also tiktoken's ranks */
    MODEL_UNIGRAM,  /* the pieces whose scores' sum is best */
    MODEL_WORDPIECE /* the longest piece first */
} model_kind;

typedef struct {
    model_kind kind;
    vocabulary words;    /* every token; found by text: what a model may make of text */
    vocabulary reserved; /* SentencePiece: the same pieces, found by text: control, unknown and byte pieces */
    int32_t unknown;     /* NO_TOKEN: none */
    int32_t byte[256];   /* of "<0x00>".., when byte_fallback */
    int byte_fallback, fuse_unknown;
    /* MODEL_MERGES */
    pair_table merges;  /* (left, right) -> joined, rank */
    int ignore_merges;  /* a word that is a token is that token */
    int whole_newlines; /* a word of newlines alone likewise    */
    const char *suffix;
    size_t n_suffix; /* of a word's last character: "</w>" */
    const char *prefix;
    size_t n_prefix;       /* MODEL_MERGES and MODEL_WORDPIECE: of what is not a word's first */
    size_t characters_max; /* MODEL_WORDPIECE: longer words are unknown */
    /* MODEL_SCORES, MODEL_UNIGRAM */
    byte_trie pieces;     /* MODEL_UNIGRAM: text -> id */
    byte_trie user;       /* pieces that are never cut or joined */
    int bytes_alone;      /* MODEL_SCORES: the first symbols are bytes, not characters */
    int in_one_unknown;   /* neighbouring unknown pieces are one token */
    int single_precision; /* MODEL_UNIGRAM: sums as sentencepiece makes them, not as `tokenizers` does */
    double score_min;
    double score_unknown; /* MODEL_UNIGRAM: of a character without a piece */
} token_model;

typedef struct {
    token_pool *pool;
    int32_t *id;
    uint32_t *from, *to;
    size_t n, capacity;
} token_list;

int tokens_add(token_list *, int32_t id, uint32_t from, uint32_t to); /* 0: no memory */

/* Memory that the models keep from word to word. */
typedef struct {
    void *symbol, *queue;
    size_t symbols, queued;
} model_work;

/* Appends the tokens of a word. 1: done; 0: no memory; -1: the model has a text it has no token for, and none for the
 * unknown. */
int model_encode(const token_model *, model_work *, const aligned_text *word, token_list *out);

int merges_encode(const token_model *, model_work *, const aligned_text *, token_list *);
int scores_encode(const token_model *, model_work *, const aligned_text *, token_list *);
int unigram_encode(const token_model *, model_work *, const aligned_text *, token_list *);
int wordpiece_encode(const token_model *, model_work *, const aligned_text *, token_list *);

/* A piece of a SentencePiece or `tokenizers` unigram that is no token: its bytes, or the unknown token, joined with the
 * one before where the model says so (*was_unknown). */
int unknown_encode(const token_model *, const aligned_text *, size_t a, size_t b, int *was_unknown, token_list *);

#endif
