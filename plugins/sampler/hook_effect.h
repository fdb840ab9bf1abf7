/* hook_effect.h - which hooks of a MODEL change something while its network is recorded. One that finds no place to act
 * at (kiln/hook.h without patterns, or with conditions of its own) would say nothing by itself.
 */
#ifndef KILN_SAMPLER_HOOK_EFFECT_H
#define KILN_SAMPLER_HOOK_EFFECT_H

#include "kiln/model.h"
#include "kiln/plugin.h"

enum { HOOK_EFFECTS_MAX = 64 };

/* Of one sampling. What does not fit counts as having an effect. */
typedef struct {
    struct {
        const char *identity, *family; /* the hook's and the denoiser's */
        int acts;
    } hook[HOOK_EFFECTS_MAX];
    size_t n;
} hook_effects;

/* A hook that does what another one does, and notes whether that changes anything. */
typedef struct {
    kiln_hook hook;
    const kiln_hook *of;
    int acts;
} watched_hook;

/* What a network is recorded with in the place of `of`: &w->hook, as long as w is there. */
const kiln_hook *hook_watch(watched_hook *w, const kiln_hook *of);

/* A program of this key was recorded with the model's hooks w [n]. Remembered until the process ends, as kept programs
 * are: an estimate may have recorded what a run uses. [any] */
void hook_effects_recorded(hook_effects *all, const char *key, const kiln_model *m, const watched_hook *w, size_t n);
/* A program of this key is there already. A hook that nobody remembers counts as having an effect. [any] */
void hook_effects_met(hook_effects *all, const char *key, const kiln_model *m, const kiln_hook *const *hook, size_t n);
/* A warning for each that changes nothing, once. */
void hook_effects_say(hook_effects *all, const kiln_host *host);

#endif
