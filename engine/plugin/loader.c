/* loader.c - finding and loading plugins; see loader.h.
 *
 * A file is opened once, and everything else (its size, its content, dlopen through /proc/self/fd) uses that
 * descriptor, so that nobody can exchange the file between check and load. The descriptor stays open: the dynamic
 * linker identifies libraries by name, and /proc/self/fd/N must not name another file later.
 */
#include "plugin/loader.h"

#include "base/install.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "base/trust.h"
#include "plugin/abilities.h"
#include "plugin/ancestors.h"
#include "plugin/ctx.h"
#include "plugin/plugin_data.h"
#include "plugin/probe.h"
#include "plugin/process_state.h"
#include "plugin/supervised.h"
#include "plugin/user_plugins.h"

#include <assert.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLUGINS_MAX = 1024, FILE_BYTES_MAX = 1 << 30 };

void plugin_refuse(plugin *p, arena *memory, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    assert(p && memory && fmt);
    if (p->state == PLUGIN_REFUSED) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    p->state = PLUGIN_REFUSED;
    static char nothing[] = "no memory to say why";
    p->why = arena_strdup(memory, text);
    if (!p->why) p->why = nothing;
}

void plugin_clash(plugin *p, arena *memory, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char **all = arena_alloc(memory, (p->n_clash + 1) * sizeof *all);
    char *own = arena_strdup(memory, text);
    if (!all || !own) return;
    if (p->n_clash) memcpy(all, p->clash, p->n_clash * sizeof *all);
    all[p->n_clash++] = own;
    p->clash = all;
}

/* ---- trust ---- */

enum { TRUSTED_MAX = 4096 };
static const char *const *trusted_name;
static size_t n_trusted, n_trust_named;
static unsigned char trust_used[TRUSTED_MAX]; /* [i]: a plugin is called trusted_name[i] */

void loader_trust(const char *const *names, size_t n, size_t n_named)
{
    trusted_name = names;
    n_trusted = n < TRUSTED_MAX ? n : TRUSTED_MAX;
    n_trust_named = n_named < n_trusted ? n_named : n_trusted;
    memset(trust_used, 0, sizeof trust_used);
}

static int is_foreign(const plugin *p) { return !p->shipped && !p->trusted; }

/* By its id (NULL: not known), its file's name with or without ".so", or its path. */
static int is_trusted(const char *path, const char *id)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    size_t stem = strlen(file) > 3 ? strlen(file) - 3 : 0;
    int trusted = 0;
    for (size_t i = 0; i < n_trusted; i++) {
        const char *name = trusted_name[i];
        int is = strcmp(name, "all") == 0 || strcmp(name, file) == 0 || strcmp(name, path) == 0 ||
                 (id && strcmp(name, id) == 0) || (strlen(name) == stem && strncmp(name, file, stem) == 0);
        trust_used[i] |= (unsigned char)is;
        trusted |= is;
    }
    return trusted;
}

void loader_trust_check(void)
{
    for (size_t i = 0; i < n_trust_named; i++) {
        if (!trust_used[i] && strcmp(trusted_name[i], "all") != 0)
            log_warn("--trust %s: no plugin has this id, file name or path; `kiln plugin list` says what there is",
                     trusted_name[i]);
        trust_used[i] = 1;
    }
}

/* It lies in the folder beside the command, under a name of kiln's. */
static int is_shipped(const char *path, const char *const *folder, size_t n)
{
    const char *slash = strrchr(path, '/');
    if (!slash || strncmp(slash + 1, "kiln-", 5) != 0) return 0;
    for (size_t i = 0; i < n; i++)
        if (strlen(folder[i]) == (size_t)(slash - path) && strncmp(folder[i], path, (size_t)(slash - path)) == 0)
            return 1;
    return 0;
}

/* ---- search ---- */

typedef struct {
    arena *memory;
    plugin_list *out;
    error *e;
} search;

static plugin *add(search *s, const char *path)
{
    plugin_list *l = s->out;
    if (l->n == PLUGINS_MAX)
        return error_set(s->e, KILN_ERR_INVALID, "more than %d plugins on the search path; take folders away",
                         PLUGINS_MAX),
               NULL;
    if (l->n == l->capacity) {
        size_t capacity = l->capacity ? l->capacity * 2 : 32;
        plugin *item = arena_alloc(s->memory, capacity * sizeof *item);
        if (!item) return error_set(s->e, KILN_ERR_NOMEM, "out of memory"), NULL;
        if (l->n) memcpy(item, l->item, l->n * sizeof *item);
        l->item = item, l->capacity = capacity;
    }
    char *kept = arena_strdup(s->memory, path);
    if (!kept) return error_set(s->e, KILN_ERR_NOMEM, "out of memory"), NULL;
    l->item[l->n] = (plugin){.path = kept};
    return &l->item[l->n++];
}

/* Skips a file that is already on the list (a folder named twice, a link). */
static kiln_status add_file(search *s, const char *path)
{
    struct stat st;
    char *real = path_real(path);
    if (!real || stat(real, &st) != 0) {
        plugin *p = add(s, path);
        if (p) plugin_refuse(p, s->memory, "cannot be found: %s", strerror(errno));
        mem_free(real);
        return p ? KILN_OK : KILN_ERR_NOMEM;
    }
    for (size_t i = 0; i < s->out->n; i++)
        if (s->out->item[i].device == st.st_dev && s->out->item[i].inode == st.st_ino) {
            mem_free(real);
            return KILN_OK;
        }
    plugin *p = add(s, real);
    mem_free(real);
    if (!p) return s->e ? s->e->status : KILN_ERR_NOMEM;
    p->device = st.st_dev, p->inode = st.st_ino;
    return KILN_OK;
}

static int is_so(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 3 && d->d_name[0] != '.' && strcmp(d->d_name + n - 3, ".so") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static kiln_status add_folder(search *s, const char *folder)
{
    struct dirent **found = NULL;
    struct stat st;
    kiln_status status = KILN_OK;
    char above[600];
    const char *fault = stat(folder, &st) == 0 ? trust_fault(&st) : strerror(errno);
    if (!fault) fault = ancestors_fault(folder, above);
    int n = fault ? 0 : scandir(folder, &found, is_so, by_bytes);
    if (fault || n < 0) {
        plugin *p = add(s, folder);
        if (!p) return s->e ? s->e->status : KILN_ERR_NOMEM;
        plugin_refuse(p, s->memory, "the folder %s", fault ? fault : strerror(errno));
        return KILN_OK;
    }
    if (n == 0) log_warn("the plugin folder '%s' holds no .so file", folder);
    for (int i = 0; i < n; i++) {
        char *path = status == KILN_OK ? path_join(folder, found[i]->d_name) : NULL;
        if (path) status = add_file(s, path);
        mem_free(path);
        free(found[i]);
    }
    free(found);
    return status;
}

/* Adds a folder or file that a list names. `must`: it is an error when it does not exist. */
static kiln_status add_named(search *s, const char *name, int must, const char *where)
{
    struct stat st;
    char *real = path_real(name);
    kiln_status status = KILN_OK;
    if (!real && stat(name, &st) == 0) {
        status = error_set(s->e, KILN_ERR_NOMEM, "out of memory");
    } else if (!real || stat(real, &st) != 0) {
        if (must)
            status = error_set(s->e, KILN_ERR_INVALID, "%s: there is no folder or file '%s'", where, name);
        else
            log_info("%s: there is no folder or file '%s'", where, name);
    } else {
        status = S_ISDIR(st.st_mode) ? add_folder(s, real) : add_file(s, real);
    }
    mem_free(real);
    return status;
}

static kiln_status add_list(search *s, const char *list, int must, const char *where)
{
    while (list && *list) {
        size_t n = strcspn(list, ":");
        if (n) {
            char *name = mem_strndup(list, n);
            if (!name) return error_set(s->e, KILN_ERR_NOMEM, "out of memory");
            kiln_status status = add_named(s, name, must, where);
            mem_free(name);
            TRY(status);
        }
        list += n + (list[n] == ':');
    }
    return KILN_OK;
}

static kiln_status add_installed(search *s)
{
    static const char *const beside[] = {"../lib/kiln/plugins", "plugins"};
    const char *own[2];
    size_t n_own = 0;
    char folder[PATH_MAX];
    for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++) {
        if (!install_find(beside[i], folder, sizeof folder) || !folder_exists(folder)) continue;
        TRY(add_named(s, folder, 0, "installed plugins"));
        char *real = path_real(folder), *kept = real ? arena_strdup(s->memory, real) : NULL;
        if (kept) own[n_own++] = kept;
        mem_free(real);
    }
    for (size_t i = 0; i < s->out->n; i++) {
        plugin *p = &s->out->item[i];
        p->shipped = is_shipped(p->path, own, n_own);
        p->trusted = is_trusted(p->path, NULL);
    }
    return KILN_OK;
}

/* Each plugin has a folder of its own there. */
static int is_folder_of_plugin(const struct dirent *d) { return d->d_name[0] != '.' && d->d_type != DT_REG; }

static kiln_status add_user(search *s)
{
    struct dirent **found = NULL;
    kiln_status status = KILN_OK;
    const char *folder = user_plugins_folder(s->memory);
    int n = folder ? scandir(folder, &found, is_folder_of_plugin, by_bytes) : 0;
    for (int i = 0; i < n; i++) {
        char *path = status == KILN_OK ? path_join(folder, found[i]->d_name) : NULL;
        if (path && folder_exists(path)) status = add_named(s, path, 0, "the user's plugins");
        mem_free(path);
        free(found[i]);
    }
    free(found);
    return status;
}

int loader_has_foreign(const char *list)
{
    arena memory = {0};
    plugin_list found = {0};
    error why = {0};
    int level = log_level(), foreign = 0;
    log_level_set(KILN_LOG_ERROR);
    if (loader_search(list, &memory, &found, &why) == KILN_OK)
        for (size_t i = 0; i < found.n; i++)
            foreign |= found.item[i].state == PLUGIN_LOADED && is_foreign(&found.item[i]);
    log_level_set(level);
    arena_free(&memory);
    return foreign;
}

kiln_status loader_search(const char *list, arena *memory, plugin_list *out, error *e)
{
    error own = {0};
    search s = {.memory = memory, .out = out, .e = e ? e : &own};
    TRY(add_list(&s, list, 1, "--plugins"));
    TRY(add_list(&s, getenv("KILN_PLUGIN_PATH"), 1, "KILN_PLUGIN_PATH"));
    TRY(add_user(&s));
    return add_installed(&s);
}

/* ---- load ---- */

static int content_digest(int fd, size_t size, digest *out)
{
    void *data = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (data == MAP_FAILED) return 0;
    *out = digest_of(data, size);
    munmap(data, size);
    return 1;
}

static const char *folder_fault(const char *path, char above[600])
{
    struct stat s;
    char *copy = mem_strdup(path);
    if (!copy) return "cannot be checked: out of memory";
    char *slash = strrchr(copy, '/');
    if (slash) slash[slash == copy] = '\0';
    const char *fault = stat(copy, &s) == 0 ? trust_fault(&s) : "cannot be checked";
    if (!fault) fault = ancestors_fault(copy, above);
    mem_free(copy);
    return fault;
}

/* Opens the file and checks owner, mode, size and data folder; -1 after refusing it. */
static int open_checked(plugin *p, arena *memory, struct stat *s)
{
    error e = {0};
    char above[600];
    const char *fault = folder_fault(p->path, above);
    if (fault) return plugin_refuse(p, memory, "its folder %s", fault), -1;
    int fd = open(p->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, s) != 0) {
        plugin_refuse(p, memory, "cannot be opened: %s", strerror(errno));
    } else if (!S_ISREG(s->st_mode)) {
        plugin_refuse(p, memory, "is not a regular file");
    } else if ((fault = trust_fault(s)) != NULL) {
        plugin_refuse(p, memory, "%s", fault);
    } else if (s->st_size == 0 || s->st_size > FILE_BYTES_MAX ||
               !content_digest(fd, (size_t)s->st_size, &p->identity)) {
        plugin_refuse(p, memory, "cannot be read, or is empty or larger than 1 GiB");
    } else if (plugin_data_find(p->path, memory, &p->data, &p->identity, &e) != KILN_OK) {
        plugin_refuse(p, memory, "its data: %s", e.message);
    } else {
        return fd;
    }
    if (fd >= 0) close(fd);
    return -1;
}

/* The linker's message without the name it was given: "/proc/self/fd/5: undefined symbol: x". */
static const char *without_name(const char *message, const char *name)
{
    size_t n = strlen(name);
    return strncmp(message, name, n) == 0 && strncmp(message + n, ": ", 2) == 0 ? message + n + 2 : message;
}

/* 0: nothing was loaded, and the descriptor can be closed. */
static int load_open_file(plugin *p, arena *memory, const char *name)
{
    error e = {0};
    uint64_t floats = float_state();
    void *so = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    p->changed_floats = float_state() != floats;
    float_state_set(floats);
    if (!so) {
        plugin_refuse(p, memory, "%s", without_name(dlerror(), name));
        return 0;
    }
    supervised_plugin_add(so, p->path, NULL);
    const void *raw = dlsym(so, "kiln_plugin_v1");
    if (!raw)
        plugin_refuse(p, memory, "exports no kiln_plugin_v1, so it is not a plugin for this version of kiln");
    else if (table_read(raw, memory, &p->table, &e) != KILN_OK)
        plugin_refuse(p, memory, "%s", e.message);
    else
        supervised_plugin_add(so, p->path, p->table.id), p->trusted |= is_trusted(p->path, p->table.id);
    if (p->state == PLUGIN_LOADED && p->changed_floats)
        log_warn(
            "%s: loading it changed the floating-point mode of the process (linked with -ffast-math?); it was put back",
            p->path);
    return 1;
}

/* 1: the user has disabled the plugin of this id, or at this path. */
static int keep_out(plugin *p, arena *memory, const char *id, const char *path)
{
    const char *disabled = user_plugins_disabled(memory, id, path);
    if (!disabled) return 0;
    plugin_refuse(p, memory, "%s is disabled; `kiln plugin enable %s` lets it in again", disabled, disabled);
    p->state = PLUGIN_DISABLED;
    return 1;
}

/* Why it is not to be loaded: it is left out of this process, or loading it ended one of this run before. */
static const char *reason_to_stay_out(plugin *p, arena *memory)
{
    const char *why = supervised_refusal(p->path, "", "", "load");
    if (!why) why = supervised_refusal(p->path, "", "", "open");
    if (why) {
        log_error("%s is not loaded: it %s", p->path, why);
        return arena_printf(memory, "is not loaded: it %s", why);
    }
    why = is_foreign(p) ? supervised_left_out(p->path, &p->held) : NULL;
    return why ? arena_strdup(memory, why) : NULL;
}

enum { TABLE_TRIES = 3 };

/* Its table without its code. A thread of it may end the process that reads it, so there are several tries. */
static void take_table(plugin *p, arena *memory, const char *name, digest key, const char *why)
{
    error e = {0};
    unpacked_table *rows = arena_alloc(memory, sizeof *rows);
    kiln_status status = rows ? KILN_ERR_BUG : error_set(&e, KILN_ERR_NOMEM, "out of memory");
    for (int i = 0; rows && status != KILN_OK && i < TABLE_TRIES; i++) {
        e = (error){0};
        status = probe_table(name, p->data, key, memory, rows, &e);
    }
    if (status != KILN_OK) {
        plugin_refuse(p, memory, "%s; %s", why, e.message);
        return;
    }
    p->table = rows->table, p->rows = rows, p->absent = why;
    p->trusted |= is_trusted(p->path, p->table.id);
}

/* What crashes, exits or hangs is not tried again until the file changes. */
static int passes_probe(plugin *p, arena *memory, const char *name, digest key)
{
    error e = {0};
    int fatal = 0;
    char why[700];
    if (probe_failed(key, why, sizeof why)) {
        plugin_refuse(p, memory, "%s (as it did before; it is tried again when the file changes)", why);
        return 0;
    }
    if (probe_plugin(name, p->data, PROBE_SECONDS, key, &fatal, &e) == KILN_OK) return 1;
    const char *text = without_name(e.message, name);
    if (fatal) probe_remember_failed(key, text);
    plugin_refuse(p, memory, "%s", text);
    return 0;
}

void loader_load(plugin *p, arena *memory)
{
    struct stat s;
    char name[64];
    if (p->state != PLUGIN_LOADED || keep_out(p, memory, NULL, p->path)) return;
    int fd = open_checked(p, memory, &s);
    if (fd < 0) return;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    const char *by = access(name, R_OK) == 0 ? name : p->path; /* the path where there is no /proc */
    const char *absent = reason_to_stay_out(p, memory);
    digest key = probe_key(&s, p->identity);
    if (absent) {
        take_table(p, memory, by, key, absent);
        close(fd);
        if (p->state == PLUGIN_LOADED) keep_out(p, memory, p->table.id, NULL);
        return;
    }
    if (!probe_remembered(key)) {
        if (!passes_probe(p, memory, by, key)) {
            close(fd);
            return;
        }
        probe_remember(key);
    }
    int call = supervised_enter_plugin(p->path, "", "load", is_foreign(p));
    if (!load_open_file(p, memory, by)) close(fd);
    supervised_leave(call);
    process_state_loaded(p->path);
    if (p->state == PLUGIN_LOADED) keep_out(p, memory, p->table.id, NULL);
    if (p->state == PLUGIN_LOADED && is_foreign(p)) supervised_loaded(p->path, p->table.id);
}

/* Its samplers and schedules have their names, so that a workflow which says them is none with a fault. */
static void open_absent(const plugin *p)
{
    supervised_absent(p->table.id, p->absent, p->held, p->rows->others);
    for (size_t i = 0; i < p->rows->n_sampler; i++) sampler_api.register_sampler(&p->rows->sampler[i]);
    for (size_t i = 0; i < p->rows->n_schedule; i++) sampler_api.register_schedule(&p->rows->schedule[i]);
}

void loader_open(plugin *p, arena *memory)
{
    if (p->state != PLUGIN_LOADED || !p->table.open) return;
    assert(p->table.id);
    size_t mark = registry_mark();
    uint64_t floats = float_state();
    registry_owner_set(p->table.id, p->data);
    if (p->absent) open_absent(p);
    int call = p->absent ? 0 : supervised_enter_plugin(p->path, p->table.id, "open", is_foreign(p));
    kiln_status status = p->table.open(&engine_host);
    supervised_leave(call);
    if (!p->absent) process_state_loaded(p->path);
    float_state_set(floats);
    if (registry_fault()[0])
        plugin_refuse(p, memory, "its open() failed: %s", registry_fault());
    else if (status != KILN_OK)
        plugin_refuse(p, memory, "its open() failed: %s (%s)", status_text(status), status_name(status));
    registry_owner_set(NULL, NULL);
    if (p->state == PLUGIN_LOADED)
        for (size_t i = 0; registry_clash(i); i++)
            plugin_clash(p, memory, "%s (%s); use it as %s/%s", registry_clash(i), p->path, p->table.id,
                         registry_clash_name(i));
    if (p->state != PLUGIN_LOADED) registry_rewind(mark);
}
