/* text.h - "kiln.text/1": text encoders, the CLIP value that has one or several, and how a prompt becomes CONDITIONING.
 *
 * An encoder turns text into chunks of tokens and records the network that makes features of them. A CLIP value has
 * encoders by name ("l", "g", "t5xxl"), each with its weights, its tokenizer and a layer, and a combine() that records
 * what their features become: an entry of a CONDITIONING, by key.
 *
 *     const kiln_text_api *text = c->host->ability(KILN_TEXT_ABILITY);       // in run(); plugin org.kiln.clip
 *     kiln_prompt prompt[] = {{sizeof *prompt, NULL, "a red circle"}};       // for every encoder
 *     return text->encode(c, c->in[0], prompt, 1, &c->out[0]);
 */
#ifndef KILN_TEXT_H
#define KILN_TEXT_H

#include "inputs.h"
#include "saving.h"
#include "tokenizer.h"
#include "weights.h"

#include <stdlib.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_TEXT_ABILITY "kiln.text/1"

/* Token chunks, all of one length, begin, end and padding in place. Memory: the call's scratch. `length` says to
 * tokenise() how long a chunk has to be at least, where chunks are of any length; 0: as it comes. */
typedef struct {
    uint32_t size;
    uint32_t n_chunk, length;
    int32_t *id;    /* [n_chunk][length]                                       */
    float *weight;  /* [n_chunk][length], 1 where nothing was said             */
    int32_t *end;   /* [n_chunk] place of the first end-of-text token          */
    int32_t *count; /* [n_chunk] tokens before the padding, begin and end included; NULL: all */
    /* [n_chunk][length]: width numbers in the place of what the id's row of the embedding table would give (textual
     * inversion), or NULL; NULL: there are none. Of encoders with KILN_TEXT_VECTORS. */
    const float **vector;
} kiln_tokens;

/* What record() is given: ids i32 [N,length], end i32 [N], and count i32 [N] where it asks for that. Where a prompt has
 * vectors of its own, a token's embedding is `by_id` times the id's row plus `vectors`. */
typedef struct {
    uint32_t size;
    int32_t layer; /* -1 = last, -2 = the one before, ... */
    kiln_t ids, end, count;
    kiln_t vectors; /* f32 [N,length,width]: 0 where the id counts; {0}: it counts everywhere */
    kiln_t by_id;   /* f32 [N,length,1]: 1 where the id counts, 0 where a vector does; or {0} */
} kiln_text_inputs;

typedef struct {
    uint32_t size;
    kiln_t tokens; /* [N,length,width]: hidden states that condition the denoiser */
    kiln_t pooled; /* [N,pooled width] or {0}                                    */
    kiln_t count;  /* i32 [N]: tokens before the padding, or {0}                 */
} kiln_text_features;

enum {
    KILN_TEXT_VECTORS = 4, /* tokenise() may give vectors, and record() takes them */
    KILN_TEXT_COUNTED = 2, /* record() is given `count` */
    KILN_TEXT_WEIGHTED = 1 /* prompt weights act: z = z_empty + w (z - z_empty) for each token. Without it a weight in a
                              prompt is said to have no effect */
};

typedef struct kiln_text_encoder {
    uint32_t size, flags;
    /* All that decides what record() records but shapes and weights: part of programs' keys. A tokenizer of the
     * encoder's own, which is no tensor of its weights, belongs into it as well: results' keys know it by nothing
     * else. */
    const char *family;
    void *self;
    int64_t width, pooled_width; /* pooled_width 0: none */
    int32_t layers;
    int32_t default_layer; /* -1 = last, -2 = the one before, ... when the user says nothing */
    /* Tokens a chunk, begin and end included. max_length 0: one chunk of any length, at least min_length. */
    int64_t min_length, max_length;
    /* Text, with (weights:1.2) where KILN_TEXT_WEIGHTED, -> chunks. `tokenizer` is that of the CLIP's encoder, or NULL.
     * [run] */
    kiln_status (*tokenise)(const struct kiln_text_encoder *, const kiln_tokenizer *tokenizer, const kiln_host *,
                            kiln_ctx *, const char *text, kiln_tokens *out);
    void (*record)(const struct kiln_text_encoder *, const kiln_ops *, kiln_program *, kiln_weights *weights,
                   const kiln_text_inputs *, kiln_text_features *out);
    const char *architecture; /* what people call it: "OpenCLIP bigG"; NULL: the family's name */
    uint32_t precisions;      /* as kiln_denoiser.precisions */
} kiln_text_encoder;

/* One of a CLIP's encoders. Arrays: n structs of the first's size. */
typedef struct {
    uint32_t size;
    int32_t layer;    /* 0 = the encoder's default */
    const char *name; /* "l", "g", "t5xxl"; by it a prompt is given and combine() knows it */
    const kiln_text_encoder *encoder;
    kiln_weights *weights;
    kiln_tokenizer *tokenizer; /* NULL: the encoder tokenises without one */
} kiln_clip_encoder;

/* An encoder's features as combine() gets them: all chunks along the token axis, weights applied; pooled of the first
 * chunk. {0}: the encoder has none, or the CLIP was loaded without it. */
typedef struct {
    uint32_t size;
    const char *name;
    kiln_t tokens, pooled; /* [1,T,width], [1,pooled width] */
    kiln_t count;          /* i32 [1], or {0}               */
} kiln_combined;

enum {
    KILN_CLIP_EQUAL_CHUNKS = 1 /* encoders whose prompt has fewer chunks get further ones of the empty prompt, so that
                                  combine() can lay features side by side */
};

enum {
    KILN_CLIP_HOOKS_SCHEDULED = 1, /* a prompt is encoded once for each stretch between keyframes, and each entry is
                                      for its own; without it hooks act at their full strength */
    KILN_CLIP_HOOKS_ON_ENTRIES = 2 /* what is encoded gets them as its "hooks" */
};

typedef struct kiln_clip {
    uint32_t size, flags;
    uint32_t n_encoder;
    const kiln_clip_encoder *encoder; /* [n_encoder], 1 or more */
    /* Adds the entry's values to `out` by key ("tokens", "pooled", ...). NULL (one encoder): its tokens and pooled. */
    void (*combine)(const struct kiln_clip *, const kiln_ops *, kiln_program *, const kiln_combined *, size_t n,
                    const kiln_outputs *out);
    void *self;           /* combine()'s */
    const char *identity; /* all that decides what combine() records; NULL when there is none */
    void *owned;          /* what release() frees when the last value goes */
    void (*release)(void *owned);
    kiln_value *base; /* or the value this one was made from, kept alive */
    /* HOOKS (entry_hook.h) that change the encoders' weights whenever a prompt is encoded, and what else is done with
     * them; kept alive by owned or base. NULL: none. */
    kiln_value *hooks;
    uint32_t hook_flags; /* KILN_CLIP_HOOKS_... */
    /* Optional [run]: how its encoders' tensors are called in a file (saving.h): all of them, or one that is alone. */
    kiln_status (*save)(const struct kiln_clip *, const kiln_saving *);
} kiln_clip;

static inline const kiln_clip_encoder *kiln_clip_encoder_at(const kiln_clip *c, size_t i)
{
    return (const kiln_clip_encoder *)(const void *)((const char *)c->encoder + i * c->encoder->size);
}

/* A copy of the encoders for a CLIP that differs in some of them; freed with free(). NULL: no memory. */
static inline kiln_clip_encoder *kiln_clip_encoders_copy(const kiln_clip *c)
{
    kiln_clip_encoder *copy = (kiln_clip_encoder *)calloc(c->n_encoder, sizeof *copy);
    for (uint32_t i = 0; copy && i < c->n_encoder; i++) {
        const kiln_clip_encoder *from = kiln_clip_encoder_at(c, i);
        memcpy(&copy[i], from, from->size < sizeof *copy ? from->size : sizeof *copy);
        copy[i].size = (uint32_t)sizeof *copy;
    }
    return copy;
}

/* A prompt for one encoder. Arrays: n structs of the first's size. */
typedef struct {
    uint32_t size;
    const char *encoder; /* its name; NULL: every encoder that no other prompt names */
    const char *text;    /* UTF-8 */
} kiln_prompt;

typedef struct {
    uint32_t size;
    /* A CONDITIONING of one entry with what the CLIP's combine() makes of the prompts. Fails with a sentence when a
     * prompt names an encoder that the CLIP has not, or an encoder has no prompt. [run] */
    kiln_status (*encode)(const kiln_call *, const kiln_value *clip, const kiln_prompt *, size_t n, kiln_value **out);
} kiln_text_api;

#ifdef __cplusplus
}
#endif
#endif
