/* cmd_plugins.c - `kiln plugins`: which plugins loaded, from where, and which did not and why. */
#include "base/print.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/open_catalog.h"
#include "plugin/catalog.h"

#include <stdio.h>
#include <string.h>

static const option options[] = {
    PLUGINS_OPTION,
    {"--json", 0, NULL, "print JSON", 0},
};
const manual manual_plugins = {
    .usage = "kiln plugins [--plugins LIST] [--json]",
    .about = "Lists every plugin on the search path: --plugins, KILN_PLUGIN_PATH, the user's own\n"
             "(kiln plugin install), then what is installed with kiln.\n"
             "Exit status 1 when one of them could not be loaded.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
};

static void field(str *s, const char *name, const char *text)
{
    str_printf(s, "%s\"%s\": ", s->data && s->data[s->len - 1] != '{' ? ", " : "", name);
    if (text)
        str_json(s, text, strlen(text), 0);
    else
        str_append(s, "null");
}

static void print_json(const catalog *c)
{
    str s = {0};
    char hex[33];
    for (size_t i = 0; i < catalog_plugins(c); i++) {
        const plugin_info *p = catalog_plugin(c, i);
        str_append(&s, i ? ",\n  {" : "[\n  {");
        field(&s, "path", p->path);
        field(&s, "state", p->table ? "loaded" : p->shadowed ? "shadowed" : p->disabled ? "disabled" : "refused");
        if (p->why) field(&s, "why", p->why);
        if (p->table) {
            field(&s, "id", p->id);
            field(&s, "version", p->version);
            field(&s, "license", p->license);
            field(&s, "identity", digest_hex(p->identity, hex));
            str_printf(&s, ", \"changed_float_mode\": %s, \"nodes\": [", p->changed_floats ? "true" : "false");
            for (size_t k = 0; k < p->n_node; k++) {
                if (k) str_append(&s, ", ");
                str_json(&s, p->table->node[k]->type, strlen(p->table->node[k]->type), 0);
            }
            str_append(&s, "]");
            if (p->n_clash) str_append(&s, ", \"clashes\": [");
            for (size_t k = 0; k < p->n_clash; k++) {
                if (k) str_append(&s, ", ");
                str_json(&s, p->clash[k], strlen(p->clash[k]), 0);
            }
            if (p->n_clash) str_append(&s, "]");
        }
        str_append(&s, "}");
    }
    print_raw(stdout, s.len ? s.data : "["), print_raw(stdout, "\n]\n");
    str_free(&s);
}

static void print_nodes(const plugin_info *p)
{
    size_t column = 0;
    for (size_t i = 0; i < p->n_node; i++) {
        const char *type = p->table->node[i]->type, *comma = i + 1 < p->n_node ? "," : "";
        if (column == 0 || column + strlen(type) > 96)
            column = (size_t)print_text(stdout, column ? "\n     " : "     ") + 4;
        column += (size_t)print_text(stdout, " %s%s", type, comma);
    }
    if (column) print_text(stdout, "\n");
}

static void print_list(const catalog *c)
{
    size_t loaded = 0, left = 0;
    for (size_t i = 0; i < catalog_plugins(c); i++) {
        const plugin_info *p = catalog_plugin(c, i);
        if (!p->table) {
            left++;
            continue;
        }
        loaded++;
        print_text(stdout, "%s %s (%s), %zu node type%s\n      %s\n", p->id, p->version, p->license, p->n_node,
                   p->n_node == 1 ? "" : "s", p->path);
        print_nodes(p);
        for (size_t k = 0; k < p->n_clash; k++) print_text(stdout, "      %s\n", p->clash[k]);
        if (p->changed_floats)
            print_text(stdout,
                       "      changed the floating-point mode when it was loaded (-ffast-math?); it was put back\n");
    }
    if (!loaded) print_text(stdout, "no plugin was loaded; say where they are with --plugins or KILN_PLUGIN_PATH\n");
    if (left) print_text(stdout, "\nnot loaded:\n");
    for (size_t i = 0; i < catalog_plugins(c); i++) {
        const plugin_info *p = catalog_plugin(c, i);
        if (!p->table) print_text(stdout, "  %s\n      %s\n", p->path, p->why);
    }
}

int cmd_plugins(int argc, char **argv)
{
    arguments a;
    int status;
    if (!arguments_read(&a, &manual_plugins, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_plugins), EXIT_DONE;
    if (a.n_operand) {
        print_text(stderr, "kiln plugins: '%s' is not expected here; a folder is given with --plugins\n", a.operand[0]);
        return EXIT_BAD_INPUT;
    }
    catalog *c = open_catalog("plugins", &a, &status);
    if (!c) return status;
    if (argument(&a, "--json"))
        print_json(c);
    else
        print_list(c);
    int refused = 0;
    for (size_t i = 0; i < catalog_plugins(c); i++)
        refused |= !catalog_plugin(c, i)->table && !catalog_plugin(c, i)->shadowed && !catalog_plugin(c, i)->disabled;
    catalog_close(c);
    return refused ? EXIT_RUN_FAILED : EXIT_DONE;
}
