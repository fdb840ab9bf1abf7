/* words.h - splits text into the words that BPE works on, as CLIP's tokenizer does.
 *
 * Text is normalised to NFC and lower case, character by character. White space separates words and is dropped. Words
 * match <|startoftext|> | <|endoftext|> | 's 't 're 've 'm 'll 'd | letters+ | one number | the rest+, with Unicode's
 * letters and numbers. The two special tokens are recognised first, exactly as written. Facts from transformers'
 * CLIPTokenizer.
 */
#ifndef KILN_CLIP_WORDS_H
#define KILN_CLIP_WORDS_H

#include <stddef.h>

typedef enum { WORD_PLAIN, WORD_START_TOKEN, WORD_END_TOKEN } word_kind;

/* Calls fn for each word of text[n] in order, until it returns 0. Returns 1: done; 0: invalid UTF-8 at byte *bad; -1:
 * no memory. */
int words_each(const char *text, size_t n, int (*fn)(void *arg, word_kind kind, const char *word, size_t n), void *arg,
               size_t *bad);

#endif
