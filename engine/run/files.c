/* files.c - see files.h. */
#include "run/files.h"

#include "base/file.h"
#include "base/install.h"
#include "base/memory_alloc.h"
#include "base/names.h"
#include "base/str.h"
#include "workflow/picture_text.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAMES_MAX = 500, LISTED_MAX = 20000, DEPTH = 3, SHOWN = 8 };
enum { FOLDERS_MAX = FILE_ROOTS_MAX - 8 /* room for those nobody has to name */ };

/* 0: there is no path, for want of memory. */
static int add_root(file_root *list, size_t *n, const char *path)
{
    if (path && *n < FILE_ROOTS_MAX && folder_exists(path)) list[(*n)++] = (file_root){.path = path};
    return path != NULL;
}

static int is_pipe(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

/* An extra_model_paths.yaml by its name, or whatever comes through a shell's <(...). */
static int is_listing(const char *path)
{
    size_t n = strlen(path);
    if (is_pipe(path)) return 1;
    int named = file_descriptor_of(path) >= 0 || (n > 5 && strcasecmp(path + n - 5, ".yaml") == 0) ||
                (n > 4 && strcasecmp(path + n - 4, ".yml") == 0);
    return named && file_exists(path);
}

/* Folders that somebody named have to be there. */
static kiln_status add_list(arena *a, file_root *list, size_t *n, const char *paths, const char *where, error *e)
{
    while (paths && *paths) {
        size_t length = strcspn(paths, ":");
        const char *path = arena_strndup(a, paths, length);
        if (!path) return error_set(e, KILN_ERR_NOMEM, "out of memory");
        int listed = length && is_listing(path);
        if (listed) TRY(extra_paths_add(path, a, list, n, e));
        if (length && !listed && !folder_exists(path))
            return error_set(e, KILN_ERR_INVALID, "%s: %s '%.300s'", where,
                             file_exists(path) ? "this is a file and no folder:" : "there is no folder", path);
        if (length && *n >= FOLDERS_MAX)
            return error_set(e, KILN_ERR_INVALID, "%s: more than %d folders", where, FOLDERS_MAX);
        if (length && !listed) list[(*n)++] = (file_root){.path = path};
        paths += length + (paths[length] == ':');
    }
    return KILN_OK;
}

static const char *join(arena *a, const char *folder, const char *name)
{
    return folder && name ? arena_printf(a, "%s/%s", folder, name) : NULL;
}

static const char *folder_of(arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct stat st;
    if (!slash || (stat(path, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode) || S_ISSOCK(st.st_mode))))
        return "."; /* a pipe lies nowhere */
    return slash == path ? "/" : arena_strndup(a, path, (size_t)(slash - path));
}

kiln_status file_roots_find(file_roots *r, arena *a, const char *workflow, const char *models, const char *input,
                            error *e)
{
    const char *here = folder_of(a, workflow), *installed = install_folder(),
               *above = here && picture_text_is_picture(workflow) ? join(a, here, "..") : NULL;
    *r = (file_roots){0};
    int ok = here != NULL;
    if (!ok) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (picture_text_is_picture(workflow)) ok = above != NULL;
    TRY(add_list(a, r->model, &r->n_model, models, "--models", e));
    TRY(add_list(a, r->model, &r->n_model, getenv("KILN_MODELS"), "KILN_MODELS", e));
    ok &= add_root(r->model, &r->n_model, join(a, here, "models"));
    if (above) ok &= add_root(r->model, &r->n_model, join(a, above, "models"));
    size_t before = r->n_model;
    if (installed) {
        ok &= add_root(r->model, &r->n_model, join(a, folder_of(a, installed), "share/kiln/workflows/models"));
        ok &= add_root(r->model, &r->n_model, join(a, installed, "workflows/models")); /* a link of the build's */
    }
    r->n_shipped = r->n_model - before;
    TRY(add_list(a, r->input, &r->n_input, input, "--input", e));
    TRY(add_list(a, r->input, &r->n_input, getenv("KILN_INPUT"), "KILN_INPUT", e));
    ok &= add_root(r->input, &r->n_input, here);
    ok &= add_root(r->input, &r->n_input, join(a, here, "input"));
    if (above) ok &= add_root(r->input, &r->n_input, above) & add_root(r->input, &r->n_input, join(a, above, "input"));
    return ok ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory");
}

static int leaves_root(const char *name)
{
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') return 1;
        p += n + (p[n] == '/');
    }
    return 0;
}

static int exists(const char *path) { return path && (file_exists(path) || folder_exists(path)); }

/* Folders of one kind have had several names; files lie in either. */
static const char *const other_names[][2] = {
    {"diffusion_models", "unet"}, {"text_encoders", "clip"}, {"controlnet", "t2i_adapter"}, {"vae", "vae_approx"}};
enum { KIND_NAMES = 2 };

/* The names of the folders where files of this kind lie, its own first; returns how many. */
static size_t kind_names(const char *kind, const char *name[KIND_NAMES])
{
    size_t n = 0;
    name[n++] = kind;
    for (size_t i = 0; i < sizeof other_names / sizeof other_names[0]; i++) {
        if (strcmp(kind, other_names[i][0]) == 0) name[n++] = other_names[i][1];
        if (strcmp(kind, other_names[i][1]) == 0) name[n++] = other_names[i][0];
    }
    return n;
}

/* What a prompt may leave out of an embedding's name. Pickles are found too, to be refused with the way to convert
 * them. */
static const char *const endings[] = {".safetensors", ".pt", ".bin"};
enum { ENDINGS = sizeof endings / sizeof endings[0] };

/* The name without such an ending, in a. */
static const char *short_name(arena *a, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < ENDINGS; i++) {
        size_t ending = strlen(endings[i]);
        if (n > ending && strcmp(name + n - ending, endings[i]) == 0)
            return arena_printf(a, "%.*s", (int)(n - ending), name);
    }
    return name;
}

/* ---- what is there ---- */

static const char *const model_endings[] = {".safetensors", ".gguf", ".sft", ".pt", ".pth", ".ckpt", ".bin"};

static int is_model_file(const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof model_endings / sizeof model_endings[0]; i++) {
        size_t ending = strlen(model_endings[i]);
        if (n > ending && strcasecmp(name + n - ending, model_endings[i]) == 0) return 1;
    }
    return 0;
}

/* A folder that is one model, as diffusers and transformers write them. */
static int is_model_folder(arena *a, const char *path)
{
    static const char *const has[] = {"model_index.json", "config.json", "adapter_config.json", "tokenizer.json"};
    for (size_t i = 0; i < sizeof has / sizeof has[0]; i++) {
        const char *file = join(a, path, has[i]);
        if (file && file_exists(file)) return 1;
    }
    return 0;
}

typedef struct {
    arena *a;
    file_seen_fn fn;
    void *arg;
    int all; /* files of any ending */
    size_t seen;
} listing;

/* within: the folder's own name with a slash behind it, or "". */
static void list_folder(listing *l, const char *kind, const char *folder, const char *within, int depth)
{
    DIR *d = folder ? opendir(folder) : NULL;
    for (struct dirent *x; d && l->seen < LISTED_MAX && (x = readdir(d));) {
        const char *path = x->d_name[0] == '.' ? NULL : join(l->a, folder, x->d_name);
        const char *name = path ? arena_printf(l->a, "%s%s", within, x->d_name) : NULL;
        if (!name) continue;
        int is_folder = folder_exists(path);
        if (is_folder ? !l->all && is_model_folder(l->a, path) : l->all || is_model_file(name))
            l->seen++, l->fn(l->arg, kind, name, path);
        else if (is_folder && depth > 0)
            list_folder(l, kind, path, arena_printf(l->a, "%s/", name), depth - 1);
    }
    if (d) closedir(d);
}

/* Each folder of a root that is no model is of a kind. */
static void list_kinds(listing *l, const char *root)
{
    DIR *d = opendir(root);
    list_folder(l, NULL, root, "", 0);
    for (struct dirent *x; d && (x = readdir(d));) {
        const char *path = x->d_name[0] == '.' ? NULL : join(l->a, root, x->d_name), *kind = NULL;
        if (path && folder_exists(path) && !is_model_folder(l->a, path)) kind = arena_strdup(l->a, x->d_name);
        if (kind) list_folder(l, kind, path, "", DEPTH);
    }
    if (d) closedir(d);
}

void file_roots_list(const file_roots *r, arena *a, file_seen_fn fn, void *arg)
{
    listing l = {.a = a, .fn = fn, .arg = arg};
    for (size_t i = 0; i < r->n_model; i++) {
        l.seen = 0;
        if (r->model[i].kind)
            list_folder(&l, r->model[i].kind, r->model[i].path, "", DEPTH);
        else
            list_kinds(&l, r->model[i].path);
    }
}

/* ---- what is not there ---- */

typedef struct {
    const char *name[NAMES_MAX];
    size_t n;
    arena *a;
    int no_pipelines; /* a whole pipeline's folder cannot be meant */
} names_found;

/* Kinds of files that are taken out of a pipeline's folder as well, or are one. */
static int may_be_pipeline(const char *kind)
{
    static const char *const kinds[] = {"checkpoints", "diffusers", "diffusion_models", "unet", "text_encoders",
                                        "clip",        "vae"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kind, kinds[i]) == 0) return 1;
    return 0;
}

static void keep_name(void *arg, const char *kind, const char *name, const char *path)
{
    names_found *f = arg;
    const char *index = f->no_pipelines ? join(f->a, path, "model_index.json") : NULL;
    (void)kind;
    if (index && file_exists(index)) return;
    for (size_t i = 0; i < f->n; i++)
        if (strcmp(f->name[i], name) == 0) return;
    if (f->n < NAMES_MAX) f->name[f->n++] = name;
}

static void find_names(arena *a, const file_root *root, size_t n_root, const char *kind, names_found *found)
{
    const char *folder[KIND_NAMES];
    size_t n_folder = kind_names(kind, folder);
    int is_input = strcmp(kind, "input") == 0, texts = strcmp(kind, "wildcards") == 0;
    found->a = a, found->no_pipelines = !may_be_pipeline(kind);
    for (size_t i = 0; i < n_root; i++) {
        listing l = {.a = a, .fn = keep_name, .arg = found, .all = is_input || texts};
        for (size_t k = 0; k < n_folder && !root[i].kind; k++)
            list_folder(&l, kind, join(a, root[i].path, folder[k]), "", is_input ? 0 : DEPTH);
        for (size_t k = 0; k < n_folder && !(texts && !root[i].kind); k++)
            if (!root[i].kind ? k == 0 : strcmp(root[i].kind, folder[k]) == 0)
                list_folder(&l, kind, root[i].path, "", root[i].kind ? DEPTH : 0);
    }
    for (size_t i = 0; i < found->n && strcmp(kind, "embeddings") == 0; i++) {
        const char *prompted = short_name(a, found->name[i]);
        if (prompted) found->name[i] = prompted;
    }
}

void file_roots_names(const file_roots *r, arena *a, const char *kind, void (*fn)(void *arg, const char *name),
                      void *arg)
{
    int is_input = strcmp(kind, "input") == 0;
    names_found found = {.n = 0};
    find_names(a, is_input ? r->input : r->model, is_input ? r->n_input : r->n_model, kind, &found);
    for (size_t i = 0; i < found.n; i++) fn(arg, found.name[i]);
}

/* Where a file of this kind would be found: in a root that is not kiln's own. NULL: there is none. */
static const char *place_for(arena *a, const file_roots *r, const char *kind)
{
    const char *folder[KIND_NAMES];
    size_t n_folder = kind_names(kind, folder);
    if (strcmp(kind, "input") == 0) return r->n_input ? r->input[0].path : NULL;
    for (size_t i = 0; i + r->n_shipped < r->n_model; i++)
        for (size_t k = 0; k < n_folder; k++) {
            const char *path = r->model[i].kind ? r->model[i].path : join(a, r->model[i].path, folder[k]);
            if ((!r->model[i].kind || strcmp(r->model[i].kind, folder[k]) == 0) && path && folder_exists(path))
                return path;
        }
    return r->n_model > r->n_shipped && !r->model[0].kind ? join(a, r->model[0].path, kind) : NULL;
}

static void say_missing(str *s, arena *a, const file_roots *r, const char *kind, const names_found *found,
                        const char *near)
{
    const char *place = place_for(a, r, kind);
    int is_input = strcmp(kind, "input") == 0;
    if (near) str_printf(s, "did you mean '%.200s'?", near);
    for (size_t i = 0; !near && !is_input && i < found->n && i < SHOWN; i++)
        str_printf(s, "%s'%.60s'", i ? ", " : "there are ", found->name[i]);
    if (!near && !is_input && found->n > SHOWN) str_printf(s, " and %zu more", found->n - SHOWN);
    if (!near && !is_input && !found->n) str_append(s, "there are none");
    if (near && place && !is_input) str_printf(s, " (a file goes into %.200s)", place);
    if (near) return;
    str_append(s, is_input ? "" : "; ");
    if (place)
        str_printf(s, "put it into %.200s%s", place,
                   is_input ? ", or give its path with --set or --input" : ", or name its folder with --models");
    else if (is_input)
        str_append(s, "name its folder with --input");
    else
        str_printf(s, "put it into FOLDER/%s and name FOLDER with --models", kind);
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

static const char *nothing(arena *a, const file_roots *r, const char *kind, const char *name, error *e)
{
    int is_input = strcmp(kind, "input") == 0;
    const file_root *root = is_input ? r->input : r->model;
    size_t n_root = is_input ? r->n_input : r->n_model;
    names_found found = {.n = 0};
    str s = {0};
    find_names(a, root, n_root, kind, &found);
    qsort(found.name, found.n, sizeof *found.name, by_name);
    say_missing(&s, a, r, kind, &found, nearest_of(name, found.name, found.n));
    error_set(e, KILN_ERR_INVALID, "no file '%.200s' for %s; %.600s", name, kind, str_text(&s));
    str_free(&s);
    return NULL;
}

/* Below the roots: in the folders of the kind, then in the root itself. Nothing is found without memory, and e says so.
 */
static const char *look_below(arena *a, const file_root *root, size_t n, const char *kind, const char *name, error *e)
{
    const char *folder[KIND_NAMES];
    size_t n_folder = kind_names(kind, folder);
    for (size_t i = 0; i < n; i++) {
        int its_kind = !root[i].kind;
        for (size_t k = 0; k < n_folder; k++) {
            const char *path = root[i].kind ? NULL : join(a, join(a, root[i].path, folder[k]), name);
            if (root[i].kind) its_kind |= strcmp(root[i].kind, folder[k]) == 0;
            if (!root[i].kind && !path) return error_set(e, KILN_ERR_NOMEM, "out of memory"), NULL;
            if (exists(path)) return path;
        }
        const char *path = its_kind ? join(a, root[i].path, name) : NULL;
        if (its_kind && !path) return error_set(e, KILN_ERR_NOMEM, "out of memory"), NULL;
        if (exists(path)) return path;
    }
    return NULL;
}

const char *file_roots_resolve(const file_roots *r, arena *a, const char *kind, const char *name, error *e)
{
    int is_input = strcmp(kind, "input") == 0;
    const file_root *root = is_input ? r->input : r->model;
    size_t n = is_input ? r->n_input : r->n_model;
    if (!name[0]) return error_set(e, KILN_ERR_INVALID, "no file is named"), NULL;
    if (name[0] == '/' && is_pipe(name))
        return error_set(e, KILN_ERR_INVALID,
                         "'%.300s' is a pipe, and the file is read more than once; write it to a file first", name),
               NULL;
    if (name[0] == '/') {
        const char *kept = exists(name) ? arena_strdup(a, name) : NULL;
        if (!kept && exists(name)) return error_set(e, KILN_ERR_NOMEM, "out of memory"), NULL;
        return kept ? kept : (error_set(e, KILN_ERR_INVALID, "no file '%.300s'", name), NULL);
    }
    if (leaves_root(name))
        return error_set(e, KILN_ERR_INVALID, "'%.200s' leaves its folder with '..'; give an absolute path instead",
                         name),
               NULL;
    error why = {0};
    const char *path = look_below(a, root, n, kind, name, &why);
    if (!path && strcmp(kind, "vae") == 0) /* "taesd": its halves are taesd_decoder and taesd_encoder */
        path = look_below(a, root, n, kind, arena_printf(a, "%s_decoder.safetensors", name), &why);
    for (size_t i = 0; !path && strcmp(kind, "embeddings") == 0 && i < ENDINGS; i++)
        path = look_below(a, root, n, kind, arena_printf(a, "%s%s", name, endings[i]), &why);
    if (why.message[0]) return error_set(e, why.status, "%s", why.message), NULL;
    return path ? path : nothing(a, r, kind, name, e);
}
