/* words.h - text -> the words that BPE works on, as CLIP's tokenizer cuts it.
 *
 * NFC, lower case letter by letter, blanks part words and vanish, and the pattern
 *   <|startoftext|> | <|endoftext|> | 's 't 're 've 'm 'll 'd | letters+ | one number | the rest+
 * with Unicode's letters and numbers. Facts from transformers' CLIPTokenizer. The two special tokens are
 * recognised as written, before anything else.
 */
#ifndef KILN_CLIP_WORDS_H
#define KILN_CLIP_WORDS_H

#include <stddef.h>

typedef enum { WORD_PLAIN, WORD_START_TOKEN, WORD_END_TOKEN } word_kind;

/* Calls fn for each word of text[n], in order; a false answer stops. 0: invalid UTF-8 at byte *bad;
 * -1: no memory; 1: done. */
int words_each(const char *text, size_t n, int (*fn)(void *arg, word_kind kind, const char *word, size_t n), void *arg,
               size_t *bad);

#endif
