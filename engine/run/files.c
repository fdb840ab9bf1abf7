/* files.c - see files.h. */
#include "run/files.h"

#include "base/file.h"
#include "base/install.h"
#include "base/memory_alloc.h"
#include "base/names.h"
#include "base/str.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAMES_MAX = 200, FOLDERS_MAX = FILE_ROOTS_MAX - 8 /* room for those nobody has to name */ };

static void add_root(const char **list, size_t *n, const char *path)
{
    if (path && *n < FILE_ROOTS_MAX && folder_exists(path)) list[(*n)++] = path;
}

/* Folders that somebody named have to be there. */
static kiln_status add_list(arena *a, const char **list, size_t *n, const char *paths, const char *where, error *e)
{
    while (paths && *paths) {
        size_t length = strcspn(paths, ":");
        const char *path = arena_strndup(a, paths, length);
        if (!path) return error_set(e, KILN_ERR_NOMEM, "out of memory");
        if (length && !folder_exists(path))
            return error_set(e, KILN_ERR_INVALID, "%s: %s '%.300s'", where,
                             file_exists(path) ? "this is a file and no folder:" : "there is no folder", path);
        if (length && *n == FOLDERS_MAX)
            return error_set(e, KILN_ERR_INVALID, "%s: more than %d folders", where, FOLDERS_MAX);
        if (length) list[(*n)++] = path;
        paths += length + (paths[length] == ':');
    }
    return KILN_OK;
}

static const char *join(arena *a, const char *folder, const char *name)
{
    return arena_printf(a, "%s/%s", folder, name);
}

static const char *folder_of(arena *a, const char *path)
{
    const char *slash = strrchr(path, '/');
    struct stat st;
    if (!slash || (stat(path, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode) || S_ISSOCK(st.st_mode))))
        return "."; /* a pipe lies nowhere */
    return slash == path ? "/" : arena_strndup(a, path, (size_t)(slash - path));
}

static int is_picture(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && strcasecmp(path + n - 4, ".png") == 0;
}

kiln_status file_roots_find(file_roots *r, arena *a, const char *workflow, const char *models, const char *input,
                            error *e)
{
    const char *here = folder_of(a, workflow), *installed = install_folder(),
               *above = here && is_picture(workflow) ? join(a, here, "..") : NULL;
    *r = (file_roots){0};
    if (!here) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    TRY(add_list(a, r->model, &r->n_model, models, "--models", e));
    TRY(add_list(a, r->model, &r->n_model, getenv("KILN_MODELS"), "KILN_MODELS", e));
    add_root(r->model, &r->n_model, join(a, here, "models"));
    if (above) add_root(r->model, &r->n_model, join(a, above, "models"));
    if (installed) {
        add_root(r->model, &r->n_model, join(a, installed, "../share/kiln/workflows/models"));
        add_root(r->model, &r->n_model, join(a, installed, "workflows/models")); /* a link of the build's */
    }
    TRY(add_list(a, r->input, &r->n_input, input, "--input", e));
    TRY(add_list(a, r->input, &r->n_input, getenv("KILN_INPUT"), "KILN_INPUT", e));
    add_root(r->input, &r->n_input, here);
    add_root(r->input, &r->n_input, join(a, here, "input"));
    if (above) add_root(r->input, &r->n_input, above), add_root(r->input, &r->n_input, join(a, above, "input"));
    return KILN_OK;
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

/* The names in a folder, for the message; at most NAMES_MAX. */
static void list_names(arena *a, const char *folder, const char **name, size_t *n)
{
    DIR *d = folder ? opendir(folder) : NULL;
    for (struct dirent *x; d && (x = readdir(d));) {
        if (x->d_name[0] == '.' || *n == NAMES_MAX) continue;
        const char *copy = arena_strdup(a, x->d_name);
        if (copy) name[(*n)++] = copy;
    }
    if (d) closedir(d);
}

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

static const char *nothing(arena *a, const char *const *root, size_t n_root, const char *kind, const char *name,
                           error *e)
{
    const char *found[NAMES_MAX] = {0}, *folder[KIND_NAMES];
    size_t n = 0, n_folder = kind_names(kind, folder);
    str where = {0};
    for (size_t i = 0; i < n_root; i++) {
        for (size_t k = 0; k < n_folder; k++) list_names(a, join(a, root[i], folder[k]), found, &n);
        list_names(a, root[i], found, &n);
        str_printf(&where, "%s%s", i ? ", " : "", root[i]);
    }
    for (size_t i = 0; i < n && strcmp(kind, "embeddings") == 0; i++) {
        const char *prompted = short_name(a, found[i]);
        if (prompted) found[i] = prompted;
    }
    const char *near = nearest_of(name, found, n);
    if (near)
        error_set(e, KILN_ERR_INVALID, "no file '%.200s' for %s; did you mean '%s'?", name, kind, near);
    else
        error_set(e, KILN_ERR_INVALID, "no file '%.200s' for %s; looked in %.400s", name, kind,
                  n_root ? str_text(&where) : "no folder (give --models or --input)");
    str_free(&where);
    return NULL;
}

/* Below the roots: in the folders of the kind, then in the root itself. */
static const char *look_below(arena *a, const char *const *root, size_t n, const char *kind, const char *name)
{
    const char *folder[KIND_NAMES];
    size_t n_folder = kind_names(kind, folder);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < n_folder; k++) {
            const char *path = join(a, join(a, root[i], folder[k]), name);
            if (exists(path)) return path;
        }
        const char *path = join(a, root[i], name);
        if (exists(path)) return path;
    }
    return NULL;
}

const char *file_roots_resolve(const file_roots *r, arena *a, const char *kind, const char *name, error *e)
{
    int is_input = strcmp(kind, "input") == 0;
    const char *const *root = is_input ? r->input : r->model;
    size_t n = is_input ? r->n_input : r->n_model;
    if (!name[0]) return error_set(e, KILN_ERR_INVALID, "no file is named"), NULL;
    if (name[0] == '/')
        return exists(name) ? arena_strdup(a, name) : (error_set(e, KILN_ERR_INVALID, "no file '%.300s'", name), NULL);
    if (leaves_root(name))
        return error_set(e, KILN_ERR_INVALID, "'%.200s' leaves its folder with '..'; give an absolute path instead",
                         name),
               NULL;
    const char *path = look_below(a, root, n, kind, name);
    if (!path && strcmp(kind, "vae") == 0) /* "taesd": its halves are taesd_decoder and taesd_encoder */
        path = look_below(a, root, n, kind, arena_printf(a, "%s_decoder.safetensors", name));
    for (size_t i = 0; !path && strcmp(kind, "embeddings") == 0 && i < ENDINGS; i++)
        path = look_below(a, root, n, kind, arena_printf(a, "%s%s", name, endings[i]));
    return path ? path : nothing(a, root, n, kind, name, e);
}
