/* value.c - see value.h: kinds, references, containers, and the table behind "kiln.value/1". Type checks and digests
 * are in value_type.c.
 */
#include "tensor/value.h"

#include "base/array.h"
#include "base/checked.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"
#include "tensor/value_struct.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

static kiln_value *value_new(uint32_t kind)
{
    kiln_value *v = mem_calloc(1, sizeof *v);
    if (!v) return NULL;
    v->kind = kind;
    atomic_init(&v->refs, 1);
    return v;
}

/* ---- account of tensors' bytes ---- */

static struct {
    kiln_status (*take)(void *arg, size_t bytes, error *e);
    void (*give)(void *arg, size_t bytes);
    void *arg;
    unsigned number; /* of this account; 0: none */
} account;
static unsigned accounts;

void value_account(kiln_status (*take)(void *, size_t, error *), void (*give)(void *, size_t), void *arg)
{
    account.take = take, account.give = give, account.arg = arg;
    account.number = take ? ++accounts : 0;
}

static kiln_status account_take(kiln_value *v, size_t bytes, error *e)
{
    if (!account.number) return KILN_OK;
    TRY(account.take(account.arg, bytes, e));
    v->as.tensor.counted = account.number;
    return KILN_OK;
}

static void account_give(const kiln_value *v)
{
    if (v->as.tensor.counted && v->as.tensor.counted == account.number) account.give(account.arg, v->as.tensor.bytes);
}

/* 1 when every stride fits, also of an empty tensor: {0, 1 << 62} has no bytes, but no strides either. */
static int strides_fit(uint32_t rank, const int64_t *dim, size_t element)
{
    int64_t stride = (int64_t)element;
    for (uint32_t i = rank; i-- > 0;)
        if (__builtin_mul_overflow(stride, dim[i], &stride)) return 0;
    return 1;
}

kiln_value *value_shape_new(uint32_t dtype, uint32_t rank, const int64_t *dim, error *e)
{
    size_t element = dtype_size(dtype), bytes;
    if (!element || dtype_is_f8(dtype) || rank > KILN_MAX_RANK || !checked_bytes(rank, dim, element, &bytes) ||
        bytes > SIZE_MAX / 4 || !strides_fit(rank, dim, element)) {
        error_set(e, KILN_ERR_INVALID, "a tensor of this type, rank, size or device cannot be made");
        return NULL;
    }
    kiln_value *v = value_new(KILN_V_TENSOR);
    if (!v) return error_set(e, KILN_ERR_NOMEM, "out of memory for a tensor of %zu bytes", bytes), NULL;
    v->as.tensor.bytes = bytes;
    if (account_take(v, bytes, e) != KILN_OK) return mem_free(v), NULL;
    v->as.tensor.window = (kiln_tensor){.size = sizeof(kiln_tensor),
                                        .dtype = dtype,
                                        .device = KILN_CPU,
                                        .rank = rank,
                                        .dim = v->as.tensor.dim,
                                        .stride = v->as.tensor.stride};
    int64_t stride = (int64_t)element;
    for (uint32_t i = rank; i-- > 0;) {
        v->as.tensor.dim[i] = dim[i];
        v->as.tensor.stride[i] = stride;
        stride *= dim[i];
    }
    return v;
}

kiln_value *value_tensor_new(uint32_t dtype, uint32_t device, uint32_t rank, const int64_t *dim, error *e)
{
    if (device != KILN_CPU) {
        error_set(e, KILN_ERR_UNSUPPORTED, "a tensor of this type, rank, size or device cannot be made");
        return NULL;
    }
    kiln_value *v = value_shape_new(dtype, rank, dim, e);
    if (!v) return NULL;
    size_t bytes = v->as.tensor.bytes;
    v->as.tensor.window.data = mem_aligned(64, bytes ? bytes : 64);
    if (v->as.tensor.window.data) return v;
    value_unref(v);
    error_set(e, KILN_ERR_NOMEM, "out of memory for a tensor of %zu bytes", bytes);
    return NULL;
}

kiln_value *value_int(int64_t number)
{
    kiln_value *v = value_new(KILN_V_INT);
    if (v) v->as.whole = number;
    return v;
}

kiln_value *value_float(double number)
{
    kiln_value *v = value_new(KILN_V_FLOAT);
    if (v) v->as.number = number;
    return v;
}

kiln_value *value_bool(int flag)
{
    kiln_value *v = value_new(KILN_V_BOOL);
    if (v) v->as.whole = flag != 0;
    return v;
}

kiln_value *value_string(const char *bytes, size_t n)
{
    kiln_value *v = value_new(KILN_V_STRING);
    char *text = v ? mem_alloc(n + 1) : NULL;
    if (!text) {
        mem_free(v);
        return NULL;
    }
    if (n) memcpy(text, bytes, n);
    text[n] = '\0';
    v->as.string.text = text;
    v->as.string.n = n;
    return v;
}

kiln_value *value_list(void) { return value_new(KILN_V_LIST); }
kiln_value *value_map(void) { return value_new(KILN_V_MAP); }

kiln_value *value_object(const char *type, void *ptr, void (*release)(void *), const char *fingerprint)
{
    kiln_value *v = value_new(KILN_V_OBJECT);
    if (!v) return NULL;
    v->as.object.type = mem_strdup(type);
    v->as.object.fingerprint = fingerprint ? mem_strdup(fingerprint) : NULL;
    if (!v->as.object.type || (fingerprint && !v->as.object.fingerprint)) {
        mem_free(v->as.object.type);
        mem_free(v->as.object.fingerprint);
        mem_free(v);
        return NULL;
    }
    v->as.object.ptr = ptr;
    v->as.object.release = release;
    return v;
}

/* ---- references ---- */

kiln_value *value_ref(kiln_value *v)
{
    uint32_t before = v ? atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed) : 1;
    assert(before > 0); /* a value that is being freed gets no new reference */
    (void)before;
    return v;
}

uint32_t value_refs(const kiln_value *v) { return atomic_load(&((kiln_value *)(uintptr_t)v)->refs); }

/* Frees v, and puts what it alone referred to on `doomed`, so that deep values need no deep stack. */
static void value_destroy(kiln_value *v, kiln_value **doomed)
{
    switch (v->kind) {
    case KILN_V_TENSOR:
        mem_free(v->as.tensor.window.data);
        account_give(v);
        break;
    case KILN_V_STRING: mem_free(v->as.string.text); break;
    case KILN_V_OBJECT:
        if (v->as.object.release) v->as.object.release(v->as.object.ptr);
        file_list_unref(atomic_load(&v->as.object.files));
        mem_free(v->as.object.type);
        mem_free(v->as.object.fingerprint);
        break;
    case KILN_V_LIST:
    case KILN_V_MAP:
        for (size_t i = 0; i < v->as.many.n; i++) {
            kiln_value *item = v->as.many.item[i];
            if (v->as.many.key) mem_free(v->as.many.key[i]);
            if (atomic_fetch_sub_explicit(&item->refs, 1, memory_order_acq_rel) != 1) continue;
            item->next_doomed = *doomed;
            *doomed = item;
        }
        mem_free(v->as.many.item);
        mem_free(v->as.many.key);
        break;
    default: break;
    }
    mem_free(v);
}

void value_unref(kiln_value *v)
{
    uint32_t before = v ? atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) : 2;
    assert(before > 0);
    if (before != 1) return;
    kiln_value *doomed = v;
    v->next_doomed = NULL;
    while (doomed) {
        kiln_value *one = doomed;
        doomed = one->next_doomed;
        value_destroy(one, &doomed);
    }
}

void value_publish(kiln_value *v)
{
    if (!v || atomic_load(&v->published)) return; /* what is inside was published when it was put in */
    atomic_store(&v->published, 1);
}

int value_published(const kiln_value *v) { return atomic_load(&((kiln_value *)(uintptr_t)v)->published); }

uint32_t value_kind(const kiln_value *v) { return v ? v->kind : 0; }

kiln_status value_view(const kiln_value *v, kiln_tensor *out, error *e)
{
    if (value_kind(v) != KILN_V_TENSOR)
        return error_set(e, KILN_ERR_INVALID, "expected a tensor, got %s", v ? value_kind_name(v->kind) : "nothing");
    if (out->size < offsetof(kiln_tensor, data) + sizeof out->data)
        return error_set(e, KILN_ERR_BUG,
                         "view() was given a kiln_tensor that says it is %u bytes; set .size = sizeof first",
                         out->size);
    uint32_t capacity = out->size < sizeof(kiln_tensor)
                            ? out->size
                            : (uint32_t)sizeof(kiln_tensor); /* older plugins, shorter windows */
    memcpy(out, &v->as.tensor.window, capacity);
    out->size = capacity;
    return KILN_OK;
}

const char *value_kind_name(uint32_t kind)
{
    static const char *const name[] = {"nothing", "a tensor", "a whole number", "a number", "a truth value",
                                       "a text",  "a list",   "a map",          "an object"};
    return kind < sizeof name / sizeof name[0] ? name[kind] : "something unknown";
}

/* ---- files behind objects ---- */

static int is_container(const kiln_value *v) { return value_kind(v) == KILN_V_LIST || value_kind(v) == KILN_V_MAP; }

static void set_files(kiln_value *v, file_list *files, int depth)
{
    for (size_t i = 0; depth < DEPTH_MAX && is_container(v) && i < v->as.many.n; i++)
        set_files(v->as.many.item[i], files, depth + 1);
    if (value_kind(v) != KILN_V_OBJECT) return;
    file_list *none = NULL, *ours = file_list_ref(files);
    if (!atomic_compare_exchange_strong(&v->as.object.files, &none, ours)) file_list_unref(ours);
}

void value_set_files(kiln_value *v, file_list *files) { set_files(v, files, 0); }

static kiln_status add_files(const kiln_value *v, file_list *to, int depth, error *e)
{
    if (depth > DEPTH_MAX) return error_set(e, KILN_ERR_INVALID, "a value nested deeper than %d", DEPTH_MAX);
    for (size_t i = 0; is_container(v) && i < v->as.many.n; i++) TRY(add_files(v->as.many.item[i], to, depth + 1, e));
    return value_kind(v) == KILN_V_OBJECT ? file_list_add_all(to, atomic_load(&v->as.object.files), e) : KILN_OK;
}

kiln_status value_add_files(const kiln_value *v, file_list *to, error *e) { return add_files(v, to, 0, e); }

/* ---- containers ---- */

static int writable(const kiln_value *v) { return !value_published(v); }

static kiln_status grow(struct value_many *m, int with_keys)
{
    size_t items = m->capacity, keys = m->capacity;
    if (!array_reserve(&m->item, &items, m->n + 1, sizeof *m->item)) return KILN_ERR_NOMEM;
    if (with_keys && !array_reserve(&m->key, &keys, m->n + 1, sizeof *m->key)) return KILN_ERR_NOMEM;
    m->capacity = with_keys && keys < items ? keys : items;
    return KILN_OK;
}

static kiln_status list_push(kiln_value *list, kiln_value *item)
{
    if (value_kind(list) != KILN_V_LIST || !item) return KILN_ERR_INVALID;
    if (!writable(list) || item == list) return KILN_ERR_BUG;
    TRY(grow(&list->as.many, 0));
    value_publish(item);
    list->as.many.item[list->as.many.n++] = value_ref(item);
    return KILN_OK;
}

/* Where `key` stands, or should. */
static size_t map_place(const struct value_many *m, const char *key, int *found)
{
    size_t low = 0, high = m->n;
    *found = 0;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(key, m->key[middle]);
        if (order == 0) {
            *found = 1;
            return middle;
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void map_remove(struct value_many *m, size_t at)
{
    assert(at < m->n);
    value_unref(m->item[at]);
    mem_free(m->key[at]);
    memmove(m->item + at, m->item + at + 1, (m->n - at - 1) * sizeof *m->item);
    memmove(m->key + at, m->key + at + 1, (m->n - at - 1) * sizeof *m->key);
    m->n--;
}

static kiln_status map_insert(struct value_many *m, size_t at, const char *key, kiln_value *item)
{
    char *copy = mem_strdup(key);
    if (!copy || grow(m, 1) != KILN_OK) {
        mem_free(copy);
        return KILN_ERR_NOMEM;
    }
    assert(at <= m->n && m->n < m->capacity);
    memmove(m->item + at + 1, m->item + at, (m->n - at) * sizeof *m->item);
    memmove(m->key + at + 1, m->key + at, (m->n - at) * sizeof *m->key);
    m->key[at] = copy;
    m->item[at] = value_ref(item);
    m->n++;
    return KILN_OK;
}

static kiln_status map_set(kiln_value *map, const char *key, kiln_value *item)
{
    int found;
    if (value_kind(map) != KILN_V_MAP || !key || !key[0]) return KILN_ERR_INVALID;
    if (!writable(map) || item == map) return KILN_ERR_BUG;
    size_t at = map_place(&map->as.many, key, &found);
    if (!item) {
        if (found) map_remove(&map->as.many, at);
        return KILN_OK;
    }
    value_publish(item);
    if (!found) return map_insert(&map->as.many, at, key, item);
    kiln_value *old = map->as.many.item[at];
    map->as.many.item[at] = value_ref(item);
    value_unref(old);
    return KILN_OK;
}

static kiln_value *map_get(const kiln_value *map, const char *key)
{
    int found;
    if (value_kind(map) != KILN_V_MAP || map->as.many.n == 0) return NULL;
    size_t at = map_place(&map->as.many, key, &found);
    return found ? map->as.many.item[at] : NULL;
}

static kiln_value *map_at(const kiln_value *map, size_t i, const char **key)
{
    if (value_kind(map) != KILN_V_MAP || i >= map->as.many.n) return NULL;
    if (key) *key = map->as.many.key[i];
    return map->as.many.item[i];
}

static kiln_value *list_at(const kiln_value *list, size_t i)
{
    return value_kind(list) == KILN_V_LIST && i < list->as.many.n ? list->as.many.item[i] : NULL;
}

static size_t count(const kiln_value *v)
{
    return value_kind(v) == KILN_V_LIST || value_kind(v) == KILN_V_MAP ? v->as.many.n : 0;
}

/* ---- the table ---- */

static kiln_value *api_int(kiln_ctx *c, int64_t v) { return (void)c, value_int(v); }
static kiln_value *api_float(kiln_ctx *c, double v) { return (void)c, value_float(v); }
static kiln_value *api_bool(kiln_ctx *c, int v) { return (void)c, value_bool(v); }
static kiln_value *api_string(kiln_ctx *c, const char *bytes, size_t n) { return (void)c, value_string(bytes, n); }
static kiln_value *api_list(kiln_ctx *c) { return (void)c, value_list(); }
static kiln_value *api_map(kiln_ctx *c) { return (void)c, value_map(); }
static kiln_value *api_object(kiln_ctx *c, const char *type, void *ptr, void (*release)(void *),
                              const char *fingerprint)
{
    return (void)c, value_object(type, ptr, release, fingerprint);
}

static kiln_value *api_list_copy(kiln_ctx *c, const kiln_value *from)
{
    (void)c;
    kiln_value *list = value_kind(from) == KILN_V_LIST ? value_list() : NULL;
    for (size_t i = 0; list && i < from->as.many.n; i++)
        if (list_push(list, from->as.many.item[i]) != KILN_OK) value_unref(list), list = NULL;
    return list;
}

static kiln_value *api_map_copy(kiln_ctx *c, const kiln_value *from)
{
    (void)c;
    kiln_value *map = value_kind(from) == KILN_V_MAP ? value_map() : NULL;
    for (size_t i = 0; map && i < from->as.many.n; i++)
        if (map_insert(&map->as.many, i, from->as.many.key[i], from->as.many.item[i]) != KILN_OK)
            value_unref(map), map = NULL;
    return map;
}

static kiln_status get_int(const kiln_value *v, int64_t *out)
{
    if (value_kind(v) != KILN_V_INT) return KILN_ERR_INVALID;
    *out = v->as.whole;
    return KILN_OK;
}

static kiln_status get_float(const kiln_value *v, double *out)
{
    if (value_kind(v) == KILN_V_INT)
        *out = (double)v->as.whole;
    else if (value_kind(v) == KILN_V_FLOAT)
        *out = v->as.number;
    else
        return KILN_ERR_INVALID;
    return KILN_OK;
}

static kiln_status get_bool(const kiln_value *v, int *out)
{
    if (value_kind(v) != KILN_V_BOOL) return KILN_ERR_INVALID;
    *out = (int)v->as.whole;
    return KILN_OK;
}

static const char *get_string(const kiln_value *v, size_t *n)
{
    if (value_kind(v) != KILN_V_STRING) return NULL;
    if (n) *n = v->as.string.n;
    return v->as.string.text;
}

static void *object(const kiln_value *v, const char *type)
{
    return value_kind(v) == KILN_V_OBJECT && strcmp(v->as.object.type, type) == 0 ? v->as.object.ptr : NULL;
}
static const char *object_type(const kiln_value *v)
{
    return value_kind(v) == KILN_V_OBJECT ? v->as.object.type : NULL;
}
static const char *object_fingerprint(const kiln_value *v)
{
    return value_kind(v) == KILN_V_OBJECT ? v->as.object.fingerprint : NULL;
}

const kiln_value_api value_api = {
    .size = sizeof(kiln_value_api),
    .kind = value_kind,
    .new_int = api_int,
    .new_float = api_float,
    .new_bool = api_bool,
    .new_string = api_string,
    .new_list = api_list,
    .new_map = api_map,
    .new_object = api_object,
    .list_copy = api_list_copy,
    .map_copy = api_map_copy,
    .list_push = list_push,
    .map_set = map_set,
    .get_int = get_int,
    .get_float = get_float,
    .get_bool = get_bool,
    .get_string = get_string,
    .count = count,
    .list_at = list_at,
    .map_get = map_get,
    .map_at = map_at,
    .object = object,
    .object_type = object_type,
    .object_fingerprint = object_fingerprint,
};
