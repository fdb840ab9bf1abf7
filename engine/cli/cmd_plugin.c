/* cmd_plugin.c - `kiln plugin`: begins, checks, installs, lists and disables plugins. `kiln plugins` says what loaded.
 */
#include "cli/cmd_plugin.h"

#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/names.h"
#include "base/print.h"
#include "cli/check_report.h"
#include "cli/open_catalog.h"
#include "plugin/loader.h"
#include "plugin/user_plugins.h"

#include <string.h>
#include <sys/stat.h>

static const option options[] = {
    {"--kind", 0, "node|sampler|guider|model|op", "new: what it begins with (default: node)", 0},
    {"--lang", 0, "c|c++|rust", "new: the language (default: c)", 0},
    {"--id", 0, "ID", "new: its id, which begins with a domain of yours (default: org.example.NAME)", 0},
    {"--replace", 0, NULL, "install: over the one of this id that is installed", 0},
    {"--device", 0, "NAME", "check: try its ops, samplers and guiders on this device too: cuda, cuda:1, reference", 0},
    {"--workflow", 0, "FILE", "check: also run this workflow (default: NAME.yaml beside it)", 0},
    {"--models", 0, "DIRS", "check: look for models of that workflow here first", 0},
    {"--input", 0, "DIRS", "check: look for input files of that workflow here first", 0},
    {"--fixture", 0, "FILE", "check: a model file of its family (default: NAME.safetensors beside it)", 1},
    {"--set", 0, "NAME=VALUE", "check: give every parameter of this name this value: a file, say", 1},
    {"--sets", 0, "N", "check: try each node with N parameter sets drawn at random", 0},
    {"--sets-seconds", 0, "SECONDS", "check: processor time that a node's sets may take (default: 5)", 0},
    {"--call-timeout", 0, "SECONDS", "check: end a call of a node that takes longer (default: 20)", 0},
    {"--output", 'o', "FILE", "index: write it here (default: kiln-plugins.json in the folder)", 0},
    PLUGINS_OPTION,
    {"--json", 0, NULL, "check, list, info: print JSON", 0},
};
const manual manual_plugin = {
    .usage = "kiln plugin new|check|install|list|info|disable|enable|remove|index ...",
    .about = "Begins, checks and looks after plugins. `kiln plugins` says which loaded.\n\n"
             "  new NAME        a folder that builds, with a test and a CI file\n"
             "  check WHAT      try to catch it breaking the contract (kiln\n"
             "                  check-plugin), and compare it with its manifest\n"
             "  install WHAT    copy it into the user's folder of plugins, whole or\n"
             "                  not at all, after trying it\n"
             "  list [WHERE]    what is installed, by manifests, without loading code;\n"
             "                  of a folder or an index\n"
             "  info WHAT       id, version, licence, contract, nodes, files\n"
             "  disable ID      do not load it any more; enable ID takes that back\n"
             "  remove ID       take an installed one away\n"
             "  index FOLDER    write a list of the plugins in a folder, for others\n\n"
             "WHAT is a .so file, a folder with a manifest (kiln-plugin.yaml), or an id. The user's folder is "
             "~/.local/share/kiln/plugins, or kiln/plugins in XDG_DATA_HOME.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln plugin new soft-glow --kind node --lang c++\n"
                "  kiln plugin check ./image-gain.so\n"
                "  kiln plugin info org.kiln.image\n"
                "  kiln plugin list\n",
    .operand = OPERAND_WORD,
    .words = "new check install list info disable enable remove index",
};

/* Those of kiln check-plugin. */
#define CHECK_OPTIONS "--device --workflow --models --input --fixture --set --sets --sets-seconds --call-timeout --json"

static const struct {
    const char *name, *wants, *takes; /* takes: its options besides --plugins */
    size_t least, most;
    int (*run)(const plugin_request *);
} actions[] = {
    {"new", "a NAME", "--kind --lang --id", 1, 1, plugin_new},
    {"check", "a .so, a folder or an id", CHECK_OPTIONS, 1, 60, plugin_check},
    {"install", "a .so or a folder", "--replace", 1, 1, plugin_install},
    {"list", "", "--json", 0, 1, list_plugins},
    {"info", "a .so, a folder or an id", "--json", 1, 1, plugin_info_of},
    {"disable", "an id", "", 1, 1, plugin_disable},
    {"enable", "an id", "", 1, 1, plugin_enable},
    {"remove", "an id", "", 1, 1, plugin_remove},
    {"index", "a FOLDER", "--output", 1, 1, plugin_index},
};
enum { N_ACTIONS = sizeof actions / sizeof actions[0] };

static const char *action_name(void *arg, size_t i) { return (void)arg, actions[i].name; }

int plugin_fail(const char *action, const error *e)
{
    print_text(stderr, "kiln plugin %s: %s\n", action, e->message);
    return e->status == KILN_ERR_INVALID ? EXIT_BAD_INPUT : EXIT_RUN_FAILED;
}

/* ---- which plugin ---- */

static const plugin_manifest no_manifest = {.path = "", .folder = ""};

/* Of the plugins on the search path, whose manifest has this id; nothing is loaded. */
static const char *find_id(const plugin_request *r, const char *id, plugin_manifest *m, error *e)
{
    plugin_list found = {0};
    if (loader_search(argument(r->args, "--plugins"), r->memory, &found, e) != KILN_OK) return NULL;
    for (size_t i = 0; i < found.n; i++) {
        error own = {0};
        if (found.item[i].state == PLUGIN_LOADED &&
            manifest_beside(r->memory, found.item[i].path, m, &own) == KILN_OK && *m->path && strcmp(m->id, id) == 0)
            return found.item[i].path;
    }
    *m = no_manifest;
    return NULL;
}

const char *plugin_find_so(const plugin_request *r, const char *named, plugin_manifest *m, error *e)
{
    const char *folder = user_plugins_folder(r->memory), *manifest;
    const char *installed = folder && name_is_valid(named) ? arena_printf(r->memory, "%s/%s", folder, named) : NULL;
    *m = no_manifest;
    if (!folder_exists(named) && file_exists(named))
        return manifest_beside(r->memory, named, m, e) == KILN_OK ? arena_strdup(r->memory, named) : NULL;
    const char *in = folder_exists(named) ? named : installed && folder_exists(installed) ? installed : NULL;
    if (!in) {
        const char *so = find_id(r, named, m, e);
        if (!so)
            error_set(e, KILN_ERR_INVALID,
                      "there is no file or folder '%s', and no plugin of this id has a manifest on the search path",
                      named);
        return so;
    }
    if (!(manifest = manifest_in(r->memory, in)))
        return error_set(e, KILN_ERR_INVALID, "the folder '%s' has no kiln-plugin.yaml; name the .so file", in), NULL;
    if (manifest_read(r->memory, manifest, m, e) != KILN_OK) return NULL;
    return arena_printf(r->memory, "%s/%s", m->folder, m->so);
}

/* ---- check ---- */

/* What the templates leave to whoever writes the plugin (plugins/templates). */
static const struct {
    const char *file, *text, *instead;
} placeholders[] = {
    {"kiln-plugin.yaml", "doc: Say here in one line what it is good for",
     "write as doc what the plugin does: `kiln plugin list` shows it"},
    {"kiln-plugin.yaml", "id: org.example.",
     "begin the id with a domain of yours, here and in the plugin's source; others' ids begin so too"},
    {"README.md", "Say here what it is good for", "write there what the plugin does"},
};

static size_t line_of(const char *text, const char *at)
{
    size_t n = 1;
    for (; text < at; text++) n += *text == '\n';
    return n;
}

/* A file that is not there has none. */
static void note_placeholders(const plugin_request *r, const plugin_manifest *m)
{
    enum { FILE_MAX = 1 << 20 };
    for (size_t i = 0; i < sizeof placeholders / sizeof *placeholders; i++) {
        error ignored = {0};
        char *text = NULL;
        size_t n;
        const char *path = arena_printf(r->memory, "%s/%s", m->folder, placeholders[i].file), *at;
        if (!path || file_read(path, FILE_MAX, &text, &n, &ignored) != KILN_OK) continue;
        if ((at = strstr(text, placeholders[i].text)))
            check_note("placeholder", "%s:%zu says '%s', as the template does: %s", placeholders[i].file,
                       line_of(text, at), placeholders[i].text, placeholders[i].instead);
        mem_free(text);
    }
}

/* What the manifest says beside what the plugin is. 1: they agree, or it has none. */
static int check_manifest(const plugin_manifest *m, const char *so, int json)
{
    error e = {0};
    check_counts counts = {0};
    int agrees = 0;
    check_subject("manifest", *m->path ? m->path : so);
    if (!*m->path && !json) return print_text(stdout, "  note: it has no manifest (kiln-plugin.yaml)\n"), 1;
    if (!*m->path) return check_left(&counts, "manifest", "it has none (kiln-plugin.yaml)"), 1;
    catalog *c = catalog_open(so, &e);
    char *real = path_real(so);
    for (size_t i = 0; c && real && i < catalog_plugins(c); i++) {
        const plugin_info *p = catalog_plugin(c, i);
        if (p->table && strcmp(p->path, real) == 0) agrees = manifest_agrees(m, p, &e) == KILN_OK;
    }
    if (agrees)
        check_holds(&counts, "manifest", "%s", m->path);
    else if (*e.message)
        check_found(&counts, 0, "manifest", "%s", e.message);
    mem_free(real);
    catalog_close(c);
    return agrees;
}

/* kiln check-plugin, with those of its options that were given. */
static int check_by_command(const plugin_request *r, const char *so)
{
    const arguments *a = r->args;
    char **argv = arena_alloc(r->memory, (2 * a->n_given + 3) * sizeof *argv);
    int n = 0, whole = argv != NULL;
    if (whole) argv[n++] = arena_strdup(r->memory, "check-plugin"), argv[n++] = arena_strdup(r->memory, so);
    for (size_t i = 0; whole && i < a->n_given; i++) {
        const option *o = a->given[i].option;
        if (!strstr(CHECK_OPTIONS, o->name)) continue; /* by the configuration file, for other actions */
        argv[n++] = arena_strdup(r->memory, o->name);
        if (o->value) argv[n++] = arena_strdup(r->memory, a->given[i].value);
    }
    for (int i = 0; i < n; i++) whole &= argv[i] != NULL;
    if (!whole) return print_text(stderr, "kiln plugin check: out of memory\n"), EXIT_RUN_FAILED;
    return cmd_check_plugin(n, argv);
}

int plugin_check(const plugin_request *r)
{
    int worst = EXIT_DONE;
    for (size_t i = 0; i < r->n; i++) {
        error e = {0};
        plugin_manifest m;
        const char *so = plugin_find_so(r, r->operand[i], &m, &e);
        if (!so) {
            plugin_fail("check", &e);
            worst = EXIT_BAD_INPUT;
            continue;
        }
        int status = check_by_command(r, so);
        if (!check_manifest(&m, so, argument(r->args, "--json") != NULL) && status == EXIT_DONE)
            status = EXIT_RUN_FAILED;
        if (*m.path) note_placeholders(r, &m);
        if (status > worst) worst = status;
    }
    return worst;
}

/* ---- disable, enable ---- */

/* The path of the plugin of this id, loaded or not; NULL: nobody knows it. */
static const char *path_of_id(const plugin_request *r, const char *id)
{
    error e = {0};
    plugin_manifest m;
    const char *path = find_id(r, id, &m, &e);
    if (path) return path;
    catalog *c = catalog_open(argument(r->args, "--plugins"), &e);
    for (size_t i = 0; c && !path && i < catalog_plugins(c); i++) {
        const plugin_info *p = catalog_plugin(c, i);
        if (p->id && strcmp(p->id, id) == 0) path = arena_strdup(r->memory, p->path);
    }
    catalog_close(c);
    return path;
}

static int change(const plugin_request *r, const char *action, const char *path, int disable)
{
    const char *id = r->operand[0];
    error e = {0};
    int changed;
    if (user_plugins_disable(id, path, disable, &changed, &e) != KILN_OK) return plugin_fail(action, &e);
    print_text(stdout, "%s %s\n", id,
               disable   ? "is not loaded any more"
               : changed ? "is loaded again"
                         : "was not disabled");
    return EXIT_DONE;
}

int plugin_disable(const plugin_request *r)
{
    const char *id = r->operand[0], *disabled = user_plugins_disabled(r->memory, id, NULL), *path;
    if (disabled) return print_text(stdout, "%s was disabled already\n", id), EXIT_DONE;
    if (strncmp(id, "org.kiln.", strlen("org.kiln.")) == 0)
        return print_text(stderr, "kiln plugin disable: %s is kiln's own, and workflows rely on it\n", id),
               EXIT_BAD_INPUT;
    if (!name_is_valid(id) || !(path = path_of_id(r, id)))
        return print_text(stderr, "kiln plugin disable: there is no plugin '%s'; `kiln plugins` lists their ids\n", id),
               EXIT_BAD_INPUT;
    return change(r, "disable", path, 1);
}

int plugin_enable(const plugin_request *r) { return change(r, "enable", NULL, 0); }

/* ---- the command ---- */

static int options_fit(const arguments *a, size_t action)
{
    for (size_t i = 0; i < a->n_given; i++) {
        const char *name = a->given[i].option->name;
        if (strcmp(name, "--plugins") == 0 || strstr(actions[action].takes, name) || a->given[i].by_config) continue;
        return print_text(stderr, "kiln plugin %s takes no %s\n", actions[action].name, name), 0;
    }
    if (a->n_operand - 1 > actions[action].most)
        return print_text(stderr, "kiln plugin %s: what is '%s'?\n", actions[action].name,
                          a->operand[1 + actions[action].most]),
               0;
    if (a->n_operand - 1 < actions[action].least)
        return print_text(stderr, "kiln plugin %s: it wants %s\n", actions[action].name, actions[action].wants), 0;
    return 1;
}

int cmd_plugin(int argc, char **argv)
{
    arguments a;
    arena memory = {0};
    size_t i = 0;
    if (!arguments_read(&a, &manual_plugin, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_plugin), EXIT_DONE;
    if (a.n_operand == 0)
        return print_text(stderr, "kiln plugin: do what?\nusage: %s\n", manual_plugin.usage), EXIT_BAD_INPUT;
    while (i < N_ACTIONS && strcmp(actions[i].name, a.operand[0]) != 0) i++;
    if (i == N_ACTIONS) {
        const char *near = nearest_name(a.operand[0], action_name, N_ACTIONS, NULL);
        print_text(stderr, "kiln plugin: no action '%s'%s%s%s\nusage: %s\n", a.operand[0],
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "", manual_plugin.usage);
        return EXIT_BAD_INPUT;
    }
    if (!options_fit(&a, i)) return EXIT_BAD_INPUT;
    umask(umask(022) | 022); /* a plugin that others may write to is not loaded */
    int status = actions[i].run(
        &(plugin_request){.args = &a, .operand = a.operand + 1, .n = a.n_operand - 1, .memory = &memory});
    arena_free(&memory);
    return status;
}
