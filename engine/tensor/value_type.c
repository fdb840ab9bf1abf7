/* value_type.c - does a value have the structure its port's type name promises? And its digest. */
#include "base/str.h"
#include "tensor/dtype.h"
#include "tensor/value.h"
#include "tensor/value_struct.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 32 };

static kiln_status tensor_like(const kiln_value *v, const char *what, uint32_t rank, error *e)
{
    if (value_kind(v) != KILN_V_TENSOR)
        return error_set(e, KILN_ERR_INVALID, "%s must be a tensor, not %s", what, value_kind_name(value_kind(v)));
    const kiln_tensor *t = &v->as.tensor.window;
    if (t->dtype != KILN_F32 || t->rank != rank)
        return error_set(e, KILN_ERR_INVALID, "%s must be f32 with %u dimensions, not %s with %u", what, rank,
                         dtype_name(t->dtype), t->rank);
    return KILN_OK;
}

static kiln_status check_image(const kiln_value *v, error *e)
{
    TRY(tensor_like(v, "an IMAGE", 4, e));
    int64_t c = v->as.tensor.window.dim[3];
    return c == 3 || c == 4
               ? KILN_OK
               : error_set(e, KILN_ERR_INVALID, "an IMAGE must have 3 or 4 channels, not %lld", (long long)c);
}
static kiln_status check_mask(const kiln_value *v, error *e) { return tensor_like(v, "a MASK", 3, e); }
static kiln_status check_sigmas(const kiln_value *v, error *e) { return tensor_like(v, "SIGMAS", 1, e); }

static kiln_status check_latent(const kiln_value *v, error *e)
{
    if (value_kind(v) != KILN_V_MAP)
        return error_set(e, KILN_ERR_INVALID, "a LATENT must be a map, not %s", value_kind_name(value_kind(v)));
    TRY(tensor_like(value_api.map_get(v, "samples"), "a LATENT's samples", 4, e));
    const kiln_value *mask = value_api.map_get(v, "noise_mask");
    return mask ? tensor_like(mask, "a LATENT's noise_mask", 3, e) : KILN_OK;
}

static kiln_status check_conditioning(const kiln_value *v, error *e)
{
    if (value_kind(v) != KILN_V_LIST)
        return error_set(e, KILN_ERR_INVALID, "a CONDITIONING must be a list, not %s", value_kind_name(value_kind(v)));
    for (size_t i = 0; i < v->as.many.n; i++) {
        if (value_kind(v->as.many.item[i]) != KILN_V_MAP)
            return error_set(e, KILN_ERR_INVALID, "a CONDITIONING's entries must be maps");
        const kiln_value *tokens = value_api.map_get(v->as.many.item[i], "tokens"); /* not every model wants a text */
        if (tokens) TRY(tensor_like(tokens, "a CONDITIONING's tokens", 3, e));
    }
    return KILN_OK;
}

static kiln_status check_kind(const kiln_value *v, uint32_t kind, const char *name, error *e)
{
    if (value_kind(v) == kind) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID, "%s must be %s, not %s", name, value_kind_name(kind),
                     value_kind_name(value_kind(v)));
}

static const struct {
    const char *type;
    kiln_status (*check)(const kiln_value *, error *);
    uint32_t kind;
} standard[] = {
    {"IMAGE", check_image, 0},      {"MASK", check_mask, 0},
    {"LATENT", check_latent, 0},    {"CONDITIONING", check_conditioning, 0},
    {"SIGMAS", check_sigmas, 0},    {"INT", NULL, KILN_V_INT},
    {"FLOAT", NULL, KILN_V_FLOAT},  {"STRING", NULL, KILN_V_STRING},
    {"BOOLEAN", NULL, KILN_V_BOOL}, {"MODEL", NULL, KILN_V_OBJECT},
    {"CLIP", NULL, KILN_V_OBJECT},  {"VAE", NULL, KILN_V_OBJECT},
};

static kiln_status check_declared(const kiln_value *v, const kiln_port *port, error *e)
{
    if (value_kind(v) != KILN_V_TENSOR) return KILN_OK;
    const kiln_tensor *t = &v->as.tensor.window;
    if (port->dtypes && !(port->dtypes & (1u << t->dtype)))
        return error_set(e, KILN_ERR_INVALID, "tensor type %s is not among those the port declares",
                         dtype_name(t->dtype));
    if (port->rank_max && (t->rank < port->rank_min || t->rank > port->rank_max))
        return error_set(e, KILN_ERR_INVALID, "a tensor of %u dimensions where the port declares %u to %u", t->rank,
                         port->rank_min, port->rank_max);
    return KILN_OK;
}

/* A list port: every item has the port's type. */
static kiln_status check_each(const kiln_value *v, const kiln_port *port, error *e)
{
    kiln_port one = *port;
    one.flags &= ~(uint32_t)KILN_PORT_LIST;
    TRY(check_kind(v, KILN_V_LIST, "what a list port is given", e));
    for (size_t i = 0; i < v->as.many.n; i++) TRY(value_check_type(v->as.many.item[i], &one, e));
    return KILN_OK;
}

kiln_status value_check_type(const kiln_value *v, const kiln_port *port, error *e)
{
    if (port->flags & KILN_PORT_LIST) return check_each(v, port, e);
    for (size_t i = 0; i < sizeof standard / sizeof standard[0]; i++) {
        if (strcmp(standard[i].type, port->type) != 0) continue;
        TRY(standard[i].check ? standard[i].check(v, e) : check_kind(v, standard[i].kind, standard[i].type, e));
        if (standard[i].kind == KILN_V_OBJECT && strcmp(v->as.object.type, port->type) != 0)
            return error_set(e, KILN_ERR_INVALID, "expected an object of type %s, got %s", port->type,
                             v->as.object.type);
    }
    return check_declared(v, port, e);
}

/* ---- digest ---- */

static kiln_status feed(hasher *h, const kiln_value *v, int depth, error *e)
{
    if (depth > DEPTH_MAX) return error_set(e, KILN_ERR_INVALID, "a value nested deeper than %d levels", DEPTH_MAX);
    hash_u64(h, v->kind);
    switch (v->kind) {
    case KILN_V_TENSOR: {
        const kiln_tensor *t = &v->as.tensor.window;
        hash_u64(h, t->dtype);
        hash_u64(h, t->rank);
        for (uint32_t i = 0; i < t->rank; i++) hash_u64(h, (uint64_t)t->dim[i]);
        assert(t->data); /* an estimate's shape has no digest */
        hash_bytes(h, t->data, v->as.tensor.bytes);
        break;
    }
    case KILN_V_FLOAT: hash_double(h, v->as.number); break;
    case KILN_V_STRING: hash_u64(h, v->as.string.n), hash_bytes(h, v->as.string.text, v->as.string.n); break;
    case KILN_V_OBJECT: hash_text(h, v->as.object.type), hash_text(h, v->as.object.fingerprint); break;
    case KILN_V_LIST:
    case KILN_V_MAP:
        hash_u64(h, v->as.many.n);
        for (size_t i = 0; i < v->as.many.n; i++) {
            if (v->kind == KILN_V_MAP) hash_text(h, v->as.many.key[i]);
            TRY(feed(h, v->as.many.item[i], depth + 1, e));
        }
        break;
    default: hash_u64(h, (uint64_t)v->as.whole); break;
    }
    return KILN_OK;
}

kiln_status value_digest(const kiln_value *v, digest *out, error *e)
{
    if (!v) return error_set(e, KILN_ERR_INVALID, "there is no value to digest");
    hasher *h = hasher_new();
    if (!h) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    kiln_status status = feed(h, v, 0, e);
    *out = hasher_digest(h);
    hasher_free(h);
    return status;
}

/* ---- identity ---- */

static pthread_mutex_t identity_lock = PTHREAD_MUTEX_INITIALIZER;

/* 1: data all the way down, and it is there. */
static int is_plain(const kiln_value *v, int depth)
{
    if (v->kind == KILN_V_TENSOR) return v->as.tensor.window.data != NULL;
    if (v->kind == KILN_V_OBJECT || depth > DEPTH_MAX) return 0;
    if (v->kind != KILN_V_LIST && v->kind != KILN_V_MAP) return 1;
    for (size_t i = 0; i < v->as.many.n; i++)
        if (!is_plain(v->as.many.item[i], depth + 1)) return 0;
    return 1;
}

static void set_identity(kiln_value *v, digest d)
{
    pthread_mutex_lock(&identity_lock);
    if (!v->has_identity) v->identity = d, v->has_identity = 1;
    pthread_mutex_unlock(&identity_lock);
}

void value_set_origin(kiln_value *v, digest origin)
{
    if (v && !is_plain(v, 0)) set_identity(v, origin);
}

kiln_status value_identity(kiln_value *v, digest *out, error *e)
{
    digest content;
    pthread_mutex_lock(&identity_lock);
    int known = v->has_identity;
    *out = v->identity;
    pthread_mutex_unlock(&identity_lock);
    if (known) return KILN_OK;
    assert(value_published(v)); /* its content is final */
    if (!is_plain(v, 0)) return error_set(e, KILN_ERR_INVALID, "nothing says which value this is");
    TRY(value_digest(v, &content, e));
    set_identity(v, content);
    *out = content;
    return KILN_OK;
}

/* ---- NaN and infinity ---- */

static int tensor_nonfinite(const kiln_value *v)
{
    const kiln_tensor *t = &v->as.tensor.window;
    assert(t->data);
    size_t size = dtype_size(t->dtype), n = size ? v->as.tensor.bytes / size : 0;
    uint32_t bits;
    for (size_t i = 0; i < n; i++) {
        if (t->dtype == KILN_F32) {
            memcpy(&bits, (const char *)t->data + i * 4, 4);
            if ((bits & 0x7f800000u) == 0x7f800000u) return 1;
        } else if (t->dtype == KILN_F16 || t->dtype == KILN_BF16) {
            uint16_t half, all = t->dtype == KILN_F16 ? 0x7c00u : 0x7f80u;
            memcpy(&half, (const char *)t->data + i * 2, 2);
            if ((half & all) == all) return 1;
        } else {
            return 0;
        }
    }
    return 0;
}

static int nonfinite(const kiln_value *v, int depth)
{
    if (v->kind == KILN_V_TENSOR) return tensor_nonfinite(v);
    if (v->kind == KILN_V_FLOAT) return !isfinite(v->as.number);
    if ((v->kind == KILN_V_LIST || v->kind == KILN_V_MAP) && depth < DEPTH_MAX)
        for (size_t i = 0; i < v->as.many.n; i++)
            if (nonfinite(v->as.many.item[i], depth + 1)) return 1;
    return 0;
}

int value_has_nonfinite(const kiln_value *v) { return v ? nonfinite(v, 0) : 0; }
