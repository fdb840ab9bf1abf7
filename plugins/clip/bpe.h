/* bpe.h - a byte-level BPE vocabulary in CLIP's file format, and how a word becomes ids.
 *
 * vocab.json maps symbols to ids, merges.txt lists pairs in the order they were learnt. Every byte has a
 * printable stand-in (GPT-2's table); the last symbol of a word carries "</w>". Since all 256 bytes are
 * symbols, every text has ids. The vocabulary is immutable once made: any number of threads may use it.
 */
#ifndef KILN_CLIP_BPE_H
#define KILN_CLIP_BPE_H

#include <stddef.h>
#include <stdint.h>

typedef struct bpe bpe;

/* Makes a vocabulary from the texts of the two files; with vocab NULL the ids are those that CLIP's
 * own list has: the bytes, the bytes that end a word, the merges in order, the two special tokens.
 * NULL with one sentence in `why` (file and place, what is wrong). Free with bpe_free. */
bpe *bpe_new(const char *vocab, size_t vocab_bytes, const char *merges, size_t merges_bytes, char why[300]);
void bpe_free(bpe *b);

size_t bpe_size(const bpe *b);   /* highest id + 1 */
int32_t bpe_start(const bpe *b); /* <|startoftext|> */
int32_t bpe_end(const bpe *b);   /* <|endoftext|>   */

/* The ids of one word (n bytes, n >= 1) into id[n]; returns how many. work: room for 2 * n int32_t. */
size_t bpe_word(const bpe *b, const char *word, size_t n, int32_t *id, int32_t *work);
/* The bytes an id stands for, "</w>" not among them, into out[room]; returns how many there are, 0 for
 * an id that does not exist. What was cut into words by blanks comes back without the blanks. */
size_t bpe_bytes(const bpe *b, int32_t id, char *out, size_t capacity);

#endif
