/* ability_model.c - "kiln.model/1": MODEL, CLIP and VAE values. Each is an object with a copy of the plugin's struct, a
 * reference to its weights, and one to the value it was made from.
 */
#include "base/hash.h"
#include "base/memory_alloc.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "tensor/value.h"
#include "weights/weights.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

kiln_status family_register(const kiln_model_family *f);
size_t family_count(uint32_t kind);
const kiln_model_family *family_at(uint32_t kind, size_t i);
const kiln_model_family *family_detect(uint32_t kind, const kiln_weights *set);

/* The object behind all three. */
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

/* A value of `type` over a copy of the struct `what` and of `extra`, whose weights and base get a reference each.
 * `fingerprint` NULL: the weights' identity. */
static kiln_value *object_new(kiln_ctx *c, const char *type, const void *what, size_t size, const char *fingerprint,
                              holder extra)
{
    assert(size <= sizeof extra.as);
    holder *h = mem_calloc(1, sizeof *h);
    if (!h) return error_set(ctx_error(c), KILN_ERR_NOMEM, "out of memory"), NULL;
    *h = extra;
    memcpy(&h->as, what, size);
    if (!fingerprint && extra.weights) fingerprint = weights_identity(extra.weights, NULL);
    kiln_value *v = value_object(type, h, holder_release, fingerprint);
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

/* Hashes everything in which MODELs over the same weights can differ: hooks, sampling, latent scaling, guidance. */
static void hash_model(hasher *h, const kiln_model *m, error *e)
{
    const kiln_model_sampling *s = &m->sampling;
    hash_text(h, weights_identity(m->weights, e));
    for (size_t i = 0; i < m->n_hook; i++) hash_text(h, m->hook[i]->identity);
    hash_u64(h, s->prediction);
    for (uint32_t i = 0; i < s->n_sigma; i++) hash_double(h, s->sigma[i]);
    hash_u64(h, s->time);
    hash_double(h, s->multiplier);
    hash_double(h, s->offset);
    hash_double(h, s->shift);
    hash_double(h, s->sigma_data);
    for (uint32_t i = 0; m->latent && i < m->latent->channels; i++) {
        hash_double(h, m->latent->scale[i]);
        hash_double(h, m->latent->shift[i]);
    }
    for (size_t i = 0; i < m->n_guidance; i++) {
        digest d = {0};
        hash_u64(h, m->guidance[i]->flags);
        hash_text(h, m->guidance[i]->identity);
        if (m->guidance[i]->conditioning && value_digest(m->guidance[i]->conditioning, &d, e) == KILN_OK)
            hash_digest(h, d);
    }
}

/* A plugin built with an older header has a shorter struct: the missing fields are zero. */
static kiln_value *model_new(kiln_ctx *c, const kiln_model *given)
{
    char text[40] = "model:";
    kiln_model m = {0};
    memcpy(&m, given, given->size < sizeof m ? given->size : sizeof m);
    m.size = sizeof m;
    if (!KILN_HAS(kiln_model, given, base) || !m.denoiser || !m.denoiser->record || !m.weights ||
        m.sampling.n_sigma < 2 || !m.sampling.sigma)
        return incomplete(c, "MODEL"), NULL;
    if (m.latent &&
        (!m.latent->scale || !m.latent->shift || m.latent->channels != (uint32_t)m.denoiser->latent.channels))
        return error_set(ctx_error(c), KILN_ERR_BUG, "a MODEL whose latent scaling is not of its denoiser's channels"),
               NULL;
    hasher *h = hasher_new();
    if (!h) return error_set(ctx_error(c), KILN_ERR_NOMEM, "out of memory"), NULL;
    hash_model(h, &m, ctx_error(c));
    digest_hex(hasher_digest(h), text + 6);
    hasher_free(h);
    return object_new(c, "MODEL", &m, sizeof m, text,
                      (holder){.weights = m.weights, .base = m.base, .owned = m.owned, .release = m.release});
}

static kiln_value *clip_new(kiln_ctx *c, const kiln_clip *m)
{
    if (m->size < sizeof *m || !m->encoder || !m->encoder->record || !m->encoder->tokenise || !m->weights)
        return incomplete(c, "CLIP"), NULL;
    return object_new(c, "CLIP", m, sizeof *m, NULL,
                      (holder){.weights = m->weights, .base = m->base, .owned = m->owned, .release = m->release});
}

static kiln_value *vae_new(kiln_ctx *c, const kiln_vae *m)
{
    if (m->size < sizeof *m || !m->autoencoder || !m->autoencoder->record_decode || !m->weights)
        return incomplete(c, "VAE"), NULL;
    return object_new(c, "VAE", m, sizeof *m, NULL,
                      (holder){.weights = m->weights, .base = m->base, .owned = m->owned, .release = m->release});
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
    .size = sizeof(kiln_model_api),
    .register_family = family_register,
    .family_count = family_count,
    .family_at = family_at,
    .detect = family_detect,
    .model_new = model_new,
    .clip_new = clip_new,
    .vae_new = vae_new,
    .model = model,
    .clip = clip,
    .vae = vae,
};
