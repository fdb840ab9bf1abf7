/* codec.c - values to bytes; see codec.h for the form. codec_decode.c reads them back.
 *
 * The structure is built in memory first, together with the list of tensors, whose bytes then go to the sink without a
 * copy. The depth of values is bounded, and with it the recursion.
 */
#include "cache/codec.h"

#include "base/array.h"
#include "base/checked.h"
#include "base/memory_alloc.h"
#include "cache/codec_form.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>

static int encodable(const kiln_value *v, const codec_types *types, unsigned depth)
{
    uint32_t kind = value_kind(v);
    if (!v || depth > CODEC_DEPTH_MAX) return 0;
    if (kind == KILN_V_OBJECT)
        return types && types->revision && types->revision(types->self, value_api.object_type(v)) != 0;
    if (kind != KILN_V_LIST && kind != KILN_V_MAP) return 1;
    for (size_t i = 0; i < value_api.count(v); i++)
        if (!encodable(kind == KILN_V_LIST ? value_api.list_at(v, i) : value_api.map_at(v, i, NULL), types, depth + 1))
            return 0;
    return 1;
}

int codec_can_encode(const kiln_value *v, const codec_types *types) { return encodable(v, types, 1); }

/* ---- the structure ---- */

typedef struct {
    unsigned char *bytes;
    size_t n, capacity;
} buffer;

typedef struct {
    const codec_types *types;
    buffer structure;
    const kiln_value **tensor; /* in order */
    size_t n_tensor, tensor_capacity;
    kiln_value **plain; /* made here from objects, let go at the end */
    size_t n_plain, plain_capacity;
    uint64_t tensor_bytes; /* each rounded up to CODEC_ALIGN */
    int inside_object;
} encoder;

static kiln_status put(encoder *c, const void *bytes, size_t n, error *e)
{
    buffer *b = &c->structure;
    if (!array_reserve(&b->bytes, &b->capacity, b->n + n, 1))
        return error_set(e, KILN_ERR_NOMEM, "out of memory while a value is encoded");
    if (n) memcpy(b->bytes + b->n, bytes, n);
    b->n += n;
    return KILN_OK;
}

static kiln_status put_u64(encoder *c, uint64_t v, error *e)
{
    unsigned char bytes[8];
    codec_store_u64(bytes, v);
    return put(c, bytes, 8, e);
}

static kiln_status put_tag(encoder *c, unsigned char tag, error *e) { return put(c, &tag, 1, e); }

static kiln_status put_text(encoder *c, const char *text, size_t n, error *e)
{
    TRY(put_u64(c, n, e));
    return put(c, text, n, e);
}

static kiln_status put_value(encoder *c, const kiln_value *v, unsigned depth, error *e);

static kiln_status put_tensor(encoder *c, const kiln_value *v, error *e)
{
    kiln_tensor t = {.size = sizeof t};
    size_t bytes;
    TRY(value_view(v, &t, e));
    if (!checked_bytes(t.rank, t.dim, dtype_size(t.dtype), &bytes) ||
        bytes > UINT64_MAX - c->tensor_bytes - CODEC_ALIGN)
        return error_set(e, KILN_ERR_INVALID, "a tensor is too large to be encoded");
    if (!array_reserve(&c->tensor, &c->tensor_capacity, c->n_tensor + 1, sizeof *c->tensor))
        return error_set(e, KILN_ERR_NOMEM, "out of memory while a value is encoded");
    c->tensor[c->n_tensor++] = v;
    c->tensor_bytes += codec_align(bytes);
    unsigned char head[2] = {(unsigned char)t.dtype, (unsigned char)t.rank};
    TRY(put(c, head, 2, e));
    for (uint32_t i = 0; i < t.rank; i++) TRY(put_u64(c, (uint64_t)t.dim[i], e));
    return KILN_OK;
}

static kiln_status put_object(encoder *c, const kiln_value *v, unsigned depth, error *e)
{
    const char *type = value_api.object_type(v);
    uint32_t revision = c->types && c->types->revision ? c->types->revision(c->types->self, type) : 0;
    if (!revision || c->inside_object)
        return error_set(e, KILN_ERR_UNSUPPORTED, "a %s is a handle and no plain data: it is not stored", type);
    kiln_value *plain = c->types->to_plain(c->types->self, v, e);
    if (!plain) return e && e->status != KILN_OK ? e->status : KILN_ERR_UNSUPPORTED;
    if (!array_reserve(&c->plain, &c->plain_capacity, c->n_plain + 1, sizeof *c->plain)) {
        value_unref(plain);
        return error_set(e, KILN_ERR_NOMEM, "out of memory while a value is encoded");
    }
    c->plain[c->n_plain++] = plain;
    TRY(put_text(c, type, strlen(type), e));
    TRY(put_u64(c, revision, e));
    c->inside_object = 1;
    kiln_status status = put_value(c, plain, depth + 1, e);
    c->inside_object = 0;
    return status;
}

static kiln_status put_container(encoder *c, const kiln_value *v, unsigned depth, error *e)
{
    int map = value_kind(v) == KILN_V_MAP;
    size_t n = value_api.count(v);
    TRY(put_u64(c, n, e));
    for (size_t i = 0; i < n; i++) {
        const char *key = NULL;
        const kiln_value *item = map ? value_api.map_at(v, i, &key) : value_api.list_at(v, i);
        if (map) TRY(put_text(c, key, strlen(key), e));
        TRY(put_value(c, item, depth + 1, e));
    }
    return KILN_OK;
}

static kiln_status put_value(encoder *c, const kiln_value *v, unsigned depth, error *e)
{
    int64_t whole = 0;
    double number = 0;
    uint64_t bits;
    int flag = 0;
    size_t n = 0;
    uint32_t kind = value_kind(v);
    if (!v || depth > CODEC_DEPTH_MAX)
        return error_set(e, KILN_ERR_UNSUPPORTED, "values nested deeper than %d are not stored", CODEC_DEPTH_MAX);
    TRY(put_tag(c, (unsigned char)kind, e));
    switch (kind) {
    case KILN_V_TENSOR: return put_tensor(c, v, e);
    case KILN_V_INT: return value_api.get_int(v, &whole), put_u64(c, (uint64_t)whole, e);
    case KILN_V_FLOAT: value_api.get_float(v, &number), memcpy(&bits, &number, sizeof bits); return put_u64(c, bits, e);
    case KILN_V_BOOL: return value_api.get_bool(v, &flag), put_tag(c, (unsigned char)(flag != 0), e);
    case KILN_V_STRING: {
        const char *text = value_api.get_string(v, &n);
        return put_text(c, text, n, e);
    }
    case KILN_V_OBJECT: return put_object(c, v, depth, e);
    default: return put_container(c, v, depth, e);
    }
}

/* ---- the whole ---- */

static void encoder_free(encoder *c)
{
    for (size_t i = 0; i < c->n_plain; i++) value_unref(c->plain[i]);
    mem_free(c->plain);
    mem_free(c->tensor);
    mem_free(c->structure.bytes);
}

static kiln_status write_tensor(const kiln_value *v, const codec_sink *sink, error *e)
{
    static const unsigned char zeros[CODEC_ALIGN];
    kiln_tensor t = {.size = sizeof t};
    size_t bytes;
    TRY(value_view(v, &t, e));
    if (!checked_bytes(t.rank, t.dim, dtype_size(t.dtype), &bytes)) return KILN_ERR_BUG;
    if (bytes) TRY(sink->write(sink->self, t.data, bytes, e));
    size_t pad = (size_t)(codec_align(bytes) - bytes);
    return pad ? sink->write(sink->self, zeros, pad, e) : KILN_OK;
}

static kiln_status write_all(const encoder *c, uint64_t total, const codec_sink *sink, error *e)
{
    static const unsigned char zeros[CODEC_ALIGN];
    unsigned char head[CODEC_HEAD];
    memcpy(head, CODEC_MAGIC, 4);
    codec_store_u32(head + 4, CODEC_VERSION);
    codec_store_u64(head + 8, c->structure.n);
    codec_store_u64(head + 16, total);
    TRY(sink->write(sink->self, head, sizeof head, e));
    TRY(sink->write(sink->self, c->structure.bytes, c->structure.n, e));
    size_t pad = (size_t)(codec_align(CODEC_HEAD + c->structure.n) - (CODEC_HEAD + c->structure.n));
    if (pad) TRY(sink->write(sink->self, zeros, pad, e));
    for (size_t i = 0; i < c->n_tensor; i++) TRY(write_tensor(c->tensor[i], sink, e));
    return KILN_OK;
}

kiln_status codec_encode(const kiln_value *v, const codec_types *types, const codec_sink *sink, uint64_t *size,
                         error *e)
{
    encoder c = {.types = types};
    kiln_status status = put_value(&c, v, 1, e);
    uint64_t total = codec_align(CODEC_HEAD + c.structure.n) + c.tensor_bytes;
    if (status == KILN_OK && size) *size = total;
    if (status == KILN_OK && sink) status = write_all(&c, total, sink, e);
    encoder_free(&c);
    return status;
}

/* ---- for people ---- */

typedef struct {
    char *text;
    size_t n, capacity;
} line;

__attribute__((format(printf, 2, 3))) static void add(line *l, const char *fmt, ...)
{
    va_list args;
    if (l->n + 1 >= l->capacity) return;
    va_start(args, fmt);
    int n = vsnprintf(l->text + l->n, l->capacity - l->n, fmt, args);
    va_end(args);
    if (n > 0) l->n = (size_t)n < l->capacity - l->n ? l->n + (size_t)n : l->capacity - 1;
}

static void describe(line *l, const kiln_value *v, unsigned depth)
{
    kiln_tensor t = {.size = sizeof t};
    int64_t whole = 0;
    double number = 0;
    int flag = 0;
    size_t n = 0;
    switch (value_kind(v)) {
    case KILN_V_TENSOR:
        if (value_view(v, &t, NULL) != KILN_OK) break;
        add(l, "%s ", dtype_name(t.dtype));
        for (uint32_t i = 0; i < t.rank; i++) add(l, "%s%lld", i ? "x" : "", (long long)t.dim[i]);
        break;
    case KILN_V_INT: value_api.get_int(v, &whole), add(l, "%lld", (long long)whole); break;
    case KILN_V_FLOAT: value_api.get_float(v, &number), add(l, "%g", number); break;
    case KILN_V_BOOL: value_api.get_bool(v, &flag), add(l, "%s", flag ? "true" : "false"); break;
    case KILN_V_STRING: value_api.get_string(v, &n), add(l, "text of %zu bytes", n); break;
    case KILN_V_OBJECT: add(l, "%s", value_api.object_type(v)); break;
    case KILN_V_LIST:
        add(l, "%zu of [", value_api.count(v));
        if (value_api.count(v) && depth < 4) describe(l, value_api.list_at(v, 0), depth + 1);
        add(l, "]");
        break;
    case KILN_V_MAP:
        for (size_t i = 0; i < value_api.count(v) && depth < 4; i++) {
            const char *key = NULL;
            const kiln_value *item = value_api.map_at(v, i, &key);
            add(l, "%s%s ", i ? ", " : "{", key);
            describe(l, item, depth + 1);
        }
        add(l, value_api.count(v) ? "}" : "{}");
        break;
    default: add(l, "nothing");
    }
}

const char *codec_describe(const kiln_value *v, char *text, size_t capacity)
{
    line l = {.text = text, .capacity = capacity};
    if (capacity) text[0] = '\0';
    describe(&l, v, 1);
    return text;
}
