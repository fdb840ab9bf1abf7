/* sandbox_paths.c - see sandbox_paths.h. */
#include "run/sandbox_paths.h"

#include "base/file.h"
#include "base/install.h"
#include "base/memory_alloc.h"
#include "cache/store.h"
#include "plugin/supervised.h"
#include "run/files.h"
#include "workflow/picture_text.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH = 5, LINKS_MAX = 20000, TEXT_MAX = 16 << 20, NAME_BYTES = 300, INCLUDES = 8 };

static void add_each(sandbox_list *l, const char *const *path, size_t n, int writable)
{
    for (size_t i = 0; i < n; i++) sandbox_add(l, path[i], writable);
}

/* A GPU's devices and what its driver reads. nvidia-modprobe, which makes the devices, cannot become root in here: they
 * have to be there before. */
static void add_gpu(sandbox_list *l)
{
    static const char *const read[] = {"/opt/nvidia", "/etc/OpenCL", "/etc/nvidia"};
    static const char *const write[] = {"/dev/dri",       "/dev/nvidia-uvm",  "/dev/nvidia-uvm-tools",
                                        "/dev/nvidiactl", "/dev/nvidia-caps", "/dev/nvidia-modeset"};
    add_each(l, read, sizeof read / sizeof read[0], 0);
    add_each(l, write, sizeof write / sizeof write[0], 1);
    DIR *d = opendir("/dev");
    for (struct dirent *x; d && (x = readdir(d));)
        if (strncmp(x->d_name, "nvidia", 6) == 0) {
            sandbox_add(l, arena_printf(&l->memory, "/dev/%s", x->d_name), 1);
            sandbox_add(l, "/dev/shm", 1); /* which the driver shares memory by */
        }
    if (d) closedir(d);
}

/* Libraries, and what they read of the system. */
static void add_system(sandbox_list *l)
{
    static const char *const read[] = {"/usr",
                                       "/lib",
                                       "/lib64",
                                       "/bin",
                                       "/nix/store",
                                       "/etc/ld.so.cache",
                                       "/etc/ld.so.conf",
                                       "/etc/ld.so.conf.d",
                                       "/etc/alternatives",
                                       "/etc/localtime",
                                       "/etc/fonts",
                                       "/var/cache/fontconfig",
                                       "/proc",
                                       "/sys"};
    static const char *const write[] = {"/dev/null",   "/dev/zero",    "/dev/full",
                                        "/dev/random", "/dev/urandom", "/dev/tty"};
#ifdef __SANITIZE_ADDRESS__ /* looks into a file when the process ends */
    const char *leaks = getenv("LSAN_OPTIONS"), *suppressions = leaks ? strstr(leaks, "suppressions=") : NULL;
    if (suppressions) {
        suppressions += strlen("suppressions=");
        sandbox_add(l, arena_strndup(&l->memory, suppressions, strcspn(suppressions, ":")), 0);
    }
#endif
#ifdef KILN_EXIT_COUNTED_H /* make coverage: counts are written when the process ends */
    if (getenv("GCOV_PREFIX") && folder_make(getenv("GCOV_PREFIX"), NULL) == KILN_OK)
        sandbox_add(l, getenv("GCOV_PREFIX"), 1);
#endif
    add_each(l, read, sizeof read / sizeof read[0], 0);
    add_each(l, write, sizeof write / sizeof write[0], 1);
}

static void add_colons(sandbox_list *l, const char *paths, int writable)
{
    while (paths && *paths) {
        size_t n = strcspn(paths, ":");
        if (n) sandbox_add(l, arena_strndup(&l->memory, paths, n), writable);
        paths += n + (paths[n] == ':');
    }
}

/* Beside the command: plugins, libraries, models and workflows. */
static void add_installed(sandbox_list *l)
{
    static const char *const beside[] = {"plugins", "workflows",   "kiln-cuda.so",  "libkiln.so",
                                         "emu",     "../lib/kiln", "../share/kiln", "kiln"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
        if (install_find(beside[i], path, sizeof path)) sandbox_add(l, path, 0);
    add_colons(l, getenv("LD_LIBRARY_PATH"), 0);
    add_colons(l, getenv("LD_PRELOAD"), 0);
}

/* A folder, and where links in it lead. */
static void add_folder(sandbox_list *l, const char *path, int depth, size_t *links)
{
    if (depth == DEPTH) sandbox_add(l, path, 0);
    DIR *d = depth > 0 ? opendir(path) : NULL;
    for (struct dirent *x; d && *links < LINKS_MAX && (x = readdir(d));) {
        struct stat s;
        if (x->d_name[0] == '.') continue;
        const char *item = arena_printf(&l->memory, "%s/%s", path, x->d_name);
        if (!item || lstat(item, &s) != 0) continue;
        if (S_ISLNK(s.st_mode)) ++*links, sandbox_add(l, item, 0);
        if (S_ISDIR(s.st_mode)) add_folder(l, item, depth - 1, links);
    }
    if (d) closedir(d);
}

/* Visible files that lie in it. */
static void add_files(sandbox_list *l, const char *folder)
{
    DIR *d = opendir(folder);
    size_t n = 0;
    for (struct dirent *x; d && n < LINKS_MAX && (x = readdir(d));) {
        struct stat s;
        const char *item = x->d_name[0] == '.' ? NULL : arena_printf(&l->memory, "%s/%s", folder, x->d_name);
        if (item && stat(item, &s) == 0 && S_ISREG(s.st_mode)) n++, sandbox_add(l, item, 0);
    }
    if (d) closedir(d);
}

/* Files below the workflow's folder that its text names: parts that it includes, pictures in a subfolder. */
static void add_named_files(sandbox_list *l, const char *workflow, int depth)
{
    static const char ends[] = " \t\r\n\"',[]{}";
    char *text = NULL;
    size_t size = 0;
    const char *slash = strrchr(workflow, '/');
    int here = slash ? (int)(slash - workflow) + 1 : 0;
    if (!file_exists(workflow) || file_read(workflow, TEXT_MAX, &text, &size, NULL) != KILN_OK) return;
    for (char *at = text, *end; *at; at = end + (*end != '\0')) {
        end = at + strcspn(at, ends);
        size_t n = (size_t)(end - at);
        int last = *end == '\0';
        *end = '\0';
        const char *path = n && n < NAME_BYTES && at[0] != '/' && strchr(at, '/') && !strstr(at, "..")
                               ? arena_printf(&l->memory, "%.*s%s", here, workflow, at)
                               : NULL;
        if (path && file_exists(path)) {
            sandbox_add(l, path, 0);
            if (depth > 0 && n > 5 && strcmp(end - 5, ".yaml") == 0) add_named_files(l, path, depth - 1);
        }
        if (last) break;
        *end = ' ';
    }
    mem_free(text);
}

/* The folder of the workflow is a root of inputs that nobody has named. */
static int is_named(const char *path, const char *names)
{
    for (size_t n; names && *names; names += n + (names[n] == ':')) {
        n = strcspn(names, ":");
        if (strlen(path) == n && strncmp(path, names, n) == 0) return 1;
    }
    return 0;
}

static kiln_status add_roots(sandbox_list *l, const sandbox_run *r, error *e)
{
    file_roots roots;
    size_t links = 0;
    TRY(file_roots_find(&roots, &l->memory, r->workflow, r->models, r->input, e));
    for (size_t i = 0; i < roots.n_model; i++) add_folder(l, roots.model[i].path, DEPTH, &links);
    for (size_t i = 0; i < roots.n_input; i++) {
        const char *path = roots.input[i].path, *slash = strrchr(path, '/');
        int named =
            is_named(path, r->input) || is_named(path, getenv("KILN_INPUT")) || (slash && strcmp(slash, "/input") == 0);
        if (named)
            add_folder(l, path, DEPTH, &links);
        else
            add_files(l, path);
    }
    return KILN_OK;
}

/* What the driver compiles goes to a folder that runs in a sandbox alone use, since ~/.nv is everybody's. */
static void keep_compiled(sandbox_list *l, const char *own)
{
    const char *path = arena_printf(&l->memory, "%s/cuda-sandbox", own);
    if (path) setenv("CUDA_CACHE_PATH", path, 1);
}

/* Results, spilled data and states: TMPDIR leads into the output folder, so that there is no other place. */
static kiln_status add_written(sandbox_list *l, const sandbox_run *r, error *e)
{
    const char *out = r->out ? r->out : "out", *base = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"),
               *given = getenv("KILN_CACHE");
    char *cache = store_folder_is_off(r->cache) ? NULL
                  : r->cache                    ? mem_strdup(r->cache)
                  : given && *given             ? mem_strdup(given)
                                                : NULL;
    TRY(folder_make(out, e));
    char *real = path_real(out);
    sandbox_add(l, out, 1);
    if (real) setenv("TMPDIR", real, 1);
    mem_free(real);
    const char *own = base && base[0] == '/'   ? arena_printf(&l->memory, "%s/kiln", base)
                      : home && home[0] == '/' ? arena_printf(&l->memory, "%s/.cache/kiln", home)
                                               : NULL;
    if (own && folder_make_private(own, NULL) == KILN_OK) sandbox_add(l, own, 1);
    if (own && r->gpu) keep_compiled(l, own);
    if (cache && folder_make_private(cache, NULL) == KILN_OK) sandbox_add(l, cache, 1);
    mem_free(cache);
    if (supervision) sandbox_add(l, supervision->store, 1);
    return KILN_OK;
}

kiln_status sandbox_paths(sandbox_list *l, const sandbox_run *r, error *e)
{
    add_system(l);
    if (r->gpu) add_gpu(l);
    add_installed(l);
    if (strcmp(r->workflow, "-") != 0) sandbox_add(l, r->workflow, 0);
    if (!picture_text_is_picture(r->workflow)) add_named_files(l, r->workflow, INCLUDES);
    add_colons(l, r->plugins, 0);
    add_colons(l, getenv("KILN_PLUGIN_PATH"), 0);
    TRY(add_roots(l, r, e));
    return add_written(l, r, e);
}
