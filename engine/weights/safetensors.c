/* safetensors.c - see safetensors.h. First the JSON is read into entries, each checked alone; then
 * the entries are checked together (no name twice, exact cover of the file). */
#include "weights/safetensors.h"

#include "base/array.h"
#include "base/checked.h"
#include "base/memory_alloc.h"
#include "weights/json_scan.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    uint32_t bits, dtype;
} types[] = {
    {"F32", 32, KILN_F32},
    {"F16", 16, KILN_F16},
    {"BF16", 16, KILN_BF16},
    {"U8", 8, KILN_U8},
    {"I32", 32, KILN_I32},
    {"I64", 64, KILN_I64},
    {"F64", 64, KILN_F64},
    {"BOOL", 8, KILN_BOOL8},
    {"I8", 8, 0},
    {"I16", 16, 0},
    {"U16", 16, 0},
    {"U32", 32, 0},
    {"U64", 64, 0},
    {"F8_E4M3", 8, KILN_F8_E4M3},
    {"F8_E5M2", 8, KILN_F8_E5M2},
    {"F8_E8M0", 8, 0},
    {"F8_E4M3FNUZ", 8, 0},
    {"F8_E5M2FNUZ", 8, 0},
    {"F6_E2M3", 6, 0},
    {"F6_E3M2", 6, 0},
    {"F4", 4, 0},
    {"C64", 64, 0},
};

typedef struct {
    json_scan scan;
    safetensors_header *h;
    size_t capacity, note_capacity;
    size_t bits; /* of the entry being read */
    int saw_notes;
} reader;

static kiln_status no_memory(reader *r)
{
    return error_set(r->scan.e, KILN_ERR_NOMEM, "%s: out of memory", r->scan.file);
}

static kiln_status read_name(reader *r, const char **name, size_t *at)
{
    size_t n;
    *at = json_here(&r->scan);
    TRY(json_key(&r->scan, name, &n));
    if (n > SAFETENSORS_NAME_MAX)
        return json_fail(&r->scan, *at, "a name of %zu bytes; at most %d are allowed", n, SAFETENSORS_NAME_MAX);
    return KILN_OK;
}

static kiln_status read_notes(reader *r)
{
    size_t index = 0, n, at;
    int more;
    if (r->saw_notes) return json_fail(&r->scan, json_here(&r->scan), "__metadata__ twice");
    r->saw_notes = 1;
    TRY(json_open(&r->scan, '{'));
    for (;;) {
        TRY(json_more(&r->scan, '}', &index, &more));
        if (!more) return KILN_OK;
        safetensors_header *h = r->h;
        if (h->n_note >= SAFETENSORS_TENSORS_MAX)
            return json_fail(&r->scan, r->scan.at, "more than %d entries in __metadata__", SAFETENSORS_TENSORS_MAX);
        if (!array_reserve(&h->note, &r->note_capacity, h->n_note + 1, sizeof *h->note)) return no_memory(r);
        TRY(read_name(r, &h->note[h->n_note].key, &at));
        TRY(json_string(&r->scan, &h->note[h->n_note].value, &n));
        h->n_note++;
    }
}

static kiln_status read_dtype(reader *r, safetensors_entry *x)
{
    const char *text;
    size_t n, at = json_here(&r->scan);
    TRY(json_string(&r->scan, &text, &n));
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(types[i].name, text) == 0) {
            x->type_name = types[i].name;
            x->dtype = types[i].dtype;
            r->bits = types[i].bits;
            return KILN_OK;
        }
    return json_fail(&r->scan, at, "tensor '%.64s' has the unknown dtype '%.32s'; known are F32, F16, BF16, I64, ...",
                     x->name, text);
}

static kiln_status read_shape(reader *r, safetensors_entry *x)
{
    size_t index = 0;
    int more;
    uint64_t v;
    TRY(json_open(&r->scan, '['));
    for (;;) {
        TRY(json_more(&r->scan, ']', &index, &more));
        if (!more) return KILN_OK;
        if (x->rank == SAFETENSORS_RANK_MAX)
            return json_fail(&r->scan, r->scan.at, "tensor '%.64s' has more than %d dimensions", x->name,
                             SAFETENSORS_RANK_MAX);
        TRY(json_count(&r->scan, &v));
        x->dim[x->rank++] = (int64_t)v;
    }
}

static kiln_status read_offsets(reader *r, safetensors_entry *x)
{
    size_t index = 0, at = json_here(&r->scan);
    int more;
    uint64_t v[2];
    TRY(json_open(&r->scan, '['));
    for (;;) {
        TRY(json_more(&r->scan, ']', &index, &more));
        if (!more) break;
        if (index > 2) return json_fail(&r->scan, at, "data_offsets of tensor '%.64s' must be two numbers", x->name);
        TRY(json_count(&r->scan, &v[index - 1]));
    }
    if (index != 3) return json_fail(&r->scan, at, "data_offsets of tensor '%.64s' must be two numbers", x->name);
    if (v[1] < v[0])
        return json_fail(&r->scan, at, "tensor '%.64s' ends before it begins (%llu > %llu)", x->name,
                         (unsigned long long)v[0], (unsigned long long)v[1]);
    x->begin = v[0];
    x->end = v[1];
    return KILN_OK;
}

/* What the shape says must be what the offsets say. Dimensions of 0 count as 1 in the overflow check,
 * so that the product of any of them fits too. */
static kiln_status check_size(reader *r, const safetensors_entry *x)
{
    uint64_t bits = r->bits;
    int empty = 0;
    for (uint32_t i = 0; i < x->rank; i++) {
        empty |= x->dim[i] == 0;
        if (!checked_mul_u64(bits, x->dim[i] ? (uint64_t)x->dim[i] : 1, &bits) || bits > INT64_MAX)
            return json_fail(&r->scan, (size_t)x->at, "the shape of tensor '%.64s' is too large", x->name);
    }
    if (empty) bits = 0;
    if (bits % 8) return json_fail(&r->scan, (size_t)x->at, "tensor '%.64s' is not a whole number of bytes", x->name);
    if (x->end - x->begin != bits / 8)
        return json_fail(&r->scan, (size_t)x->at,
                         "tensor '%.64s' has %llu bytes by its data_offsets, but its shape and dtype %s need %llu",
                         x->name, (unsigned long long)(x->end - x->begin), x->type_name,
                         (unsigned long long)(bits / 8));
    return KILN_OK;
}

static const struct {
    const char *name;
    kiln_status (*read)(reader *, safetensors_entry *);
} fields[] = {{"dtype", read_dtype}, {"shape", read_shape}, {"data_offsets", read_offsets}};
enum { FIELDS = 3 };

static kiln_status read_field(reader *r, safetensors_entry *x, int have[FIELDS])
{
    const char *key;
    size_t n, at = json_here(&r->scan);
    TRY(json_key(&r->scan, &key, &n));
    for (int i = 0; i < FIELDS; i++) {
        if (strcmp(key, fields[i].name) != 0) continue;
        if (have[i]++) return json_fail(&r->scan, at, "tensor '%.64s' has '%s' twice", x->name, key);
        return fields[i].read(r, x);
    }
    return json_fail(&r->scan, at, "tensor '%.64s' has a field '%.32s'; allowed are dtype, shape, data_offsets",
                     x->name, key);
}

static kiln_status read_entry(reader *r, safetensors_entry *x)
{
    int have[FIELDS] = {0}, more;
    size_t index = 0;
    TRY(json_open(&r->scan, '{'));
    for (;;) {
        TRY(json_more(&r->scan, '}', &index, &more));
        if (!more) break;
        TRY(read_field(r, x, have));
    }
    for (int i = 0; i < FIELDS; i++)
        if (!have[i]) return json_fail(&r->scan, (size_t)x->at, "tensor '%.64s' has no '%s'", x->name, fields[i].name);
    return check_size(r, x);
}

static kiln_status read_entries(reader *r)
{
    safetensors_header *h = r->h;
    size_t index = 0;
    int more;
    TRY(json_open(&r->scan, '{'));
    for (;;) {
        TRY(json_more(&r->scan, '}', &index, &more));
        if (!more) return KILN_OK;
        const char *name;
        size_t at;
        TRY(read_name(r, &name, &at));
        if (strcmp(name, "__metadata__") == 0) {
            TRY(read_notes(r));
            continue;
        }
        if (h->count >= SAFETENSORS_TENSORS_MAX)
            return json_fail(&r->scan, at, "more than %d tensors", SAFETENSORS_TENSORS_MAX);
        if (!array_reserve(&h->entry, &r->capacity, h->count + 1, sizeof *h->entry)) return no_memory(r);
        h->entry[h->count] = (safetensors_entry){.name = name, .at = at};
        TRY(read_entry(r, &h->entry[h->count]));
        h->count++;
    }
}

static int by_place(const void *a, const void *b)
{
    const safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int by_name(const void *a, const void *b)
{
    const safetensors_entry *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const safetensors_note *)a)->key, ((const safetensors_note *)b)->key);
}

static kiln_status check_names(reader *r)
{
    safetensors_header *h = r->h;
    if (h->count) qsort(h->entry, h->count, sizeof *h->entry, by_name);
    for (size_t i = 1; i < h->count; i++)
        if (strcmp(h->entry[i - 1].name, h->entry[i].name) == 0)
            return json_fail(&r->scan, (size_t)h->entry[i].at, "tensor '%.64s' twice", h->entry[i].name);
    if (h->n_note) qsort(h->note, h->n_note, sizeof *h->note, by_key);
    for (size_t i = 1; i < h->n_note; i++)
        if (strcmp(h->note[i - 1].key, h->note[i].key) == 0)
            return json_fail(&r->scan, 0, "key '%.64s' twice in __metadata__", h->note[i].key);
    return KILN_OK;
}

static kiln_status check_cover(reader *r, uint64_t data_size)
{
    safetensors_header *h = r->h;
    uint64_t at = 0;
    if (h->count) qsort(h->entry, h->count, sizeof *h->entry, by_place);
    for (size_t i = 0; i < h->count; i++) {
        safetensors_entry *x = &h->entry[i];
        if (x->begin != at)
            return json_fail(&r->scan, (size_t)x->at,
                             "tensor '%.64s' begins at data byte %llu, but the one before it ends at %llu: %s", x->name,
                             (unsigned long long)x->begin, (unsigned long long)at,
                             x->begin > at ? "a hole" : "an overlap");
        at = x->end;
    }
    if (at != data_size)
        return error_set(r->scan.e, KILN_ERR_INVALID,
                         "%s: byte %llu: %s: the header describes %llu bytes of tensors, the file holds %llu; "
                         "fetch the file again",
                         r->scan.file, (unsigned long long)(h->data_start + (at < data_size ? at : data_size)),
                         at > data_size ? "the file is cut off" : "bytes that no tensor owns", (unsigned long long)at,
                         (unsigned long long)data_size);
    for (size_t i = 0; i < h->count; i++) {
        h->entry[i].begin += h->data_start;
        h->entry[i].end += h->data_start;
        h->entry[i].at += r->scan.offset;
    }
    return KILN_OK;
}

static kiln_status find_header(const char *path, const uint8_t *data, size_t size, size_t *length, error *e)
{
    if (size < 8)
        return error_set(e, KILN_ERR_INVALID,
                         "%s: byte %zu: the file ends here; a safetensors file starts with 8 bytes of header length",
                         path, size);
    uint64_t n = 0;
    for (int i = 7; i >= 0; i--) n = n << 8 | data[i];
    if (n > SAFETENSORS_HEADER_MAX)
        return error_set(e, KILN_ERR_INVALID,
                         "%s: byte 0: a header of %llu bytes; at most %u are allowed, so this is no safetensors file",
                         path, (unsigned long long)n, SAFETENSORS_HEADER_MAX);
    if (n > size - 8)
        return error_set(e, KILN_ERR_INVALID,
                         "%s: byte %zu: the file ends inside its header of %llu bytes; fetch the file again", path,
                         size, (unsigned long long)n);
    if (n == 0 || data[8] != '{')
        return error_set(e, KILN_ERR_INVALID, "%s: byte 8: the header must start with '{'", path);
    *length = (size_t)n;
    return KILN_OK;
}

static kiln_status check_padding(reader *r)
{
    for (size_t i = r->scan.at; i < r->scan.size; i++)
        if (r->scan.text[i] != ' ') return json_fail(&r->scan, i, "only spaces may follow the header's last '}'");
    return KILN_OK;
}

kiln_status safetensors_parse(safetensors_header *h, const char *path, const uint8_t *data, size_t size, error *e)
{
    size_t length = 0;
    *h = (safetensors_header){0};
    TRY(find_header(path, data, size, &length, e));
    h->data_start = 8 + length;
    h->text = mem_alloc(length + 1);
    if (!h->text) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    reader r = {.h = h, .scan = {.file = path, .text = data + 8, .size = length, .offset = 8, .pool = h->text, .e = e}};
    kiln_status status = read_entries(&r);
    if (status == KILN_OK) status = check_padding(&r);
    if (status == KILN_OK) status = check_names(&r);
    if (status == KILN_OK) status = check_cover(&r, size - 8 - length);
    if (status != KILN_OK) safetensors_free(h);
    return status;
}

void safetensors_free(safetensors_header *h)
{
    mem_free(h->entry);
    mem_free(h->note);
    mem_free(h->text);
    *h = (safetensors_header){0};
}
