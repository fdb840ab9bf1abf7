/* sentencepiece_text.h - the normaliser of a SentencePiece model: its map, blanks joined and written as U+2581, a blank
 * put before (or behind) the text. */
#ifndef KILN_TOKENIZER_SENTENCEPIECE_TEXT_H
#define KILN_TOKENIZER_SENTENCEPIECE_TEXT_H

#include "aligned_text.h"
#include "charsmap.h"
#include "token_index.h"

typedef struct {
    const charsmap *map;   /* NULL: none */
    const byte_trie *user; /* pieces that are left as they are */
    int add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces, whitespace_as_suffix;
} sentencepiece_spec;

/* text_end: where the text ends in the original. 0: no memory. */
int sentencepiece_normalize(token_pool *, const sentencepiece_spec *, aligned_text *text, uint32_t text_end);

#endif
