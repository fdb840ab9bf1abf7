/* safetensors_write.c - see safetensors_write.h. */
#include "weights/safetensors_write.h"

#include "base/checked.h"
#include "base/file.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"
#include "weights/safetensors.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    uint32_t dtype;
    const char *name;
} types[] = {{KILN_F32, "F32"},         {KILN_F16, "F16"},        {KILN_BF16, "BF16"}, {KILN_U8, "U8"},
             {KILN_I32, "I32"},         {KILN_I64, "I64"},        {KILN_F64, "F64"},   {KILN_BOOL8, "BOOL"},
             {KILN_F8_E4M3, "F8_E4M3"}, {KILN_F8_E5M2, "F8_E5M2"}};

static const char *type_of(uint32_t dtype)
{
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].dtype == dtype) return types[i].name;
    return NULL;
}

static int by_width_and_name(const void *a, const void *b)
{
    const safetensors_source *x = a, *y = b;
    size_t p = dtype_size(x->dtype), q = dtype_size(y->dtype);
    return p != q ? (p > q ? -1 : 1) : strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static kiln_status check_tensor(const safetensors_source *t, error *e)
{
    size_t bytes;
    if (!t->name || !t->name[0] || strlen(t->name) > SAFETENSORS_NAME_MAX || !utf8_valid(t->name, strlen(t->name)) ||
        strcmp(t->name, "__metadata__") == 0)
        return error_set(e, KILN_ERR_INVALID, "'%.64s' cannot be a tensor's name in a safetensors file",
                         t->name ? t->name : "");
    if (!type_of(t->dtype))
        return error_set(e, KILN_ERR_INVALID, "tensor '%.200s' has no element type that safetensors knows", t->name);
    if (t->rank > SAFETENSORS_RANK_MAX || !checked_bytes(t->rank, t->dim, dtype_size(t->dtype), &bytes) ||
        (bytes && !t->data))
        return error_set(e, KILN_ERR_INVALID, "tensor '%.200s' has an impossible shape or no data", t->name);
    return KILN_OK;
}

static int is_text(const char *s) { return s && utf8_valid(s, strlen(s)); }

static kiln_status check_remark(const safetensors_remark *r, error *e)
{
    if (is_text(r->key) && is_text(r->value) && strlen(r->key) <= SAFETENSORS_NAME_MAX) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID, "the text '%.64s' is missing, not UTF-8, or has a key of more than %d bytes",
                     r->key ? r->key : "", SAFETENSORS_NAME_MAX);
}

static kiln_status check_all(const safetensors_source *tensor, size_t n, const safetensors_remark *remark,
                             size_t n_remark, error *e)
{
    if (n > SAFETENSORS_TENSORS_MAX || n_remark > SAFETENSORS_TENSORS_MAX)
        return error_set(e, KILN_ERR_INVALID, "more than %d tensors or remarks for one file", SAFETENSORS_TENSORS_MAX);
    for (size_t i = 0; i < n; i++) TRY(check_tensor(&tensor[i], e));
    for (size_t i = 0; i < n_remark; i++) TRY(check_remark(&remark[i], e));
    size_t most = n > n_remark ? n : n_remark;
    const char **name = mem_alloc((most + 1) * sizeof *name), *twice = NULL;
    if (!name) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (int pass = 0; pass < 2; pass++) {
        size_t count = pass ? n_remark : n;
        for (size_t i = 0; i < count; i++) name[i] = pass ? remark[i].key : tensor[i].name;
        if (count) qsort(name, count, sizeof *name, by_name);
        for (size_t i = 1; i < count; i++)
            if (strcmp(name[i - 1], name[i]) == 0) twice = name[i];
    }
    mem_free(name);
    return twice ? error_set(e, KILN_ERR_INVALID, "'%.200s' twice in one file", twice) : KILN_OK;
}

static void put_remarks(str *s, const safetensors_remark *remark, size_t n)
{
    str_append(s, "\"__metadata__\":{");
    for (size_t i = 0; i < n; i++) {
        if (i) str_char(s, ',');
        str_json(s, remark[i].key, strlen(remark[i].key), 0);
        str_char(s, ':');
        str_json(s, remark[i].value, strlen(remark[i].value), 0);
    }
    str_char(s, '}');
}

static size_t put_tensor(str *s, const safetensors_source *t, size_t begin)
{
    size_t bytes = 0;
    checked_bytes(t->rank, t->dim, dtype_size(t->dtype), &bytes);
    str_json(s, t->name, strlen(t->name), 0);
    str_printf(s, ":{\"dtype\":\"%s\",\"shape\":[", type_of(t->dtype));
    for (uint32_t i = 0; i < t->rank; i++) str_printf(s, "%s%lld", i ? "," : "", (long long)t->dim[i]);
    str_printf(s, "],\"data_offsets\":[%zu,%zu]}", begin, begin + bytes);
    return begin + bytes;
}

static kiln_status put_head(str *out, const safetensors_source *tensor, size_t n, const safetensors_remark *remark,
                            size_t n_remark, error *e)
{
    str head = {0};
    size_t at = 0;
    str_char(&head, '{');
    if (n_remark) put_remarks(&head, remark, n_remark);
    for (size_t i = 0; i < n; i++) {
        if (i || n_remark) str_char(&head, ',');
        at = put_tensor(&head, &tensor[i], at);
    }
    str_char(&head, '}');
    while (!head.failed && head.len % 8) str_char(&head, ' ');
    for (int i = 0; i < 8; i++) str_char(out, (char)(uint8_t)((uint64_t)head.len >> (8 * i)));
    str_append_n(out, str_text(&head), head.len);
    out->failed |= head.failed;
    size_t length = head.len;
    str_free(&head);
    if (out->failed) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (length > SAFETENSORS_HEADER_MAX)
        return error_set(e, KILN_ERR_INVALID, "a header of %zu bytes; a safetensors file has room for %u", length,
                         SAFETENSORS_HEADER_MAX);
    return KILN_OK;
}

kiln_status safetensors_head(str *out, safetensors_source *tensor, size_t n, const safetensors_remark *remark,
                             size_t n_remark, error *e)
{
    TRY(check_all(tensor, n, remark, n_remark, e));
    if (n) qsort(tensor, n, sizeof *tensor, by_width_and_name);
    return put_head(out, tensor, n, remark, n_remark, e);
}

kiln_status safetensors_encode(str *out, const safetensors_source *tensor, size_t n, const safetensors_remark *remark,
                               size_t n_remark, error *e)
{
    safetensors_source *sorted = mem_alloc((n + 1) * sizeof *sorted);
    if (!sorted) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (n) memcpy(sorted, tensor, n * sizeof *sorted);
    kiln_status status = safetensors_head(out, sorted, n, remark, n_remark, e);
    for (size_t i = 0; status == KILN_OK && i < n; i++) {
        size_t bytes = 0;
        checked_bytes(sorted[i].rank, sorted[i].dim, dtype_size(sorted[i].dtype), &bytes);
        str_append_n(out, sorted[i].data, bytes);
    }
    if (status == KILN_OK && out->failed) status = error_set(e, KILN_ERR_NOMEM, "out of memory");
    mem_free(sorted);
    return status;
}

kiln_status safetensors_write(const char *path, const safetensors_source *tensor, size_t n,
                              const safetensors_remark *remark, size_t n_remark, error *e)
{
    str s = {0};
    kiln_status status = safetensors_encode(&s, tensor, n, remark, n_remark, e);
    if (status == KILN_OK)
        status = file_write_whole(path, s.data, s.len, e);
    else
        error_prefix(e, "%s", path);
    str_free(&s);
    return status;
}
