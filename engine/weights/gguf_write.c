/* gguf_write.c - see gguf_write.h. */
#include "weights/gguf_write.h"

#include "base/checked.h"
#include "tensor/dtype.h"

#include <stdlib.h>
#include <string.h>

static void put(str *s, uint64_t v, int width)
{
    for (int i = 0; i < width; i++) str_char(s, (char)(uint8_t)(v >> (8 * i)));
}

static void put_text(str *s, const char *text)
{
    put(s, strlen(text), 8);
    str_append(s, text);
}

size_t gguf_padded(size_t bytes) { return (bytes + GGUF_ALIGNMENT - 1) / GGUF_ALIGNMENT * GGUF_ALIGNMENT; }

static size_t count_of(const gguf_tensor *t)
{
    size_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) n *= (size_t)t->dim[i];
    return n;
}

size_t gguf_tensor_bytes(const gguf_tensor *t)
{
    size_t bytes = 0;
    return dtype_bytes(t->dtype, count_of(t), &bytes) ? bytes : 0;
}

/* The last dimension is no whole blocks, or there are more than GGUF has. */
static int is_flattened(const gguf_tensor *t)
{
    return t->rank > GGUF_RANK_MAX || (t->rank && t->dim[t->rank - 1] % (int64_t)dtype_block(t->dtype) != 0);
}

static kiln_status check_tensor(const gguf_tensor *t, error *e)
{
    uint32_t id;
    const char *name;
    size_t all;
    if (!gguf_type_id(t->dtype, &id, &name))
        return error_set(e, KILN_ERR_INVALID,
                         "'%.200s' is of type %s, which GGUF does not have; write a .safetensors file", t->name,
                         dtype_name(t->dtype));
    int fits =
        t->name[0] && strlen(t->name) <= SAFETENSORS_NAME_MAX && checked_bytes(t->rank, t->dim, 1, &all) && all > 0;
    if (!fits || all % dtype_block(t->dtype))
        return error_set(e, KILN_ERR_INVALID,
                         "'%.200s' has a name or a shape that GGUF has no room for (no elements, or no whole "
                         "blocks); write a .safetensors file",
                         t->name);
    return KILN_OK;
}

/* ---- values ---- */

static int by_key(const void *a, const void *b)
{
    const gguf_value_source *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

static void put_value(str *s, const gguf_value_source *v)
{
    put_text(s, v->key);
    if (!v->pair) {
        put(s, GGUF_STRING, 4);
        put_text(s, v->text);
        return;
    }
    put(s, v->pair->is_array ? (uint32_t)GGUF_ARRAY : v->pair->type, 4);
    if (v->pair->is_array) put(s, v->pair->type, 4), put(s, v->pair->count, 8);
    str_append_n(s, (const char *)v->pair->data, (size_t)v->pair->bytes);
}

static void put_shape(str *s, const gguf_tensor *t)
{
    str key = {0};
    str_printf(&key, "comfy.gguf.orig_shape.%s", t->name);
    put_text(s, str_text(&key));
    s->failed |= key.failed;
    str_free(&key);
    put(s, GGUF_ARRAY, 4), put(s, GGUF_I32, 4), put(s, t->rank, 8);
    for (uint32_t i = 0; i < t->rank; i++) put(s, (uint64_t)t->dim[i], 4);
}

static size_t sort_values(gguf_value_source *value, size_t m)
{
    size_t n = 0;
    for (size_t i = 0; i < m; i++) value[i].at = i;
    if (m) qsort(value, m, sizeof *value, by_key);
    for (size_t i = 0; i < m; i++)
        if (n == 0 || strcmp(value[n - 1].key, value[i].key) != 0) value[n++] = value[i];
    return n;
}

/* ---- tensors ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const gguf_tensor *)a)->name, ((const gguf_tensor *)b)->name);
}

static void put_tensor(str *s, const gguf_tensor *t, size_t offset)
{
    uint32_t id = 0;
    const char *name = "";
    gguf_type_id(t->dtype, &id, &name);
    put_text(s, t->name);
    if (is_flattened(t)) {
        size_t all = count_of(t), rows = (size_t)t->dim[0], block = dtype_block(t->dtype);
        if (all / rows % block) rows = all / block; /* blocks run on from row to row */
        put(s, 2, 4), put(s, all / rows, 8), put(s, rows, 8);
    } else {
        put(s, t->rank ? t->rank : 1, 4);
        for (uint32_t i = t->rank; i-- > 0;) put(s, (uint64_t)t->dim[i], 8);
        if (!t->rank) put(s, 1, 8);
    }
    put(s, id, 4), put(s, offset, 8);
}

kiln_status gguf_head(str *out, gguf_tensor *tensor, size_t n, gguf_value_source *value, size_t m, error *e)
{
    size_t shapes = 0, at = 0, values = sort_values(value, m), start = out->len;
    for (size_t i = 0; i < n; i++) {
        TRY(check_tensor(&tensor[i], e));
        shapes += is_flattened(&tensor[i]) != 0;
    }
    if (n) qsort(tensor, n, sizeof *tensor, by_name);
    str_append(out, "GGUF");
    put(out, 3, 4), put(out, n, 8), put(out, values + shapes, 8);
    for (size_t i = 0; i < values; i++) put_value(out, &value[i]);
    for (size_t i = 0; i < n; i++)
        if (is_flattened(&tensor[i])) put_shape(out, &tensor[i]);
    for (size_t i = 0; i < n; i++) {
        put_tensor(out, &tensor[i], at);
        at += gguf_padded(gguf_tensor_bytes(&tensor[i]));
    }
    while (!out->failed && (out->len - start) % GGUF_ALIGNMENT) str_char(out, '\0');
    return out->failed ? error_set(e, KILN_ERR_NOMEM, "out of memory") : KILN_OK;
}
