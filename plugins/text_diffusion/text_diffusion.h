/* text_diffusion.h - language models that write by denoising a canvas of tokens: what the files of this plugin share.
 *
 * A family is a row: how its files are recognised and opened, how its two programs are recorded, how it is spoken to.
 *   the prompt's program reads T tokens into states: keys and values
 *   the canvas' program reads those, and says of each place of a canvas which token it takes for likely
 * Nodes, samplers, drafts and the cache know no family.
 *
 * What stands on a canvas is tokens. Of a family with a simplex its program makes numbers for each word of them, and of
 * noise (text_simplex.h), so that everything else knows tokens alone.
 *
 * Everything is for one sequence: a prompt of P tokens, then canvases of C. What lies where in the states is the
 * family's; how many tokens they hold is ours, and reaches the programs as the input `offset`.
 */
#ifndef KILN_TEXT_DIFFUSION_H
#define KILN_TEXT_DIFFUSION_H

#include "kiln/kit.h"
#include "kiln/ops.h"
#include "kiln/tokenizer.h"
#include "kiln/weights.h"
#include "text_sampler.h"

enum { STOP_TOKENS_MAX = 8, CANVAS_MAX = 4096, CONTEXT_MAX = 1 << 20 };

extern const kiln_host *td_host;
extern const kiln_ops *td_ops;

typedef struct text_diffusion_family text_diffusion_family;

/* How a model was meant to be sampled. */
typedef struct {
    int64_t steps, stability;
    double temperature, temperature_end, entropy_bound,
        confidence; /* temperature_end -1: it does not fall; confidence 0: no early end */
    double top_p;   /* of a simplex: words are drawn of the likeliest that have so much of all */
    int sampler;    /* TEXT_SAMPLER_.. */
} text_sampling;

/* A value of type "TEXT_DIFFUSION". Immutable once it is one. */
typedef struct {
    const text_diffusion_family *family;
    kiln_weights *weights; /* under the family's names */
    kiln_tokenizer *tokenizer;
    void *network; /* the family's, from open() */
    int64_t vocabulary, width, canvas, context;
    /* Tensors [vocabulary,width]: embeddings, which are multiplied by word_scale, and the head, whose logits are
     * softcap tanh(l / softcap) unless softcap is 0. Often the same. */
    const char *words, *head;
    float word_scale, softcap;
    float simplex;     /* K: what is denoised is numbers for each place and word, +-K of a word's; 0: tokens */
    int64_t tile_rows; /* words whose logits are in memory at once, about; 0: as many as do well */
    text_sampling sampling;
    int32_t stop[STOP_TOKENS_MAX];
    size_t n_stop;
    int32_t thought[2]; /* -1: none */
    int32_t mask;       /* what a canvas begins with and what does not stay becomes; -1: tokens at random */
    uint64_t settings;  /* digest of what the files say beside tensors; the family's       */
    char identity[100]; /* of weights, tokenizer and settings                              */
} text_diffusion_model;

/* A program while it is recorded. */
typedef struct text_recording {
    kiln_program *p;
    const text_diffusion_model *m;
    int64_t t, capacity; /* tokens of this pass; tokens that the states have places for */
    int64_t longest;     /* of all passes that share the states */
    kiln_t ids;          /* i32 [1,t]                      */
    kiln_t offset;       /* i32 [1]: tokens that the states hold */
    kiln_t ahead;        /* i32 [1], of a canvas: tokens that are to be written behind it; {0} unless sees_ahead */
    kiln_t begin;        /* i32 [1], of a canvas that is guided: tokens of the prompt; {0}: it is not */
    kiln_t guidance;     /* f32 [1], beside `begin`: what is added of the difference a prompt makes */
    kiln_t noise, level; /* of a simplex: f32 [1,t,vocabulary] and [3], see text_simplex.h */
    int on_processor;    /* 1: where ops of this plugin's own are fast */
    /* Takes what is made on the way, by name ("layers.3.hidden"); NULL: nobody looks. */
    void (*see)(void *self, const char *name, kiln_t);
    void *self;
} text_recording;

typedef struct {
    const char *role, *text; /* "system", "user", "model" */
} text_turn;

typedef struct {
    const text_turn *turn;
    size_t n;
    int thinking;      /* the model is asked to think first                   */
    int empty_thought; /* an empty thought is put before the answer, where it is not */
} text_chat;

struct text_diffusion_family {
    const char *name, *title; /* "llada", "LLaDA" */
    /* 1: these are its files. */
    int (*detect)(const kiln_weights_api *, const kiln_weights *);
    /* Fills m from the set: weights (a reference of its own), network, sizes, sampling; the rest is the loader's. */
    kiln_status (*open)(kiln_ctx *, kiln_weights *set, text_diffusion_model *m);
    void (*close)(void *network);
    /* Reads the tokens, which begin at `offset`, into the states. Leaves no result but those; returns what one output
     * hangs on, or {0}. */
    kiln_t (*record_prompt)(const text_recording *);
    /* What becomes of a canvas that begins at `offset`, [1,t,width]: what the head reads. soft f32 [1,t,width]: what
     * the last step took for likely, as embeddings; zeros: there was none. {0} of a family that is not told. */
    kiln_t (*record_canvas)(const text_recording *, kiln_t soft);
    int sees_ahead;       /* a canvas sees masks where later ones will be                 */
    int conditions;       /* the canvas is told what the last step took for likely        */
    int guided;           /* record_canvas knows `guidance`                                */
    int plain_confidence; /* a token's probability is that of a temperature of 1          */
    /* The text of a conversation that the model is to answer, special tokens as their texts. Writes up to capacity
     * bytes and no NUL; returns how many there are. */
    size_t (*render)(const text_chat *, char *out, size_t capacity);
    /* Tokens by their text: that end an answer (up to NULL); between which it thinks, or NULL. */
    const char *const *stops;
    const char *thought[2];
    /* Buffers of states that have `capacity` places along dimension 1 and grow with it; the others never change shape.
     */
    int (*grows)(const text_diffusion_model *, const char *state);
};

/* ---- helpers of recordings: the tensor of that name below `scope`, printf-like ---- */

kiln_t td_weight(const text_recording *, uint32_t rank, const int64_t *dim, const char *name, ...)
    __attribute__((format(printf, 4, 5)));
int td_has(const text_recording *, const char *name, ...) __attribute__((format(printf, 2, 3)));
/* x [..,I] by the weight [out,I] of that name */
kiln_t td_linear(const text_recording *, kiln_t x, int64_t out, const char *name, ...)
    __attribute__((format(printf, 4, 5)));
void td_see(const text_recording *, kiln_t, const char *name, ...) __attribute__((format(printf, 3, 4)));
kiln_t td_number(const text_recording *, int32_t value); /* i32 [1] */
kiln_t td_words(const text_recording *, kiln_t ids);     /* embeddings: i32 [1,n] -> f32 [1,n,width] */
/* Logits of tile k of the vocabulary, f32 [1,n,words of it]. */
kiln_t td_logits(const text_recording *, kiln_t x, int64_t k);

#endif
