/* language.h - language models from outside the tree: what the files of this plugin share.
 *
 * A model reads tokens and leaves what it has read in states: rows of a recurrence, or keys and values. So a program of
 * one token serves every step, and one of T tokens reads a prompt into the same states.
 *
 * N sequences at once, of unequal lengths: each has its own place (`offset`) and its own number of new tokens
 * (`count`); what lies behind those in a row of ids is padding that leaves no trace.
 */
#ifndef LANGUAGE_H
#define LANGUAGE_H

#include "kiln/config.h"
#include "kiln/kit.h"
#include "kiln/ops.h"
#include "kiln/store.h"
#include "kiln/weights.h"

enum { SEQUENCES = 8, TOKENS_MAX = 4096 };

extern const kiln_host *host;
extern const kiln_ops *ops;

typedef struct language_family language_family;

/* A MODEL of our own type, "LANGUAGE_MODEL". */
typedef struct {
    const language_family *family;
    kiln_weights *weights;
    void *network; /* the family's, from open(); free() ends it */
    int64_t vocabulary;
    char identity[40];
} language_model;

/* A program while it is recorded. */
typedef struct {
    kiln_program *p;
    const language_model *m;
    int64_t n, t, room; /* sequences, new tokens of each, tokens that a cache has places for */
    kiln_t ids;         /* i32 [N,T]                                                   */
    kiln_t offset;      /* i32 [N]: tokens read before                                */
    kiln_t count;       /* i32 [N]: of the T tokens those that are none of the padding */
} language_recording;

struct language_family {
    const char *model_type;
    /* Other names for the file's tensors; NULL: as they stand. */
    const kiln_weight_rule *rule;
    size_t n_rule;
    /* NULL with a message. */
    void *(*open)(config *);
    /* ids -> what the last norm makes of them [N,T,D] */
    kiln_t (*record)(const language_recording *);
    kiln_t (*head)(const language_recording *, kiln_t x); /* [..,D] -> [..,vocabulary] */
};

extern const language_family mamba2_family, deepseek_v2_family;
extern const kiln_op_kind ssd_scan;

/* x [...,I] -> [...,out] by the weight of that name, with a bias where the file has one. */
kiln_t language_linear(const language_recording *r, kiln_t x, int64_t out, const char *name, ...)
    __attribute__((format(printf, 4, 5)));
kiln_t language_weight(const language_recording *r, uint32_t rank, const int64_t *dim, const char *name, ...)
    __attribute__((format(printf, 4, 5)));
/* RMS norm of the last dimension by the gain of that name; group: columns normalised together, 0 = all. */
kiln_t language_norm(const language_recording *r, kiln_t x, float eps, int64_t group, const char *name, ...)
    __attribute__((format(printf, 5, 6)));
/* f32 or i32 [..] of one whole number, or of 0, 1, 2, .. along a dimension of n. */
kiln_t language_number(const language_recording *r, int32_t value);
kiln_t language_count_up(const language_recording *r, uint32_t rank, uint32_t axis, int64_t n);

/* ---- what has been read: a value of type "LANGUAGE_STATE" ---- */

typedef struct {
    kiln_states *states;
    int64_t n, room;
    int32_t length[SEQUENCES]; /* tokens read */
    int32_t next[SEQUENCES];   /* the likeliest token after them */
    char model[40];            /* identity */
} language_state;

language_state *state_new(kiln_ctx *ctx, const language_model *m, int64_t n, int64_t room); /* NULL with a message */
language_state *state_fork(kiln_ctx *ctx, const language_state *s);
void state_free(void *s);
/* Takes s, also when it fails. */
kiln_value *state_value(kiln_ctx *ctx, language_state *s);
/* A map of plain data, and back. */
kiln_value *state_to_map(kiln_ctx *ctx, const language_state *s);
language_state *state_from_map(kiln_ctx *ctx, const kiln_value *map);
extern const kiln_stored_type stored_state;

/* ---- reading ---- */

typedef struct {
    int64_t t;            /* tokens of a row, with padding */
    const int32_t *ids;   /* [n][t] of the state's n        */
    const int32_t *count; /* [n], 0 to t                    */
    float *logits;        /* [n][t][vocabulary], or NULL    */
} language_piece;

/* Reads the tokens into the states. */
kiln_status language_read(const kiln_call *c, const language_model *m, language_state *s, const language_piece *piece);

/* "7 33 2 | 4 5": sequences of ids, in scratch memory. */
typedef struct {
    int64_t n, longest;
    int32_t length[SEQUENCES];
    int32_t *ids[SEQUENCES];
} language_prompt;
kiln_status prompt_parse(const kiln_call *c, const char *text, int64_t vocabulary, language_prompt *out);
/* ids [n][t] as such a text; NULL: no memory. */
kiln_value *prompt_text(const kiln_call *c, const int32_t *ids, int64_t n, int64_t t);

extern const kiln_node loader_node, read_node, score_node, generate_node;

#endif
