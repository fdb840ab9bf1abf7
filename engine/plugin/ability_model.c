/* ability_model.c - "kiln.model/1": MODEL, CLIP and VAE values. Each is an object that holds a copy of its struct, a
 * reference to its weights and one to the value it was made from.
 */
#include "base/memory_alloc.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "tensor/value.h"
#include "weights/weights.h"

#include <string.h>

kiln_status family_register(const kiln_model_family *f);
size_t family_count(uint32_t kind);
const kiln_model_family *family_at(uint32_t kind, size_t i);
const kiln_model_family *family_detect(uint32_t kind, const kiln_weights *set);

/* What all three have beside their table. */
typedef struct {
    union {
        kiln_model model;
        kiln_clip clip;
        kiln_vae vae;
    } as;
    kiln_weights *weights;
    kiln_value *base;
    void *owned;
    void (*release)(void *);
} holder;

static void holder_release(void *ptr)
{
    holder *h = ptr;
    if (h->release) h->release(h->owned);
    weights_unref(h->weights);
    value_unref(h->base);
    mem_free(h);
}

static kiln_value *hold(kiln_ctx *c, const char *type, const void *what, size_t size, holder extra)
{
    holder *h = mem_calloc(1, sizeof *h);
    if (!h) return error_set(ctx_error(c), KILN_ERR_NOMEM, "out of memory"), NULL;
    *h = extra;
    memcpy(&h->as, what, size);
    kiln_value *v = value_object(type, h, holder_release, extra.weights ? weights_identity(extra.weights, NULL) : NULL);
    if (!v) {
        mem_free(h);
        error_set(ctx_error(c), KILN_ERR_NOMEM, "out of memory");
        return NULL;
    }
    weights_ref(h->weights);
    value_ref(h->base);
    if (h->base) value_publish(h->base);
    return v;
}

static kiln_status incomplete(kiln_ctx *c, const char *what)
{
    return error_set(ctx_error(c), KILN_ERR_BUG, "a %s without its table, record function or weights", what);
}

static kiln_value *model_new(kiln_ctx *c, const kiln_model *m)
{
    if (m->size < sizeof *m || !m->denoiser || !m->denoiser->record || !m->weights || m->sampling.n_sigma < 2 || !m->sampling.sigma)
        return incomplete(c, "MODEL"), NULL;
    return hold(c, "MODEL", m, sizeof *m, (holder){.weights = m->weights, .base = m->base, .owned = m->owned, .release = m->release});
}

static kiln_value *clip_new(kiln_ctx *c, const kiln_clip *m)
{
    if (m->size < sizeof *m || !m->encoder || !m->encoder->record || !m->encoder->tokenise || !m->weights) return incomplete(c, "CLIP"), NULL;
    return hold(c, "CLIP", m, sizeof *m, (holder){.weights = m->weights, .base = m->base, .owned = m->owned, .release = m->release});
}

static kiln_value *vae_new(kiln_ctx *c, const kiln_vae *m)
{
    if (m->size < sizeof *m || !m->autoencoder || !m->autoencoder->record_decode || !m->weights) return incomplete(c, "VAE"), NULL;
    return hold(c, "VAE", m, sizeof *m, (holder){.weights = m->weights, .base = m->base, .owned = m->owned, .release = m->release});
}

static const void *get(kiln_ctx *c, const kiln_value *v, const char *type)
{
    const holder *h = value_api.object(v, type);
    if (!h) error_set(ctx_error(c), KILN_ERR_INVALID, "expected a %s", type);
    return h ? &h->as : NULL;
}

static const kiln_model *model(kiln_ctx *c, const kiln_value *v) { return get(c, v, "MODEL"); }
static const kiln_clip *clip(kiln_ctx *c, const kiln_value *v) { return get(c, v, "CLIP"); }
static const kiln_vae *vae(kiln_ctx *c, const kiln_value *v) { return get(c, v, "VAE"); }

const kiln_model_api model_api = {
    .size = sizeof(kiln_model_api), .register_family = family_register, .family_count = family_count, .family_at = family_at,
    .detect = family_detect, .model_new = model_new, .clip_new = clip_new, .vae_new = vae_new, .model = model, .clip = clip, .vae = vae,
};
