/* model_patch.c - see model_patch.h. */
#include "model_patch.h"

#include <stdio.h>
#include <stdlib.h>

/* What the new MODEL owns. */
typedef struct {
    model_patch *patch;
    const kiln_hook **hook;
    const kiln_guidance **guidance;
} owned_lists;

static void release(void *self)
{
    owned_lists *o = self;
    if (!o) return;
    free(o->patch);
    free(o->hook);
    free(o->guidance);
    free(o);
}

model_patch *model_patch_new(const char *name, const double *number, size_t n)
{
    return model_patch_sized(sizeof(model_patch), name, number, n);
}

model_patch *model_patch_sized(size_t size, const char *name, const double *number, size_t n)
{
    model_patch *p = calloc(1, size);
    int at = p ? snprintf(p->identity, sizeof p->identity, "%s", name) : 0;
    for (size_t i = 0; p && i < n && i < PATCH_NUMBERS_MAX; i++) {
        p->number[i] = number[i];
        at += snprintf(p->identity + at, sizeof p->identity - (size_t)at, "/%.17g", number[i]);
    }
    return p;
}

kiln_hook *model_patch_hook(model_patch *p, const char *place)
{
    kiln_hook *h = &p->hook[p->n_hook];
    *h = (kiln_hook){.size = sizeof *h, .self = p, .identity = p->identity};
    if (place) {
        snprintf(p->place[p->n_hook], PATCH_PLACE_MAX, "%s", place);
        p->pattern[p->n_hook][0] = p->place[p->n_hook];
        h->place = p->pattern[p->n_hook];
    }
    p->n_hook++;
    return h;
}

kiln_guidance *model_patch_guidance(model_patch *p, uint32_t flags, kiln_status (*apply)(void *, const kiln_guesses *))
{
    p->guidance =
        (kiln_guidance){.size = sizeof p->guidance, .flags = flags, .self = p, .identity = p->identity, .apply = apply};
    return &p->guidance;
}

/* The model's lists with what the patch has behind. NULL: no memory. */
static owned_lists *lists_new(const kiln_model *m, model_patch *p)
{
    owned_lists *o = calloc(1, sizeof *o);
    if (!o) return NULL;
    o->hook = calloc(m->n_hook + PATCH_HOOKS_MAX, sizeof *o->hook);
    o->guidance = calloc(m->n_guidance + 1, sizeof *o->guidance);
    if (!o->hook || !o->guidance) return release(o), NULL;
    o->patch = p;
    for (size_t i = 0; i < m->n_hook; i++) o->hook[i] = m->hook[i];
    for (size_t i = 0; i < p->n_hook; i++) o->hook[m->n_hook + i] = &p->hook[i];
    for (size_t i = 0; i < m->n_guidance; i++) o->guidance[i] = m->guidance[i];
    if (p->guidance.size) o->guidance[m->n_guidance] = &p->guidance;
    return o;
}

kiln_status model_patch_put(const kiln_call *c, model_patch *p)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *model = p ? models->model(c->ctx, c->in[0]) : NULL;
    owned_lists *o = model ? lists_new(model, p) : NULL;
    if (!o) {
        free(p);
        return p && !model ? KILN_ERR_INVALID : KILN_ERR_NOMEM;
    }
    kiln_model m = *model;
    m.hook = o->hook, m.n_hook = model->n_hook + p->n_hook;
    m.guidance = o->guidance, m.n_guidance = model->n_guidance + (p->guidance.size != 0);
    m.owned = o, m.release = release, m.base = c->in[0];
    c->out[0] = models->model_new(c->ctx, &m);
    if (!c->out[0]) release(o);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

/* ---- places ---- */

int place_is(const char *place, const char *begin, const char *end)
{
    size_t n = strlen(place), b = strlen(begin), e = strlen(end);
    return n >= b && n >= e && memcmp(place, begin, b) == 0 && memcmp(place + n - e, end, e) == 0;
}

int attention_is_plain(const kiln_recording *r, const kiln_attention_info *a, const char *patch)
{
    if (!kiln_attention_more(a)) return 1;
    r->ops->fail(r->program,
                 "%s: the attention at '%s' has grouped heads, lengths or segments of keys, which this patch does not "
                 "know; leave it out for this model",
                 patch, a->place);
    return 0;
}

typedef struct {
    const char *begin, *end;
    size_t n;
} place_count;

static void count_place(void *arg, const char *place, uint32_t kind)
{
    place_count *of = arg;
    (void)kind;
    of->n += (size_t)place_is(place, of->begin, of->end);
}

size_t model_patch_places(const kiln_model *m, const char *begin, const char *end)
{
    place_count of = {begin, end, 0};
    if (m->denoiser->places) m->denoiser->places(m->denoiser, count_place, &of);
    return of.n;
}
