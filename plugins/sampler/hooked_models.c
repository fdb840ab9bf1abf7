/* hooked_models.c - see hooked_models.h. */
#include "hooked_models.h"

#include "kiln/kit.h"

#include <stdlib.h>

struct hooked_model {
    hooked_model *next;
    const kiln_model *of;
    entry_hooks hooks; /* lent: the conditions' */
    double strength[ENTRY_HOOKS_MAX];
    kiln_model model; /* `of` over `weights` */
    kiln_weights *weights;
    own_programs own;
    int over; /* another strength counts now */
};

static void hooked_model_free(const hooked_models *all, hooked_model *m)
{
    own_programs_free(&m->own, all->ops);
    all->w->unref(m->weights);
    free(m);
}

static void free_all(void *self)
{
    hooked_models *all = self;
    for (hooked_model *m = all->first, *next; m; m = next) {
        next = m->next;
        hooked_model_free(all, m);
    }
    all->first = NULL;
}

void hooked_models_let_go(hooked_models *all)
{
    for (hooked_model **at = &all->first; *at;) {
        hooked_model *m = *at;
        if (!m->over) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        hooked_model_free(all, m);
    }
}

static int same_hooks(const entry_hooks *a, const entry_hooks *b)
{
    if (a->n != b->n) return 0;
    for (size_t i = 0; i < a->n; i++)
        if (a->item[i].hook != b->item[i].hook || a->item[i].schedule != b->item[i].schedule) return 0;
    return 1;
}

static int follow_keyframes(const entry_hooks *hooks)
{
    for (size_t i = 0; i < hooks->n; i++)
        if (hooks->item[i].schedule && hooks->item[i].schedule->n > 1) return 1;
    return 0;
}

/* The model's weights with one hook after the other on them. */
static kiln_status make_weights(const kiln_call *c, hooked_model *m)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weights *now = w->ref(m->of->weights);
    for (size_t i = 0; i < m->hooks.n && now; i++) {
        const kiln_entry_hook *h = m->hooks.item[i].hook;
        if (m->strength[i] == 0 || !h->denoiser) continue;
        kiln_weights *next = h->denoiser(h, c, m->of, now, m->strength[i]);
        w->unref(now);
        now = next;
    }
    m->weights = now;
    return now ? KILN_OK : KILN_ERR_INVALID;
}

static kiln_status add(hooked_models *all, const kiln_call *c, const hooked_model *wanted, hooked_model **out)
{
    if (!all->w) TRY(c->host->at_end(c->ctx, free_all, all));
    all->w = c->host->ability(KILN_WEIGHTS_ABILITY);
    all->ops = c->host->ability(KILN_OPS_ABILITY);
    hooked_model *m = malloc(sizeof *m);
    if (!m) return KILN_ERR_NOMEM;
    *m = *wanted;
    kiln_status status = make_weights(c, m);
    if (status != KILN_OK) {
        free(m);
        return status;
    }
    m->model = *m->of;
    m->model.weights = m->weights;
    m->next = all->first;
    *out = all->first = m;
    return KILN_OK;
}

kiln_status hooked_models_find(hooked_models *all, const kiln_call *c, const kiln_model *of, const entry_hooks *hooks,
                               const kiln_sampling *session, hooked *out)
{
    hooked_model wanted = {.of = of, .hooks = *hooks}, *found = NULL;
    int acts = 0;
    *out = (hooked){.model = of};
    if (!hooks->n) return KILN_OK;
    TRY(entry_hooks_strengths(c, hooks, session, wanted.strength));
    for (size_t i = 0; i < hooks->n; i++) acts = acts || wanted.strength[i] != 0;
    for (hooked_model *m = all->first; m; m = m->next) {
        if (m->of != of || !same_hooks(&m->hooks, hooks)) continue;
        m->over = memcmp(m->strength, wanted.strength, hooks->n * sizeof *m->strength) != 0;
        if (!m->over) found = m;
    }
    if (!acts) return KILN_OK;
    if (!found) TRY(add(all, c, &wanted, &found));
    if (found->weights == of->weights) return KILN_OK;
    *out = (hooked){&found->model, follow_keyframes(hooks) ? &found->own : NULL};
    return KILN_OK;
}
