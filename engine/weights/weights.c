/* weights.c - opening and closing a set, finding tensors, marking which were used; see weights.h. folder.c finds the
 * files, safetensors.c reads their headers, view.c gives other names, patch.c patches; contents.c gives out bytes,
 * elements.c tensors as f32. */
#include "weights/weights.h"

#include "base/array.h"
#include "base/memory_alloc.h"
#include "base/names.h"
#include "base/str.h"
#include "weights/block_notes.h"
#include "weights/derived.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

int is_pickle_name(const char *path)
{
    static const char *const pickles[] = {".ckpt", ".pt", ".pth", ".bin", ".pkl", ".pickle"};
    for (size_t i = 0; i < sizeof pickles / sizeof pickles[0]; i++)
        if (ends_with(path, pickles[i])) return 1;
    return 0;
}

/* ---- opening ---- */

static kiln_status refuse_pickle(const char *path, error *e)
{
    return error_set(e, KILN_ERR_UNSUPPORTED,
                     "%s: a pickle file, which can run any code when it is read, so kiln never opens one; convert it "
                     "to .safetensors (kiln inspect FILE says how)",
                     path);
}

/* A better sentence for a file that is something else altogether. The first bytes alone do not tell (a header of 640
 * bytes starts like a pickle), so this is asked only after the header was refused. */
static kiln_status name_stranger(const file_map *m, kiln_status status, error *e)
{
    static const uint8_t zip[] = {'P', 'K', 3, 4};
    if (m->size < 8 || status != KILN_ERR_INVALID) return status;
    int pickle = m->data[0] == 0x80 && m->data[1] >= 2 && m->data[1] <= 5 && m->data[7] != 0;
    if (memcmp(m->data, zip, 4) != 0 && !pickle) return status;
    if (e) *e = (error){0};
    return refuse_pickle(m->path, e);
}

/* By its first bytes or by its name: a safetensors header of a matching length is 1.2 GB and not allowed. */
kiln_status weights_file_parse(weights_file *f, const char *path, error *e)
{
    if (gguf_begins(f->map.data, f->map.size) || ends_with(path, ".gguf"))
        return gguf_header_parse(&f->gguf, &f->header, path, f->map.data, f->map.size, e);
    TRY(safetensors_parse(&f->header, path, f->map.data, f->map.size, e));
    return block_notes_apply(&f->header, path, e);
}

static kiln_status file_open(weights_file *f, const char *path, const char *prefix, error *e)
{
    error why = {0};
    if (is_pickle_name(path)) return refuse_pickle(path, e);
    TRY(file_map_open(&f->map, path, e));
    kiln_status status = weights_file_parse(f, path, &why);
    if (status != KILN_OK) status = name_stranger(&f->map, status, &why);
    if (status == KILN_OK) status = file_map_unchanged(&f->map, &why);
    if (status == KILN_OK && !(f->prefix = mem_strdup(prefix)))
        status = error_set(&why, KILN_ERR_NOMEM, "%s: out of memory", path);
    if (status == KILN_OK) return status;
    weights_file_close(f);
    return error_set(e, status, "%s", why.message);
}

kiln_status set_add_one_file(kiln_weights *w, const char *path, const char *prefix, error *e)
{
    if (w->n_file == WEIGHTS_FILES_MAX)
        return error_set(e, KILN_ERR_INVALID, "%s: more than %d weight files", w->path, WEIGHTS_FILES_MAX);
    if (!array_reserve(&w->file, &w->file_capacity, w->n_file + 1, sizeof *w->file))
        return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    w->file[w->n_file] = (weights_file){0};
    TRY(file_open(&w->file[w->n_file], path, prefix, e));
    w->n_file++;
    return KILN_OK;
}

kiln_status set_add_file(kiln_weights *w, const char *path, const char *prefix, error *e)
{
    TRY(set_add_one_file(w, path, prefix, e));
    return set_add_splits(w, prefix, e);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const weights_entry *)a)->name, ((const weights_entry *)b)->name);
}

int weights_sort(kiln_weights *w, const char **twice)
{
    if (w->n) qsort(w->entry, w->n, sizeof *w->entry, by_name);
    for (size_t i = 1; i < w->n; i++)
        if (strcmp(w->entry[i - 1].name, w->entry[i].name) == 0) {
            *twice = w->entry[i].name;
            return 0;
        }
    return 1;
}

static kiln_status add_entry(kiln_weights *w, const weights_file *f, const safetensors_entry *s, error *e)
{
    _Static_assert((int)SAFETENSORS_RANK_MAX <= KILN_MAX_RANK,
                   "what a file holds is of a rank that kiln computes with");
    weights_entry *x = &w->entry[w->n];
    *x = (weights_entry){.file = f,
                         .type_name = s->type_name,
                         .dtype = s->dtype,
                         .rank = s->rank,
                         .begin = s->begin,
                         .bytes = s->end - s->begin};
    memcpy(x->dim, s->dim, x->rank * sizeof *x->dim);
    x->name = f->prefix[0] ? arena_printf(&w->memory, "%s%s", f->prefix, s->name) : s->name;
    if (!x->name) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    w->n++;
    return KILN_OK;
}

kiln_status set_add_entries(kiln_weights *w, error *e)
{
    const char *twice = NULL;
    size_t total = 0;
    for (size_t i = 0; i < w->n_file; i++) total += w->file[i].header.count;
    w->entry = arena_alloc(&w->memory, (total + 1) * sizeof *w->entry);
    if (!w->entry) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    for (size_t i = 0; i < w->n_file; i++)
        for (size_t k = 0; k < w->file[i].header.count; k++)
            TRY(add_entry(w, &w->file[i], &w->file[i].header.entry[k], e));
    if (!weights_sort(w, &twice))
        return error_set(e, KILN_ERR_INVALID, "%s: tensor '%.200s' is in two of its files", w->path, twice);
    return set_join_scaled(w, e);
}

kiln_weights *set_new(const char *path, error *e)
{
    kiln_weights *w = mem_calloc(1, sizeof *w);
    char *copy = mem_strdup(path);
    if (w && copy) {
        atomic_init(&w->refs, 1);
        pthread_mutex_init(&w->lock, NULL);
        w->path = copy;
        return w;
    }
    mem_free(w);
    mem_free(copy);
    error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    return NULL;
}

/* The folder that confines what is read: the one opened, or the one an index file lies in. */
static kiln_status set_root(kiln_weights *w, int is_folder, error *e)
{
    char *real = path_real(w->path);
    if (!real && errno == ENOMEM) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    if (!real) return error_set(e, KILN_ERR_IO, "%s: cannot be found", w->path);
    char *slash = strrchr(real, '/');
    if (!is_folder && slash) slash[slash == real] = '\0';
    w->root = real;
    return KILN_OK;
}

static kiln_status add_path(kiln_weights *w, error *e)
{
    if (folder_exists(w->path)) {
        TRY(set_root(w, 1, e));
        return set_add_folder(w, w->path, e);
    }
    if (!ends_with(w->path, ".json")) return set_add_file(w, w->path, "", e);
    TRY(set_root(w, 0, e));
    return set_add_shards(w, w->path, "", e);
}

kiln_weights *weights_open(const char *path, error *e)
{
    if (!path || !*path) return error_set(e, KILN_ERR_INVALID, "no path of a model to open"), NULL;
    kiln_weights *w = set_new(path, e);
    if (!w) return NULL;
    if (add_path(w, e) == KILN_OK && set_add_entries(w, e) == KILN_OK) return w;
    weights_unref(w);
    return NULL;
}

kiln_weights *weights_ref(kiln_weights *w)
{
    unsigned refs = w ? atomic_fetch_add(&w->refs, 1) : 1;
    assert(refs > 0); /* whoever asks has a reference */
    (void)refs;
    return w;
}

void weights_unref(kiln_weights *w)
{
    while (w && atomic_fetch_sub(&w->refs, 1) == 1) {
        kiln_weights *base = w->base;
        weights_unref(w->over);
        for (size_t i = 0; i < w->n_file; i++) {
            weights_file_close(&w->file[i]);
        }
        for (text_entry *t = w->texts; t; t = t->next) mem_free(t->text);
        for (size_t i = 0; i < w->n_from; i++) weights_unref(w->from[i]);
        mem_free(w->from);
        mem_free(w->file);
        mem_free(w->path);
        mem_free(w->root);
        pthread_mutex_destroy(&w->lock);
        arena_free(&w->memory);
        mem_free(w);
        w = base;
    }
}

/* ---- looking up ---- */

size_t weights_count(const kiln_weights *w) { return w->n; }

void weights_copy_entry(weights_entry *to, const weights_entry *from, size_t parent)
{
    *to = (weights_entry){.file = from->file,
                          .type_name = from->type_name,
                          .scale = from->scale,
                          .dtype = from->dtype,
                          .rank = from->rank,
                          .begin = from->begin,
                          .bytes = from->bytes,
                          .patch = from->patch,
                          .derived = from->derived,
                          .parent = parent,
                          .transposed = from->transposed};
    memcpy(to->dim, from->dim, sizeof to->dim);
}

weights_entry *weights_entry_of(const kiln_weights *w, const char *name)
{
    weights_entry key = {.name = name};
    return name && w->n ? bsearch(&key, w->entry, w->n, sizeof key, by_name) : NULL;
}

static size_t stored_bytes_of(const weights_entry *x);

static kiln_status add_stored(void *arg, const weights_entry *x, error *e)
{
    uint64_t *sum = arg;
    if (x->derived && !x->patch) return weights_each_part(x, add_stored, arg, e);
    *sum += x->patch ? stored_bytes_of(x->patch->base) : x->bytes;
    return KILN_OK;
}

static size_t stored_bytes_of(const weights_entry *x)
{
    uint64_t sum = 0;
    add_stored(&sum, x, NULL);
    return (size_t)sum;
}

void weights_describe(const weights_entry *x, kiln_weight_info *out)
{
    assert(x->rank <= KILN_MAX_RANK && x->file);
    uint32_t capacity = out->size && out->size < sizeof *out ? out->size : (uint32_t)sizeof *out;
    kiln_weight_info full = {.size = capacity,
                             .dtype = x->dtype,
                             .rank = x->rank,
                             .dim = x->dim,
                             .bytes = (size_t)x->bytes,
                             .name = x->name,
                             .file = x->file->map.path,
                             .block = (uint32_t)dtype_block(x->dtype),
                             .block_bytes = (uint32_t)dtype_block_bytes(x->dtype),
                             .stored_bytes = stored_bytes_of(x)};
    memcpy(out, &full, capacity);
}

kiln_status weights_at(const kiln_weights *w, size_t i, kiln_weight_info *out)
{
    if (i >= w->n) return KILN_ERR_INVALID;
    weights_describe(&w->entry[i], out);
    return KILN_OK;
}

kiln_status weights_find(const kiln_weights *w, const char *name, kiln_weight_info *out)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (!x) return KILN_ERR_INVALID;
    if (out) weights_describe(x, out);
    return KILN_OK;
}

static const char *entry_name(void *arg, size_t i) { return ((const kiln_weights *)arg)->entry[i].name; }

kiln_status weights_missing(const kiln_weights *w, const char *name, error *e)
{
    const char *near = nearest_name(name, entry_name, w->n, (void *)(uintptr_t)w);
    return error_set(e, KILN_ERR_INVALID, "%s: no tensor '%.300s'%s%.300s%s", w->path, name,
                     near ? "; the nearest is '" : "", near ? near : "", near ? "'" : "");
}

/* ---- used and unused ---- */

static kiln_status mark_part(void *arg, const weights_entry *x, error *e);

/* x is an entry of w: what it was made from in the sets below is marked too. */
void weights_mark_entry(const kiln_weights *w, weights_entry *x)
{
    atomic_store_explicit(&x->used, 1, memory_order_relaxed);
    if (!w->base) return;
    if (x->derived && x->derived->owner == w)
        weights_each_part(&(weights_entry){.derived = x->derived}, mark_part, (void *)(uintptr_t)w, NULL);
    else
        mark_part((void *)(uintptr_t)w, x, NULL);
}

/* x is an entry of `arg`, or a part of one. */
static kiln_status mark_part(void *arg, const weights_entry *x, error *e)
{
    const kiln_weights *w = arg, *below = x->beside ? w->over : w->base;
    (void)e;
    if (x->derived && x->derived->owner == w)
        return weights_each_part(&(weights_entry){.derived = x->derived}, mark_part, arg, NULL);
    assert(below && x->parent < below->n);
    weights_mark_entry(below, &below->entry[x->parent]);
    return KILN_OK;
}

void weights_mark_used(const kiln_weights *w, const char *name)
{
    weights_entry *x = weights_entry_of(w, name);
    if (x) weights_mark_entry(w, x);
}

size_t weights_unused(const kiln_weights *w, void (*fn)(void *, const kiln_weight_info *), void *arg)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++) {
        if (atomic_load_explicit(&w->entry[i].used, memory_order_relaxed)) continue;
        kiln_weight_info info = {.size = sizeof info};
        weights_describe(&w->entry[i], &info);
        if (fn) fn(arg, &info);
        n++;
    }
    return n;
}
