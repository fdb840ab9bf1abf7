/* cmd_types.c - `kiln types [NAME]`: the types that ports name, and what their values are made of, as their rows
 * declare it. */
#include "base/json_members.h"
#include "base/names.h"
#include "base/print.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/open_catalog.h"
#include "plugin/value_types.h"
#include "tensor/dtype.h"

static const option options[] = {
    PLUGINS_OPTION,
    {"--json", 0, NULL, "print JSON", 0},
};
const manual manual_types = {
    .usage = "kiln types [NAME ...] [--plugins LIST] [--json]",
    .about =
        "Lists the types of values that ports name, or describes those named: what a value is, and the entries it\n"
        "has. Every value that a node makes is held against this before another node gets it. Entries that are not\n"
        "listed are carried along. A port may name a type that is not listed: its values are not looked at.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln types\n  kiln types LATENT VIDEO\n  kiln types --json > types.json\n",
    .operand = OPERAND_NAME,
};

static const char *owner_of(const kiln_value_type *t)
{
    const char *owner = value_type_owner(t->name);
    return owner ? owner : "kiln";
}

/* ---- text ---- */

static void print_list(void)
{
    char words[TYPE_WORDS_MAX];
    for (size_t i = 0; i < types_api.type_count(); i++) {
        const kiln_value_type *t = types_api.type_at(i);
        value_type_words(t, words);
        print_text(stdout, "%-16s %-44s %s\n", t->name, words, t->doc);
    }
}

static void print_type(const kiln_value_type *t)
{
    char words[TYPE_WORDS_MAX];
    value_type_words(t, words);
    print_text(stdout, "%s\n%s\n%s; declared by %s\n", t->name, t->doc, words, owner_of(t));
    if (t->n_entry) print_text(stdout, "\n%s:\n", t->kind == KILN_V_LIST ? "entries of each item" : "entries");
    for (uint32_t i = 0; i < t->n_entry; i++) {
        kiln_value_entry e = value_type_entry(t, i);
        value_entry_words(&e, words);
        print_text(stdout, "  %-20s %s%s\n  %-20s   %s\n", e.key, words,
                   e.flags & KILN_ENTRY_OPTIONAL ? "; optional" : "", "", e.doc);
    }
}

/* ---- JSON ---- */

static const char *const kind_name[] = {NULL, "tensor", "int", "float", "bool", "string", "list", "map", "object"};

static void json_kinds(str *s, const char *name, uint32_t kinds)
{
    member_key(s, name);
    str_append(s, "[");
    for (uint32_t k = KILN_V_TENSOR, n = 0; k <= KILN_V_OBJECT; k++)
        if (kinds >> k & 1) str_printf(s, "%s\"%s\"", n++ ? ", " : "", kind_name[k]);
    str_append(s, "]");
}

static void json_rule(str *s, const kiln_value_entry *e)
{
    member_key(s, "dtypes");
    str_append(s, "[");
    for (uint32_t d = KILN_F32, n = 0; d <= KILN_BOOL8; d++)
        if (e->dtypes >> d & 1) str_printf(s, "%s\"%s\"", n++ ? ", " : "", dtype_name(d));
    str_append(s, "]");
    member_number(s, "rank_min", e->rank_min);
    member_number(s, "rank_max", e->rank_max);
    member_number(s, "last_min", (double)e->last_min);
    member_number(s, "last_max", (double)e->last_max);
    member_field(s, "shape", e->shape);
}

static void json_entry(str *s, const kiln_value_entry *e)
{
    member_next(s);
    str_append(s, "{");
    member_field(s, "key", e->key);
    member_field(s, "doc", e->doc);
    member_bool(s, "optional", e->flags & KILN_ENTRY_OPTIONAL);
    member_field(s, "type", e->type);
    json_kinds(s, "kinds", e->kinds);
    json_kinds(s, "item_kinds", e->item_kinds);
    json_rule(s, e);
    str_append(s, "}");
}

static void json_type(str *s, const kiln_value_type *t)
{
    kiln_value_entry own = {.dtypes = t->dtypes,
                            .rank_min = t->rank_min,
                            .rank_max = t->rank_max,
                            .last_min = t->last_min,
                            .last_max = t->last_max,
                            .shape = t->shape};
    member_next(s);
    str_append(s, s->len > 1 ? "\n{" : "{");
    member_field(s, "name", t->name);
    member_field(s, "doc", t->doc);
    member_field(s, "plugin", owner_of(t));
    json_kinds(s, "kinds", 1u << t->kind);
    member_field(s, "item", t->item);
    json_rule(s, &own);
    member_key(s, "entries");
    str_append(s, "[");
    for (uint32_t i = 0; i < t->n_entry; i++) {
        kiln_value_entry e = value_type_entry(t, i);
        json_entry(s, &e);
    }
    str_append(s, "]}");
}

/* ---- the command ---- */

static const char *name_at(void *arg, size_t i) { return (void)arg, types_api.type_at(i)->name; }

static int all_known(const arguments *a)
{
    for (size_t i = 0; i < a->n_operand; i++) {
        if (value_type_find(a->operand[i])) continue;
        const char *near = nearest_name(a->operand[i], name_at, types_api.type_count(), NULL);
        print_text(stderr, "kiln types: no type '%s' is declared%s%s%s\n", a->operand[i],
                   near ? "; did you mean '" : "; see `kiln types`", near ? near : "", near ? "'?" : "");
        return 0;
    }
    return 1;
}

static void print_json(const arguments *a)
{
    str s = {0};
    size_t n = a->n_operand ? a->n_operand : types_api.type_count();
    str_append(&s, "[");
    for (size_t i = 0; i < n; i++) json_type(&s, a->n_operand ? value_type_find(a->operand[i]) : types_api.type_at(i));
    str_append(&s, "]\n");
    print_str(stdout, &s);
    str_free(&s);
}

int cmd_types(int argc, char **argv)
{
    arguments a;
    int status;
    if (!arguments_read(&a, &manual_types, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_types), EXIT_DONE;
    catalog *c = open_catalog("types", &a, &status);
    if (!c) return status;
    if (!all_known(&a))
        status = EXIT_BAD_INPUT;
    else if (argument(&a, "--json"))
        print_json(&a);
    else if (!a.n_operand)
        print_list();
    for (size_t i = 0; status == EXIT_DONE && !argument(&a, "--json") && i < a.n_operand; i++) {
        if (i) print_text(stdout, "\n\n");
        print_type(value_type_find(a.operand[i]));
    }
    catalog_close(c);
    return status;
}
