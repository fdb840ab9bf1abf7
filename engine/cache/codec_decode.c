/* codec_decode.c - bytes to values; see codec.h. Nothing in the bytes is believed before it is checked.
 *
 * The structure is walked twice: first to make the tensors (so that their bytes can be read straight into them), then,
 * with all data in place, to build the value from the leaves up, so that an object's plain form is complete when it is
 * asked for.
 */
#include "cache/codec.h"

#include "base/array.h"
#include "base/checked.h"
#include "base/memory_alloc.h"
#include "cache/codec_form.h"
#include "tensor/dtype.h"

#include <string.h>

typedef struct {
    const codec_types *types;
    const unsigned char *at, *end;
    kiln_value **tensor;
    size_t n_tensor, capacity, next; /* next: the one the second walk comes to */
    uint64_t bytes_left;             /* of tensors' bytes in the source         */
    int building;                    /* the second walk                         */
    error *e;
} decoder;

static kiln_status broken(decoder *d, const char *what)
{
    return error_set(d->e, KILN_ERR_INVALID, "an encoded value is damaged: %s", what);
}

static kiln_status take(decoder *d, size_t n, const unsigned char **out)
{
    if ((size_t)(d->end - d->at) < n) return broken(d, "it ends early");
    *out = d->at;
    d->at += n;
    return KILN_OK;
}

static kiln_status take_u64(decoder *d, uint64_t *out)
{
    const unsigned char *p = NULL;
    TRY(take(d, 8, &p));
    *out = codec_load_u64(p);
    return KILN_OK;
}

static kiln_status take_text(decoder *d, const char **text, size_t *n)
{
    const unsigned char *p = NULL;
    uint64_t length;
    TRY(take_u64(d, &length));
    if (length > (uint64_t)(d->end - d->at)) return broken(d, "a text ends after the end");
    TRY(take(d, (size_t)length, &p));
    *text = (const char *)p;
    *n = (size_t)length;
    return KILN_OK;
}

static kiln_status made(decoder *d, kiln_value *v, kiln_value **out)
{
    *out = v;
    return v ? KILN_OK : error_set(d->e, KILN_ERR_NOMEM, "out of memory while a value is decoded");
}

static kiln_status walk(decoder *d, unsigned depth, int in_object, kiln_value **out);

/* ---- tensors ---- */

static kiln_status new_tensor(decoder *d, uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    size_t bytes;
    if (!dtype_size(dtype)) return broken(d, "a tensor of no known type");
    if (!checked_bytes(rank, dim, dtype_size(dtype), &bytes) || codec_align(bytes) > d->bytes_left)
        return broken(d, "a tensor is larger than the whole");
    if (!array_reserve(&d->tensor, &d->capacity, d->n_tensor + 1, sizeof *d->tensor))
        return error_set(d->e, KILN_ERR_NOMEM, "out of memory while a value is decoded");
    kiln_value *v = value_tensor_new(dtype, KILN_CPU, rank, dim, d->e);
    if (!v) return d->e && d->e->status != KILN_OK ? d->e->status : KILN_ERR_NOMEM;
    d->tensor[d->n_tensor++] = v;
    d->bytes_left -= codec_align(bytes);
    return KILN_OK;
}

static kiln_status walk_tensor(decoder *d, kiln_value **out)
{
    const unsigned char *head = NULL;
    int64_t dim[KILN_MAX_RANK] = {0};
    TRY(take(d, 2, &head));
    if (head[1] > KILN_MAX_RANK) return broken(d, "a tensor of too many dimensions");
    for (unsigned i = 0; i < head[1]; i++) {
        uint64_t n;
        TRY(take_u64(d, &n));
        if (n > INT64_MAX) return broken(d, "a negative dimension");
        dim[i] = (int64_t)n;
    }
    if (!d->building) return new_tensor(d, head[0], head[1], dim);
    *out = value_ref(d->tensor[d->next++]);
    return KILN_OK;
}

/* ---- everything else ---- */

static kiln_status walk_object(decoder *d, unsigned depth, int in_object, kiln_value **out)
{
    const char *name;
    char type[129];
    size_t n;
    uint64_t revision;
    kiln_value *plain = NULL;
    TRY(take_text(d, &name, &n));
    TRY(take_u64(d, &revision));
    if (in_object || n == 0 || n >= sizeof type || memchr(name, 0, n)) return broken(d, "an object where none may be");
    memcpy(type, name, n);
    type[n] = '\0';
    uint32_t known = d->types && d->types->revision ? d->types->revision(d->types->self, type) : 0;
    if (!known || known != revision)
        return error_set(d->e, KILN_ERR_INVALID, "a stored %s of revision %llu: nobody here reads it", type,
                         (unsigned long long)revision);
    TRY(walk(d, depth + 1, 1, &plain));
    if (!d->building) return KILN_OK;
    value_publish(plain);
    *out = d->types->from_plain(d->types->self, type, plain, d->e);
    value_unref(plain);
    return *out ? KILN_OK : error_set(d->e, KILN_ERR_INVALID, "a stored %s is of no use here", type);
}

static kiln_status take_key(decoder *d, char **last)
{
    const char *text;
    size_t n;
    TRY(take_text(d, &text, &n));
    if (memchr(text, 0, n)) return broken(d, "a key with a NUL byte");
    char *key = mem_strndup(text, n);
    if (!key) return error_set(d->e, KILN_ERR_NOMEM, "out of memory while a value is decoded");
    int rises = !*last || strcmp(*last, key) < 0;
    mem_free(*last);
    *last = key;
    return rises ? KILN_OK : broken(d, "keys out of order");
}

static kiln_status walk_items(decoder *d, unsigned depth, int in_object, int map, kiln_value *into)
{
    uint64_t n;
    char *key = NULL;
    TRY(take_u64(d, &n));
    if (n > (uint64_t)(d->end - d->at)) return broken(d, "more items than bytes"); /* an item has one byte at least */
    kiln_status status = KILN_OK;
    for (uint64_t i = 0; i < n && status == KILN_OK; i++) {
        kiln_value *item = NULL;
        if (map) status = take_key(d, &key);
        if (status == KILN_OK) status = walk(d, depth + 1, in_object, &item);
        if (status == KILN_OK && into)
            status = map ? value_api.map_set(into, key, item) : value_api.list_push(into, item);
        value_unref(item);
    }
    mem_free(key);
    return status == KILN_OK || (d->e && d->e->status != KILN_OK)
               ? status
               : error_set(d->e, status, "a value could not be put together");
}

static kiln_status walk_container(decoder *d, unsigned depth, int in_object, int map, kiln_value **out)
{
    kiln_value *v = NULL;
    if (d->building) TRY(made(d, map ? value_map() : value_list(), &v));
    kiln_status status = walk_items(d, depth, in_object, map, v);
    if (status != KILN_OK) {
        value_unref(v);
        return status;
    }
    *out = v;
    return KILN_OK;
}

static kiln_status walk_scalar(decoder *d, unsigned kind, kiln_value **out)
{
    const unsigned char *flag = NULL;
    uint64_t bits;
    double number;
    const char *text;
    size_t n;
    switch (kind) {
    case KILN_V_INT: TRY(take_u64(d, &bits)); return d->building ? made(d, value_int((int64_t)bits), out) : KILN_OK;
    case KILN_V_FLOAT:
        TRY(take_u64(d, &bits));
        memcpy(&number, &bits, sizeof number);
        return d->building ? made(d, value_float(number), out) : KILN_OK;
    case KILN_V_BOOL:
        TRY(take(d, 1, &flag));
        if (*flag > 1) return broken(d, "neither true nor false");
        return d->building ? made(d, value_bool(*flag), out) : KILN_OK;
    case KILN_V_STRING:
        TRY(take_text(d, &text, &n));
        return d->building ? made(d, value_string(text, n), out) : KILN_OK;
    default: return broken(d, "a value of no known kind");
    }
}

static kiln_status walk(decoder *d, unsigned depth, int in_object, kiln_value **out)
{
    const unsigned char *kind = NULL;
    if (depth > CODEC_DEPTH_MAX) return broken(d, "nested too deep");
    TRY(take(d, 1, &kind));
    switch (*kind) {
    case KILN_V_TENSOR: return walk_tensor(d, out);
    case KILN_V_OBJECT: return walk_object(d, depth, in_object, out);
    case KILN_V_LIST: return walk_container(d, depth, in_object, 0, out);
    case KILN_V_MAP: return walk_container(d, depth, in_object, 1, out);
    default: return walk_scalar(d, *kind, out);
    }
}

/* ---- the whole ---- */

static kiln_status skip_zeros(decoder *d, const codec_source *s, size_t n)
{
    unsigned char pad[CODEC_ALIGN];
    if (n == 0) return KILN_OK;
    TRY(s->read(s->self, pad, n, d->e));
    for (size_t i = 0; i < n; i++)
        if (pad[i]) return broken(d, "something lies between its parts");
    return KILN_OK;
}

static kiln_status read_tensors(decoder *d, const codec_source *s)
{
    for (size_t i = 0; i < d->n_tensor; i++) {
        kiln_tensor t = {.size = sizeof t};
        size_t bytes;
        TRY(value_view(d->tensor[i], &t, d->e));
        if (!checked_bytes(t.rank, t.dim, dtype_size(t.dtype), &bytes)) return KILN_ERR_BUG;
        if (bytes) TRY(s->read(s->self, t.data, bytes, d->e));
        TRY(skip_zeros(d, s, (size_t)(codec_align(bytes) - bytes)));
    }
    return KILN_OK;
}

static kiln_status decode(decoder *d, const codec_source *s, const unsigned char *structure, size_t n, kiln_value **out)
{
    kiln_value *none = NULL;
    d->at = structure, d->end = structure + n;
    TRY(walk(d, 1, 0, &none));
    if (d->at != d->end) return broken(d, "something follows its structure");
    if (d->bytes_left) return broken(d, "something follows its tensors");
    TRY(read_tensors(d, s));
    d->building = 1;
    d->at = structure;
    TRY(walk(d, 1, 0, out));
    value_publish(*out);
    return KILN_OK;
}

kiln_status codec_decode(const codec_source *s, const codec_types *types, kiln_value **out, error *e)
{
    error own = {0};
    decoder d = {.types = types, .e = e ? e : &own};
    unsigned char head[CODEC_HEAD];
    *out = NULL;
    if (s->size < CODEC_HEAD) return broken(&d, "it ends early");
    TRY(s->read(s->self, head, sizeof head, d.e));
    uint64_t n = codec_load_u64(head + 8), total = codec_load_u64(head + 16);
    if (memcmp(head, CODEC_MAGIC, 4) != 0) return broken(&d, "it does not begin as one");
    if (codec_load_u32(head + 4) != CODEC_VERSION)
        return error_set(d.e, KILN_ERR_INVALID, "an encoded value of version %u; this engine reads %d",
                         codec_load_u32(head + 4), CODEC_VERSION);
    if (total != s->size || n > s->size - CODEC_HEAD || codec_align(CODEC_HEAD + n) > s->size)
        return broken(&d, "its sizes do not add up");
    d.bytes_left = s->size - codec_align(CODEC_HEAD + n);
    unsigned char *structure = mem_alloc((size_t)n + 1);
    if (!structure) return error_set(d.e, KILN_ERR_NOMEM, "out of memory while a value is decoded");
    kiln_status status = s->read(s->self, structure, (size_t)n, d.e);
    if (status == KILN_OK) status = skip_zeros(&d, s, (size_t)(codec_align(CODEC_HEAD + n) - (CODEC_HEAD + n)));
    if (status == KILN_OK) status = decode(&d, s, structure, (size_t)n, out);
    for (size_t i = 0; i < d.n_tensor; i++) value_unref(d.tensor[i]);
    mem_free(d.tensor);
    mem_free(structure);
    return status;
}
