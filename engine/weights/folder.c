/* folder.c - which files of a folder are its model.
 *
 * A diffusers folder holds one model a subfolder (unet/, vae/, text_encoder/, ...), one level deep. Of each folder one
 * model is taken, by a fixed order: the plain variant before fp16 before bf16, diffusion_pytorch_model before model, a
 * single file before shards; else the only .safetensors there is, else the only .gguf. Files that are not taken are
 * listed in the log (info). The root of a folder with a model_index.json has no weights of its own: files there are the
 * same model once more.
 */
#include "base/array.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "weights/json_scan.h"
#include "weights/set.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES_MAX = 4096 };

static kiln_status no_memory(const char *path, error *e)
{
    return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
}

/* ---- names of a folder ---- */

typedef struct {
    char **name; /* sorted */
    size_t n;
} names;

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static kiln_status list(const char *folder, arena *a, names *out, error *e)
{
    DIR *d = opendir(folder);
    if (!d) return error_set(e, KILN_ERR_IO, "%s: cannot open the folder: %s", folder, strerror(errno));
    kiln_status status = KILN_OK;
    out->name = arena_alloc(a, NAMES_MAX * sizeof *out->name);
    if (!out->name) status = no_memory(folder, e);
    for (struct dirent *x; status == KILN_OK && (x = readdir(d));) {
        if (x->d_name[0] == '.') continue;
        if (out->n == NAMES_MAX)
            status = error_set(e, KILN_ERR_INVALID, "%s: more than %d entries; this is no model's folder", folder,
                               NAMES_MAX);
        else if (!(out->name[out->n] = arena_strdup(a, x->d_name)))
            status = no_memory(folder, e);
        else
            out->n++;
    }
    closedir(d);
    if (status == KILN_OK && out->n) qsort(out->name, out->n, sizeof *out->name, by_text);
    return status;
}

static const char *find_name(const names *l, const char *name)
{
    char *const *at = l->n ? bsearch(&name, l->name, l->n, sizeof *l->name, by_text) : NULL;
    return at ? *at : NULL;
}

static int ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

int set_holds_path(const kiln_weights *w, const char *path)
{
    static const char snapshots[] = "/snapshots", blobs[] = "/blobs/";
    char real[PATH_MAX];
    if (!w->root || !realpath(path, real)) return 0;
    size_t n = strlen(w->root), m = sizeof snapshots - 1;
    if (strncmp(real, w->root, n) == 0 && (real[n] == '/' || n == 1)) return 1;
    const char *revision = strrchr(w->root, '/');
    size_t before = revision ? (size_t)(revision - w->root) : 0;
    if (before <= m || memcmp(revision - m, snapshots, m) != 0) return 0;
    return strncmp(real, w->root, before - m) == 0 && strncmp(real + before - m, blobs, sizeof blobs - 1) == 0;
}

static kiln_status add_confined(kiln_weights *w, const char *folder, const char *name, const char *prefix, error *e)
{
    char *path = path_join(folder, name);
    if (!path) return no_memory(folder, e);
    kiln_status status = KILN_OK;
    if (!file_exists(path))
        status = error_set(e, KILN_ERR_IO, "%s: no such file", path);
    else if (!set_holds_path(w, path))
        status = error_set(e, KILN_ERR_INVALID,
                           "%s: a link to a file outside the model's folder; put the file itself there", path);
    else
        status = ends_with(name, ".json") ? set_add_shards(w, path, prefix, e) : set_add_file(w, path, prefix, e);
    mem_free(path);
    return status;
}

/* ---- shards ---- */

typedef struct {
    const char *tensor, *file;
    size_t at; /* place in the index */
    int found; /* it is in its file */
} shard_row;

typedef struct {
    json_scan scan;
    shard_row *row;
    size_t n, capacity;
} shard_index;

static int by_tensor(const void *a, const void *b)
{
    const shard_row *x = a, *y = b;
    int order = strcmp(x->tensor, y->tensor);
    return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

static int plain_file_name(const char *s)
{
    return s[0] && s[0] != '.' && !strchr(s, '/') && ends_with(s, ".safetensors");
}

static kiln_status read_map(shard_index *x)
{
    size_t index = 0, n;
    int more;
    TRY(json_open(&x->scan, '{'));
    for (;;) {
        TRY(json_more(&x->scan, '}', &index, &more));
        if (!more) return KILN_OK;
        if (!array_reserve(&x->row, &x->capacity, x->n + 1, sizeof *x->row)) return no_memory(x->scan.file, x->scan.e);
        shard_row *r = &x->row[x->n++];
        *r = (shard_row){.at = json_here(&x->scan)};
        TRY(json_key(&x->scan, &r->tensor, &n));
        size_t at = json_here(&x->scan);
        TRY(json_string(&x->scan, &r->file, &n));
        if (!plain_file_name(r->file))
            return json_fail(&x->scan, at,
                             "tensor '%.64s' is said to be in '%.64s'; the name of a .safetensors file in the same "
                             "folder must be here",
                             r->tensor, r->file);
    }
}

static kiln_status read_index(shard_index *x)
{
    size_t index = 0, n;
    int more, maps = 0;
    const char *key;
    TRY(json_open(&x->scan, '{'));
    for (;;) {
        TRY(json_more(&x->scan, '}', &index, &more));
        if (!more) break;
        size_t at = json_here(&x->scan);
        TRY(json_key(&x->scan, &key, &n));
        int is_map = strcmp(key, "weight_map") == 0;
        if (is_map && maps++) return json_fail(&x->scan, at, "weight_map twice");
        TRY(is_map ? read_map(x) : json_skip(&x->scan));
    }
    if (json_here(&x->scan) != x->scan.size) return json_fail(&x->scan, x->scan.at, "text after the last '}'");
    if (!maps) return json_fail(&x->scan, 0, "an index of shards must hold an object \"weight_map\"");
    if (x->n) qsort(x->row, x->n, sizeof *x->row, by_tensor);
    for (size_t i = 1; i < x->n; i++)
        if (strcmp(x->row[i - 1].tensor, x->row[i].tensor) == 0)
            return json_fail(&x->scan, x->row[i].at, "tensor '%.64s' twice in weight_map", x->row[i].tensor);
    return KILN_OK;
}

static shard_row *find_row(const shard_index *x, const char *tensor)
{
    size_t low = 0, high = x->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(x->row[middle].tensor, tensor);
        if (order == 0) return &x->row[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The index and the shards must agree, in both directions. */
static kiln_status compare_shards(const kiln_weights *w, size_t first, const shard_index *x, error *e)
{
    for (size_t i = first; i < w->n_file; i++) {
        const weights_file *f = &w->file[i];
        for (size_t k = 0; k < f->header.count; k++) {
            shard_row *r = find_row(x, f->header.entry[k].name);
            if (!r || strcmp(r->file, file_name(f->map.path)) != 0)
                return error_set(e, KILN_ERR_INVALID,
                                 "%s: holds tensor '%.200s', which %s says is %s%s; the files do not belong together",
                                 f->map.path, f->header.entry[k].name, x->scan.file, r ? "in " : "nowhere",
                                 r ? r->file : "");
            r->found = 1;
        }
    }
    for (size_t i = 0; i < x->n; i++)
        if (!x->row[i].found)
            return error_set(e, KILN_ERR_INVALID,
                             "%s: tensor '%.200s' is not in %s, where the index has it; fetch the files again",
                             x->scan.file, x->row[i].tensor, x->row[i].file);
    return KILN_OK;
}

static kiln_status open_shards(kiln_weights *w, const char *folder, const char *prefix, const shard_index *x, error *e)
{
    size_t first = w->n_file;
    const char **file = mem_alloc((x->n + 1) * sizeof *file);
    if (!file) return no_memory(x->scan.file, e);
    for (size_t i = 0; i < x->n; i++) file[i] = x->row[i].file;
    if (x->n) qsort(file, x->n, sizeof *file, by_text);
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < x->n && status == KILN_OK; i++)
        if (i == 0 || strcmp(file[i - 1], file[i]) != 0) status = add_confined(w, folder, file[i], prefix, e);
    mem_free(file);
    return status == KILN_OK ? compare_shards(w, first, x, e) : status;
}

kiln_status set_add_shards(kiln_weights *w, const char *index, const char *prefix, error *e)
{
    char *text = NULL, *folder = mem_strdup(index);
    size_t size = 0;
    if (!folder) return no_memory(index, e);
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = '\0';
    kiln_status status = file_read(index, WEIGHTS_TEXT_MAX, &text, &size, e);
    shard_index x = {.scan = {.file = index, .text = (const uint8_t *)text, .size = size, .e = e}};
    if (status == KILN_OK && !(x.scan.pool = mem_alloc(size + 1))) status = no_memory(index, e);
    if (status == KILN_OK) status = read_index(&x);
    if (status == KILN_OK) status = open_shards(w, slash ? folder : ".", prefix, &x, e);
    mem_free(x.row);
    mem_free(x.scan.pool);
    mem_free(text);
    mem_free(folder);
    return status;
}

/* ---- which file ---- */

/* In the order of preference. */
static const char *const preferred[] = {
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.safetensors.index.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "diffusion_pytorch_model.fp16.safetensors",
    "diffusion_pytorch_model.safetensors.index.fp16.json",
    "model.fp16.safetensors",
    "model.safetensors.index.fp16.json",
    "diffusion_pytorch_model.bf16.safetensors",
    "diffusion_pytorch_model.safetensors.index.bf16.json",
    "model.bf16.safetensors",
    "model.safetensors.index.bf16.json",
};

static const char *choose_preferred(const names *l, const char *folder)
{
    const char *chosen = NULL;
    for (size_t i = 0; i < sizeof preferred / sizeof preferred[0]; i++) {
        if (!find_name(l, preferred[i])) continue;
        if (chosen)
            log_info("%s: %s is used, %s is left aside", folder, chosen, preferred[i]);
        else
            chosen = preferred[i];
    }
    return chosen;
}

/* A split model counts once, as its first file. */
static int is_later_split(const char *name)
{
    uint64_t no, count;
    return gguf_split_name(name, &no, &count) && no > 1;
}

/* The only file of the folder with this ending; NULL: none, or several (*second is one of them). */
static const char *choose_only(const names *l, const char *ending, const char **second)
{
    const char *only = NULL;
    *second = NULL;
    for (size_t i = 0; i < l->n; i++) {
        if (!ends_with(l->name[i], ending) || is_later_split(l->name[i])) continue;
        if (only) return *second = l->name[i], only;
        only = l->name[i];
    }
    return only;
}

static const char *find_pickle(const names *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (is_pickle_name(l->name[i])) return l->name[i];
    return NULL;
}

static kiln_status add_model(kiln_weights *w, const char *folder, const char *prefix, const names *l, error *e)
{
    const char *second = NULL, *name = choose_preferred(l, folder);
    if (!name) name = choose_only(l, ".safetensors", &second);
    if (!name) name = choose_only(l, ".gguf", &second);
    if (second && prefix[0]) {
        log_warn("%s: holds %s, %s and perhaps more; none is taken", folder, name, second);
        return KILN_OK;
    }
    if (second)
        return error_set(e, KILN_ERR_INVALID, "%s: holds %s and %s; name the file to open", folder, name, second);
    return name ? add_confined(w, folder, name, prefix, e) : KILN_OK;
}

static kiln_status add_below(kiln_weights *w, const char *folder, const char *name, char **pickle, error *e)
{
    names l = {0};
    char *child = path_join(folder, name);
    str prefix = {0};
    str_printf(&prefix, "%s/", name);
    kiln_status status = child && !prefix.failed ? KILN_OK : no_memory(folder, e);
    if (status == KILN_OK && folder_exists(child) && set_holds_path(w, child)) {
        size_t before = w->n_file;
        status = list(child, &w->memory, &l, e);
        if (status == KILN_OK) status = add_model(w, child, str_text(&prefix), &l, e);
        const char *refused = find_pickle(&l);
        if (status == KILN_OK && refused && w->n_file == before) {
            log_warn("%s: its weights are a pickle (%s), which kiln never opens; convert it to .safetensors", child,
                     refused);
            if (!*pickle) *pickle = path_join(child, refused);
        }
    }
    mem_free(child);
    str_free(&prefix);
    return status;
}

static kiln_status nothing_found(const char *folder, const names *l, const char *below, error *e)
{
    const char *refused = find_pickle(l);
    if (refused || below)
        return error_set(
            e, KILN_ERR_UNSUPPORTED,
            "%s: its weights are pickles (%s), which can run any code when they are read, so kiln never opens them; "
            "convert them to .safetensors",
            folder, refused ? refused : below);
    return error_set(e, KILN_ERR_INVALID, "%s: no .safetensors or .gguf file in this folder or one level below",
                     folder);
}

kiln_status set_add_folder(kiln_weights *w, const char *folder, error *e)
{
    names l = {0};
    char *pickle = NULL;
    TRY(list(folder, &w->memory, &l, e));
    kiln_status status = find_name(&l, "model_index.json") ? KILN_OK : add_model(w, folder, "", &l, e);
    for (size_t i = 0; status == KILN_OK && i < l.n; i++) status = add_below(w, folder, l.name[i], &pickle, e);
    if (status == KILN_OK && w->n_file == 0) status = nothing_found(folder, &l, pickle, e);
    mem_free(pickle);
    return status;
}
