/* decoder.h - ids back to text: the texts of the tokens go through steps, then they are joined. */
#ifndef KILN_TOKENIZER_DECODER_H
#define KILN_TOKENIZER_DECODER_H

#include "token_pool.h"

typedef enum {
    DECODE_BYTES,     /* GPT-2's characters to bytes; all tokens become one */
    DECODE_WORDPIECE, /* text: "##"; a blank before every other token but the first; flag: tidy up before punctuation */
    DECODE_METASPACE, /* text: U+2581 to ' '; flag: none before the first token */
    DECODE_SUFFIX,    /* text: "</w>" to ' ', to nothing in the last token */
    DECODE_REPLACE,   /* text by other */
    DECODE_FALLBACK, /* "<0x41>" to bytes; flag: U+FFFD for each byte that is no character's, not for their whole run */
    DECODE_LEAD, /* text: U+2581, taken off the first token; flag: and off those behind it while nothing else came */
    DECODE_FUSE, /* all tokens become one */
    DECODE_STRIP /* text: up to `start` of it at the beginning of each token, `stop` at its end */
} decode_kind;

typedef struct {
    decode_kind kind;
    const char *text, *other;
    size_t n, n_other;
    int flag, start, stop;
} decode_step;

typedef struct {
    char *s;
    size_t n;
} decoded;

typedef struct {
    decoded *item;
    size_t n;
} decoded_list;

/* Puts the texts through the steps, in place. 0: no memory. */
int decode_tokens(token_pool *, const decode_step *step, size_t n, decoded_list *);

#endif
