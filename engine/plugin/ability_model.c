/* ability_model.c - "kiln.model/2": MODEL, CLIP, VAE and networks of other kinds as values. Each is an object with a
 * copy of the plugin's struct, references to its weights, and one to the value it was made from.
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
size_t family_count(const char *kind);
const kiln_model_family *family_at(const char *kind, size_t i);
const kiln_model_family *family_detect(const char *kind, const kiln_weights *set);

/* The object behind all kinds. */
typedef struct {
    union {
        kiln_model model;
        kiln_clip clip;
        kiln_vae vae;
        kiln_net net;
    } as;
    kiln_weights **weights; /* [n_weights] references of the value's own */
    size_t n_weights;
    kiln_value *base;
    void *owned;
    void (*release)(void *);
} holder;

static void holder_free(holder *h)
{
    mem_free(h->weights);
    mem_free(h);
}

static void holder_release(void *ptr)
{
    holder *h = ptr;
    if (h->release) h->release(h->owned);
    for (size_t i = 0; i < h->n_weights; i++) weights_unref(h->weights[i]);
    value_unref(h->base);
    holder_free(h);
}

static void *no_memory(kiln_ctx *c) { return error_set(ctx_error(c), KILN_ERR_NOMEM, "out of memory"), NULL; }

/* A holder over a copy of the struct `what`. A plugin built with an older header has a shorter one: the missing fields
 * are zero. */
static holder *holder_new(kiln_ctx *c, const void *what, uint32_t given, size_t size, size_t n_weights)
{
    holder *h = mem_calloc(1, sizeof *h);
    assert(size <= sizeof h->as);
    if (h && n_weights && !(h->weights = mem_calloc(n_weights, sizeof *h->weights))) mem_free(h), h = NULL;
    if (!h) return no_memory(c);
    memcpy(&h->as, what, given < size ? given : size);
    *(uint32_t *)(void *)&h->as = (uint32_t)size;
    h->n_weights = n_weights;
    return h;
}

/* The value of `type` over h, which it takes; weights and base get a reference each. */
static kiln_value *object_of(kiln_ctx *c, const char *type, holder *h, hasher *of)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%.20s:", type);
    digest_hex(hasher_digest(of), text + n);
    kiln_value *v = value_object(type, h, holder_release, text);
    if (!v) return holder_free(h), no_memory(c);
    for (size_t i = 0; i < h->n_weights; i++) weights_ref(h->weights[i]);
    value_ref(h->base);
    if (h->base) value_publish(h->base);
    return v;
}

static void *incomplete(kiln_ctx *c, const char *what, const char *lacks)
{
    return error_set(ctx_error(c), KILN_ERR_BUG, "a %s without its %s", what, lacks), NULL;
}

/* ---- what values of a kind can differ in ---- */

static const char *identity_of(kiln_ctx *c, const kiln_weights *w)
{
    return ctx_headers(c) ? "headers" : weights_identity(w, ctx_error(c));
}

static void hash_inputs(hasher *h, const kiln_value *values, error *e)
{
    digest d = {0};
    if (values && value_digest(values, &d, e) == KILN_OK) hash_digest(h, d);
}

static void hash_hook(hasher *h, const kiln_hook *hook, error *e)
{
    hash_text(h, hook->identity);
    hash_double(h, hook->start);
    hash_double(h, hook->end);
    for (size_t i = 0; hook->place && hook->place[i]; i++) hash_text(h, hook->place[i]);
    hash_inputs(h, hook->values, e);
}

static void hash_sampling(hasher *h, const kiln_model_sampling *s)
{
    hash_text(h, s->identity);
    hash_double(h, s->sigma_min);
    hash_double(h, s->sigma_max);
    hash_u64(h, s->n_sigma);
    for (uint32_t i = 0; s->sigma && i < s->n_sigma; i++) hash_double(h, s->sigma[i]);
}

static void hash_scaling(hasher *h, const kiln_latent_scaling *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        hash_double(h, s->scale[i]);
        hash_double(h, s->shift ? s->shift[i] : 0);
    }
}

static void hash_guidance(hasher *h, const kiln_guidance *g, error *e)
{
    hash_u64(h, g->flags);
    hash_text(h, g->identity);
    hash_inputs(h, g->conditioning, e);
}

static const kiln_model_range *range_at(const kiln_model *m, size_t i)
{
    return (const kiln_model_range *)(const void *)((const char *)m->range + i * m->range->size);
}

/* Everything in which MODELs over the same weights can differ. */
static void hash_model(hasher *h, const kiln_model *m, kiln_ctx *c)
{
    error *e = ctx_error(c);
    hash_text(h, m->denoiser->family);
    hash_text(h, identity_of(c, m->weights));
    for (size_t i = 0; i < m->n_hook; i++) hash_hook(h, m->hook[i], e);
    hash_sampling(h, m->sampling ? m->sampling : m->denoiser->sampling);
    if (m->latent) hash_scaling(h, m->latent);
    for (size_t i = 0; i < m->n_guidance; i++) hash_guidance(h, m->guidance[i], e);
    if (m->name) hash_text(h, m->name);
    for (size_t i = 0; i < m->n_range; i++) {
        hash_text(h, range_at(m, i)->name);
        hash_double(h, range_at(m, i)->below);
        hash_text(h, value_api.object_fingerprint(range_at(m, i)->model));
    }
    if (m->mask_rule) hash_text(h, "mask rule"), hash_text(h, m->mask_rule->identity);
    if (m->windows) hash_text(h, "windows"), hash_text(h, m->windows->identity);
}

/* ---- MODEL ---- */

static const char *sampling_lacks(const kiln_model_sampling *s)
{
    if (!s) return "sampling";
    if (!s->level || !s->timestep || !s->sigma_at || !s->percent_to_sigma || !s->identity)
        return "sampling's functions or identity";
    return s->n_sigma < 2 ? "sampling's levels (n_sigma is below 2)" : NULL;
}

static int scaling_fits(const kiln_latent_scaling *s, int32_t channels)
{
    return s && s->scale && (s->n == 1 || s->n == (uint32_t)channels);
}

static const char *model_lacks(const kiln_model *m)
{
    if (!m->denoiser || !m->denoiser->record || !m->denoiser->family) return "denoiser, its record function or family";
    if (!m->weights) return "weights";
    if (!m->denoiser->latent) return "denoiser's latent format";
    if (m->denoiser->n_input && !m->denoiser->input_stride) return "denoiser's input_stride (KILN_ARRAY sets it)";
    return sampling_lacks(m->sampling ? m->sampling : m->denoiser->sampling);
}

static kiln_status check_model(kiln_ctx *c, const kiln_model *m)
{
    const char *lacks = model_lacks(m);
    const kiln_latent_format *f = lacks ? NULL : m->denoiser->latent;
    if (lacks) return incomplete(c, "MODEL", lacks), KILN_ERR_BUG;
    if (!scaling_fits(f->scaling, f->channels) || (m->latent && !scaling_fits(m->latent, f->channels)))
        return error_set(ctx_error(c), KILN_ERR_BUG,
                         "a MODEL whose latent scaling is neither one number nor one for each of its %d channels",
                         f->channels);
    if (m->mask_rule && (!KILN_HAS(kiln_mask_rule, m->mask_rule, at) || !m->mask_rule->identity || !m->mask_rule->at))
        return incomplete(c, "mask rule of a MODEL", "size, identity or at()"), KILN_ERR_BUG;
    if (m->windows && (!KILN_HAS(kiln_windows, m->windows, noise) || !m->windows->identity || !m->windows->at))
        return incomplete(c, "windows of a MODEL", "size, identity or at()"), KILN_ERR_BUG;
    if (m->n_range && !KILN_HAS(kiln_model_range, m->range, model))
        return incomplete(c, "range of a MODEL", "size (.size = sizeof)"), KILN_ERR_BUG;
    for (size_t i = 0; i < m->n_range; i++)
        if (!range_at(m, i)->name || !value_api.object(range_at(m, i)->model, "MODEL"))
            return incomplete(c, "range of a MODEL", "name or MODEL"), KILN_ERR_BUG;
    for (size_t i = 1; i < m->n_range; i++)
        if (!(range_at(m, i)->below < range_at(m, i - 1)->below))
            return error_set(ctx_error(c), KILN_ERR_BUG,
                             "a MODEL whose ranges do not fall: '%s' begins below %g, '%s' after it below %g",
                             range_at(m, i - 1)->name, range_at(m, i - 1)->below, range_at(m, i)->name,
                             range_at(m, i)->below);
    return KILN_OK;
}

static kiln_value *model_new(kiln_ctx *c, const kiln_model *given)
{
    if (!KILN_HAS(kiln_model, given, base)) return incomplete(c, "MODEL", "fields up to base");
    holder *h = holder_new(c, given, given->size, sizeof h->as.model, 1);
    if (!h) return NULL;
    const kiln_model *m = &h->as.model;
    if (check_model(c, m) != KILN_OK) return holder_free(h), NULL;
    hasher *of = hasher_new();
    if (!of) return holder_free(h), no_memory(c);
    hash_model(of, m, c);
    h->weights[0] = m->weights, h->base = m->base, h->owned = m->owned, h->release = m->release;
    kiln_value *v = object_of(c, "MODEL", h, of);
    hasher_free(of);
    return v;
}

/* ---- CLIP ---- */

static const char *clip_lacks(const kiln_clip *m)
{
    if (!m->n_encoder || !m->encoder || !KILN_HAS(kiln_clip_encoder, m->encoder, tokenizer)) return "encoders";
    if (m->n_encoder > 1 && !m->combine) return "combine(), which more than one encoder needs";
    if (m->combine && !m->identity) return "identity, which combine() needs";
    for (size_t i = 0; i < m->n_encoder; i++) {
        const kiln_clip_encoder *e = kiln_clip_encoder_at(m, i);
        if (!e->name || !e->encoder || !e->weights) return "encoder's name, table or weights";
        if (!e->encoder->record || !e->encoder->tokenise || !e->encoder->family)
            return "encoder's record or tokenise function, or its family";
    }
    return NULL;
}

static void hash_clip(hasher *h, const kiln_clip *m, kiln_ctx *c)
{
    for (size_t i = 0; i < m->n_encoder; i++) {
        const kiln_clip_encoder *one = kiln_clip_encoder_at(m, i);
        hash_text(h, one->name);
        hash_text(h, one->encoder->family);
        hash_text(h, identity_of(c, one->weights));
        hash_u64(h, (uint64_t)(int64_t)(one->layer ? one->layer : one->encoder->default_layer));
    }
    hash_text(h, m->identity ? m->identity : "");
    if (!m->hooks) return;
    hash_u64(h, m->hook_flags);
    hash_inputs(h, m->hooks, ctx_error(c));
}

static kiln_value *clip_new(kiln_ctx *c, const kiln_clip *given)
{
    if (!KILN_HAS(kiln_clip, given, base)) return incomplete(c, "CLIP", "fields up to base");
    const char *lacks = clip_lacks(given);
    if (lacks) return incomplete(c, "CLIP", lacks);
    holder *h = holder_new(c, given, given->size, sizeof h->as.clip, given->n_encoder);
    hasher *of = h ? hasher_new() : NULL;
    if (!of) return h ? (holder_free(h), no_memory(c)) : NULL;
    const kiln_clip *m = &h->as.clip;
    for (size_t i = 0; i < m->n_encoder; i++) h->weights[i] = kiln_clip_encoder_at(m, i)->weights;
    h->base = m->base, h->owned = m->owned, h->release = m->release;
    hash_clip(of, m, c);
    kiln_value *v = object_of(c, "CLIP", h, of);
    hasher_free(of);
    return v;
}

/* ---- VAE and networks of other kinds ---- */

/* What both have: a family's name and one set of weights. `m` points to the struct in h. */
static kiln_value *simple_object(kiln_ctx *c, const char *type, holder *h, const char *family, kiln_weights *weights)
{
    hasher *of = hasher_new();
    if (!of) return holder_free(h), no_memory(c);
    hash_text(of, family);
    hash_text(of, identity_of(c, weights));
    h->weights[0] = weights;
    kiln_value *v = object_of(c, type, h, of);
    hasher_free(of);
    return v;
}

static kiln_value *vae_new(kiln_ctx *c, const kiln_vae *given)
{
    const kiln_autoencoder *a = KILN_HAS(kiln_vae, given, base) ? given->autoencoder : NULL;
    if (!a || !a->family || (!a->record_decode && !a->record_encode) || !given->weights)
        return incomplete(c, "VAE", "table, family, record functions or weights");
    if (!a->latent || !scaling_fits(a->latent->scaling, a->latent->channels))
        return incomplete(c, "VAE", "latent scaling: one number, or one a channel");
    holder *h = holder_new(c, given, given->size, sizeof h->as.vae, 1);
    if (!h) return NULL;
    h->base = given->base, h->owned = given->owned, h->release = given->release;
    return simple_object(c, "VAE", h, a->family, given->weights);
}

static const char *const own_types[] = {"MODEL", "CLIP", "VAE"};

static kiln_value *net_new(kiln_ctx *c, const char *type, const kiln_net *given)
{
    const kiln_network *n = KILN_HAS(kiln_net, given, base) ? given->network : NULL;
    for (size_t i = 0; type && i < sizeof own_types / sizeof own_types[0]; i++)
        if (strcmp(type, own_types[i]) == 0) return incomplete(c, type, "own function: net_new() makes other types");
    if (!type || !type[0] || !n || !n->record || !n->family || !given->weights || (n->n_input && !n->input_stride))
        return incomplete(c, type && type[0] ? type : "network", "type, table, record function, family or weights");
    holder *h = holder_new(c, given, given->size, sizeof h->as.net, 1);
    if (!h) return NULL;
    h->base = given->base, h->owned = given->owned, h->release = given->release;
    return simple_object(c, type, h, n->family, given->weights);
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
static const kiln_net *net(kiln_ctx *c, const kiln_value *v, const char *type) { return get(c, v, type); }

const kiln_model_api model_api = {
    .size = sizeof(kiln_model_api),
    .register_family = family_register,
    .family_count = family_count,
    .family_at = family_at,
    .detect = family_detect,
    .model_new = model_new,
    .clip_new = clip_new,
    .vae_new = vae_new,
    .net_new = net_new,
    .model = model,
    .clip = clip,
    .vae = vae,
    .net = net,
};
