/* config_file.c - see config_file.h. What it reads lives until the process ends, as the arguments do. */
#include "cli/config_file.h"

#include "base/array.h"
#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/names.h"
#include "base/print.h"
#include "base/str.h"
#include "workflow/yaml_tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES_MAX = 1 << 20, KEYS_MAX = 300 };

static arena kept; /* values, until the process ends */

typedef struct {
    const char *path;
    arguments *a;
    const manual *m;
    const char *own; /* the command's name */
} config;

/* Variables of the environment that say the same as an option. A list's folders are searched in order; of the others
 * the variable wins. */
static const struct {
    const char *option, *variable;
    int is_list;
} variables[] = {
    {"--models", "KILN_MODELS", 1}, {"--input", "KILN_INPUT", 1},    {"--plugins", "KILN_PLUGIN_PATH", 1},
    {"--cache", "KILN_CACHE", 0},   {"--no-cache", "KILN_CACHE", 0}, {"--memory", "KILN_MEMORY", 0},
};

static int fault(const config *c, const yaml_node *at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static int fault(const config *c, const yaml_node *at, const char *fmt, ...)
{
    va_list args;
    print_text(stderr, "%s:%u:%u: error: ", c->path, at->at.line, at->at.column);
    va_start(args, fmt);
    print_textv(stderr, fmt, args);
    va_end(args);
    print_text(stderr, "\n");
    return 0;
}

static int no_memory(void) { return print_text(stderr, "kiln: error: out of memory\n"), 0; }

/* ---- where it is ---- */

/* *named: somebody has named it, so it has to be there. NULL: there is none. */
static const char *find(arena *a, int *named)
{
    const char *named_file = getenv("KILN_CONFIG"), *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    *named = named_file && *named_file;
    if (named_file && (!*named_file || strcmp(named_file, "off") == 0)) return NULL;
    if (named_file) return named_file;
    const char *path = xdg && *xdg == '/'     ? arena_printf(a, "%s/kiln/config.yaml", xdg)
                       : home && *home == '/' ? arena_printf(a, "%s/.config/kiln/config.yaml", home)
                                              : NULL;
    return path && file_exists(path) ? path : NULL;
}

/* ---- values ---- */

/* ~/x is below the home folder. */
static const char *at_home(const char *path)
{
    const char *home = getenv("HOME");
    if (path[0] != '~' || (path[1] && path[1] != '/') || !home) return path;
    return arena_printf(&kept, "%s%s", home, path + 1);
}

static int takes_paths(const option *o)
{
    static const char *const values[] = {"DIR", "DIRS", "FILE", "PATHS", "LIST"};
    for (size_t i = 0; o->value && i < sizeof values / sizeof values[0]; i++)
        if (strcmp(o->value, values[i]) == 0) return 1;
    return 0;
}

static int is_word(const yaml_node *v, const char *word)
{
    return v->kind == YAML_SCALAR && !v->quoted && strcmp(v->text, word) == 0;
}

static int add_to_variable(const config *c, const option *o, const char *variable, const yaml_node *v)
{
    const char *path = at_home(v->text), *before = getenv(variable);
    str s = {0};
    if (!path) return no_memory();
    for (const char *p = path; *p;) {
        size_t n = strcspn(p, ":");
        const char *one = arena_strndup(&kept, p, n);
        if (one && n && !folder_exists(one) && !file_exists(one))
            return fault(c, v, "%s: there is no folder '%s'", o->name + 2, one);
        p += n + (p[n] == ':');
    }
    str_printf(&s, "%s%s%s", before ? before : "", before && *before ? ":" : "", path);
    int done = !s.failed && setenv(variable, str_text(&s), 1) == 0;
    str_free(&s);
    return done ? 1 : no_memory();
}

static int put_value(const config *c, const option *o, const yaml_node *v)
{
    arguments *a = c->a;
    if (v->kind != YAML_SCALAR || !v->length) return fault(c, v, "%s: it takes %s", o->name + 2, o->value);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        if (strcmp(variables[i].option, o->name) == 0 && variables[i].is_list)
            return add_to_variable(c, o, variables[i].variable, v);
    const char *text = takes_paths(o) ? at_home(v->text) : v->text;
    char *own = text ? arena_strdup(&kept, text) : NULL; /* --set is cut in place */
    if (!own) return no_memory();
    if (a->n_given == sizeof a->given / sizeof a->given[0]) return fault(c, v, "there are too many options");
    a->given[a->n_given++] = (given){.option = o, .value = own, .by_config = 1};
    return 1;
}

static int put_flag(const config *c, const option *o, const yaml_node *v)
{
    if (is_word(v, "false")) return 1;
    if (!is_word(v, "true")) return fault(c, v, "%s: it is true or false", o->name + 2);
    if (c->a->n_given == sizeof c->a->given / sizeof c->a->given[0]) return fault(c, v, "there are too many options");
    c->a->given[c->a->n_given++] = (given){.option = o, .value = "", .by_config = 1};
    return 1;
}

static int is_list(const option *o)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        if (variables[i].is_list && strcmp(variables[i].option, o->name) == 0) return 1;
    return o->many;
}

static int environment_has(const option *o)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *value = getenv(variables[i].variable);
        if (!variables[i].is_list && strcmp(variables[i].option, o->name) == 0 && value && *value) return 1;
    }
    return 0;
}

static int put_option(const config *c, const option *o, const yaml_node *v)
{
    if (environment_has(o)) return 1;
    if (!o->value) return put_flag(c, o, v);
    if (v->kind != YAML_SEQUENCE) return put_value(c, o, v);
    if (!is_list(o)) return fault(c, v, "%s: it takes one value", o->name + 2);
    for (size_t i = 0; i < v->n; i++)
        if (!put_value(c, o, v->item[i])) return 0;
    return 1;
}

/* ---- keys ---- */

static const option *option_of(const manual *m, const char *key)
{
    for (size_t i = 0; i < m->n_options; i++)
        if (strcmp(m->options[i].name + 2, key) == 0) return &m->options[i];
    return NULL;
}

static int unknown_key(const config *c, const manual *only, const yaml_node *key)
{
    const char *names[KEYS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < n_commands; i++) {
        const manual *m = commands[i].manual;
        for (size_t k = 0; (!only || only == m) && k < m->n_options && n < KEYS_MAX - 1; k++)
            names[n++] = m->options[k].name + 2;
        if (!only && n < KEYS_MAX - 1) names[n++] = commands[i].name;
    }
    if (!only) names[n++] = "aliases";
    const char *near = nearest_of(key->text, names, n);
    return fault(c, key, "there is no option '%s'%s%s%s", key->text,
                 near   ? "; did you mean '"
                 : only ? " of this command"
                        : "; keys are the long names of options, a command, or `aliases`",
                 near ? near : "", near ? "'?" : "");
}

static int put_aliases(const config *c, const yaml_node *map)
{
    const char *before = getenv("KILN_ALIASES");
    str s = {0};
    if (map->kind != YAML_MAP) return fault(c, map, "aliases: it is a map of names to model files");
    for (size_t i = 0; i < map->n; i++) {
        const yaml_node *key = map->key[i], *file = map->item[i];
        if (file->kind != YAML_SCALAR || !file->length || !key->length || strpbrk(key->text, "=:") ||
            strchr(file->text, ':'))
            return str_free(&s),
                   fault(c, key, "aliases: '%s' is a name for one model file; neither has a ':'", key->text);
        const char *path = at_home(file->text);
        str_printf(&s, "%s%s=%s", s.len ? ":" : "", key->text, path ? path : "");
    }
    if (before && *before) str_printf(&s, "%s%s", s.len ? ":" : "", before); /* the last of a name holds */
    int done = !s.failed && setenv("KILN_ALIASES", str_text(&s), 1) == 0;
    str_free(&s);
    return done ? 1 : no_memory();
}

static int put_section(const config *c, const command *of, const yaml_node *map)
{
    if (map->kind != YAML_MAP) return fault(c, map, "%s: it is a map of this command's options", of->name);
    for (size_t i = 0; i < map->n; i++) {
        const option *o = option_of(of->manual, map->key[i]->text);
        if (!o) return unknown_key(c, of->manual, map->key[i]);
        if (strcmp(of->name, c->own) != 0) continue;
        if (!o->many) argument_drop(c->a, o->name); /* what stands for every command */
        if (!put_option(c, o, map->item[i])) return 0;
    }
    return 1;
}

static int is_option_of_any(const char *key)
{
    for (size_t i = 0; i < n_commands; i++)
        if (option_of(commands[i].manual, key)) return 1;
    return 0;
}

static const command *command_of(const char *key)
{
    for (size_t i = 0; i < n_commands; i++)
        if (strcmp(commands[i].name, key) == 0) return &commands[i];
    return NULL;
}

/* `cache` and `models` are options and commands: a map is of the command, and what is a command alone has to be one. */
static int put_key(const config *c, const yaml_node *key, const yaml_node *v, int sections)
{
    const command *of = command_of(key->text);
    int is_section = of && (v->kind == YAML_MAP || !is_option_of_any(key->text));
    const option *o = option_of(c->m, key->text);
    if (strcmp(key->text, "aliases") == 0) return sections || put_aliases(c, v);
    if (is_section) return !sections || put_section(c, of, v);
    if (!is_option_of_any(key->text)) return unknown_key(c, NULL, key);
    return sections || !o || put_option(c, o, v);
}

static int take_tree(const config *c, const yaml_node *root)
{
    if (root->kind == YAML_SCALAR && !root->length) return 1; /* comments alone */
    if (root->kind != YAML_MAP) return fault(c, root, "it is a map of options to values");
    for (int sections = 0; sections < 2; sections++)
        for (size_t i = 0; i < root->n; i++)
            if (!put_key(c, root->key[i], root->item[i], sections)) return 0;
    return 1;
}

static int is_blank(const char *text)
{
    while (*text) {
        text += strspn(text, " \t\r\n");
        if (*text == '#')
            text += strcspn(text, "\n");
        else if (*text)
            return 0;
    }
    return 1;
}

int config_take(arguments *a, const manual *m, const char *command_name)
{
    int named, done = 0;
    size_t size;
    char *data = NULL;
    error e = {0};
    yaml_node *root;
    config c = {.a = a, .m = m, .own = command_name};
    c.path = find(&kept, &named);
    if (!c.path) return 1;
    if (named && (access(c.path, F_OK) != 0 || folder_exists(c.path)))
        return print_text(stderr, "kiln: KILN_CONFIG: there is no file '%s'; `off` is none\n", c.path), 0;
    if (file_read_stream(c.path, BYTES_MAX, &data, &size, &e) != KILN_OK)
        print_text(stderr, "kiln: error: %s\n", e.message);
    else if (is_blank(data))
        done = 1;
    else if (yaml_tree_read(&kept, c.path, 0, data, size, &root, &e) != KILN_OK)
        print_text(stderr, "kiln: error: %s\n", e.message);
    else
        done = take_tree(&c, root);
    mem_free(data);
    return done;
}
