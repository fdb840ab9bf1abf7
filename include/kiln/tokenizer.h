/* tokenizer.h - "kiln.tokenizer/1": text -> token ids and back.
 *
 * A tokenizer is an immutable object made from what a checkpoint ships: files, tensors that hold a file, or the
 * metadata of a GGUF file. The plugin org.kiln.tokenizer provides the ability; ask for it in run(), or in open() of a
 * plugin that is not kiln's own.
 *
 *     const kiln_tokenizer_api *t = host->ability(KILN_TOKENIZER_ABILITY);
 *     kiln_tokenizer *clip = t->open(ctx, &(kiln_tokenizer_source){.size = ..., .kind = "clip-bpe",
 *                                        .file = files, .n_file = 2});          // "vocab.json", "merges.txt"
 *     kiln_encoding e = {.size = sizeof e};
 *     t->encode(clip, &(kiln_tokenizer_input){.size = ..., .text = text, .n = n}, &e, why);
 *     ...
 *     t->encoding_free(&e);
 *     t->unref(clip);
 *
 * What the ids mean for a model (chunks, padding, begin and end of a chunk, prompt weights) is the text encoder's
 * business (text.h).
 *
 * Ownership: open() and ref() return a reference. Every function but open() is [any]: a tokenizer may be used by many
 * threads at once.
 */
#ifndef KILN_TOKENIZER_H
#define KILN_TOKENIZER_H

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_TOKENIZER_ABILITY "kiln.tokenizer/1"
#define KILN_TOKENIZER_WHY 400 /* bytes of a reason */

typedef struct kiln_tokenizer kiln_tokenizer;

/* A file by its usual name, in memory: "vocab.json", "merges.txt", "tokenizer.json", "tokenizer.model",
 * "spiece.model", "vocab.txt", or "*.gguf" (its metadata is read, its tensors are not looked at). */
typedef struct {
    uint32_t size;
    const char *name;
    const void *data;
    size_t bytes;
} kiln_tokenizer_file;

typedef struct {
    uint32_t size;
    /* "clip-bpe", "byte-bpe", "sentencepiece" (BPE or unigram, the model says which), "wordpiece"; NULL: what the files
     * say. vocab.json and merges.txt say nothing of themselves: NULL is "clip-bpe" when the vocabulary has CLIP's
     * <|startoftext|> and "</w>", and "byte-bpe" with GPT-2's pattern otherwise. */
    const char *kind;
    const kiln_tokenizer_file *file; /* n_file structs of the first's size; not needed after open() */
    size_t n_file;
} kiln_tokenizer_source;

typedef struct {
    uint32_t size;
    const char *text; /* UTF-8; bytes that are none are taken as U+FFFD, each alone */
    size_t n;
    uint32_t special;    /* 1: special tokens are recognised in the text ("<|im_start|>"); 0: their text is text */
    uint32_t ends;       /* 1: the begin and end tokens that the model's files prescribe are added */
    const float *weight; /* what every token gets; NULL: 1 */
} kiln_tokenizer_input;

/* Ids with the bytes of the text they came from: token i stands for text[from[i] .. to[i]). A token that is a part of a
 * character (one byte of it) has the whole character. A token that stands for nothing of the text (begin, end) has
 * from = to. What a normaliser removed belongs to no token, or to the one before it. */
typedef struct {
    uint32_t size;
    size_t n;
    int32_t *id;
    float *weight;
    uint32_t *from, *to;
} kiln_encoding;

typedef struct {
    uint32_t size;       /* of this struct: the messages of an array are as far apart as the first one says */
    const char *role;    /* "system", "user", "assistant", ... */
    const char *content; /* UTF-8 */
} kiln_chat_message;

typedef struct {
    uint32_t size;
    /* NULL with a message that names file, place and remedy. The same files may give the same object again. [run] */
    kiln_tokenizer *(*open)(kiln_ctx *, const kiln_tokenizer_source *);
    kiln_tokenizer *(*ref)(kiln_tokenizer *);
    void (*unref)(kiln_tokenizer *);

    /* Appends to `out` (so that segments of a prompt with weights of their own follow one another; from and to are
     * places in this call's text). Memory is the ability's: encoding_free(). KILN_ERR_NOMEM, or KILN_ERR_INVALID with
     * a reason in why[KILN_TOKENIZER_WHY]. */
    kiln_status (*encode)(const kiln_tokenizer *, const kiln_tokenizer_input *, kiln_encoding *out, char *why);
    void (*encoding_free)(kiln_encoding *);
    /* The text of ids. Writes up to capacity bytes and no NUL; returns how many there are (0 also: no memory). Special
     * tokens are left out unless `special`. An id that does not exist gives nothing. What normalising took away (case,
     * blanks) does not come back. */
    size_t (*decode)(const kiln_tokenizer *, const int32_t *id, size_t n, uint32_t special, char *out, size_t capacity);
    /* The id of "bos", "eos", "pad", "unk", "mask", "sep", "cls", or of a token by its text ("<|im_end|>"); -1: none.
     */
    int32_t (*special)(const kiln_tokenizer *, const char *name);
    /* The text of messages under a chat template by name: "chatml" (Qwen), "llama3", "gemma", "mistral", "mistral-v3",
     * "phi3"; NULL: what the model's files say, where that is one of these. `open_turn` 1: ends where the assistant
     * begins. The begin token is written where the template has it: encode with special 1 and ends 0. As decode(). 0
     * with a reason in why[KILN_TOKENIZER_WHY]: no such template, or a role it does not have. */
    size_t (*render)(const kiln_tokenizer *, const char *template_name, const kiln_chat_message *, size_t n,
                     uint32_t open_turn, char *out, size_t capacity, char *why);
    /* Highest id + 1. */
    int32_t (*count)(const kiln_tokenizer *);
    /* "clip-bpe", "byte-bpe", "sp-bpe", "sp-unigram", "wordpiece". */
    const char *(*kind)(const kiln_tokenizer *);
    /* 32 hex digits. Tokenizers of one identity give equal ids for every text: it is made of the kind and of the files'
     * bytes. Put it into the keys of what is made with the ids. */
    const char *(*identity)(const kiln_tokenizer *);
} kiln_tokenizer_api;

#ifdef __cplusplus
}
#endif
#endif
