/* sample_guidance.h - one evaluation of a guider that nobody has wired: x is drawn, the guesses are known functions of
 * it, and guided() is classifier-free guidance with nothing else on the model. What the guider did is noted.
 */
#ifndef KILN_CLI_SAMPLE_GUIDANCE_H
#define KILN_CLI_SAMPLE_GUIDANCE_H

#include "cli/sample_latents.h"
#include "kiln/sampling.h"

typedef struct {
    const kiln_guider *row;
    const void *params;
    const kiln_model_sampling *sampling;
    double sigma;
    int64_t pictures, side, whole;    /* x's height and width, and the sampling's */
    uint64_t seed;                    /* of x: picture p is drawn with seed + p */
    const kiln_latent *x;             /* in place of what would be drawn; NULL */
    uint32_t also;                    /* sets that are evaluated besides those that wants() asks for, as bits */
    double of_also;                   /* is added to their guesses */
    int equal;                        /* 1: every guess is the same */
    double before;                    /* what out holds at first */
    int64_t fail_guided, fail_memory; /* that call of guided() or patch(), of create(): < 0 none */
    void (*between)(void *self);      /* at each call that the guider makes; NULL */
    void *self;
} guidance_plan;

#define GUIDANCE_PLAN(...)                                                                                             \
    ((guidance_plan){.pictures = 1, .side = 4, .whole = 4, .fail_guided = -1, .fail_memory = -1, __VA_ARGS__})

/* What came of it. */
typedef struct {
    kiln_status status;
    uint32_t wanted;
    double *v; /* [count] of out */
    size_t count;
    double *first;          /* [count] of the first guess that was wanted; NULL: none was */
    int64_t guided, memory; /* calls */
    int bad_call;           /* as of sample_latents */
    int wrote;              /* the set whose guess was changed; GUIDED_WROTE_X; -1: none */
    int overran;            /* something was written behind a latent's numbers */
} guided;

enum { GUIDED_WROTE_X = KILN_GUIDER_SETS };

/* 0: no memory, nothing was tried. Free with guided_free(), also then. */
int guidance_try(const guidance_plan *, guided *out);
void guided_free(guided *);

#endif
