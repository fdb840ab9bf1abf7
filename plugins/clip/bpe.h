/* bpe.h - a byte-level BPE vocabulary in CLIP's file format, and how a word becomes ids.
 *
 * vocab.json maps symbols to ids, merges.txt lists pairs in the order they were learnt. Every byte is written as a
 * printable character (GPT-2's table); the last symbol of a word ends in "</w>". Since all 256 bytes are symbols, every
 * text can be tokenised. A vocabulary is immutable, and any number of threads may use it.
 */
#ifndef KILN_CLIP_BPE_H
#define KILN_CLIP_BPE_H

#include <stddef.h>
#include <stdint.h>

typedef struct bpe bpe;

/* Makes a vocabulary from the contents of the two files. Without vocab (NULL) the ids follow CLIP's own order: the
 * bytes, the bytes with the word end, the merges, the two special tokens. NULL with a sentence in `why` (file and
 * place, what is wrong). Free with bpe_free. */
bpe *bpe_new(const char *vocab, size_t vocab_bytes, const char *merges, size_t merges_bytes, char why[300]);
void bpe_free(bpe *b);

size_t bpe_size(const bpe *b);   /* highest id + 1 */
int32_t bpe_start(const bpe *b); /* <|startoftext|> */
int32_t bpe_end(const bpe *b);   /* <|endoftext|>   */

/* Writes the ids of one word (n bytes, n >= 1) to id[n]; returns how many there are. work: scratch of 2 * n items. */
size_t bpe_word(const bpe *b, const char *word, size_t n, int32_t *id, int32_t *work);
/* Writes the bytes of an id, without "</w>", to out[capacity]; returns how many there are, 0 for an id that does not
 * exist. The white space between words is lost. */
size_t bpe_bytes(const bpe *b, int32_t id, char *out, size_t capacity);

#endif
