/* lora_hook.c - a file of patches as a hook; see lora_hook.h. The file stays open as long as the hook. */
#include "lora_hook.h"

#include "kiln/kit.h"
#include "lora_file.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    kiln_entry_hook hook;
    const kiln_weights_api *w;
    kiln_weights *file;
    hook_strengths strength;
    atomic_int said[2]; /* what has no module, of the denoiser and of the encoders */
    char path[];
} lora_hook;

static void release(void *self)
{
    lora_hook *h = self;
    h->w->unref(h->file);
    free(h);
}

static kiln_weights *on_denoiser(const kiln_entry_hook *hook, const kiln_call *c, const kiln_model *model,
                                 kiln_weights *before, double strength)
{
    lora_hook *h = hook->self;
    kiln_weights *made = NULL, *text[LORA_TEXTS_MAX] = {NULL};
    (void)model;
    if (h->strength.model == 0) return h->w->ref(before);
    lora_request r = {.path = h->path,
                      .file = h->file,
                      .unet = before,
                      .unet_strength = h->strength.model * strength,
                      .may_miss = 1,
                      .quiet = atomic_exchange(&h->said[0], 1)};
    return lora_apply(c->host, c->ctx, &r, &made, text) == KILN_OK ? made : NULL;
}

static kiln_status on_text(const kiln_entry_hook *hook, const kiln_call *c, const kiln_clip *clip,
                           kiln_weights *const *before, double strength, kiln_weights **out)
{
    lora_hook *h = hook->self;
    kiln_weights *unet = NULL, *text[LORA_TEXTS_MAX] = {NULL};
    if (clip->n_encoder > LORA_TEXTS_MAX)
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                             "this CLIP has %u text encoders, and a LoRA can be put on %d at most; hook the model "
                             "alone (CreateHookLoraModelOnly)",
                             clip->n_encoder, (int)LORA_TEXTS_MAX);
    lora_request r = {.path = h->path,
                      .file = h->file,
                      .text_strength = h->strength.clip * strength,
                      .may_miss = 1,
                      .quiet = atomic_exchange(&h->said[1], 1)};
    for (uint32_t i = 0; i < clip->n_encoder; i++) {
        r.text[i].name = kiln_clip_encoder_at(clip, i)->name;
        r.text[i].set = before[i];
    }
    if (r.text_strength == 0)
        for (uint32_t i = 0; i < clip->n_encoder; i++) text[i] = h->w->ref(before[i]);
    else
        TRY(lora_apply(c->host, c->ctx, &r, &unet, text));
    memcpy(out, text, clip->n_encoder * sizeof(kiln_weights *));
    return KILN_OK;
}

kiln_value *lora_hook_new(const kiln_call *c, const char *path, const hook_strengths *s)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    char print[160];
    kiln_weights *file = w->open(c->ctx, path);
    const char *identity = file ? w->identity(c->ctx, file) : NULL;
    lora_hook *h = identity ? calloc(1, sizeof *h + strlen(path) + 1) : NULL;
    if (!h) {
        w->unref(file);
        return NULL;
    }
    *h = (lora_hook){.w = w, .file = file, .strength = *s};
    h->hook = (kiln_entry_hook){.size = sizeof h->hook, .self = h, .denoiser = on_denoiser, .text = on_text};
    strcpy(h->path, path);
    snprintf(print, sizeof print, "LoRA %s %.17g %.17g", identity, s->model, s->clip);
    kiln_value *v = kit_values(c)->new_object(c->ctx, KILN_ENTRY_HOOK, &h->hook, release, print);
    if (!v) release(h);
    return v;
}
