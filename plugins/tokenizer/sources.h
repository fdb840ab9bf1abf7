/* sources.h - readers of the files that tokenizers come in. Each fills opening.t from the files it finds among those
 * given, and returns 0 with a reason when one is not what it should be. Files are hostile: every size is checked. */
#ifndef KILN_TOKENIZER_SOURCES_H
#define KILN_TOKENIZER_SOURCES_H

#include "tokenizer.h"

typedef struct {
    const kiln_tokenizer_source *source;
} file_set;

/* The file of this name, or (suffix 1) whose name ends so; NULL: none. */
const kiln_tokenizer_file *file_named(const file_set *, const char *name);
const kiln_tokenizer_file *file_at(const file_set *, size_t i);

int read_tokenizer_json(opening *, const kiln_tokenizer_file *);
int read_vocab_and_merges(opening *, const kiln_tokenizer_file *vocab, const kiln_tokenizer_file *merges, int is_clip,
                          const char *pattern_name);
int read_vocab_txt(opening *, const kiln_tokenizer_file *);
int read_sentencepiece(opening *, const kiln_tokenizer_file *, int is_t5);
int read_gguf(opening *, const kiln_tokenizer_file *);
int read_tekken(opening *, const kiln_tokenizer_file *);
/* tokenizer_config.json: roles, begin and end, the chat template, and (before the others) which tokenizer it is. */
int read_tokenizer_config(opening *, const kiln_tokenizer_file *);
const char *pattern_of_config(token_pool *, const kiln_tokenizer_file *); /* of known_patterns.h; NULL: not said */

/* A vocabulary of n pieces with scores and types, as SentencePiece and GGUF have it: the tables of the model. */
int finish_sentencepiece(opening *, int is_unigram, int byte_fallback);
/* WordPiece as BERT has it, over words that are set already. */
int finish_wordpiece(opening *, int lower);

int base64_decode(token_pool *, const char *s, size_t n, unsigned char **out, size_t *bytes);

/* The shape of a chat template by its text; NULL: none that is known. */
const char *chat_template_of(const char *text, size_t n);

#endif
