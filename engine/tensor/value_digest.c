/* value_digest.c - what a value's content hashes to, and whether a number in it is not finite. */
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
        if (t->data) hash_bytes(h, t->data, v->as.tensor.bytes); /* in an estimate a tensor is its shape alone */
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
