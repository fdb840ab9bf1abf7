/* cmd_graph.c - `kiln graph`: draws a workflow's wiring with Graphviz's dot. */
#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/open_workflow.h"
#include "run/job.h"
#include "workflow/describe.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const option options[] = {
    {"--output", 'o', "FILE", "x.svg, x.png, x.pdf or x.dot ('-': DOT to standard output)", 0},
    {"--plugins", 0, "PATHS", "look for plugins here first", 0},
    {"--models", 0, "DIRS", "look for models here first", 0},
    {"--input", 0, "DIRS", "look for input pictures here first", 0},
};
const manual manual_graph = {
    .usage = "kiln graph FILE -o x.svg [options]",
    .about = "Draws which node feeds which, with the values that the file has, coloured by type. Nodes that would not "
             "run are grey, output nodes are round, and what runs "
             "for each\n"
             "item of a list has a double border. Bold wires carry lists; dashed ones are computed only if they are "
             "wanted,\n"
             "dotted ones are known not to be. A box holds what one node has expanded into.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln graph workflows/txt2img.yaml -o txt2img.svg\n",
    .operand = OPERAND_WORKFLOW,
};

static void quote(str *s, const char *text) { str_json(s, text, strlen(text), 1); }

/* ---- colours: those that ComfyUI's editor has for wires, light for nodes ---- */

static const struct {
    const char *type, *wire, *fill;
} palette[] = {
    {"MODEL", "#7e57c2", "#ede7f6"},        {"CLIP", "#b28900", "#fff8d6"},        {"VAE", "#d84343", "#fdeaea"},
    {"CONDITIONING", "#d17a00", "#fff0dd"}, {"LATENT", "#c2569f", "#fdeaf7"},      {"IMAGE", "#1e78c8", "#e6f1fb"},
    {"MASK", "#3c8f40", "#e9f5ea"},         {"CONTROL_NET", "#00897b", "#e0f3f1"}, {"NOISE", "#6d6d6d", "#f0f0f0"},
    {"SAMPLER", "#4e7d3a", "#edf5e8"},      {"SIGMAS", "#5f8c3f", "#eef5e8"},      {"GUIDER", "#3f7a8c", "#e6f1f4"},
    {"STRING", "#5b7d5b", "#eef4ee"},       {"INT", "#2f6f6f", "#e6f0f0"},         {"FLOAT", "#2f6f6f", "#e6f0f0"},
};

/* light: of a node whose first output has the type. */
static const char *colour_of(const char *type, int light)
{
    for (size_t i = 0; type && i < sizeof palette / sizeof palette[0]; i++)
        if (strcmp(palette[i].type, type) == 0) return light ? palette[i].fill : palette[i].wire;
    return light ? "#f7f7f7" : "#555555";
}

typedef enum { WIRE_PLAIN, WIRE_LAZY, WIRE_LEFT } wire_kind;

static void wire(str *s, const workflow *w, source from, size_t to, const char *input, wire_kind kind)
{
    static const char *const style[] = {"", ", style=dashed", ", style=dotted, color=grey, fontcolor=grey"};
    if (from.node == SOURCE_NONE) return;
    const graph_node *g = &w->node[from.node];
    str label = {0};
    str_printf(&label, "%s%s", g->made[from.output], makes_list(g, from.output) ? " list" : "");
    str_printf(s, "  n%d -> n%zu [label=", from.node, to);
    quote(s, str_text(&label));
    str_append(s, ", tooltip=");
    quote(s, input);
    if (kind != WIRE_LEFT) {
        const char *colour = colour_of(g->made[from.output], 0);
        str_printf(s, ", color=\"%s\", fontcolor=\"%s\"", colour, colour);
    }
    str_printf(s, "%s%s];\n", kind == WIRE_PLAIN && makes_list(g, from.output) ? ", style=bold" : "", style[kind]);
    s->failed |= label.failed;
    str_free(&label);
}

static void draw_wires(str *s, const workflow *w, size_t i)
{
    const graph_node *g = &w->node[i];
    for (uint32_t p = 0; p < g->type->n_in; p++) {
        const kiln_port *port = node_in(g->type, p);
        wire_kind kind = port->flags & KILN_PORT_LAZY && !g->left ? WIRE_LAZY : WIRE_PLAIN;
        for (uint32_t k = 0; k < g->in[p].n; k++) wire(s, w, g->in[p].from[k], i, port->name, kind);
        for (uint32_t k = 0; g->left && k < g->left[p].n; k++) wire(s, w, g->left[p].from[k], i, port->name, WIRE_LEFT);
    }
    for (uint32_t p = 0; p < g->type->n_param; p++)
        wire(s, w, g->param_in[p], i, node_param(g->type, p)->name, WIRE_PLAIN);
}

/* The boxes round the nodes that one node has expanded into; dot takes a box of one name for one box. */
static size_t open_boxes(str *s, const doc_outer *o)
{
    if (!o) return 0;
    size_t depth = open_boxes(s, o->outer);
    str text = {0};
    str_printf(&text, "cluster_%s", o->name);
    str_append(s, "  subgraph ");
    quote(s, str_text(&text));
    s->failed |= text.failed;
    str_free(&text);
    str_printf(&text, "%s\n%s", o->name, o->type);
    str_append(s, " { label=");
    quote(s, str_text(&text));
    str_append(s, ";\n");
    s->failed |= text.failed;
    str_free(&text);
    return depth + 1;
}

enum { VALUES_SHOWN = 12, VALUE_SHOWN = 34 };

/* Text inside dot's quotes. */
static void put_escaped(str *s, const char *text, size_t n)
{
    str quoted = {0};
    str_json(&quoted, text, n, 0);
    if (quoted.len > 2) str_append_n(s, quoted.data + 1, quoted.len - 2);
    s->failed |= quoted.failed;
    str_free(&quoted);
}

/* "name: value", to the left; a long text is cut between characters. */
static void put_value(str *s, const graph_node *g, const kiln_param *p)
{
    const char *file = p->type == KILN_P_FILE ? describe_literal(g, p->name) : NULL;
    str value = {0};
    if (file)
        str_append(&value, file);
    else
        describe_value(&value, g, p, 0);
    size_t n = value.len < VALUE_SHOWN ? value.len : VALUE_SHOWN;
    while (n && n < value.len && (value.data[n] & 0xc0) == 0x80) n--;
    put_escaped(s, p->name, strlen(p->name));
    str_append(s, ": ");
    put_escaped(s, str_text(&value), n);
    str_append(s, n < value.len ? "...\\l" : "\\l");
    s->failed |= value.failed;
    str_free(&value);
}

/* What the file says of the node's parameters; defaults are left out. */
static void put_values(str *s, const graph_node *g)
{
    size_t shown = 0;
    for (uint32_t i = 0; i < g->type->n_param; i++) {
        const kiln_param *p = node_param(g->type, i);
        if (!describe_literal(g, p->name)) continue;
        if (shown == 0) str_append(s, "\\n");
        if (shown == VALUES_SHOWN) str_append(s, "...\\l");
        if (shown++ < VALUES_SHOWN) put_value(s, g, p);
    }
}

static void draw_node(str *s, const workflow *w, size_t i)
{
    const graph_node *g = &w->node[i];
    str label = {0};
    size_t boxes = open_boxes(s, g->doc->part_of);
    str_printf(&label, "%s\n%s%s", g->doc->name, g->type->type, g->mapped ? "\nfor each item" : "");
    str_printf(s, "  n%zu [shape=%s, style=\"%s\", fillcolor=\"%s\", label=\"", i,
               (g->type->flags & KILN_NODE_OUTPUT) ? "ellipse" : "box", g->needed ? "filled" : "filled,dashed",
               colour_of(g->type->n_out ? g->made[0] : NULL, 1));
    put_escaped(s, str_text(&label), label.len);
    put_values(s, g);
    str_append(s, "\"");
    if (g->mapped) str_append(s, ", peripheries=2");
    str_append(s, g->needed ? "];\n" : ", color=grey, fontcolor=grey];\n");
    s->failed |= label.failed;
    str_free(&label);
    while (boxes--) str_append(s, "  }\n");
    draw_wires(s, w, i);
}

static char *draw(const workflow *w)
{
    str s = {0};
    str_append(&s, "digraph workflow {\n  rankdir=LR;\n  node [fontname=\"sans-serif\", fontsize=11];\n  edge "
                   "[fontname=\"sans-serif\", fontsize=9];\n");
    for (size_t i = 0; i < w->n; i++) draw_node(&s, w, i);
    str_append(&s, "}\n");
    return str_take(&s);
}

static int fail(const char *what, const char *why)
{
    print_text(stderr, "kiln: error: %s: %s\n", what, why);
    return EXIT_RUN_FAILED;
}

/* Runs dot -T<type> -o path.tmp < text without a shell, and renames the result to path. */
static int render(const char *text, const char *path, const char *type)
{
    char temp[4096], format[16];
    int in[2], status;
    pid_t pid;
    if (snprintf(temp, sizeof temp, "%s.tmp%ld", path, (long)getpid()) >= (int)sizeof temp)
        return fail(path, "the name is too long");
    snprintf(format, sizeof format, "-T%s", type);
    char *arg[] = {"dot", format, "-o", temp, NULL};
    if (pipe2(in, O_CLOEXEC) != 0) return fail(path, strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    int failed = posix_spawnp(&pid, "dot", &actions, NULL, arg, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    if (failed) {
        close(in[1]);
        return fail("dot", "Graphviz is not installed; install the package graphviz, or write x.dot");
    }
    for (size_t n = strlen(text); n > 0;) {
        ssize_t done = write(in[1], text, n);
        if (done <= 0) break; /* a dot that stopped reading has a status that says so */
        text += done, n -= (size_t)done;
    }
    close(in[1]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0 && rename(temp, path) == 0) return EXIT_DONE;
    unlink(temp);
    return fail(path, "could not be drawn or written");
}

static int deliver(const char *text, const char *path)
{
    error e = {0};
    const char *dot = strrchr(path, '.'), *type = dot ? dot + 1 : "";
    if (strcmp(path, "-") == 0) return print_raw(stdout, text) < 0; /* str_json() has escaped the labels */
    if (strcmp(type, "dot") == 0 || strcmp(type, "gv") == 0)
        return file_write_whole(path, text, strlen(text), &e) == KILN_OK ? EXIT_DONE : fail("graph", e.message);
    if (strcmp(type, "svg") == 0 || strcmp(type, "png") == 0 || strcmp(type, "pdf") == 0)
        return render(text, path, type);
    print_text(stderr, "kiln: -o %s: the ending must be .svg, .png, .pdf or .dot\n", path);
    return EXIT_BAD_INPUT;
}

int cmd_graph(int argc, char **argv)
{
    arguments a;
    error e = {0};
    size_t faults = 0;
    if (!arguments_read(&a, &manual_graph, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_graph), EXIT_DONE;
    const char *path = argument(&a, "--output");
    if (a.n_operand != 1 || !path) {
        print_text(stderr, "kiln: which workflow file, and where to?\nusage: %s\n", manual_graph.usage);
        return EXIT_BAD_INPUT;
    }
    char shipped[SHIPPED_PATH_MAX];
    take_shipped(&a.operand[0], shipped);
    if (!workflow_is_there(a.operand[0])) return EXIT_BAD_INPUT;
    job *j = job_open(&(job_source){.path = a.operand[0],
                                    .plugins = argument(&a, "--plugins"),
                                    .models = argument(&a, "--models"),
                                    .input = argument(&a, "--input")},
                      &faults, &e);
    if (!j) {
        print_text(stderr, "kiln: error: %s\n", e.message);
        return EXIT_BAD_INPUT;
    }
    char *text = faults ? NULL : draw(job_workflow(j));
    int status = faults ? EXIT_BAD_INPUT : text ? deliver(text, path) : fail("graph", "out of memory");
    mem_free(text);
    job_close(j);
    return status;
}
