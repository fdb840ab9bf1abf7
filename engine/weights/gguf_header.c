/* gguf_header.c - see gguf_header.h. Three passes over a cursor that never leaves the bytes: pairs, tensors, and where
 * they lie. */
#include "weights/gguf_header.h"

#include "base/checked.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "kiln/plugin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION_MIN = 2, VERSION_MAX = 3, ALIGNMENT = 32, ALIGNMENT_MAX = 1 << 20, STRING_MAX = 1 << 30 };
static const char orig_shape[] = "comfy.gguf.orig_shape.";

static const struct {
    uint32_t id, dtype; /* dtype 0: kiln does not compute with it */
    uint32_t elements, bytes;
    const char *name;
} types[] = {
    {0, KILN_F32, 1, 4, "F32"},
    {1, KILN_F16, 1, 2, "F16"},
    {2, KILN_Q4_0, 32, 18, "Q4_0"},
    {3, KILN_Q4_1, 32, 20, "Q4_1"},
    {6, KILN_Q5_0, 32, 22, "Q5_0"},
    {7, KILN_Q5_1, 32, 24, "Q5_1"},
    {8, KILN_Q8_0, 32, 34, "Q8_0"},
    {9, 0, 32, 36, "Q8_1"},
    {10, KILN_Q2_K, 256, 84, "Q2_K"},
    {11, KILN_Q3_K, 256, 110, "Q3_K"},
    {12, KILN_Q4_K, 256, 144, "Q4_K"},
    {13, KILN_Q5_K, 256, 176, "Q5_K"},
    {14, KILN_Q6_K, 256, 210, "Q6_K"},
    {15, 0, 256, 292, "Q8_K"},
    {16, 0, 256, 66, "IQ2_XXS"},
    {17, 0, 256, 74, "IQ2_XS"},
    {18, 0, 256, 98, "IQ3_XXS"},
    {19, 0, 256, 50, "IQ1_S"},
    {20, KILN_IQ4_NL, 32, 18, "IQ4_NL"},
    {21, 0, 256, 110, "IQ3_S"},
    {22, 0, 256, 82, "IQ2_S"},
    {23, KILN_IQ4_XS, 256, 136, "IQ4_XS"},
    {24, 0, 1, 1, "I8"},
    {25, 0, 1, 2, "I16"},
    {26, KILN_I32, 1, 4, "I32"},
    {27, KILN_I64, 1, 8, "I64"},
    {28, KILN_F64, 1, 8, "F64"},
    {29, 0, 256, 56, "IQ1_M"},
    {30, KILN_BF16, 1, 2, "BF16"},
    {34, 0, 256, 54, "TQ1_0"},
    {35, 0, 256, 66, "TQ2_0"},
    {39, KILN_MXFP4, 32, 17, "MXFP4"},
    {40, KILN_NVFP4, 64, 36, "NVFP4"},
    {41, 0, 128, 18, "Q1_0"},
};

int gguf_type_id(uint32_t dtype, uint32_t *id, const char **name)
{
    for (size_t i = 0; dtype && i < sizeof types / sizeof types[0]; i++) {
        if (types[i].dtype != dtype) continue;
        *id = types[i].id;
        *name = types[i].name;
        return 1;
    }
    return 0;
}

/* ---- the cursor ---- */

typedef struct {
    const char *path;
    const uint8_t *data;
    size_t size, at;
    gguf_header *h;
    safetensors_header *t;
    uint64_t n_tensor, n_pair, alignment;
    error *e;
} reader;

static kiln_status fail(const reader *r, uint64_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static kiln_status fail(const reader *r, uint64_t at, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return error_set(r->e, KILN_ERR_INVALID, "%s: byte %llu: %s", r->path, (unsigned long long)at, text);
}

static kiln_status no_memory(const reader *r) { return error_set(r->e, KILN_ERR_NOMEM, "%s: out of memory", r->path); }

static kiln_status take(reader *r, uint64_t n, const char *what, const uint8_t **out)
{
    if (n > r->size - r->at)
        return fail(r, r->at, "%s of %llu bytes, but the file ends after %zu; fetch the file again", what,
                    (unsigned long long)n, r->size - r->at);
    *out = r->data + r->at;
    r->at += (size_t)n;
    return KILN_OK;
}

static uint64_t number_at(const uint8_t *p, size_t width)
{
    uint64_t v = 0;
    for (size_t i = width; i-- > 0;) v = v << 8 | p[i];
    return v;
}

static kiln_status take_number(reader *r, size_t width, const char *what, uint64_t *out)
{
    const uint8_t *p = NULL;
    TRY(take(r, width, what, &p));
    *out = number_at(p, width);
    return KILN_OK;
}

/* A string, copied with a NUL behind it. */
static kiln_status take_name(reader *r, const char *what, uint64_t most, const char **out)
{
    uint64_t n = 0;
    const uint8_t *p = NULL;
    size_t at = r->at;
    TRY(take_number(r, 8, what, &n));
    if (n == 0 || n > most)
        return fail(r, at, "%s of %llu bytes; 1 to %llu are allowed", what, (unsigned long long)n,
                    (unsigned long long)most);
    TRY(take(r, n, what, &p));
    if (memchr(p, 0, (size_t)n) || !utf8_valid((const char *)p, (size_t)n))
        return fail(r, at, "%s that is not UTF-8, or has a NUL", what);
    *out = arena_strndup(&r->h->memory, (const char *)p, (size_t)n);
    return *out ? KILN_OK : no_memory(r);
}

/* ---- pairs ---- */

size_t gguf_item_width(uint32_t type)
{
    static const uint8_t width[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < sizeof width ? width[type] : 0;
}

static kiln_status skip_string(reader *r)
{
    uint64_t n = 0;
    const uint8_t *p = NULL;
    size_t at = r->at;
    TRY(take_number(r, 8, "a string's length", &n));
    if (n > STRING_MAX)
        return fail(r, at, "a string of %llu bytes; at most %d are allowed", (unsigned long long)n, STRING_MAX);
    return take(r, n, "a string", &p);
}

static kiln_status check_booleans(const reader *r, const gguf_pair *p)
{
    for (uint64_t i = 0; p->type == GGUF_BOOL && i < p->count; i++)
        if (p->data[i] > 1)
            return fail(r, (uint64_t)(p->data - r->data) + i, "'%.64s' is a boolean of %u; it must be 0 or 1", p->key,
                        p->data[i]);
    return KILN_OK;
}

/* The items, `count` of them. */
static kiln_status take_items(reader *r, gguf_pair *p)
{
    size_t from = r->at, width = gguf_item_width(p->type);
    uint64_t bytes;
    p->data = r->data + from;
    if (p->type == GGUF_STRING) {
        for (uint64_t i = 0; i < p->count; i++) TRY(skip_string(r));
    } else {
        if (!checked_mul_u64(p->count, width, &bytes) || bytes > r->size - r->at)
            return fail(r, r->at, "'%.64s' has %llu items, more than the file has bytes for", p->key,
                        (unsigned long long)p->count);
        r->at += (size_t)bytes;
    }
    p->bytes = r->at - from;
    return check_booleans(r, p);
}

static kiln_status take_pair(reader *r, gguf_pair *p)
{
    size_t at = r->at;
    uint64_t type = 0;
    TRY(take_name(r, "a key", GGUF_KEY_MAX, &p->key));
    TRY(take_number(r, 4, "the type of a value", &type));
    p->count = 1;
    if (type == GGUF_ARRAY) {
        p->is_array = 1;
        TRY(take_number(r, 4, "the type of an array's items", &type));
        TRY(take_number(r, 8, "the length of an array", &p->count));
        if (type == GGUF_ARRAY) return fail(r, at, "'%.64s' is an array of arrays, which no file needs", p->key);
        if (p->count > (r->size - r->at) / (type == GGUF_STRING ? 8 : 1))
            return fail(r, at, "'%.64s' has %llu items, more than the file has bytes for", p->key,
                        (unsigned long long)p->count);
    }
    p->type = (uint32_t)type;
    if (type != GGUF_STRING && !gguf_item_width(p->type))
        return fail(r, at, "'%.64s' is of the unknown type %llu", p->key, (unsigned long long)type);
    return take_items(r, p);
}

static int by_key(const void *a, const void *b)
{
    const gguf_pair *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : x->data < y->data ? -1 : x->data > y->data;
}

static kiln_status take_pairs(reader *r)
{
    gguf_header *h = r->h;
    if (!(h->pair = mem_calloc((size_t)r->n_pair + 1, sizeof *h->pair))) return no_memory(r);
    for (; h->n_pair < r->n_pair; h->n_pair++) TRY(take_pair(r, &h->pair[h->n_pair]));
    if (h->n_pair) qsort(h->pair, h->n_pair, sizeof *h->pair, by_key);
    for (size_t i = 1; i < h->n_pair; i++)
        if (strcmp(h->pair[i - 1].key, h->pair[i].key) == 0)
            return fail(r, (uint64_t)(h->pair[i].data - r->data), "key '%.64s' twice", h->pair[i].key);
    return KILN_OK;
}

const gguf_pair *gguf_header_find(const gguf_header *h, const char *key)
{
    gguf_pair want = {.key = key};
    size_t low = 0, high = h->n_pair;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(h->pair[middle].key, want.key);
        if (order == 0) return &h->pair[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static int64_t signed_at(const gguf_pair *p, uint64_t i)
{
    size_t width = gguf_item_width(p->type);
    uint64_t v = number_at(p->data + i * width, width);
    if (p->type == GGUF_I8) return (int8_t)v;
    if (p->type == GGUF_I16) return (int16_t)v;
    if (p->type == GGUF_I32) return (int32_t)v;
    return (int64_t)v;
}

static int is_whole(uint32_t type)
{
    return type != GGUF_F32 && type != GGUF_F64 && type != GGUF_STRING && type != GGUF_BOOL && gguf_item_width(type);
}

int gguf_pair_count(const gguf_pair *p, uint64_t *out)
{
    if (!p || p->is_array || !is_whole(p->type) || signed_at(p, 0) < 0) return 0;
    *out = (uint64_t)signed_at(p, 0);
    return 1;
}

static kiln_status read_alignment(reader *r)
{
    const gguf_pair *p = gguf_header_find(r->h, "general.alignment");
    r->alignment = ALIGNMENT;
    if (!p) return KILN_OK;
    if (!gguf_pair_count(p, &r->alignment) || r->alignment == 0 || r->alignment > ALIGNMENT_MAX ||
        (r->alignment & (r->alignment - 1)))
        return fail(r, (uint64_t)(p->data - r->data), "general.alignment must be a power of two of at most %d",
                    ALIGNMENT_MAX);
    return KILN_OK;
}

/* ---- texts ---- */

/* With a point in every locale. */
static const char *real_text(gguf_header *h, int digits, double v)
{
    char *text = arena_printf(&h->memory, "%.*g", digits, v), *comma = text ? strchr(text, ',') : NULL;
    if (comma) *comma = '.';
    return text;
}

static const char *text_of(gguf_header *h, const gguf_pair *p)
{
    float f;
    double d;
    switch (p->type) {
    case GGUF_F32: return memcpy(&f, p->data, 4), real_text(h, 9, (double)f);
    case GGUF_F64: return memcpy(&d, p->data, 8), real_text(h, 17, d);
    case GGUF_BOOL: return p->data[0] ? "true" : "false";
    case GGUF_U64: return arena_printf(&h->memory, "%llu", (unsigned long long)number_at(p->data, 8));
    case GGUF_STRING: return arena_strndup(&h->memory, (const char *)p->data + 8, (size_t)p->bytes - 8);
    default: return arena_printf(&h->memory, "%lld", (long long)signed_at(p, 0));
    }
}

static kiln_status check_text(const reader *r, const gguf_pair *p)
{
    const char *text = (const char *)p->data + 8;
    size_t n = (size_t)p->bytes - 8;
    if (p->type != GGUF_STRING || (utf8_valid(text, n) && !memchr(text, 0, n))) return KILN_OK;
    return fail(r, (uint64_t)(p->data - r->data), "the text of '%.64s' is not UTF-8, or has a NUL", p->key);
}

/* Every single value, in the order of the keys. */
static kiln_status make_notes(reader *r)
{
    const gguf_header *h = r->h;
    if (!(r->t->note = mem_calloc(h->n_pair + 1, sizeof *r->t->note))) return no_memory(r);
    for (size_t i = 0; i < h->n_pair; i++) {
        if (h->pair[i].is_array) continue;
        TRY(check_text(r, &h->pair[i]));
        safetensors_note *note = &r->t->note[r->t->n_note++];
        *note = (safetensors_note){h->pair[i].key, text_of(r->h, &h->pair[i])};
        if (!note->value) return no_memory(r);
    }
    return KILN_OK;
}

/* ---- tensors ---- */

/* Dimensions are stored fastest first. */
static kiln_status take_shape(reader *r, safetensors_entry *x)
{
    uint64_t rank = 0, dim[GGUF_RANK_MAX], all = 1;
    size_t at = r->at;
    TRY(take_number(r, 4, "a tensor's rank", &rank));
    if (rank < 1 || rank > GGUF_RANK_MAX)
        return fail(r, at, "tensor '%.64s' has %llu dimensions; 1 to %d are allowed", x->name, (unsigned long long)rank,
                    GGUF_RANK_MAX);
    x->rank = (uint32_t)rank;
    for (uint32_t i = 0; i < x->rank; i++) {
        TRY(take_number(r, 8, "a tensor's shape", &dim[i]));
        if (dim[i] < 1 || dim[i] > INT64_MAX || !checked_mul_u64(all, dim[i], &all) || all > INT64_MAX)
            return fail(r, at, "tensor '%.64s' has a dimension of 0, or is too large", x->name);
        x->dim[x->rank - 1 - i] = (int64_t)dim[i];
    }
    return KILN_OK;
}

static uint64_t count_of(const safetensors_entry *x)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < x->rank; i++) n *= (uint64_t)x->dim[i];
    return n;
}

static kiln_status take_type(reader *r, safetensors_entry *x, uint64_t *bytes)
{
    uint64_t id = 0, row = (uint64_t)x->dim[x->rank - 1];
    size_t at = r->at;
    TRY(take_number(r, 4, "a tensor's type", &id));
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].id != id) continue;
        x->type_name = types[i].name;
        x->dtype = types[i].dtype;
        if (row % types[i].elements)
            return fail(r, at, "tensor '%.64s' has rows of %llu elements, which are no whole blocks of %s (%u)",
                        x->name, (unsigned long long)row, x->type_name, types[i].elements);
        if (!checked_mul_u64(count_of(x) / types[i].elements, types[i].bytes, bytes) || *bytes > INT64_MAX)
            return fail(r, at, "tensor '%.64s' is too large", x->name);
        return KILN_OK;
    }
    return fail(r, at, "tensor '%.64s' is of the unknown type %llu; the file is newer than this kiln, or damaged",
                x->name, (unsigned long long)id);
}

static kiln_status take_tensor(reader *r, safetensors_entry *x)
{
    uint64_t bytes = 0;
    *x = (safetensors_entry){.at = r->at};
    TRY(take_name(r, "a tensor's name", SAFETENSORS_NAME_MAX, &x->name));
    TRY(take_shape(r, x));
    TRY(take_type(r, x, &bytes));
    size_t at = r->at;
    TRY(take_number(r, 8, "a tensor's offset", &x->begin));
    if (x->begin % r->alignment)
        return fail(r, at, "tensor '%.64s' begins at data byte %llu, which is no multiple of the alignment %llu",
                    x->name, (unsigned long long)x->begin, (unsigned long long)r->alignment);
    if (!checked_add_u64(x->begin, bytes, &x->end)) return fail(r, at, "tensor '%.64s' ends nowhere", x->name);
    return KILN_OK;
}

/* The shape a tensor had before it was flattened, in the order of torch. */
static kiln_status read_orig_shape(reader *r, safetensors_entry *x)
{
    str key = {0};
    str_printf(&key, "%s%s", orig_shape, x->name);
    const gguf_pair *p = key.failed ? NULL : gguf_header_find(r->h, str_text(&key));
    int failed = key.failed;
    str_free(&key);
    if (failed) return no_memory(r);
    if (!p) return KILN_OK;
    safetensors_entry shape = {.rank = (uint32_t)p->count};
    int fits = p->is_array && is_whole(p->type) && p->count >= 1 && p->count <= SAFETENSORS_RANK_MAX;
    uint64_t all = 1;
    for (uint32_t i = 0; fits && i < shape.rank; i++) {
        shape.dim[i] = signed_at(p, i);
        fits = shape.dim[i] > 0 && checked_mul_u64(all, (uint64_t)shape.dim[i], &all);
    }
    if (!fits || all != count_of(x))
        return fail(r, (uint64_t)(p->data - r->data), "'%.100s' does not fit the tensor", p->key);
    x->rank = shape.rank;
    memcpy(x->dim, shape.dim, sizeof x->dim);
    return KILN_OK;
}

static kiln_status take_tensors(reader *r)
{
    safetensors_header *t = r->t;
    if (!(t->entry = mem_calloc((size_t)r->n_tensor + 1, sizeof *t->entry))) return no_memory(r);
    for (; t->count < r->n_tensor; t->count++) TRY(take_tensor(r, &t->entry[t->count]));
    for (size_t i = 0; i < t->count; i++) TRY(read_orig_shape(r, &t->entry[i]));
    return KILN_OK;
}

static int by_name(const void *a, const void *b)
{
    const safetensors_entry *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

static int by_place(const void *a, const void *b)
{
    const safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static kiln_status check_names(const reader *r)
{
    safetensors_header *t = r->t;
    if (t->count) qsort(t->entry, t->count, sizeof *t->entry, by_name);
    for (size_t i = 1; i < t->count; i++)
        if (strcmp(t->entry[i - 1].name, t->entry[i].name) == 0)
            return fail(r, t->entry[i].at, "tensor '%.64s' twice", t->entry[i].name);
    return KILN_OK;
}

/* Offsets become places in the file. */
static kiln_status check_places(reader *r)
{
    safetensors_header *t = r->t;
    uint64_t start = ((uint64_t)r->at + r->alignment - 1) & ~(r->alignment - 1), end = 0;
    if (t->count) qsort(t->entry, t->count, sizeof *t->entry, by_place);
    t->data_start = start;
    for (size_t i = 0; i < t->count; i++) {
        safetensors_entry *x = &t->entry[i];
        if (x->begin < end) return fail(r, x->at, "tensor '%.64s' overlaps the one before it", x->name);
        if (start > r->size || x->end > r->size - start)
            return fail(r, x->at,
                        "tensor '%.64s' ends at byte %llu of the data, but the file has %llu: it is cut off; "
                        "fetch it again",
                        x->name, (unsigned long long)x->end,
                        (unsigned long long)(start > r->size ? 0 : r->size - start));
        end = x->end;
        x->begin += start;
        x->end += start;
    }
    return KILN_OK;
}

/* ---- the file ---- */

int gguf_begins(const uint8_t *data, size_t size) { return size >= 4 && memcmp(data, "GGUF", 4) == 0; }

static kiln_status take_version(reader *r)
{
    uint64_t version = 0;
    TRY(take_number(r, 4, "the version", &version));
    if (version >= VERSION_MIN && version <= VERSION_MAX) return KILN_OK;
    if (version && (version & 0xffff) == 0)
        return fail(r, 4, "a GGUF file of a big-endian machine; kiln reads little-endian ones");
    return fail(r, 4, "version %llu of GGUF; kiln reads %d and %d", (unsigned long long)version, VERSION_MIN,
                VERSION_MAX);
}

static kiln_status take_count(reader *r, const char *what, uint64_t smallest, uint64_t most, uint64_t *out)
{
    size_t at = r->at;
    TRY(take_number(r, 8, what, out));
    if (*out <= most && *out <= (r->size - r->at) / smallest) return KILN_OK;
    return fail(r, at, "%s is %llu, more than the file has bytes for or than %llu", what, (unsigned long long)*out,
                (unsigned long long)most);
}

static kiln_status read_all(reader *r)
{
    enum { SMALLEST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8, SMALLEST_PAIR = 8 + 1 + 4 + 1 };
    const uint8_t *magic = NULL;
    TRY(take(r, 4, "the magic number", &magic));
    if (!gguf_begins(magic, 4)) return fail(r, 0, "a GGUF file begins with 'GGUF'");
    TRY(take_version(r));
    TRY(take_count(r, "the number of tensors", SMALLEST_TENSOR, SAFETENSORS_TENSORS_MAX, &r->n_tensor));
    TRY(take_count(r, "the number of keys", SMALLEST_PAIR, GGUF_PAIRS_MAX, &r->n_pair));
    TRY(take_pairs(r));
    TRY(read_alignment(r));
    TRY(make_notes(r));
    TRY(take_tensors(r));
    TRY(check_names(r));
    return check_places(r);
}

kiln_status gguf_header_parse(gguf_header *h, safetensors_header *tensors, const char *path, const uint8_t *data,
                              size_t size, error *e)
{
    *h = (gguf_header){0};
    *tensors = (safetensors_header){0};
    reader r = {.path = path, .data = data, .size = size, .h = h, .t = tensors, .e = e};
    kiln_status status = read_all(&r);
    if (status == KILN_OK) return status;
    gguf_header_free(h);
    safetensors_free(tensors);
    return status;
}

void gguf_header_free(gguf_header *h)
{
    mem_free(h->pair);
    arena_free(&h->memory);
    *h = (gguf_header){0};
}
