/* prompt.h - prompt syntax: text with weights -> segments -> chunks of token ids.
 *
 * ComfyUI's rules: (x) multiplies the weight by 1.1, (x:1.2) sets it, \( and \) are literal; groups nest; a parenthesis
 * without its partner is text. Each segment is tokenised on its own. A segment that does not fit into the rest of the
 * chunk moves to the next one if it has fewer than 8 tokens, and is split otherwise. Behind EOS a chunk is filled with
 * the encoder's padding: EOS again (CLIP L) or id 0 (OpenCLIP). BOS, EOS and padding have weight 1. `embedding:name` is
 * refused: textual inversion is not implemented yet.
 */
#ifndef KILN_CLIP_PROMPT_H
#define KILN_CLIP_PROMPT_H

#include "kiln/tokenizer.h"

enum { PROMPT_BYTES_MAX = 1 << 16, PROMPT_DEPTH_MAX = 64 };

typedef struct {
    char *text; /* literal, escapes resolved; n bytes and a NUL */
    size_t n;
    float weight;
} prompt_segment;

typedef struct {
    prompt_segment *segment;
    size_t n;
    char *text; /* what the segments point into */
} prompt;

typedef struct {
    size_t n_chunk, length;
    int32_t *id;   /* [n_chunk][length] */
    float *weight; /* [n_chunk][length] */
    int32_t *end;  /* [n_chunk]: index of the first end-of-text token */
} prompt_chunks;

/* What cuts segments into ids: a tokenizer with "bos" and "eos". Padding is "eos" unless another id is set. */
typedef struct {
    const kiln_tokenizer_api *api;
    const kiln_tokenizer *tokenizer;
    int32_t start, end, pad;
} prompt_tokenizer;

static inline prompt_tokenizer prompt_tokenizer_of(const kiln_tokenizer_api *api, const kiln_tokenizer *t)
{
    int32_t end = api->special(t, "eos");
    return (prompt_tokenizer){api, t, api->special(t, "bos"), end, end};
}

/* 1: done; 0: `why` says what is wrong. Free the result either way. */
int prompt_parse(const char *text, prompt *out, char why[300]);
void prompt_free(prompt *p);
int prompt_tokenise(const prompt_tokenizer *t, const prompt *p, size_t length, prompt_chunks *out, char why[300]);
void prompt_chunks_free(prompt_chunks *c);

#endif
