/* entry_hooks.h - the hooks of an entry of a CONDITIONING (kiln/entry_hook.h): which they are, and how strong each is.
 *
 * Entries whose hooks have the same keyframes share one schedule: it moves on once a level, whichever of them is
 * evaluated. Where it stands is in the session's scalars, so that a sampling that goes on after a stop goes on with it.
 */
#ifndef KILN_SAMPLER_ENTRY_HOOKS_H
#define KILN_SAMPLER_ENTRY_HOOKS_H

#include "kiln/entry_hook.h"
#include "kiln/sampler.h"
#include "model_sampling.h"

enum { ENTRY_HOOKS_MAX = 32 };

typedef struct hook_schedule {
    struct hook_schedule *next;
    size_t number; /* among the sampling's */
    const kiln_keyframe *frame;
    const double *level; /* where each begins */
    size_t n;            /* 1 or more */
} hook_schedule;

/* All of a sampling. */
typedef struct {
    hook_schedule *first;
    size_t n;
} hook_schedules;

typedef struct {
    const kiln_entry_hook *hook;
    const hook_schedule *schedule; /* NULL: strength 1 all the way */
} entry_hook;

typedef struct {
    const entry_hook *item;
    size_t n;
} entry_hooks;

/* What the entry has under "hooks", in the call's scratch; `what` names its conditioning. */
kiln_status entry_hooks_read(const kiln_call *c, const char *what, const kiln_value *entry,
                             const model_sampling *counted, hook_schedules *all, entry_hooks *out);
/* The entry is evaluated at that level: its schedules move on, once a level. */
kiln_status entry_hooks_move(const kiln_call *c, const entry_hooks *hooks, const kiln_sampling *session, double sigma);
/* The strength of each hook there, into strength[n]. In an estimate the first that is not 0: all need as much. */
kiln_status entry_hooks_strengths(const kiln_call *c, const entry_hooks *hooks, const kiln_sampling *session,
                                  double *strength);

#endif
