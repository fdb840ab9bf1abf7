/* aligned_text.h - text on its way to a tokenizer, each byte with the bytes of the original that it came from.
 *
 * A normaliser writes a new text with text_edit: character by character, saying of each whether it replaces one,
 * replaces several, or is new. The rules by which spans follow are those of the `tokenizers` library, so that spans
 * are equal to its offsets.
 */
#ifndef KILN_TOKENIZER_ALIGNED_TEXT_H
#define KILN_TOKENIZER_ALIGNED_TEXT_H

#include "token_pool.h"

typedef struct {
    const char *s; /* valid UTF-8 */
    size_t n;
    const uint32_t *from, *to; /* [n] */
    uint32_t origin;           /* where in the original the text begins */
} aligned_text;

/* Text as it came: invalid bytes become U+FFFD, each alone. 0: no memory. */
int text_original(token_pool *, const char *s, size_t n, aligned_text *out);
/* The part from a up to b. */
aligned_text text_part(const aligned_text *, size_t a, size_t b);

typedef struct {
    token_pool *pool;
    const aligned_text *in;
    size_t at; /* next byte of `in` that is replaced */
    char *s;
    uint32_t *from, *to;
    size_t n, capacity;
} text_edit;

/* Begins a new text in place of `in`, whose first `removed` bytes are left out. */
text_edit edit_begin(token_pool *, const aligned_text *in, size_t removed);
/* Writes a character. change 0: for the next one; -k: for the next one and k more; > 0: an additional one, which came
 * from where the last one did. */
void edit_put(text_edit *, int32_t code, int change);
/* Writes bytes that came from in->from[at].. as they are, and goes on behind them. */
void edit_copy(text_edit *, size_t bytes);
/* 0: no memory at some point. */
int edit_end(text_edit *, aligned_text *out);

#endif
