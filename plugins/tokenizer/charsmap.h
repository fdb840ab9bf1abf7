/* charsmap.h - SentencePiece's precompiled_charsmap: a table from texts to their normalised form.
 *
 * u32 bytes of the trie, the trie (a double array of u32 units, as the Darts-clone library writes it), then the
 * replacements, each ended by a NUL. A value of the trie is a place among the replacements.
 */
#ifndef KILN_TOKENIZER_CHARSMAP_H
#define KILN_TOKENIZER_CHARSMAP_H

#include "token_pool.h"

typedef struct charsmap charsmap;

/* NULL with a sentence in why[300]. Copies the data. */
charsmap *charsmap_new(token_pool *, const void *data, size_t bytes, char *why);
/* The replacement of the longest (shortest) text of the map that s[0..n) begins with, and *bytes of it (*taken: how
 * much of s it stands for); NULL: none. */
const char *charsmap_longest(const charsmap *, const char *s, size_t n, size_t *taken, size_t *bytes);
const char *charsmap_shortest(const charsmap *, const char *s, size_t n, size_t *bytes);

#endif
