/* normalizer.h - the steps by which a tokenizer changes a text before it is cut, in order. */
#ifndef KILN_TOKENIZER_NORMALIZER_H
#define KILN_TOKENIZER_NORMALIZER_H

#include "aligned_text.h"
#include "charsmap.h"
#include "pattern.h"

typedef enum {
    NORMALIZE_FORM, /* flags: FORM_* */
    NORMALIZE_LOWER,
    NORMALIZE_STRIP, /* flags: 1 left, 2 right */
    NORMALIZE_STRIP_ACCENTS,
    NORMALIZE_REPLACE, /* pattern by text */
    NORMALIZE_PREPEND, /* text */
    NORMALIZE_BERT,    /* flags: BERT_* */
    NORMALIZE_BYTES,   /* bytes as printable characters */
    NORMALIZE_CHARSMAP /* map, over grapheme clusters */
} normalize_kind;

enum { BERT_CLEAN = 1, BERT_CHINESE = 2, BERT_ACCENTS = 4, BERT_LOWER = 8 };

typedef struct {
    normalize_kind kind;
    uint32_t flags;
    const pattern *pattern;
    const char *text;
    size_t n;
    const charsmap *map;
} normalize_step;

/* 1: done; 0: no memory; -1: a pattern takes too long. */
int normalize(token_pool *, const normalize_step *step, size_t n, aligned_text *text);

/* Every byte as its printable character (GPT-2's table). 0: no memory. */
int text_to_bytes(token_pool *, aligned_text *text);
/* A text before the first character, from where that came. 0: no memory. */
int text_prepend(token_pool *, aligned_text *text, const char *s, size_t n);
/* What a pattern matches replaced. As normalize(). */
int text_replace(token_pool *, aligned_text *text, const pattern *, const char *by, size_t n);

#endif
