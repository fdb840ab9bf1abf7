/* cmd_nodes.c - `kiln nodes [NAME]`: node types as their plugins declare them. Nothing here knows a particular node. */
#include "base/json_members.h"
#include "base/print.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/nodes_coverage.h"
#include "cli/open_catalog.h"
#include "cli/param_help.h"
#include "param/param_text.h"
#include "plugin/abilities.h"
#include "plugin/catalog.h"
#include "workflow/check.h"

#include <stdio.h>
#include <string.h>

static const option options[] = {
    PLUGINS_OPTION,
    {"--coverage", 0, NULL, "count which of ComfyUI's node types are here; with a category: name them", 0},
    {"--json", 0, NULL, "print JSON", 0},
};
const manual manual_nodes = {
    .usage = "kiln nodes [NAME ... | --coverage [CATEGORY ...]] [options]",
    .about = "Lists the node types, or describes those named: inputs, outputs, and parameters with their values,\n"
             "defaults and help.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln nodes KSampler\n  kiln nodes --json > nodes.json\n"
                "  kiln nodes --coverage model/loaders\n",
    .operand = OPERAND_NAME,
};

static const char *const dtype_name[] = {
    [KILN_F32] = "f32", [KILN_F16] = "f16", [KILN_BF16] = "bf16", [KILN_U8] = "u8",
    [KILN_I32] = "i32", [KILN_I64] = "i64", [KILN_F64] = "f64",   [KILN_BOOL8] = "bool8",
};
enum { N_DTYPE = sizeof dtype_name / sizeof dtype_name[0] };

/* ---- text ---- */

/* "*T" is one type for all ports that say so. */
static void print_port(const kiln_port *p, int input)
{
    const char *list = !(p->flags & KILN_PORT_LIST) ? "" : input ? ", any number of wires, lists whole" : ", a list";
    print_text(stdout, "  %-20s %s%s%s%s%s", p->name, p->type, p->flags & KILN_PORT_OPTIONAL ? ", optional" : "", list,
               p->flags & KILN_PORT_LAZY ? ", computed only if it is wanted" : "", p->dtypes ? "," : "");
    for (uint32_t d = 1; d < N_DTYPE; d++)
        if (p->dtypes >> d & 1) print_text(stdout, " %s", dtype_name[d]);
    if (p->rank_max)
        print_text(stdout, p->rank_min == p->rank_max ? ", rank %u" : ", rank %u to %u", p->rank_min, p->rank_max);
    print_text(stdout, "\n  %-20s   %s\n", "", p->doc);
}

static void print_node(const node_info *i)
{
    const kiln_node *n = i->node;
    print_text(stdout, "%s%s%s%s%s\n%s\n", n->type, n->title ? " - " : "", n->title ? n->title : "",
               n->flags & KILN_NODE_OUTPUT ? " (output node)" : "",
               n->flags & KILN_NODE_EXPANDS ? " (expands into other nodes)" : "", n->doc);
    print_text(stdout, "%s%s%splugin %s %s, revision %u\n", n->category ? "category " : "",
               n->category ? n->category : "", n->category ? ", " : "", i->plugin->id, i->plugin->version, n->revision);
    if (n->n_in) print_text(stdout, "\ninputs:\n");
    for (uint32_t k = 0; k < n->n_in; k++) print_port(node_in(n, k), 1);
    if (n->n_param) print_text(stdout, "\nparameters:\n");
    for (uint32_t k = 0; k < n->n_param; k++) param_print(node_param(n, k));
    if (n->n_out) print_text(stdout, "\noutputs:\n");
    for (uint32_t k = 0; k < n->n_out; k++) print_port(node_out(n, k), 0);
}

/* ---- JSON ---- */

static void json_port(str *s, const kiln_port *p, int input)
{
    member_next(s);
    str_append(s, "{");
    member_field(s, "name", p->name);
    member_field(s, "type", p->type);
    member_field(s, "doc", p->doc);
    if (input) member_bool(s, "optional", p->flags & KILN_PORT_OPTIONAL);
    member_bool(s, "list", p->flags & KILN_PORT_LIST);
    if (input) member_bool(s, "lazy", p->flags & KILN_PORT_LAZY);
    member_key(s, "dtypes");
    str_append(s, "[");
    for (uint32_t d = 1, n = 0; d < N_DTYPE; d++)
        if (p->dtypes >> d & 1) str_printf(s, "%s\"%s\"", n++ ? ", " : "", dtype_name[d]);
    str_append(s, "]");
    member_number(s, "rank_min", p->rank_min);
    member_number(s, "rank_max", p->rank_max);
    str_append(s, "}");
}

static void json_node(str *s, const node_info *i)
{
    const kiln_node *n = i->node;
    str_append(s, "{");
    member_field(s, "type", n->type);
    member_field(s, "title", n->title);
    member_field(s, "category", n->category);
    member_field(s, "doc", n->doc);
    member_field(s, "plugin", i->plugin->id);
    member_field(s, "version", i->plugin->version);
    member_number(s, "revision", n->revision);
    member_bool(s, "pure", n->flags & KILN_NODE_PURE);
    member_bool(s, "output_node", n->flags & KILN_NODE_OUTPUT);
    member_bool(s, "expands", n->flags & KILN_NODE_EXPANDS);
    member_key(s, "inputs");
    str_append(s, "[");
    for (uint32_t k = 0; k < n->n_in; k++) json_port(s, node_in(n, k), 1);
    str_append(s, "]");
    member_key(s, "parameters");
    str_append(s, "[");
    for (uint32_t k = 0; k < n->n_param; k++) param_json(node_param(n, k), &registry_names, s);
    str_append(s, "]");
    member_key(s, "outputs");
    str_append(s, "[");
    for (uint32_t k = 0; k < n->n_out; k++) json_port(s, node_out(n, k), 0);
    str_append(s, "]}");
}

/* ---- the command ---- */

static void print_list(const catalog *c)
{
    for (size_t i = 0; i < catalog_nodes(c); i++) {
        const node_info *n = catalog_node(c, i);
        print_text(stdout, "%-32s %-24s %s\n", n->node->type, n->node->category ? n->node->category : "", n->node->doc);
    }
    if (!catalog_nodes(c))
        print_text(stdout, "there are no node types, because no plugin was loaded; see `kiln plugins`\n");
}

static void print_json(const node_info *const *chosen, size_t n)
{
    str s = {0};
    for (size_t i = 0; i < n; i++) {
        str one = {0};
        json_node(&one, chosen[i]);
        str_append(&s, i ? ",\n" : "");
        str_append(&s, str_text(&one));
        str_free(&one);
    }
    print_raw(stdout, "["), print_str(stdout, &s), print_raw(stdout, "]\n");
    str_free(&s);
}

static int print_chosen(const catalog *c, const arguments *a)
{
    const node_info *chosen[sizeof a->operand / sizeof a->operand[0]];
    for (size_t i = 0; i < a->n_operand; i++) {
        chosen[i] = catalog_find(c, a->operand[i]);
        if (chosen[i]) continue;
        const char *near = catalog_nearest(c, a->operand[i]);
        print_text(stderr, "kiln nodes: there is no node type '%s'%s%s%s\n", a->operand[i],
                   near ? "; did you mean '" : "; see `kiln nodes`", near ? near : "", near ? "'?" : "");
        return EXIT_BAD_INPUT;
    }
    if (argument(a, "--json")) print_json(chosen, a->n_operand);
    for (size_t i = 0; i < a->n_operand && !argument(a, "--json"); i++) {
        if (i) print_text(stdout, "\n\n");
        print_node(chosen[i]);
    }
    return EXIT_DONE;
}

static void print_json_all(const catalog *c)
{
    print_text(stdout, "[");
    for (size_t i = 0; i < catalog_nodes(c); i++) {
        str s = {0};
        json_node(&s, catalog_node(c, i));
        if (i) print_raw(stdout, ",\n");
        print_str(stdout, &s);
        str_free(&s);
    }
    print_text(stdout, "]\n");
}

int cmd_nodes(int argc, char **argv)
{
    arguments a;
    int status;
    if (!arguments_read(&a, &manual_nodes, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_nodes), EXIT_DONE;
    catalog *c = open_catalog("nodes", &a, &status);
    if (!c) return status;
    if (argument(&a, "--coverage"))
        status = nodes_coverage(c, &a);
    else if (a.n_operand)
        status = print_chosen(c, &a);
    else if (argument(&a, "--json"))
        print_json_all(c);
    else
        print_list(c);
    catalog_close(c);
    return status;
}
