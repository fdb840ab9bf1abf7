/* added_tokens.h - tokens that are found in the text before the model sees it: special ones, and those that were added
 * to a vocabulary. Rules of the `tokenizers` library: the leftmost, of those the longest. */
#ifndef KILN_TOKENIZER_ADDED_TOKENS_H
#define KILN_TOKENIZER_ADDED_TOKENS_H

#include "splitter.h"
#include "token_index.h"

enum { ADDED_SPECIAL = 1, ADDED_NORMALIZED = 2, ADDED_LSTRIP = 4, ADDED_RSTRIP = 8, ADDED_SINGLE_WORD = 16 };

typedef struct {
    const char *text;
    size_t n;
    int32_t id;
    uint32_t flags;
} added_token;

typedef struct {
    const added_token *item;
    byte_trie trie; /* text -> index */
} added_set;

/* Cuts a text into the tokens of the set and what lies between. `special` 0: special tokens are text. 0: no memory. */
int added_split(token_pool *, const added_set *, const aligned_text *, int special, piece_list *out);

#endif
