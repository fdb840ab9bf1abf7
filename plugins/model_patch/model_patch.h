/* model_patch.h - a change to a MODEL as a value: hooks and guidance that are put at the end of its lists. Weights,
 * sampling and what hung on it before stay; the MODEL it came from is untouched and kept alive.
 */
#ifndef KILN_MODEL_PATCH_H
#define KILN_MODEL_PATCH_H

#include "kiln/kit.h"
#include "kiln/model.h"

enum { PATCH_HOOKS_MAX = 2, PATCH_NUMBERS_MAX = 8, PATCH_PLACE_MAX = 48 };

/* `self` of its hooks and its guidance is the patch. */
typedef struct {
    double number[PATCH_NUMBERS_MAX]; /* the node's parameters, as the identity has them */
    kiln_hook hook[PATCH_HOOKS_MAX];
    size_t n_hook;
    kiln_guidance guidance; /* size 0: none */
    char identity[1024];    /* "FreeU/1.1/1.2/0.9/0.2" */
    char place[PATCH_HOOKS_MAX][PATCH_PLACE_MAX];
    const char *pattern[PATCH_HOOKS_MAX][2]; /* a place, and the NULL behind it */
} model_patch;

/* One whose identity is the name with the numbers (n at most PATCH_NUMBERS_MAX). NULL: no memory. */
model_patch *model_patch_new(const char *name, const double *number, size_t n);
/* The same at the head of a struct of `size` bytes, the others 0. */
model_patch *model_patch_sized(size_t size, const char *name, const double *number, size_t n);
/* The next hook, to be filled: `place` is its one pattern; NULL: it is asked at every place. */
kiln_hook *model_patch_hook(model_patch *p, const char *place);
/* The guidance, to be filled. */
kiln_guidance *model_patch_guidance(model_patch *p, uint32_t flags, kiln_status (*apply)(void *, const kiln_guesses *));

/* c->out[0] = the MODEL c->in[0] with the patch. Takes the patch, also when it fails; NULL is no memory. */
kiln_status model_patch_put(const kiln_call *c, model_patch *p);

/* How many places the MODEL c->in[0] has whose name ends so ("" any) and begins so. */
size_t model_patch_places(const kiln_model *m, const char *begin, const char *end);
/* 1: the name begins and ends so. */
int place_is(const char *place, const char *begin, const char *end);
/* 1: the attention is q, k, v, scale, mask and causal. Else the recording fails with a sentence that names `patch`. */
int attention_is_plain(const kiln_recording *r, const kiln_attention_info *a, const char *patch);

#endif
