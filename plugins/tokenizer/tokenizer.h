/* tokenizer.h - one tokenizer: what its files said, and the way of a text through it.
 *
 *     text -> added tokens -> normaliser -> added tokens -> splitter -> model -> ids        (tokenizer.json and its
 * like) text -> special tokens -> SentencePiece's normaliser -> model -> ids                  (a SentencePiece model)
 *
 * Everything is in its pool and does not change once it is opened.
 */
#ifndef KILN_TOKENIZER_TOKENIZER_H
#define KILN_TOKENIZER_TOKENIZER_H

#include "added_tokens.h"
#include "decoder.h"
#include "kiln/tokenizer.h"
#include "normalizer.h"
#include "sentencepiece_text.h"
#include "splitter.h"
#include "token_model.h"

enum { ROLE_BOS, ROLE_EOS, ROLE_PAD, ROLE_UNK, ROLE_MASK, ROLE_SEP, ROLE_CLS, ROLE_COUNT, ENDS_MAX = 16 };
extern const char *const role_names[ROLE_COUNT];

typedef struct {
    int32_t id[ENDS_MAX];
    size_t n;
} end_list;

struct kiln_tokenizer {
    token_pool pool;
    int references;
    const char *kind;
    char identity[33];
    token_model model;
    vocabulary named; /* all tokens by text, those of the model and the added ones */
    normalize_step *normal;
    size_t n_normal;
    split_step *split;
    size_t n_split;
    decode_step *decode;
    size_t n_decode;
    int is_sentencepiece;
    sentencepiece_spec sentencepiece;
    added_token *added;
    size_t n_added, added_capacity;
    added_set raw, normalized;
    end_list begin, end;
    int32_t role[ROLE_COUNT];
    const char *chat_template; /* a name of chat_template.h, or NULL */
};

/* While files are read: the tokenizer that becomes, and why it does not. Functions that take it return 0 and set the
 * reason when they fail. */
typedef struct {
    kiln_tokenizer *t;
    token_pool *pool; /* the tokenizer's */
    const char *file; /* the one being read, for messages */
    char why[KILN_TOKENIZER_WHY];
} opening;

int opening_fail(opening *, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int opening_no_memory(opening *);

int opening_added(opening *, const char *text, size_t n, int32_t id, uint32_t flags);
/* Makes what hangs on everything that was read: names, tries of added tokens, roles by their usual texts. */
int opening_finish(opening *);

/* "<0x00>".."<0xFF>" of the vocabulary. 0: some are not there. */
int model_find_bytes(token_model *, const vocabulary *);

/* How much a file or a text may become on its way. Each byte of a text has its place in it (9 bytes) in each step, and
 * one character becomes 18 in a normal form; ten such steps stay below this. */
enum { WORK_BYTES = 16 << 20, WORK_BYTES_EACH = 4096 };
enum { IDS_LEFT_OUT = 65536 }; /* a vocabulary may leave out so many ids and as many again as it has */

/* As kiln_tokenizer_api.encode. Text of up to TEXT_BYTES_MAX bytes. */
enum { TEXT_BYTES_MAX = 1 << 28 };
kiln_status tokenizer_encode(const kiln_tokenizer *, const kiln_tokenizer_input *, kiln_encoding *, char *why);
void tokenizer_free(kiln_tokenizer *);

#endif
