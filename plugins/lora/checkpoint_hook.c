/* checkpoint_hook.c - a checkpoint as a hook: W + strength * (V - W0), V its weight and W0 what the hooked network has
 * without hooks; see lora_hook.h. */
#include "lora_hook.h"

#include "kiln/kit.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct {
    kiln_entry_hook hook;
    const kiln_host *host;
    kiln_value *model, *clip; /* clip NULL: there is none */
    hook_strengths strength;
} checkpoint_hook;

static void release(void *self)
{
    checkpoint_hook *h = self;
    h->host->unref(h->model);
    h->host->unref(h->clip);
    free(h);
}

static const kiln_weights_api *weights_of(const kiln_call *c) { return c->host->ability(KILN_WEIGHTS_ABILITY); }

/* ---- the difference of two sets ---- */

typedef struct {
    kiln_weights *before, *plain, *other; /* with the hooks before it; without any; the checkpoint's */
    double strength;
} difference;

/* Of real numbers, blocks of them too; not ids and counters. */
static int is_real(uint32_t dtype)
{
    return dtype && dtype != KILN_U8 && dtype != KILN_I32 && dtype != KILN_I64 && dtype != KILN_BOOL8;
}

static int same_shape(const kiln_weight_info *a, const kiln_weight_info *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof *a->dim) == 0;
}

/* Two patches for a tensor that both have: + strength V - strength W0. *n gains them. */
static kiln_status add_tensor(const kiln_call *c, const difference *d, const kiln_weight_info *own,
                              kiln_weight_patch *patch, size_t *n)
{
    kiln_weight_info other = {.size = sizeof other};
    if (weights_of(c)->find(d->other, own->name, &other) != KILN_OK || !is_real(other.dtype) || !is_real(own->dtype))
        return KILN_OK;
    if (!same_shape(own, &other))
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "'%s' of the checkpoint that is a hook (%s) has another shape than the model's; both have "
                             "to be of one family",
                             own->name, other.file);
    kiln_weight_patch one = {
        .size = sizeof one, .name = own->name, .strength = d->strength, .scale = 1, .difference = own->name};
    patch[*n] = one, patch[*n].from = d->other;
    patch[*n + 1] = one, patch[*n + 1].from = d->plain, patch[*n + 1].strength = -d->strength;
    *n += 2;
    return KILN_OK;
}

static kiln_weights *with_difference(const kiln_call *c, const difference *d)
{
    const kiln_weights_api *w = weights_of(c);
    size_t count = w->count(d->plain), n = 0;
    kiln_status status = KILN_OK;
    if (d->strength == 0) return w->ref(d->before);
    kiln_weight_patch *patch = c->host->scratch(c->ctx, 2 * (count + 1) * sizeof *patch, KILN_CPU);
    if (!patch) return NULL;
    for (size_t i = 0; status == KILN_OK && i < count; i++) {
        kiln_weight_info own = {.size = sizeof own};
        status = w->at(d->plain, i, &own);
        if (status == KILN_OK) status = add_tensor(c, d, &own, patch, &n);
    }
    if (status != KILN_OK) return NULL;
    if (n) return w->patch(c->ctx, d->before, patch, n);
    c->host->fail(c->ctx, KILN_ERR_INVALID,
                  "the checkpoint that is a hook has no weights of the model's names; both have to be of one family");
    return NULL;
}

/* ---- the hook ---- */

static kiln_weights *on_denoiser(const kiln_entry_hook *hook, const kiln_call *c, const kiln_model *model,
                                 kiln_weights *before, double strength)
{
    const checkpoint_hook *h = hook->self;
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *own = models->model(c->ctx, h->model);
    if (!own) return NULL;
    return with_difference(c, &(difference){before, model->weights, own->weights, h->strength.model * strength});
}

static const kiln_clip_encoder *encoder_called(const kiln_clip *clip, const char *name)
{
    for (size_t i = 0; clip && i < clip->n_encoder; i++)
        if (strcmp(kiln_clip_encoder_at(clip, i)->name, name) == 0) return kiln_clip_encoder_at(clip, i);
    return NULL;
}

static kiln_status on_text(const kiln_entry_hook *hook, const kiln_call *c, const kiln_clip *clip,
                           kiln_weights *const *before, double strength, kiln_weights **out)
{
    const checkpoint_hook *h = hook->self;
    const kiln_weights_api *w = weights_of(c);
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_clip *own = h->clip ? models->clip(c->ctx, h->clip) : NULL;
    uint32_t n = 0;
    for (; n < clip->n_encoder; n++) {
        const kiln_clip_encoder *of = kiln_clip_encoder_at(clip, n), *other = encoder_called(own, of->name);
        difference d = {before[n], of->weights, other ? other->weights : NULL, h->strength.clip * strength};
        if (!(out[n] = other ? with_difference(c, &d) : w->ref(before[n]))) break;
    }
    if (n == clip->n_encoder) return KILN_OK;
    while (n-- > 0) {
        w->unref(out[n]);
        out[n] = NULL;
    }
    return KILN_ERR_INVALID;
}

kiln_value *checkpoint_hook_new(const kiln_call *c, kiln_value *model, kiln_value *clip, const hook_strengths *s)
{
    const kiln_value_api *v = kit_values(c);
    char print[400];
    checkpoint_hook *h = calloc(1, sizeof *h);
    if (!h) return NULL;
    *h = (checkpoint_hook){.host = c->host, .model = c->host->ref(model), .strength = *s};
    if (clip) h->clip = c->host->ref(clip);
    h->hook = (kiln_entry_hook){.size = sizeof h->hook, .self = h, .denoiser = on_denoiser, .text = on_text};
    snprintf(print, sizeof print, "checkpoint %.120s %.120s %.17g %.17g", v->object_fingerprint(model),
             clip ? v->object_fingerprint(clip) : "", s->model, s->clip);
    kiln_value *made = v->new_object(c->ctx, KILN_ENTRY_HOOK, &h->hook, release, print);
    if (!made) release(h);
    return made;
}
