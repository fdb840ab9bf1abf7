/* entry_hooks.c - see entry_hooks.h. */
#include "entry_hooks.h"

#include "kiln/kit.h"

#include <stdio.h>

/* ---- reading ---- */

static kiln_status refuse(const kiln_call *c, const char *what, const char *why)
{
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "%s: the 'hooks' of an entry %s", what, why);
}

/* One that says the same is taken; else this one is added. */
static const hook_schedule *known_or_new(hook_schedules *all, hook_schedule *fresh)
{
    for (const hook_schedule *s = all->first; s; s = s->next)
        if (s->n == fresh->n && memcmp(s->frame, fresh->frame, s->n * sizeof *s->frame) == 0 &&
            memcmp(s->level, fresh->level, s->n * sizeof *s->level) == 0)
            return s;
    fresh->number = all->n++;
    fresh->next = all->first;
    return all->first = fresh;
}

static kiln_status read_schedule(const kiln_call *c, const char *what, const kiln_value *keyframes,
                                 const model_sampling *counted, hook_schedules *all, const hook_schedule **out)
{
    const kiln_value_api *v = kit_values(c);
    size_t n = v->count(keyframes);
    *out = NULL;
    if (!n) return KILN_OK;
    hook_schedule *s = c->host->scratch(c->ctx, sizeof *s, KILN_CPU);
    kiln_keyframe *frame = c->host->scratch(c->ctx, n * sizeof *frame, KILN_CPU);
    double *level = c->host->scratch(c->ctx, n * sizeof *level, KILN_CPU);
    if (!s || !frame || !level) return KILN_ERR_NOMEM;
    memset(frame, 0, n * sizeof *frame); /* compared whole */
    for (size_t i = 0; i < n; i++) {
        if (!kiln_keyframe_at(v, keyframes, i, &frame[i]))
            return refuse(c, what, "have a keyframe without strength, start_percent and guarantee_steps");
        if (i && frame[i].start < frame[i - 1].start)
            return refuse(c, what, "have keyframes that are not in the order of their start_percent");
        level[i] = model_sampling_percent_to_sigma(counted, frame[i].start);
    }
    *s = (hook_schedule){.frame = frame, .level = level, .n = n};
    *out = known_or_new(all, s);
    return KILN_OK;
}

kiln_status entry_hooks_read(const kiln_call *c, const char *what, const kiln_value *entry,
                             const model_sampling *counted, hook_schedules *all, entry_hooks *out)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *list = v->map_get(entry, "hooks");
    size_t n = list ? v->count(list) : 0;
    *out = (entry_hooks){0};
    if (!list) return KILN_OK;
    if (v->kind(list) != KILN_V_LIST || n > ENTRY_HOOKS_MAX)
        return refuse(c, what, "have to be a list of at most 32 maps; CreateHookLora makes one");
    entry_hook *item = c->host->scratch(c->ctx, (n + 1) * sizeof *item, KILN_CPU);
    if (!item) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const kiln_value *map = v->list_at(list, i), *keyframes = v->map_get(map, "keyframes");
        if (!(item[i].hook = kiln_entry_hook_of(v, map)))
            return refuse(c, what, "have a map without a hook; CreateHookLora makes them");
        TRY(read_schedule(c, what, keyframes, counted, all, &item[i].schedule));
    }
    *out = (entry_hooks){item, n};
    return KILN_OK;
}

/* ---- where a schedule stands ---- */

enum { PLACE, USED, LEVEL, N_STATE }; /* the keyframe that counts, evaluations with it, the last level */

static kiln_status find_state(const kiln_call *c, const hook_schedule *s, const kiln_sampling *session, double **out)
{
    char name[32];
    snprintf(name, sizeof name, "hooks.%zu", s->number);
    *out = session->scalars(session, name, N_STATE);
    if (*out) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "the conditionings' hooks have %zu different sets of keyframes, too many for one sampling",
                         s->number + 1);
}

/* Evaluations that a keyframe stays for: none if it began above the sampling's first level. */
static double guaranteed(const hook_schedule *s, size_t i, const kiln_sampling *session)
{
    double most = 0;
    for (size_t k = 0; k <= session->n; k++) most = session->sigma[k] > most ? session->sigma[k] : most;
    return s->level[i] > most ? 0 : (double)s->frame[i].guarantee;
}

static void move(const hook_schedule *s, const kiln_sampling *session, double sigma, double *state)
{
    size_t i = (size_t)state[PLACE];
    if (state[USED] > 0 && state[LEVEL] == sigma) return;
    if (state[USED] >= guaranteed(s, i, session))
        while (i + 1 < s->n && s->level[i + 1] >= sigma) {
            state[PLACE] = (double)++i;
            state[USED] = 0;
            if (guaranteed(s, i, session) > 0) break;
        }
    state[USED]++;
    state[LEVEL] = sigma;
}

kiln_status entry_hooks_move(const kiln_call *c, const entry_hooks *hooks, const kiln_sampling *session, double sigma)
{
    double *state;
    for (size_t i = 0; i < hooks->n; i++) {
        if (!hooks->item[i].schedule) continue;
        TRY(find_state(c, hooks->item[i].schedule, session, &state));
        move(hooks->item[i].schedule, session, sigma, state);
    }
    return KILN_OK;
}

/* An estimate counts what a hook at any strength needs. */
static double strength_in_estimate(const hook_schedule *s)
{
    size_t i = 0;
    while (i + 1 < s->n && s->frame[i].strength == 0) i++;
    return s->frame[i].strength;
}

kiln_status entry_hooks_strengths(const kiln_call *c, const entry_hooks *hooks, const kiln_sampling *session,
                                  double *strength)
{
    double *state;
    for (size_t i = 0; i < hooks->n; i++) {
        const hook_schedule *s = hooks->item[i].schedule;
        strength[i] = !s ? 1 : strength_in_estimate(s);
        if (!s || kit_estimating(c)) continue;
        TRY(find_state(c, s, session, &state));
        strength[i] = s->frame[(size_t)state[PLACE]].strength;
    }
    return KILN_OK;
}
