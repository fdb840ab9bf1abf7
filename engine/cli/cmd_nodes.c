/* cmd_nodes.c - `kiln nodes [NAME]`: node types as their rows declare them. Nothing here knows any node. */
#include "base/str.h"
#include "cli/command.h"
#include "plugin/abilities.h"
#include "plugin/catalog.h"
#include "workflow/check.h"

#include <stdio.h>
#include <string.h>

static const option options[] = {
    {"--plugins", 0, "LIST", "folders or .so files to look at first, ':' between them", 0},
    {"--json", 0, NULL, "print JSON", 0},
};
static const manual help = {
    .usage = "kiln nodes [NAME ...] [--plugins LIST] [--json]",
    .about = "Lists the node types there are, or tells all about those named: inputs, outputs, parameters with what\n"
             "they take, their defaults and help.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln nodes KSampler\n  kiln nodes --json > nodes.json\n",
};

static const char *const param_type_name[] = {
    [KILN_P_BOOL] = "BOOL", [KILN_P_INT] = "INT",   [KILN_P_SEED] = "SEED",     [KILN_P_FLOAT] = "FLOAT",
    [KILN_P_ENUM] = "ENUM", [KILN_P_NAME] = "NAME", [KILN_P_STRING] = "STRING", [KILN_P_FILE] = "FILE",
};
static const char *const dtype_name[] = {
    [KILN_F32] = "f32", [KILN_F16] = "f16", [KILN_BF16] = "bf16", [KILN_U8] = "u8", [KILN_I32] = "i32", [KILN_I64] = "i64", [KILN_F64] = "f64", [KILN_BOOL8] = "bool8",
};
enum { N_DTYPE = sizeof dtype_name / sizeof dtype_name[0] };

static const char *name_at(void *self, const char *from, size_t i) { return (void)self, registry_name(from, i); }
static const catalog_view registries = {.name_at = name_at};

/* ---- text ----------------------------------------------------------------------------------------------------------- */

static const char *choice_of(const kiln_param *p, double value)
{
    for (const kiln_choice *c = p->choice; c && c->name; c++)
        if ((double)c->value == value) return c->name;
    return "";
}

/* The default as it would be written in a workflow. */
static void default_text(const kiln_param *p, str *s)
{
    switch (p->type) {
    case KILN_P_BOOL: str_append(s, p->def != 0 ? "true" : "false"); break;
    case KILN_P_ENUM: str_append(s, choice_of(p, p->def)); break;
    case KILN_P_INT:
    case KILN_P_SEED: str_printf(s, "%.0f", p->def); break;
    case KILN_P_FLOAT: str_double(s, p->def); break;
    default:
        if (p->def_str) str_json(s, p->def_str, strlen(p->def_str), 0);
        else str_append(s, "\"\"");
    }
}

static void print_port(const kiln_port *p)
{
    printf("  %-20s %s%s%s%s", p->name, p->type, p->flags & KILN_PORT_OPTIONAL ? ", optional" : "", p->flags & KILN_PORT_LIST ? ", any number of wires" : "",
           p->dtypes ? "," : "");
    for (uint32_t d = 1; d < N_DTYPE; d++)
        if (p->dtypes >> d & 1) printf(" %s", dtype_name[d]);
    if (p->rank_max) printf(p->rank_min == p->rank_max ? ", rank %u" : ", rank %u to %u", p->rank_min, p->rank_max);
    printf("\n  %-20s   %s\n", "", p->doc);
}

static void print_param(const kiln_param *p)
{
    char takes[2048];
    str def = {0};
    param_describe(p, &registries, takes, sizeof takes);
    if (p->type == KILN_P_NAME) str_append(&def, p->def_str ? p->def_str : "");
    else default_text(p, &def);
    printf("  %-20s %s%s%s%s\n  %-20s   %s\n", p->name, takes, p->flags & KILN_PARAM_REQUIRED ? "; has to be given" : "; default ",
           p->flags & KILN_PARAM_REQUIRED ? "" : str_text(&def), p->flags & KILN_PARAM_NEUTRAL ? "; does not change the result" : "", "", p->doc);
    for (const kiln_choice *c = p->choice; p->type == KILN_P_ENUM && c && c->name; c++)
        if (c->doc && c->doc[0]) printf("  %-20s     %s: %s\n", "", c->name, c->doc);
    str_free(&def);
}

static void print_node(const node_info *i)
{
    const kiln_node *n = i->node;
    printf("%s%s%s%s\n%s\n", n->type, n->title ? " - " : "", n->title ? n->title : "", n->flags & KILN_NODE_OUTPUT ? " (output node)" : "", n->doc);
    printf("%s%s%splugin %s %s, revision %u\n", n->category ? "category " : "", n->category ? n->category : "", n->category ? ", " : "", i->plugin->id,
           i->plugin->version, n->revision);
    if (n->n_in) printf("\ninputs:\n");
    for (uint32_t k = 0; k < n->n_in; k++) print_port(node_in(n, k));
    if (n->n_param) printf("\nparameters:\n");
    for (uint32_t k = 0; k < n->n_param; k++) print_param(node_param(n, k));
    if (n->n_out) printf("\noutputs:\n");
    for (uint32_t k = 0; k < n->n_out; k++) print_port(node_out(n, k));
}

/* ---- JSON ------------------------------------------------------------------------------------------------------------ */

static void key(str *s, const char *name)
{
    char last = s->len ? s->data[s->len - 1] : '{';
    str_printf(s, "%s\"%s\": ", last == '{' || last == '[' ? "" : ", ", name);
}

static void field(str *s, const char *name, const char *text)
{
    key(s, name);
    if (text) str_json(s, text, strlen(text), 0);
    else str_append(s, "null");
}

static void field_bool(str *s, const char *name, uint32_t value)
{
    key(s, name);
    str_append(s, value ? "true" : "false");
}

static void field_number(str *s, const char *name, double value)
{
    key(s, name);
    str_double(s, value);
}

static void next(str *s)
{
    if (s->len && s->data[s->len - 1] == '}') str_append(s, ", ");
}

static void json_port(str *s, const kiln_port *p, int input)
{
    next(s);
    str_append(s, "{");
    field(s, "name", p->name);
    field(s, "type", p->type);
    field(s, "doc", p->doc);
    if (input) {
        field_bool(s, "optional", p->flags & KILN_PORT_OPTIONAL);
        field_bool(s, "list", p->flags & KILN_PORT_LIST);
    }
    key(s, "dtypes");
    str_append(s, "[");
    for (uint32_t d = 1, n = 0; d < N_DTYPE; d++)
        if (p->dtypes >> d & 1) str_printf(s, "%s\"%s\"", n++ ? ", " : "", dtype_name[d]);
    str_append(s, "]");
    field_number(s, "rank_min", p->rank_min);
    field_number(s, "rank_max", p->rank_max);
    str_append(s, "}");
}

static void json_choices(str *s, const kiln_param *p)
{
    size_t n = 0;
    key(s, "choices");
    str_append(s, "[");
    for (const kiln_choice *c = p->choice; p->type == KILN_P_ENUM && c && c->name; c++) {
        if (n++) str_append(s, ", ");
        str_json(s, c->name, strlen(c->name), 0);
    }
    for (const char *name; p->type == KILN_P_NAME && (name = registry_name(p->from, n)) != NULL; n++) {
        if (n) str_append(s, ", ");
        str_json(s, name, strlen(name), 0);
    }
    str_append(s, "]");
}

static void json_param(str *s, const kiln_param *p)
{
    next(s);
    str_append(s, "{");
    field(s, "name", p->name);
    field(s, "type", param_type_name[p->type]);
    field(s, "doc", p->doc);
    field_bool(s, "required", p->flags & KILN_PARAM_REQUIRED);
    field_bool(s, "multiline", p->flags & KILN_PARAM_MULTILINE);
    field_bool(s, "neutral", p->flags & KILN_PARAM_NEUTRAL);
    if (!(p->flags & KILN_PARAM_REQUIRED)) {
        key(s, "default");
        if (p->type == KILN_P_ENUM) str_json(s, choice_of(p, p->def), strlen(choice_of(p, p->def)), 0);
        else default_text(p, s);
    }
    if (p->type == KILN_P_INT || p->type == KILN_P_FLOAT) {
        field_number(s, "min", p->min);
        field_number(s, "max", p->max);
        field_number(s, "step", p->step);
    }
    if (p->from) field(s, "from", p->from);
    if (p->type == KILN_P_ENUM || p->type == KILN_P_NAME) json_choices(s, p);
    str_append(s, "}");
}

static void json_node(str *s, const node_info *i)
{
    const kiln_node *n = i->node;
    str_append(s, "{");
    field(s, "type", n->type);
    field(s, "title", n->title);
    field(s, "category", n->category);
    field(s, "doc", n->doc);
    field(s, "plugin", i->plugin->id);
    field(s, "version", i->plugin->version);
    field_number(s, "revision", n->revision);
    field_bool(s, "pure", n->flags & KILN_NODE_PURE);
    field_bool(s, "output_node", n->flags & KILN_NODE_OUTPUT);
    key(s, "inputs");
    str_append(s, "[");
    for (uint32_t k = 0; k < n->n_in; k++) json_port(s, node_in(n, k), 1);
    str_append(s, "]");
    key(s, "parameters");
    str_append(s, "[");
    for (uint32_t k = 0; k < n->n_param; k++) json_param(s, node_param(n, k));
    str_append(s, "]");
    key(s, "outputs");
    str_append(s, "[");
    for (uint32_t k = 0; k < n->n_out; k++) json_port(s, node_out(n, k), 0);
    str_append(s, "]}");
}

/* ---- the command -------------------------------------------------------------------------------------------------------- */

static void print_list(const catalog *c)
{
    for (size_t i = 0; i < catalog_nodes(c); i++) {
        const node_info *n = catalog_node(c, i);
        printf("%-32s %-24s %s\n", n->node->type, n->node->category ? n->node->category : "", n->node->doc);
    }
    if (!catalog_nodes(c)) printf("there are no node types, because no plugin was loaded; see `kiln plugins`\n");
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
    printf("[%s]\n", str_text(&s));
    str_free(&s);
}

static int print_chosen(const catalog *c, const arguments *a)
{
    const node_info *chosen[sizeof a->operand / sizeof a->operand[0]];
    for (size_t i = 0; i < a->n_operand; i++) {
        chosen[i] = catalog_find(c, a->operand[i]);
        if (chosen[i]) continue;
        const char *near = catalog_nearest(c, a->operand[i]);
        fprintf(stderr, "kiln nodes: there is no node type '%s'%s%s%s\n", a->operand[i], near ? "; did you mean '" : "; see `kiln nodes`", near ? near : "", near ? "'?" : "");
        return EXIT_BAD_INPUT;
    }
    if (argument(a, "--json")) print_json(chosen, a->n_operand);
    for (size_t i = 0; i < a->n_operand && !argument(a, "--json"); i++) {
        if (i) printf("\n\n");
        print_node(chosen[i]);
    }
    return EXIT_DONE;
}

static void print_json_all(const catalog *c)
{
    printf("[");
    for (size_t i = 0; i < catalog_nodes(c); i++) {
        str s = {0};
        json_node(&s, catalog_node(c, i));
        printf("%s%s", i ? ",\n" : "", str_text(&s));
        str_free(&s);
    }
    printf("]\n");
}

int cmd_nodes(int argc, char **argv)
{
    arguments a;
    error e = {0};
    if (!arguments_read(&a, &help, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&help), EXIT_DONE;
    catalog *c = catalog_open(argument(&a, "--plugins"), &e);
    if (!c) {
        fprintf(stderr, "kiln nodes: %s\n", e.message);
        return e.status == KILN_ERR_INVALID ? EXIT_BAD_INPUT : EXIT_RUN_FAILED;
    }
    int status = EXIT_DONE;
    if (a.n_operand) status = print_chosen(c, &a);
    else if (argument(&a, "--json")) print_json_all(c);
    else print_list(c);
    catalog_close(c);
    return status;
}
