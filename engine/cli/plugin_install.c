/* plugin_install.c - `kiln plugin install` and `remove`: a plugin's files into a folder of its id in the user's folder
 * of plugins.
 *
 * They are copied into .install-PID there, loaded from there once as any plugin is (probe, table, open(), names that
 * are taken), held against their manifest, and renamed to their place: another process sees all of it or nothing. What
 * a killed one left behind is removed by the next. */
#include "cli/cmd_plugin.h"

#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "plugin/plugin_data.h"
#include "plugin/user_plugins.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_BYTES = 1 << 18, BYTES_MAX = 1 << 30 };

/* ---- files ---- */

typedef struct {
    size_t files;
    uint64_t bytes;
    error *e;
} copying;

static kiln_status copy_bytes(copying *c, int in, int out, const char *to)
{
    char *buffer = mem_alloc(BUFFER_BYTES);
    kiln_status status = buffer ? KILN_OK : error_set(c->e, KILN_ERR_NOMEM, "out of memory");
    for (ssize_t n = 1; status == KILN_OK && n > 0;) {
        n = read(in, buffer, BUFFER_BYTES);
        if (n < 0 && errno == EINTR)
            n = 1;
        else if (n < 0)
            status = error_set(c->e, KILN_ERR_IO, "%s", strerror(errno));
        else if ((c->bytes += (uint64_t)n) > BYTES_MAX)
            status = error_set(c->e, KILN_ERR_INVALID, "its files are larger than 1 GiB");
        else
            for (ssize_t done = 0, w; status == KILN_OK && done<n; done += w> 0 ? w : 0)
                if ((w = write(out, buffer + done, (size_t)(n - done))) < 0 && errno != EINTR)
                    status = error_set(c->e, KILN_ERR_IO, "%s: %s", to, strerror(errno));
    }
    mem_free(buffer);
    return status;
}

static kiln_status copy_file(copying *c, const char *from, const char *to)
{
    struct stat s;
    if (++c->files > DATA_FILES_MAX)
        return error_set(c->e, KILN_ERR_INVALID, "it has more than %d files", DATA_FILES_MAX);
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (in < 0 || fstat(in, &s) != 0 || !S_ISREG(s.st_mode)) {
        if (in >= 0) close(in);
        return error_set(c->e, KILN_ERR_INVALID, "%s: %s", from,
                         in >= 0 ? "is neither a file nor a folder" : strerror(errno));
    }
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, s.st_mode & S_IXUSR ? 0755 : 0644);
    kiln_status status =
        out < 0 ? error_set(c->e, KILN_ERR_IO, "%s: %s", to, strerror(errno)) : copy_bytes(c, in, out, to);
    if (status == KILN_OK && (fchmod(out, s.st_mode & S_IXUSR ? 0755 : 0644) != 0 || fsync(out) != 0))
        status = error_set(c->e, KILN_ERR_IO, "%s: %s", to, strerror(errno));
    if (out >= 0) close(out);
    close(in);
    return status;
}

static kiln_status copy_any(copying *c, const char *from, const char *to, int depth);

static kiln_status copy_folder(copying *c, const char *from, const char *to, int depth)
{
    DIR *d = depth <= DATA_DEPTH_MAX ? opendir(from) : NULL;
    kiln_status status = KILN_OK;
    if (!d)
        return error_set(c->e, KILN_ERR_INVALID, "%s: %s", from,
                         depth > DATA_DEPTH_MAX ? "lies too deep" : strerror(errno));
    if (mkdir(to, 0755) != 0 || chmod(to, 0755) != 0)
        status = error_set(c->e, KILN_ERR_IO, "%s: %s", to, strerror(errno));
    for (struct dirent *x; status == KILN_OK && (x = readdir(d));) {
        if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0) continue;
        char *a = path_join(from, x->d_name), *b = path_join(to, x->d_name);
        status = a && b ? copy_any(c, a, b, depth + 1) : error_set(c->e, KILN_ERR_NOMEM, "out of memory");
        mem_free(a), mem_free(b);
    }
    closedir(d);
    return status;
}

static kiln_status copy_any(copying *c, const char *from, const char *to, int depth)
{
    return folder_exists(from) ? copy_folder(c, from, to, depth) : copy_file(c, from, to);
}

/* Folders that installs and removals of processes that are gone have left. */
static void remove_leavings(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *x; d && (x = readdir(d));) {
        long pid = 0;
        if (sscanf(x->d_name, ".install-%ld", &pid) != 1 && sscanf(x->d_name, ".remove-%ld", &pid) != 1) continue;
        char *path = pid > 0 && kill((pid_t)pid, 0) != 0 && errno == ESRCH ? path_join(folder, x->d_name) : NULL;
        if (path) folder_remove(path);
        mem_free(path);
    }
    if (d) closedir(d);
}

/* ---- installing ---- */

typedef struct {
    const plugin_request *r;
    const char *root, *staged; /* the user's folder; the plugin's under its temporary name */
    plugin_manifest m;         /* path "": there is none yet */
    const char *so;            /* where it comes from */
    error *e;
} installing;

/* A name below the staged folder; its folders are made. */
static const char *place_for(const installing *i, const char *name)
{
    const char *path = arena_printf(i->r->memory, "%s/%s", i->staged, name), *slash = path ? strrchr(name, '/') : NULL;
    const char *folder = slash ? arena_printf(i->r->memory, "%s/%.*s", i->staged, (int)(slash - name), name) : path;
    if (!path || !folder) return error_set(i->e, KILN_ERR_NOMEM, "out of memory"), NULL;
    return !slash || folder_make(folder, i->e) == KILN_OK ? path : NULL;
}

static kiln_status copy_named(const installing *i, copying *c, const char *folder, const char *name)
{
    char *from = path_join(folder, name);
    const char *to = from ? place_for(i, name) : NULL;
    kiln_status status = to ? copy_any(c, from, to, 0) : error_set(i->e, KILN_ERR_NOMEM, "out of memory");
    mem_free(from);
    return status;
}

/* "words.data" of "words.so", where that is there; NULL: it is not. */
static const char *data_of(const installing *i, const char *folder, const char *so)
{
    const char *name = arena_printf(i->r->memory, "%.*s.data", (int)strlen(so) - 3, so);
    const char *path = name ? arena_printf(i->r->memory, "%s/%s", folder, name) : NULL;
    return path && folder_exists(path) ? name : NULL;
}

static kiln_status stage(const installing *i, const char **data)
{
    copying c = {.e = i->e};
    const char *slash = strrchr(i->so, '/'), *name = slash ? slash + 1 : i->so;
    const char *folder =
        slash ? arena_printf(i->r->memory, "%.*s", slash == i->so ? 1 : (int)(slash - i->so), i->so) : ".";
    if (!folder) return error_set(i->e, KILN_ERR_NOMEM, "out of memory");
    *data = data_of(i, folder, name);
    const char *own = *i->m.path ? strrchr(i->m.path, '/') ? strrchr(i->m.path, '/') + 1 : i->m.path : "";
    for (size_t k = 0; k < i->m.n_file; k++)
        if (strcmp(i->m.file[k], own) != 0) TRY(copy_named(i, &c, folder, i->m.file[k]));
    if (!*i->m.path) {
        TRY(copy_named(i, &c, folder, name));
        return *data ? copy_named(i, &c, folder, *data) : KILN_OK;
    }
    return copy_named(i, &c, folder, own);
}

/* The staged plugin, loaded; NULL with the reason. */
static const plugin_info *load(const installing *i, catalog **c)
{
    const char *slash = strrchr(i->so, '/');
    char *path = path_join(i->staged, slash ? slash + 1 : i->so), *real = path ? path_real(path) : NULL;
    const plugin_info *found = NULL;
    *c = real ? catalog_open(real, i->e) : NULL;
    for (size_t k = 0; *c && k < catalog_plugins(*c); k++) {
        const plugin_info *p = catalog_plugin(*c, k);
        if (strcmp(p->path, real) != 0) continue;
        if (p->table)
            found = p;
        else
            error_set(i->e, KILN_ERR_INVALID, "%s: %s", i->so, p->why);
    }
    if (!real) error_set(i->e, KILN_ERR_IO, "%s: it is gone", i->so);
    mem_free(path), mem_free(real);
    return found;
}

/* Its manifest, held against it, or made of it. */
static kiln_status settle_manifest(installing *i, const plugin_info *p, const char *data)
{
    str s = {0};
    if (*i->m.path) return manifest_agrees(&i->m, p, i->e);
    TRY(manifest_made(i->r->memory, p, data, &i->m, i->e));
    manifest_yaml(&s, &i->m);
    const char *path = place_for(i, "kiln-plugin.yaml");
    kiln_status status = s.failed || !path ? error_set(i->e, KILN_ERR_NOMEM, "out of memory")
                                           : file_write_whole(path, str_text(&s), s.len, i->e);
    if (status == KILN_OK && chmod(path, 0644) != 0)
        status = error_set(i->e, KILN_ERR_IO, "%s: %s", path, strerror(errno));
    str_free(&s);
    return status;
}

/* Exchanges the two where the file system can, so that there is no moment without either. */
static int take_place(const char *staged, const char *place)
{
    if (renameat2(AT_FDCWD, staged, AT_FDCWD, place, RENAME_EXCHANGE) == 0) return 1;
    if (errno != EINVAL && errno != ENOSYS) return 0;
    char old[PATH_MAX];
    const char *slash = strrchr(place, '/');
    if (snprintf(old, sizeof old, "%.*s/.remove-%ld", (int)(slash - place), place, (long)getpid()) >= (int)sizeof old ||
        rename(place, old) != 0)
        return 0;
    if (rename(staged, place) != 0) return rename(old, place), 0;
    folder_remove(old);
    return 1;
}

static kiln_status put_in_place(const installing *i, const char *id)
{
    const char *place = arena_printf(i->r->memory, "%s/%s", i->root, id);
    if (!place) return error_set(i->e, KILN_ERR_NOMEM, "out of memory");
    if (renameat2(AT_FDCWD, i->staged, AT_FDCWD, place, RENAME_NOREPLACE) == 0) return KILN_OK;
    if ((errno == EINVAL || errno == ENOSYS) && !folder_exists(place) && rename(i->staged, place) == 0) return KILN_OK;
    if (!folder_exists(place)) return error_set(i->e, KILN_ERR_IO, "%s: %s", place, strerror(errno));
    if (!argument(i->r->args, "--replace"))
        return error_set(i->e, KILN_ERR_INVALID, "%s is installed already, in %s; --replace takes its place", id,
                         place);
    return take_place(i->staged, place) ? KILN_OK : error_set(i->e, KILN_ERR_IO, "%s: %s", place, strerror(errno));
}

static kiln_status install(installing *i)
{
    catalog *c = NULL;
    const char *data = NULL;
    const plugin_info *p = NULL;
    kiln_status status = stage(i, &data);
    if (status == KILN_OK && !(p = load(i, &c))) status = i->e->status ? i->e->status : KILN_ERR_IO;
    if (p) status = settle_manifest(i, p, data);
    if (p && status == KILN_OK) status = put_in_place(i, p->id);
    if (p && status == KILN_OK) print_text(stdout, "%s %s is installed in %s/%s\n", p->id, p->version, i->root, p->id);
    catalog_close(c);
    return status;
}

int plugin_install(const plugin_request *r)
{
    error e = {0};
    installing i = {.r = r, .root = user_plugins_folder(r->memory), .e = &e};
    i.so = plugin_find_so(r, r->operand[0], &i.m, &e);
    if (i.so && !i.root) error_set(&e, KILN_ERR_IO, "there is no home folder to install into; set HOME");
    if (i.so && i.root && folder_make(i.root, &e) == KILN_OK) {
        i.staged = arena_printf(r->memory, "%s/.install-%ld", i.root, (long)getpid());
        remove_leavings(i.root);
        if (!i.staged || mkdir(i.staged, 0755) != 0 || chmod(i.staged, 0755) != 0)
            error_set(&e, KILN_ERR_IO, "%s: %s", i.root, strerror(errno));
        else
            install(&i);
        if (i.staged) folder_remove(i.staged); /* nothing of it is left once it is in place; or what it replaced */
    }
    return e.status == KILN_OK ? EXIT_DONE : plugin_fail("install", &e);
}

/* ---- removing ---- */

int plugin_remove(const plugin_request *r)
{
    const char *id = r->operand[0], *root = user_plugins_folder(r->memory);
    const char *place = root ? arena_printf(r->memory, "%s/%s", root, id) : NULL;
    const char *gone = root ? arena_printf(r->memory, "%s/.remove-%ld", root, (long)getpid()) : NULL;
    error e = {0};
    int changed;
    if (!place || !gone || !strchr(id, '.') || id[0] == '.' || strchr(id, '/') || !folder_exists(place)) {
        plugin_manifest m;
        const char *so = plugin_find_so(r, id, &m, &e);
        error why = {0};
        error_set(&why, KILN_ERR_INVALID,
                  so ? "'%s' was not installed by `kiln plugin install`; it is %s"
                     : "no plugin '%s' is installed for this user%s",
                  id, so ? so : "");
        return plugin_fail("remove", &why);
    }
    remove_leavings(root);
    if (rename(place, gone) != 0)
        return error_set(&e, KILN_ERR_IO, "%s: %s", place, strerror(errno)), plugin_fail("remove", &e);
    folder_remove(gone);
    if (user_plugins_disable(id, NULL, 0, &changed, &e) != KILN_OK) return plugin_fail("remove", &e);
    print_text(stdout, "%s is removed\n", id);
    return EXIT_DONE;
}
