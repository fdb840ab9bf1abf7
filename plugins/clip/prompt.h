/* prompt.h - prompt syntax: text with weights -> segments -> chunks of token ids.
 *
 * ComfyUI's rules: (x) multiplies the weight by 1.1, (x:1.2) sets it, \( and \) are literal; groups nest; a parenthesis
 * without its partner is text. Each segment is tokenised on its own. A segment that does not fit into the rest of the
 * chunk moves to the next one if it has fewer than 8 tokens, and is split otherwise. Behind EOS a chunk is filled with
 * the encoder's padding: EOS again (CLIP L) or id 0 (OpenCLIP). BOS, EOS and padding have weight 1.
 *
 * `embedding:NAME`, first in a segment or behind white space, is a segment of its own: textual inversion's vectors in
 * the place of tokens. NAME ends at white space, < or [, and loses commas at its end, which are text.
 */
#ifndef KILN_CLIP_PROMPT_H
#define KILN_CLIP_PROMPT_H

#include "kiln/plugin.h"
#include "kiln/tokenizer.h"

#define PROMPT_EMBEDDINGS "embeddings" /* the folder of models */
/* A prompt has no more bytes, and no more tokens with what its embeddings stand for. */
enum { PROMPT_BYTES_MAX = 1 << 16, PROMPT_DEPTH_MAX = 64 };

typedef struct {
    char *text; /* literal, escapes resolved; n bytes and a NUL */
    size_t n;
    float weight;
    int is_embedding; /* text is its name */
} prompt_segment;

typedef struct {
    prompt_segment *segment;
    size_t n;
    char *text; /* what the segments point into */
} prompt;

typedef struct {
    size_t n_chunk, length;
    int32_t *id;          /* [n_chunk][length] */
    float *weight;        /* [n_chunk][length] */
    int32_t *end;         /* [n_chunk]: index of the first end-of-text token */
    const float **vector; /* [n_chunk][length]: in the place of an id's row, or NULL */
    int has_vectors;
} prompt_chunks;

/* Where vectors of embeddings come from: n rows of numbers that outlive the chunks. 0: `why` says what is wrong. */
typedef struct {
    void *self;
    int (*find)(void *self, const char *name, const float **rows, size_t *n, char why[300]);
    size_t width; /* of a row */
} prompt_embeddings;

/* What cuts segments into ids: a tokenizer with "bos" and "eos". Padding is "eos" unless another id is set. */
typedef struct {
    const kiln_tokenizer_api *api;
    const kiln_tokenizer *tokenizer;
    int32_t start, end, pad;
    const prompt_embeddings *embeddings; /* NULL: a prompt that names one is refused */
} prompt_tokenizer;

static inline prompt_tokenizer prompt_tokenizer_of(const kiln_tokenizer_api *api, const kiln_tokenizer *t)
{
    int32_t end = api->special(t, "eos");
    return (prompt_tokenizer){api, t, api->special(t, "bos"), end, end, NULL};
}

/* 1: done; 0: `why` says what is wrong. Free the result either way. */
int prompt_parse(const char *text, prompt *out, char why[300]);
void prompt_free(prompt *p);
/* The embeddings that a prompt names, for kiln_node.names_files(). text may be NULL. */
void prompt_names_files(const char *text, const char *param, const kiln_file_names *to);
int prompt_tokenise(const prompt_tokenizer *t, const prompt *p, size_t length, prompt_chunks *out, char why[300]);
void prompt_chunks_free(prompt_chunks *c);

#endif
