/* weights.c - opening files and folders, looking tensors up; see weights.h. Views are in view.c.
 *
 * Of each folder one model is taken: the shards an index names, else diffusion_pytorch_model, else model, else the
 * fp16 variant of these, else the only .safetensors there. Pickles are refused.
 */
#include "weights/weights.h"

#include "base/checked.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "tensor/dtype.h"
#include "weights/set.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILES_MAX = 256, TEXT_MAX = 16 << 20, NAMES_MAX = 4096 };

/* ---- one file ------------------------------------------------------------------------------------------------ */

static int ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static kiln_status refuse_pickle(const char *path, error *e)
{
    static const char *const pickles[] = {".ckpt", ".pt", ".pth", ".bin", ".pkl"};
    for (size_t i = 0; i < sizeof pickles / sizeof pickles[0]; i++)
        if (ends_with(path, pickles[i]))
            return error_set(e, KILN_ERR_UNSUPPORTED, "%s: a pickle file, which can run code when it is read, is never opened; convert it to .safetensors", path);
    return KILN_OK;
}

static kiln_status file_open(weights_file *f, const char *path, const char *prefix, error *e)
{
    TRY(refuse_pickle(path, e));
    TRY(file_map_open(&f->map, path, e));
    kiln_status status = safetensors_parse(&f->header, path, f->map.data, f->map.size, e);
    if (status == KILN_OK && !(f->prefix = mem_strdup(prefix))) status = error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    if (status != KILN_OK) {
        safetensors_free(&f->header);
        file_map_close(&f->map);
    }
    return status;
}

static kiln_status add_file(kiln_weights *w, const char *path, const char *prefix, error *e)
{
    if (w->n_file == FILES_MAX) return error_set(e, KILN_ERR_INVALID, "%s: more than %d weight files", w->path, FILES_MAX);
    TRY(file_open(&w->file[w->n_file], path, prefix, e));
    w->n_file++;
    return KILN_OK;
}

/* ---- a folder ---------------------------------------------------------------------------------------------------- */

typedef struct {
    char *name[NAMES_MAX];
    size_t n;
} names;

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static kiln_status list(const char *folder, arena *a, names *out, error *e)
{
    DIR *d = opendir(folder);
    if (!d) return error_set(e, KILN_ERR_IO, "%s: cannot open the folder: %s", folder, strerror(errno));
    kiln_status status = KILN_OK;
    for (struct dirent *x; status == KILN_OK && (x = readdir(d));) {
        if (x->d_name[0] == '.') continue;
        if (out->n == NAMES_MAX)
            status = error_set(e, KILN_ERR_INVALID, "%s: more than %d entries", folder, NAMES_MAX);
        else if (!(out->name[out->n++] = arena_strdup(a, x->d_name)))
            status = error_set(e, KILN_ERR_NOMEM, "%s: out of memory", folder);
    }
    closedir(d);
    qsort(out->name, out->n, sizeof *out->name, by_text);
    return status;
}

static const char *find_name(const names *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->name[i], name) == 0) return l->name[i];
    return NULL;
}

/* The shards an index file names, each once. */
static kiln_status add_shards(kiln_weights *w, const char *folder, const char *index, const char *prefix, error *e)
{
    char *path = path_join(folder, index), *text = NULL;
    size_t size;
    json_error_t why;
    const char *key;
    json_t *value;
    names seen = {0};
    kiln_status status = path ? file_read(path, TEXT_MAX, &text, &size, e) : error_set(e, KILN_ERR_NOMEM, "%s: out of memory", folder);
    json_t *root = status == KILN_OK ? json_loadb(text, size, JSON_REJECT_DUPLICATES, &why) : NULL;
    if (status == KILN_OK && !json_is_object(json_object_get(root, "weight_map")))
        status = error_set(e, KILN_ERR_INVALID, "%s: not a shard index: no object `weight_map`", path);
    json_object_foreach(json_object_get(root, "weight_map"), key, value)
    {
        const char *shard = json_string_value(value);
        if (status != KILN_OK || (shard && find_name(&seen, shard))) continue;
        if (!shard || strchr(shard, '/') || seen.n == FILES_MAX) {
            status = error_set(e, KILN_ERR_INVALID, "%s: tensor '%.100s' is in an impossible file", path, key);
            continue;
        }
        seen.name[seen.n++] = (char *)(uintptr_t)shard;
        char *full = path_join(folder, shard);
        status = full ? add_file(w, full, prefix, e) : error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
        mem_free(full);
    }
    json_decref(root);
    mem_free(text);
    mem_free(path);
    return status;
}

/* Which of the folder's files holds its model; NULL: none, or (with an error) too many. */
static const char *choose(const names *l, const char *folder, error *e)
{
    static const char *const preferred[] = {"diffusion_pytorch_model.safetensors", "model.safetensors",
                                            "diffusion_pytorch_model.fp16.safetensors", "model.fp16.safetensors"};
    for (size_t i = 0; i < sizeof preferred / sizeof preferred[0]; i++)
        if (find_name(l, preferred[i])) return preferred[i];
    const char *only = NULL;
    for (size_t i = 0; i < l->n; i++) {
        if (!ends_with(l->name[i], ".safetensors")) continue;
        if (only) {
            error_set(e, KILN_ERR_INVALID, "%s: holds %s and %s; name the one to open", folder, only, l->name[i]);
            return NULL;
        }
        only = l->name[i];
    }
    return only;
}

static kiln_status add_model(kiln_weights *w, const char *folder, const char *prefix, const names *l, error *e)
{
    for (size_t i = 0; i < l->n; i++)
        if (ends_with(l->name[i], ".safetensors.index.json")) return add_shards(w, folder, l->name[i], prefix, e);
    error many = {0};
    const char *name = choose(l, folder, &many);
    if (!name) return many.status == KILN_OK ? KILN_OK : error_set(e, many.status, "%s", many.message);
    char *path = path_join(folder, name);
    kiln_status status = path ? add_file(w, path, prefix, e) : error_set(e, KILN_ERR_NOMEM, "%s: out of memory", folder);
    mem_free(path);
    return status;
}

static kiln_status add_folder(kiln_weights *w, const char *folder, const char *prefix, int depth, error *e)
{
    names *l = arena_alloc(&w->memory, sizeof *l);
    if (!l) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", folder);
    TRY(list(folder, &w->memory, l, e));
    TRY(add_model(w, folder, prefix, l, e));
    for (size_t i = 0; depth == 0 && i < l->n; i++) {
        char *child = path_join(folder, l->name[i]);
        str below = {0};
        str_printf(&below, "%s/", l->name[i]);
        kiln_status status = child && !below.failed ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "%s: out of memory", folder);
        if (status == KILN_OK && folder_exists(child)) status = add_folder(w, child, str_text(&below), 1, e);
        mem_free(child);
        str_free(&below);
        TRY(status);
    }
    return KILN_OK;
}

/* ---- the set ----------------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) { return strcmp(((const weights_entry *)a)->name, ((const weights_entry *)b)->name); }

int weights_sort(kiln_weights *w, const char **twice)
{
    qsort(w->entry, w->n, sizeof *w->entry, by_name);
    for (size_t i = 1; i < w->n; i++)
        if (strcmp(w->entry[i - 1].name, w->entry[i].name) == 0) {
            *twice = w->entry[i].name;
            return 0;
        }
    return 1;
}

static kiln_status add_entries(kiln_weights *w, error *e)
{
    const char *twice = NULL;
    size_t total = 0;
    for (size_t i = 0; i < w->n_file; i++) total += w->file[i].header.count;
    w->entry = arena_alloc(&w->memory, (total + 1) * sizeof *w->entry);
    w->used = arena_alloc(&w->memory, (total + 1) * sizeof *w->used);
    if (!w->entry || !w->used) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    for (size_t i = 0; i < w->n_file; i++) {
        const weights_file *f = &w->file[i];
        for (size_t k = 0; k < f->header.count; k++) {
            const safetensors_entry *s = &f->header.entry[k];
            weights_entry *x = &w->entry[w->n];
            *x = (weights_entry){.file = f, .dtype = s->rank <= KILN_MAX_RANK ? s->dtype : 0, .rank = s->rank <= KILN_MAX_RANK ? s->rank : 0,
                                 .begin = s->begin, .bytes = s->end - s->begin, .type_name = s->type_name, .used = &w->used[w->n]};
            memcpy(x->dim, s->dim, x->rank * sizeof *x->dim);
            x->name = f->prefix[0] ? arena_printf(&w->memory, "%s%s", f->prefix, s->name) : s->name;
            if (!x->name) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
            w->n++;
        }
    }
    if (!weights_sort(w, &twice)) return error_set(e, KILN_ERR_INVALID, "%s: tensor '%.200s' is in two of its files", w->path, twice);
    return KILN_OK;
}

kiln_weights *weights_open(const char *path, error *e)
{
    kiln_weights *w = mem_calloc(1, sizeof *w);
    if (!w) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path), NULL;
    atomic_init(&w->refs, 1);
    pthread_mutex_init(&w->lock, NULL);
    w->path = mem_strdup(path);
    w->file = mem_calloc(FILES_MAX, sizeof *w->file);
    int is_folder = folder_exists(path);
    if (is_folder) w->root = path_real(path);
    kiln_status status = w->path && w->file && (!is_folder || w->root) ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    if (status == KILN_OK) status = is_folder ? add_folder(w, path, "", 0, e) : add_file(w, path, "", e);
    if (status == KILN_OK && w->n_file == 0) status = error_set(e, KILN_ERR_INVALID, "%s: no .safetensors file in this folder", path);
    if (status == KILN_OK) status = add_entries(w, e);
    if (status == KILN_OK) return w;
    weights_unref(w);
    return NULL;
}

kiln_weights *weights_ref(kiln_weights *w)
{
    if (w) atomic_fetch_add(&w->refs, 1);
    return w;
}

void weights_unref(kiln_weights *w)
{
    while (w && atomic_fetch_sub(&w->refs, 1) == 1) {
        kiln_weights *base = w->base;
        for (size_t i = 0; i < w->n_file; i++) {
            safetensors_free(&w->file[i].header);
            file_map_close(&w->file[i].map);
            mem_free(w->file[i].prefix);
        }
        for (text_entry *t = w->texts; t; t = t->next) mem_free(t->text);
        mem_free(w->file);
        mem_free(w->path);
        mem_free(w->root);
        pthread_mutex_destroy(&w->lock);
        arena_free(&w->memory);
        mem_free(w);
        w = base;
    }
}

/* ---- looking up ------------------------------------------------------------------------------------------------------------ */

size_t weights_count(const kiln_weights *w) { return w->n; }

weights_entry *weights_entry_of(const kiln_weights *w, const char *name)
{
    weights_entry key = {.name = name};
    return w->n ? bsearch(&key, w->entry, w->n, sizeof key, by_name) : NULL;
}

static void describe(const weights_entry *x, kiln_weight_info *out)
{
    uint32_t room = out->size && out->size < sizeof *out ? out->size : (uint32_t)sizeof *out;
    kiln_weight_info full = {.size = room, .dtype = x->dtype, .rank = x->rank, .bytes = (size_t)x->bytes, .name = x->name, .file = x->file->map.path};
    memcpy(full.dim, x->dim, sizeof full.dim);
    memcpy(out, &full, room);
}

kiln_status weights_at(const kiln_weights *w, size_t i, kiln_weight_info *out)
{
    if (i >= w->n) return KILN_ERR_INVALID;
    describe(&w->entry[i], out);
    return KILN_OK;
}

kiln_status weights_find(const kiln_weights *w, const char *name, kiln_weight_info *out)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (!x) return KILN_ERR_INVALID;
    if (out) describe(x, out);
    return KILN_OK;
}

static const char *entry_name(void *arg, size_t i) { return ((const kiln_weights *)arg)->entry[i].name; }

kiln_status weights_missing(const kiln_weights *w, const char *name, error *e)
{
    const char *near = nearest_name(name, entry_name, w->n, (void *)(uintptr_t)w);
    return error_set(e, KILN_ERR_INVALID, "%s: no tensor '%.300s'%s%s%s", w->path, name, near ? "; the nearest is '" : "", near ? near : "", near ? "'" : "");
}

void weights_mark_used(const kiln_weights *w, const char *name)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (x) atomic_store(x->used, 1);
}

size_t weights_unused(const kiln_weights *w, void (*fn)(void *, const kiln_weight_info *), void *arg)
{
    size_t n = 0;
    for (size_t i = 0; i < w->n; i++) {
        if (atomic_load(w->entry[i].used)) continue;
        kiln_weight_info info = {.size = sizeof info};
        describe(&w->entry[i], &info);
        if (fn) fn(arg, &info);
        n++;
    }
    return n;
}

/* ---- bytes -------------------------------------------------------------------------------------------------------------------- */

const void *weights_bytes(const kiln_weights *w, const char *name, kiln_weight_info *info)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (!x || x->transposed) return NULL;
    if (info) describe(x, info);
    return x->file->map.data + x->begin;
}

void weights_release_pages(const kiln_weights *w, const char *name)
{
    const weights_entry *x = weights_entry_of(w, name);
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (!x || !x->bytes) return;
    uintptr_t begin = (uintptr_t)x->file->map.data + x->begin, end = begin + x->bytes;
    begin = (begin + page - 1) / page * page;
    end = end / page * page;
    if (begin < end) madvise((void *)begin, end - begin, MADV_DONTNEED); /* advice: failing costs memory only */
}

static kiln_status usable(const weights_entry *x, error *e)
{
    if (x->dtype) return file_map_unchanged(&x->file->map, e);
    return error_set(e, KILN_ERR_UNSUPPORTED, "%s: tensor '%.200s' is of type %s with %u dimensions, which kiln does not compute with", x->file->map.path, x->name,
                     x->type_name, x->rank);
}

const void *weights_map(const kiln_weights *w, const char *name, error *e)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (!x) return weights_missing(w, name, e), NULL;
    if (usable(x, e) != KILN_OK) return NULL;
    if (x->transposed) return error_set(e, KILN_ERR_UNSUPPORTED, "%s: tensor '%.200s' is a transposed view and has no bytes of its own", w->path, name), NULL;
    atomic_store(x->used, 1);
    return x->file->map.data + x->begin;
}

kiln_status weights_read_f32(const kiln_weights *w, const char *name, float *dst, error *e)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (!x) return weights_missing(w, name, e);
    TRY(usable(x, e));
    size_t n = (size_t)x->bytes / dtype_size(x->dtype);
    float *stored = x->transposed ? mem_alloc(n * sizeof *stored) : dst;
    if (!stored) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory for '%.200s'", w->path, name);
    kiln_status status = dtype_convert(stored, KILN_F32, x->file->map.data + x->begin, x->dtype, n);
    if (status != KILN_OK)
        error_set(e, status, "%s: tensor '%.200s' of type %s cannot be read as numbers", w->path, name, x->type_name);
    else
        atomic_store(x->used, 1);
    for (int64_t i = 0; status == KILN_OK && x->transposed && i < x->dim[0]; i++)
        for (int64_t k = 0; k < x->dim[1]; k++) dst[i * x->dim[1] + k] = stored[k * x->dim[0] + i];
    if (x->transposed) mem_free(stored);
    return status;
}

/* Index of the first element whose exponent is all ones; n when there is none. */
static size_t first_nonfinite16(const uint8_t *p, size_t n, uint16_t all)
{
    for (size_t i = 0; i < n; i += 4096) {
        size_t end = i + 4096 < n ? i + 4096 : n;
        unsigned bad = 0;
        for (size_t k = i; k < end; k++) {
            uint16_t v;
            memcpy(&v, p + 2 * k, 2);
            bad |= (v & all) == all;
        }
        if (bad) return i;
    }
    return n;
}

static size_t first_nonfinite32(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i += 4096) {
        size_t end = i + 4096 < n ? i + 4096 : n;
        unsigned bad = 0;
        for (size_t k = i; k < end; k++) {
            uint32_t v;
            memcpy(&v, p + 4 * k, 4);
            bad |= (v & 0x7f800000u) == 0x7f800000u;
        }
        if (bad) return i;
    }
    return n;
}

kiln_status weights_scan_finite(const kiln_weights *w, const char *name, error *e)
{
    const weights_entry *x = weights_entry_of(w, name);
    if (!x) return weights_missing(w, name, e);
    TRY(usable(x, e));
    size_t n = (size_t)x->bytes / dtype_size(x->dtype), at = n;
    const uint8_t *p = x->file->map.data + x->begin;
    if (x->dtype == KILN_F32) at = first_nonfinite32(p, n);
    if (x->dtype == KILN_F16) at = first_nonfinite16(p, n, 0x7c00u);
    if (x->dtype == KILN_BF16) at = first_nonfinite16(p, n, 0x7f80u);
    if (at == n) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID, "%s: tensor '%.200s' holds a NaN or infinity near element %zu; the file is damaged or was trained to death",
                     x->file->map.path, name, at);
}

/* ---- texts and identity ----------------------------------------------------------------------------------------------------------- */

static const char *metadata(const kiln_weights *w, const char *key, size_t *n)
{
    for (size_t i = 0; i < w->n_file; i++)
        for (size_t k = 0; k < w->file[i].header.n_note; k++)
            if (strcmp(w->file[i].header.note[k].key, key) == 0) {
                if (n) *n = strlen(w->file[i].header.note[k].value);
                return w->file[i].header.note[k].value;
            }
    return NULL;
}

/* A text of the folder, or NULL: nothing outside it is ever read. */
static char *read_inside(const kiln_weights *w, const char *path, size_t *size)
{
    char *full = path_join(w->root, path), *real = full ? path_real(full) : NULL, *text = NULL;
    size_t n = strlen(w->root);
    if (real && strncmp(real, w->root, n) == 0 && real[n] == '/') file_read(real, TEXT_MAX, &text, size, NULL);
    mem_free(full);
    mem_free(real);
    return text;
}

const char *weights_text(const kiln_weights *set, const char *path, size_t *n)
{
    kiln_weights *w = (kiln_weights *)(uintptr_t)set;
    while (w->base) w = w->base;
    if (strncmp(path, "__metadata__/", 13) == 0) return metadata(w, path + 13, n);
    if (!w->root || path[0] == '/') return NULL;
    pthread_mutex_lock(&w->lock);
    text_entry *t = w->texts;
    while (t && strcmp(t->path, path) != 0) t = t->next;
    if (!t) {
        size_t size = 0;
        char *text = read_inside(w, path, &size);
        const char *copy = text ? arena_strdup(&w->memory, path) : NULL;
        t = copy ? arena_alloc(&w->memory, sizeof *t) : NULL;
        if (t) {
            *t = (text_entry){.next = w->texts, .path = copy, .text = text, .size = size};
            w->texts = t;
        } else {
            mem_free(text);
        }
    }
    pthread_mutex_unlock(&w->lock);
    if (t && n) *n = t->size;
    return t ? t->text : NULL;
}

static kiln_status make_identity(kiln_weights *w, error *e)
{
    hasher *h = hasher_new();
    digest content;
    if (!h) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    kiln_status status = KILN_OK;
    const weights_file *last = NULL;
    for (size_t i = 0; i < w->n && status == KILN_OK; i++) {
        const weights_entry *x = &w->entry[i];
        if (x->file != last) status = file_digest(x->file->map.path, &content, e); /* remembered by file */
        last = x->file;
        if (status != KILN_OK) break;
        hash_digest(h, content);
        hash_text(h, x->name);
        hash_u64(h, x->begin);
        hash_u64(h, x->dtype);
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
