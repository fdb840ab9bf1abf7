/* contents.c - what a set gives out: bytes, texts, its identity; see weights.h. elements.c gives tensors as f32.
 *
 * Bytes come straight from the file's map, or are read from the file without it (weights_read_stored). Whether the file
 * is still the one that was opened is checked before a reading, and after one through the map, so a file replaced,
 * rewritten or cut short meanwhile is an error (base/map_fault.h: pages that are gone read as zeros).
 */
#include "base/file_list.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"
#include "weights/derived.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- bytes ---- */

const void *weights_bytes(const kiln_weights *w, const char *name, kiln_weight_info *info)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (!x || x->transposed || weights_is_computed(x) || !x->dtype) return NULL;
    if (info) weights_describe(x, info);
    return weights_data(x);
}

static kiln_status supported(const weights_entry *x, error *e)
{
    if (x->dtype) return KILN_OK;
    if (x->scale)
        return error_set(
            e, KILN_ERR_UNSUPPORTED,
            "%s: tensor '%.200s' is %s that '%.200s' belongs to, in a form that kiln does not know; convert "
            "it to F16 or BF16, or take a file in plain fp8",
            x->file->map.path, x->name, x->type_name, x->scale);
    return error_set(
        e, KILN_ERR_UNSUPPORTED,
        "%s: tensor '%.200s' is of type %s, which kiln does not compute with; convert it to F32, F16 or BF16",
        x->file->map.path, x->name, x->type_name);
}

kiln_status weights_readable(const weights_entry *x, error *e) { return supported(x, e); }

kiln_status weights_usable(const weights_entry *x, error *e)
{
    TRY(supported(x, e));
    return weights_file_unchanged(x->file, e);
}

kiln_status weights_supported(const kiln_weights *w, const char *name, error *e)
{
    const weights_entry *x = weights_entry_of(w, name);
    return x ? supported(x, e) : weights_missing(w, name, e);
}

const char *weights_type_name(const kiln_weights *w, const char *name)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (!x) return "?";
    if (x->derived && x->derived->kind == DERIVED_SCALED) return x->type_name;
    return x->dtype ? dtype_name(x->dtype) : x->scale ? "unknown scale" : x->type_name;
}

enum { AROUND = 128 << 10 }; /* twice what a fault brings in at once */

/* reader: the tensor's pages are wanted soon. NULL: they are not needed any more, and what the system may have read in
 * beside them. */
static void advise(const weights_entry *x, page_reader *reader)
{
    uintptr_t around = reader ? 0 : AROUND, page = (uintptr_t)sysconf(_SC_PAGESIZE),
              first = (uintptr_t)x->file->map.data, last = first + x->file->map.size;
    uintptr_t begin = (uintptr_t)weights_data(x), end = begin + (uintptr_t)x->bytes;
    begin = begin - first > around ? begin - around : first;
    end = last - end > around ? end + around : last;
    begin = begin / page * page;
    if (x->file->memory || !x->file->map.data || end <= begin) return;
    if (reader)
        page_reader_ask(reader, (const void *)begin, end - begin);
    else
        madvise((void *)begin, end - begin, MADV_DONTNEED); /* only ever a hint */
}

static kiln_status entry_unchanged(void *arg, const weights_entry *x, error *e)
{
    return weights_is_computed(x) ? weights_each_part(x, entry_unchanged, arg, e) : weights_file_unchanged(x->file, e);
}

kiln_status weights_unchanged(const kiln_weights *w, const char *name, error *e)
{
    const weights_entry *x = weights_entry_of(w, name);
    return x ? entry_unchanged(NULL, x, e) : weights_missing(w, name, e);
}

const weights_file *weights_nth_file(const kiln_weights *w, size_t i)
{
    for (; w; w = w->base) {
        const weights_file *f;
        size_t n = 0;
        for (; w->over && (f = weights_nth_file(w->over, n)); n++)
            if (n == i) return f;
        i -= n;
        if (i < w->n_file) return &w->file[i];
        i -= w->n_file;
    }
    return NULL;
}

const file_map *weights_file_at(const kiln_weights *w, size_t i)
{
    const weights_file *f;
    for (size_t k = 0; (f = weights_nth_file(w, k)); k++)
        if (!f->memory && i-- == 0) return &f->map;
    return NULL;
}

const void *weights_map(const kiln_weights *w, const char *name, error *e)
{
    weights_entry *x = weights_entry_of(w, name);
    if (!x) return weights_missing(w, name, e), NULL;
    if (weights_usable(x, e) != KILN_OK) return NULL;
    if (x->transposed)
        return error_set(e, KILN_ERR_UNSUPPORTED,
                         "%s: tensor '%.200s' is a transposed view and has no bytes of its own", w->path, name),
               NULL;
    if (weights_is_computed(x))
        return error_set(e, KILN_ERR_UNSUPPORTED, "%s: tensor '%.200s' is %s and has no bytes of its own", w->path,
                         name, x->patch ? "patched" : "made of several"),
               NULL;
    weights_mark_entry(w, x);
    return weights_data(x);
}

/* A computed tensor's files are those of what it is made of. arg: the reader. */
static kiln_status advise_all(void *arg, const weights_entry *x, error *e)
{
    if (weights_is_computed(x)) return weights_each_part(x, advise_all, arg, e);
    advise(x, arg);
    return KILN_OK;
}

void weights_will_need(const kiln_weights *w, const char *name, page_reader *r)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (x) advise_all(r, x, NULL);
}

void weights_release_pages(const kiln_weights *w, const char *name)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (x) advise_all(NULL, x, NULL);
}

/* ---- texts ---- */

int weights_note_at(const kiln_weights *w, size_t i, const char **key, const char **value)
{
    const weights_file *f;
    for (size_t k = 0; (f = weights_nth_file(w, k)); i -= f->header.n_note, k++) {
        const safetensors_header *h = &f->header;
        if (i >= h->n_note) continue;
        *key = h->note[i].key;
        *value = h->note[i].value;
        return 1;
    }
    return 0;
}

static const char metadata_mark[] = "__metadata__/";

/* "unet/__metadata__/format": the first file of that prefix which has the key. */
static const char *metadata(const kiln_weights *w, const char *path, const char *mark, size_t *n)
{
    const char *key = mark + sizeof metadata_mark - 1;
    size_t prefix = (size_t)(mark - path);
    const weights_file *f;
    for (size_t i = 0; (f = weights_nth_file(w, i)); i++) {
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
    if (!full) log_error("%s/%s: out of memory", w->root, path); /* whoever asks is told that there is none */
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
    if (text && !t) log_error("%s/%s: out of memory", w->root, path);
    if (!t) return mem_free(text), NULL;
    *t = (text_entry){.next = w->texts, .path = copy, .text = text, .size = size};
    return w->texts = t;
}

const char *weights_text(const kiln_weights *set, const char *path, size_t *n)
{
    kiln_weights *w = (kiln_weights *)(uintptr_t)set;
    const char *mark = strstr(path, metadata_mark);
    if (mark && (mark == path || mark[-1] == '/')) return metadata(w, path, mark, n);
    for (; w->base; w = w->base) {
        const char *text = w->over ? weights_text(w->over, path, n) : NULL;
        if (text) return text;
    }
    if (!w->root || !plain_path(path)) return NULL;
    pthread_mutex_lock(&w->lock);
    text_entry *t = find_text(w, path);
    if (!t) t = load_text(w, path);
    pthread_mutex_unlock(&w->lock);
    if (t && n) *n = t->size;
    return t ? t->text : NULL;
}

/* ---- identity ---- */

static kiln_status content_of(const weights_file *f, digest *out, error *e)
{
    if (f->memory) return *out = f->memory->content, KILN_OK;
    file_list *seen = file_list_new();
    if (!seen) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", f->map.path);
    kiln_status status = file_digest_seen(f->map.path, seen, out, e); /* remembered by file */
    if (status == KILN_OK)
        status = file_list_add(seen, f->map.path, &f->map.identity, e); /* what was digested is what is mapped */
    if (status == KILN_OK) status = file_map_unchanged(&f->map, e);
    file_list_unref(seen);
    return status;
}

/* What an entry is, names aside: where its elements come from (`content`) and which of them it takes. */
static void hash_window(hasher *h, const weights_entry *x)
{
    hash_text(h, x->type_name);
    hash_u64(h, x->begin);
    hash_u64(h, x->bytes);
    hash_u64(h, x->rank | (uint64_t)(x->transposed != 0) << 32);
    for (uint32_t k = 0; k < x->rank; k++) hash_u64(h, (uint64_t)x->dim[k]);
}

static kiln_status source_of(const weights_entry *x, digest *out, error *e);

static kiln_status hash_entry(hasher *h, const weights_entry *x, error *e)
{
    digest source = {0};
    TRY(source_of(x, &source, e));
    hash_digest(h, source);
    hash_window(h, x);
    return KILN_OK;
}

static kiln_status hash_change(hasher *h, const patch_term *t, error *e)
{
    hash_text(h, t->change->name);
    hash_u64(h, t->change->revision);
    hash_double(h, t->strength);
    hash_double(h, t->scale);
    hash_u64(h, (uint64_t)t->n_option << 32 | t->n_from);
    for (uint32_t i = 0; i < t->n_option; i++) hash_double(h, t->option[i]);
    for (uint32_t i = 0; i < t->n_from; i++) {
        hash_u64(h, t->from[i] != NULL);
        if (t->from[i]) TRY(hash_entry(h, t->from[i], e));
    }
    return KILN_OK;
}

static kiln_status hash_patch(hasher *h, const weights_patched *p, error *e)
{
    hash_text(h, "patched 2"); /* 1: each product of a sum rounded by itself */
    TRY(hash_entry(h, p->base, e));
    for (const patch_term *t = p->term; t; t = t->next) {
        if (t->change) {
            TRY(hash_change(h, t, e));
            continue;
        }
        hash_double(h, (double)t->factor);
        TRY(hash_entry(h, t->from[0], e));
        hash_u64(h, t->n_from > 1);
        if (t->n_from > 1) TRY(hash_entry(h, t->from[1], e));
    }
    return KILN_OK;
}

typedef struct {
    hasher *h;
} parts_hash;

static kiln_status hash_part(void *arg, const weights_entry *x, error *e)
{
    return hash_entry(((parts_hash *)arg)->h, x, e);
}

static kiln_status hash_derived(hasher *h, const weights_entry *x, error *e)
{
    const weights_derived *d = x->derived;
    const weights_scaling *s = &d->scaling;
    hash_text(h, "derived");
    hash_u64(h, (uint64_t)d->kind << 32 | d->rank);
    hash_u64(h, (uint64_t)d->axis << 32 | s->codes);
    for (uint32_t i = 0; i < d->rank; i++) {
        hash_u64(h, (uint64_t)d->dim[i]);
        hash_u64(h, (uint64_t)d->stride[i]);
    }
    hash_u64(h, (uint64_t)d->offset);
    hash_u64(h, (uint64_t)s->kind);
    hash_double(h, (double)s->factor);
    hash_u64(h, (uint64_t)s->block);
    hash_u64(h, (uint64_t)s->nested_block);
    hash_double(h, (double)s->nested_offset);
    hash_u64(h, d->n_from);
    return weights_each_part(x, hash_part, &(parts_hash){h}, e);
}

static kiln_status source_of(const weights_entry *x, digest *out, error *e)
{
    if (!weights_is_computed(x)) return content_of(x->file, out, e);
    hasher *h = hasher_new();
    if (!h) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", x->file->map.path);
    kiln_status status = x->patch ? hash_patch(h, x->patch, e) : hash_derived(h, x, e);
    *out = hasher_digest(h);
    hasher_free(h);
    return status;
}

static kiln_status make_identity(kiln_weights *w, error *e)
{
    hasher *h = hasher_new();
    digest content = {0};
    if (!h) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    kiln_status status = KILN_OK;
    const weights_entry *last = NULL;
    for (size_t i = 0; i < w->n && status == KILN_OK; i++) {
        const weights_entry *x = &w->entry[i];
        if (!last || x->file != last->file || x->patch != last->patch || x->derived != last->derived)
            status = source_of(x, &content, e);
        last = x;
        hash_digest(h, content);
        hash_text(h, x->name);
        hash_window(h, x);
    }
    if (status == KILN_OK) digest_hex(hasher_digest(h), w->identity);
    hasher_free(h);
    return status;
}

kiln_status weights_tensor_identity(const kiln_weights *w, const char *name, char hex[33], error *e)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (!x) return weights_missing(w, name, e);
    hasher *h = hasher_new();
    if (!h) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    kiln_status status = hash_entry(h, x, e);
    digest_hex(hasher_digest(h), hex);
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
