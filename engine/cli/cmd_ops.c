/* cmd_ops.c - `kiln ops [NAME ...]`: the ops of tensor programs, with their shapes and formulas, and what runs them. */
#include "backend/cuda_load.h"
#include "base/json_members.h"
#include "base/names.h"
#include "base/print.h"
#include "base/str.h"
#include "cli/command.h"
#include "graph/op_docs.h"

#include <string.h>

static const option options[] = {
    {"--json", 0, NULL, "print JSON", 0},
    {"--markdown", 0, NULL, "print docs/ops.md", 0},
};
const manual manual_ops = {
    .usage = "kiln ops [NAME ...] [--json]",
    .about =
        "Lists what a plugin can record into a tensor program (include/kiln/ops.h), or describes those named: shapes,\n"
        "formula, the backends that have a kernel of their own, and who uses it. Where there is none, the plain\n"
        "reference runs on the processor, with a warning.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln ops\n  kiln ops attention map\n  kiln ops --json > ops.json\n",
    .operand = OPERAND_NAME,
};

/* "cpu, cuda": cuda where its backend can be loaded here. */
static const char *backends_of(op_kind kind, char text[32])
{
    const backend *cuda = cuda_backend(NULL);
    if (kind == OP_CONSTANT) return "a constant";
    snprintf(text, 32, "%s%s",
             backend_cpu.has(kind)         ? "cpu"
             : backend_reference.has(kind) ? "plain"
                                           : "none",
             cuda && cuda->has && cuda->has(kind) ? ", cuda" : "");
    return text;
}

static void print_list(void)
{
    const char *group = "";
    for (size_t i = 0; op_doc_at(i); i++) {
        const op_doc *d = op_doc_at(i);
        if (strcmp(group, d->group) != 0) print_text(stdout, i ? "\n%s\n" : "%s\n", d->group);
        group = d->group;
        print_text(stdout, "  %-20s %s\n", d->name, d->shapes);
    }
}

static void print_one(const op_doc *d)
{
    char text[32];
    print_text(stdout, "%s (%s)\n  shapes    %s\n  formula   %s\n  kernels   %s\n  used by   %s\n", d->name, d->group,
               d->shapes, d->formula, backends_of(d->kind, text), d->used);
}

static void print_json(void)
{
    str s = {0};
    char text[32];
    str_append(&s, "[");
    for (size_t i = 0; op_doc_at(i); i++) {
        const op_doc *d = op_doc_at(i);
        str_append(&s, i ? ",\n {" : "\n {");
        member_field(&s, "name", d->name);
        member_field(&s, "group", d->group);
        member_field(&s, "shapes", d->shapes);
        member_field(&s, "formula", d->formula);
        member_field(&s, "kernels", backends_of(d->kind, text));
        member_field(&s, "used_by", d->used);
        str_append(&s, "}");
    }
    str_append(&s, "\n]\n");
    print_str(stdout, &s);
    str_free(&s);
}

/* A text of a cell of a table. */
static void cell(str *s, const char *text)
{
    str_append(s, " ");
    for (; *text; text++) {
        if (*text == '|') str_append(s, "\\");
        str_append_n(s, text, 1);
    }
    str_append(s, " |");
}

static void print_markdown(void)
{
    str s = {0};
    char text[32];
    const char *group = "";
    str_append(&s, "# Ops\n\nWhat a plugin can record into a tensor program; `include/kiln/ops.h` has the functions "
                   "with their options, and\n"
                   "[writing-an-op.md](writing-an-op.md) says how to bring one of your own. Written by `kiln ops "
                   "--markdown` from the op\n"
                   "table; a test holds this page against it. Kernels: cpu and cuda have one of their own; plain: "
                   "the reference runs,\n"
                   "with a warning.\n");
    for (size_t i = 0; op_doc_at(i); i++) {
        const op_doc *d = op_doc_at(i);
        if (strcmp(group, d->group) != 0)
            str_printf(&s, "\n## %c%s\n\n| op | shapes | formula | kernels | used by |\n|---|---|---|---|---|\n",
                       d->group[0] - 'a' + 'A', d->group + 1);
        group = d->group;
        str_printf(&s, "| `%s` |", d->name);
        cell(&s, d->shapes), cell(&s, d->formula), cell(&s, backends_of(d->kind, text)), cell(&s, d->used);
        str_append(&s, "\n");
    }
    print_str(stdout, &s);
    str_free(&s);
}

static const op_doc *named(const char *name)
{
    for (size_t i = 0; op_doc_at(i); i++)
        if (strcmp(op_doc_at(i)->name, name) == 0) return op_doc_at(i);
    return NULL;
}

static const char *nearest(const char *name)
{
    const char *names[64];
    size_t n = 0;
    for (; op_doc_at(n) && n < sizeof names / sizeof names[0]; n++) names[n] = op_doc_at(n)->name;
    return nearest_of(name, names, n);
}

int cmd_ops(int argc, char **argv)
{
    arguments a;
    if (!arguments_read(&a, &manual_ops, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_ops), EXIT_DONE;
    for (size_t i = 0; i < a.n_operand; i++) {
        const char *near = named(a.operand[i]) ? NULL : nearest(a.operand[i]);
        if (named(a.operand[i])) continue;
        print_text(stderr, "kiln ops: there is no op '%s'%s%s%s\n", a.operand[i], near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
        return EXIT_BAD_INPUT;
    }
    if (argument(&a, "--json"))
        print_json();
    else if (argument(&a, "--markdown"))
        print_markdown();
    else if (!a.n_operand)
        print_list();
    for (size_t i = 0; i < a.n_operand; i++) print_one(named(a.operand[i]));
    return EXIT_DONE;
}
