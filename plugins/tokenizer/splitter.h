/* splitter.h - how a tokenizer cuts normalised text into the words that its model sees ("pre-tokenizers"). */
#ifndef KILN_TOKENIZER_SPLITTER_H
#define KILN_TOKENIZER_SPLITTER_H

#include "aligned_text.h"
#include "pattern.h"

typedef enum { SPLIT_REMOVED, SPLIT_ISOLATED, SPLIT_WITH_PREVIOUS, SPLIT_WITH_NEXT, SPLIT_CONTIGUOUS } split_behavior;

typedef enum {
    SPLIT_PATTERN,     /* pattern, behavior, invert */
    SPLIT_BYTES,       /* GPT-2: prefix (a blank before the text), pattern (may be NULL), then bytes as characters */
    SPLIT_METASPACE,   /* text for ' ', prefix, cut (before each) */
    SPLIT_BLANKS,      /* removes blanks */
    SPLIT_WORDS,       /* \w+ and [^\w\s]+ */
    SPLIT_BERT,        /* removes blanks, punctuation alone */
    SPLIT_PUNCTUATION, /* behavior */
    SPLIT_DIGITS       /* behavior */
} split_kind;

enum { PREFIX_NEVER, PREFIX_FIRST, PREFIX_ALWAYS };

typedef struct {
    split_kind kind;
    split_behavior behavior;
    int invert, prefix, cut;
    const pattern *pattern, *blank; /* blank: ' ' */
    const char *text;
    size_t n;
} split_step;

typedef struct {
    aligned_text text;
    int32_t id; /* NO_TOKEN: text */
} text_piece;

typedef struct {
    text_piece *item;
    size_t n, capacity;
} piece_list;

int pieces_add(token_pool *, piece_list *, aligned_text text, int32_t id); /* 0: no memory */
/* Cuts the pieces that are text. 1: done; 0: no memory; -1: a pattern takes too long. */
int split_pieces(token_pool *, const split_step *step, size_t n, piece_list *);

#endif
