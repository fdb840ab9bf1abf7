/* contents.c - what a set hands out: bytes, numbers, texts, its identity; see weights.h.
 *
 * Bytes come straight from the file's map, or are read beside it (weights_read_stored). That the file is still the one that
 * was opened is asked each time, so a file replaced or rewritten between two uses is an error. One cut short in the very moment in which
 * the map is read raises SIGBUS, as with every map; kiln installs no handler for it.
 */
#include "base/log.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"
#include "weights/set.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- bytes --------------------------------------------------------------------------------------------------------- */

const void *weights_bytes(const kiln_weights *w, const char *name, kiln_weight_info *info)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (!x || x->transposed || !x->dtype) return NULL;
    if (info) weights_describe(x, info);
    return weights_data(x);
}

static kiln_status usable(const weights_entry *x, error *e)
{
    if (x->dtype) return file_map_unchanged(&x->file->map, e);
    if (!x->rank && x->bytes)
        for (size_t i = 0; i < x->file->header.count; i++) {
            const safetensors_entry *s = &x->file->header.entry[i];
            if (s->begin == x->begin && s->rank > KILN_MAX_RANK)
                return error_set(e, KILN_ERR_UNSUPPORTED, "%s: tensor '%.200s' has %u dimensions; kiln computes with at most %d", x->file->map.path,
                                 x->name, s->rank, KILN_MAX_RANK);
        }
    return error_set(e, KILN_ERR_UNSUPPORTED, "%s: tensor '%.200s' is of type %s, which kiln does not compute with; convert it to F32, F16 or BF16",
                     x->file->map.path, x->name, x->type_name);
}

enum { AROUND = 128 << 10 }; /* twice what a fault brings in at once */

/* The pages of the tensor, and with `around` those that the system may have brought in beside them when it was read. */
static void advise(const weights_entry *x, size_t around, int advice)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), first = (uintptr_t)x->file->map.data, last = first + x->file->map.size;
    uintptr_t begin = (uintptr_t)weights_data(x), end = begin + (uintptr_t)x->bytes;
    begin = begin - first > around ? begin - around : first;
    end = last - end > around ? end + around : last;
    begin = begin / page * page;
    if (x->file->map.data && end > begin) madvise((void *)begin, end - begin, advice); /* only ever a hint */
}

const void *weights_map(const kiln_weights *w, const char *name, error *e)
{
    weights_entry *x = weights_entry_of(w, name);
    if (!x) return weights_missing(w, name, e), NULL;
    if (usable(x, e) != KILN_OK) return NULL;
    if (x->transposed) return error_set(e, KILN_ERR_UNSUPPORTED, "%s: tensor '%.200s' is a transposed view and has no bytes of its own", w->path, name), NULL;
    weights_mark_entry(w, x);
    return weights_data(x);
}

void weights_will_need(const kiln_weights *w, const char *name)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (x) advise(x, 0, MADV_WILLNEED);
}

void weights_release_pages(const kiln_weights *w, const char *name)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (x) advise(x, AROUND, MADV_DONTNEED);
}

/* ---- numbers ------------------------------------------------------------------------------------------------------- */

enum { STRIP = 32 };

/* dst[columns, rows] = the transposed of the stored [rows, columns], a strip of rows at a time. */
static kiln_status read_transposed(const weights_entry *x, const uint8_t *stored, float *dst)
{
    size_t rows = (size_t)x->dim[1], columns = (size_t)x->dim[0], width = dtype_size(x->dtype);
    float *strip = mem_alloc(STRIP * columns * sizeof *strip);
    if (!strip) return KILN_ERR_NOMEM;
    kiln_status status = KILN_OK;
    for (size_t r = 0; r < rows && status == KILN_OK; r += STRIP) {
        size_t n = rows - r < STRIP ? rows - r : STRIP;
        status = dtype_convert(strip, KILN_F32, stored + r * columns * width, x->dtype, n * columns);
        for (size_t c = 0; c < columns && status == KILN_OK; c++)
            for (size_t i = 0; i < n; i++) dst[c * rows + r + i] = strip[i * columns + c];
    }
    mem_free(strip);
    return status;
}

static kiln_status as_f32(const kiln_weights *w, const weights_entry *x, const uint8_t *stored, float *dst, error *e)
{
    if (x->bytes == 0) return KILN_OK;
    kiln_status status = x->transposed ? read_transposed(x, stored, dst) : dtype_convert(dst, KILN_F32, stored, x->dtype, (size_t)x->bytes / dtype_size(x->dtype));
    if (status == KILN_ERR_NOMEM) return error_set(e, status, "%s: out of memory for '%.200s'", w->path, x->name);
    if (status != KILN_OK) return error_set(e, status, "%s: tensor '%.200s' of type %s cannot be read as f32", w->path, x->name, x->type_name);
    return KILN_OK;
}

kiln_status weights_read_f32(const kiln_weights *w, const char *name, float *dst, error *e)
{
    weights_entry *x = weights_entry_of(w, name);
    if (!x) return weights_missing(w, name, e);
    TRY(usable(x, e));
    weights_mark_entry(w, x);
    return as_f32(w, x, weights_data(x), dst, e);
}

/* An element is NaN or infinite when its exponent bits are all ones. Whole blocks are tested without a branch. */
enum { BLOCK = 4096, LANES = 64 };
#define NONFINITE(suffix, type, ones)                                                                                                  \
    static type suffix##_at(const uint8_t *p)                                                                                          \
    {                                                                                                                                  \
        type v;                                                                                                                        \
        memcpy(&v, p, sizeof v);                                                                                                       \
        return (type)((v & (ones)) == (ones));                                                                                         \
    }                                                                                                                                  \
    static int any_##suffix(const uint8_t *p, size_t n)                                                                                \
    {                                                                                                                                  \
        type bad = 0;                                                                                                                  \
        size_t i = 0;                                                                                                                  \
        for (; i + LANES <= n; i += LANES, p += LANES * sizeof bad) /* a fixed count, for the vectoriser */                            \
            for (size_t k = 0; k < LANES; k++) bad |= suffix##_at(p + k * sizeof bad);                                                 \
        for (; i < n; i++, p += sizeof bad) bad |= suffix##_at(p);                                                                     \
        return bad != 0;                                                                                                               \
    }
NONFINITE(f32, uint32_t, 0x7f800000u)
NONFINITE(f16, uint16_t, 0x7c00u)
NONFINITE(bf16, uint16_t, 0x7f80u)
NONFINITE(f64, uint64_t, 0x7ff0000000000000u)

static const struct {
    uint32_t dtype;
    size_t width;
    int (*any)(const uint8_t *, size_t);
} scans[] = {{KILN_F32, 4, any_f32}, {KILN_F16, 2, any_f16}, {KILN_BF16, 2, any_bf16}, {KILN_F64, 8, any_f64}};

/* Index of the first element that is not finite; n: none. */
static size_t first_nonfinite(const uint8_t *p, size_t n, size_t width, int (*any)(const uint8_t *, size_t))
{
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t m = n - i < BLOCK ? n - i : BLOCK;
        if (!any(p + i * width, m)) continue;
        while (!any(p + i * width, 1)) i++;
        return i;
    }
    return n;
}

static kiln_status scan(const weights_entry *x, const uint8_t *stored, error *e)
{
    for (size_t i = 0; i < sizeof scans / sizeof scans[0]; i++) {
        if (scans[i].dtype != x->dtype) continue;
        size_t n = (size_t)x->bytes / scans[i].width, at = first_nonfinite(stored, n, scans[i].width, scans[i].any);
        if (at < n)
            return error_set(e, KILN_ERR_INVALID, "%s: byte %llu: tensor '%.200s' holds a NaN or infinity at element %zu; the file is damaged or its training failed",
                             x->file->map.path, (unsigned long long)(x->begin + at * scans[i].width), x->name, at);
    }
    return KILN_OK;
}

kiln_status weights_scan_finite(const kiln_weights *w, const char *name, error *e)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (!x) return weights_missing(w, name, e);
    TRY(usable(x, e));
    return scan(x, weights_data(x), e);
}

/* ---- without the map ------------------------------------------------------------------------------------------------- */

size_t weights_stored_bytes(const kiln_weights *w, const char *name)
{
    const weights_entry *x = weights_entry_of(w, name);
    return x ? (size_t)x->bytes : 0;
}

kiln_status weights_read_stored(const kiln_weights *w, const char *name, void *dst, pool *p, error *e)
{
    weights_entry *x = weights_entry_of(w, name);
    error why = {0};
    if (!x) return weights_missing(w, name, e);
    if (!x->dtype) return usable(x, e);
    weights_mark_entry(w, x);
    kiln_status status = file_map_read(&x->file->map, (size_t)x->begin, (size_t)x->bytes, dst, p, &why);
    return status == KILN_OK ? status : error_set(e, status, "%s (tensor '%.200s')", why.message, x->name);
}

kiln_status weights_scan_stored(const kiln_weights *w, const char *name, const void *stored, error *e)
{
    const weights_entry *x = weights_entry_of(w, name);
    return x ? scan(x, stored, e) : weights_missing(w, name, e);
}

kiln_status weights_stored_as_f32(const kiln_weights *w, const char *name, const void *stored, float *dst, error *e)
{
    const weights_entry *x = weights_entry_of(w, name);
    return x ? as_f32(w, x, stored, dst, e) : weights_missing(w, name, e);
}

/* ---- texts --------------------------------------------------------------------------------------------------------- */

static const char metadata_mark[] = "__metadata__/";

/* "unet/__metadata__/format": the first file of that prefix which has the key. */
static const char *metadata(const kiln_weights *w, const char *path, const char *mark, size_t *n)
{
    const char *key = mark + sizeof metadata_mark - 1;
    size_t prefix = (size_t)(mark - path);
    for (size_t i = 0; i < w->n_file; i++) {
        const weights_file *f = &w->file[i];
        if (strlen(f->prefix) != prefix || strncmp(f->prefix, path, prefix) != 0) continue;
        for (size_t k = 0; k < f->header.n_note; k++)
            if (strcmp(f->header.note[k].key, key) == 0) {
                if (n) *n = strlen(f->header.note[k].value);
                return f->header.note[k].value;
            }
    }
    return NULL;
}

/* A path below the folder: no empty, "." or ".." part, nothing that a terminal would act on. */
static int plain_path(const char *path)
{
    for (const char *p = path; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) return 0;
    for (const char *part = path;; part += strcspn(part, "/") + 1) {
        size_t n = strcspn(part, "/");
        if (n == 0 || (n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.')) return 0;
        if (!part[n]) return 1;
    }
}

static char *read_inside(const kiln_weights *w, const char *path, size_t *size)
{
    char *full = path_join(w->root, path), *text = NULL;
    error why = {0};
    if (full && file_exists(full)) {
        if (!set_holds_path(w, full))
            log_warn("%s: a link to outside the model's folder is not read", full);
        else if (file_read(full, WEIGHTS_TEXT_MAX, &text, size, &why) != KILN_OK)
            log_warn("%s", why.message);
    }
    mem_free(full);
    return text;
}

static text_entry *find_text(const kiln_weights *w, const char *path)
{
    text_entry *t = w->texts;
    while (t && strcmp(t->path, path) != 0) t = t->next;
    return t;
}

static text_entry *load_text(kiln_weights *w, const char *path)
{
    size_t size = 0;
    char *text = read_inside(w, path, &size);
    const char *copy = text ? arena_strdup(&w->memory, path) : NULL;
    text_entry *t = copy ? arena_alloc(&w->memory, sizeof *t) : NULL;
    if (!t) return mem_free(text), NULL;
    *t = (text_entry){.next = w->texts, .path = copy, .text = text, .size = size};
    return w->texts = t;
}

const char *weights_text(const kiln_weights *set, const char *path, size_t *n)
{
    kiln_weights *w = (kiln_weights *)(uintptr_t)set;
    while (w->base) w = w->base;
    const char *mark = strstr(path, metadata_mark);
    if (mark && (mark == path || mark[-1] == '/')) return metadata(w, path, mark, n);
    if (!w->root || !plain_path(path)) return NULL;
    pthread_mutex_lock(&w->lock);
    text_entry *t = find_text(w, path);
    if (!t) t = load_text(w, path);
    pthread_mutex_unlock(&w->lock);
    if (t && n) *n = t->size;
    return t ? t->text : NULL;
}

/* ---- identity ------------------------------------------------------------------------------------------------------- */

static kiln_status content_of(const weights_file *f, digest *out, error *e)
{
    TRY(file_digest(f->map.path, out, e)); /* remembered by file */
    return file_map_unchanged(&f->map, e);
}

static kiln_status make_identity(kiln_weights *w, error *e)
{
    hasher *h = hasher_new();
    digest content = {0};
    if (!h) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    kiln_status status = KILN_OK;
    const weights_file *last = NULL;
    for (size_t i = 0; i < w->n && status == KILN_OK; i++) {
        const weights_entry *x = &w->entry[i];
        if (x->file != last) status = content_of(x->file, &content, e);
        last = x->file;
        hash_digest(h, content);
        hash_text(h, x->name);
        hash_text(h, x->type_name);
        hash_u64(h, x->begin);
        hash_u64(h, x->bytes);
        hash_u64(h, x->rank | (uint64_t)(x->transposed != 0) << 32);
        for (uint32_t k = 0; k < x->rank; k++) hash_u64(h, (uint64_t)x->dim[k]);
    }
    if (status == KILN_OK) digest_hex(hasher_digest(h), w->identity);
    hasher_free(h);
    return status;
}

const char *weights_identity(const kiln_weights *set, error *e)
{
    kiln_weights *w = (kiln_weights *)(uintptr_t)set;
    pthread_mutex_lock(&w->lock);
    kiln_status status = w->identity[0] ? KILN_OK : make_identity(w, e);
    pthread_mutex_unlock(&w->lock);
    return status == KILN_OK ? w->identity : NULL;
}
