/* check.c - see check.h. */
#include "workflow/model_alias.h"
#include "workflow/prompt_alias.h"
#include "workflow/check.h"

#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/names.h"
#include "base/str.h"
#include "param/param_text.h"
#include "workflow/checker.h"
#include "workflow/dependent.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const kiln_port *node_in(const kiln_node *n, uint32_t i)
{
    assert(i < n->n_in);
    return (const void *)((const char *)n->in + (size_t)i * n->in_stride);
}
const kiln_port *node_out(const kiln_node *n, uint32_t i)
{
    assert(i < n->n_out);
    return (const void *)((const char *)n->out + (size_t)i * n->out_stride);
}
const kiln_param *node_param(const kiln_node *n, uint32_t i)
{
    assert(i < n->n_param);
    return (const void *)((const char *)n->param + (size_t)i * n->param_stride);
}

int makes_list(const graph_node *g, uint32_t output)
{
    return g->mapped || (node_out(g->type, output)->flags & KILN_PORT_LIST) != 0;
}

/* ---- finding nodes by name ---- */

static _Thread_local const workflow *sorting;

static int by_node_name(const void *a, const void *b)
{
    return strcmp(sorting->node[*(const uint32_t *)a].doc->name, sorting->node[*(const uint32_t *)b].doc->name);
}

int32_t checker_find(const checker *k, const char *name)
{
    size_t low = 0, high = k->w->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(name, k->w->node[k->by_name[middle]].doc->name);
        if (order == 0) return (int32_t)k->by_name[middle];
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return SOURCE_NONE;
}

static const char *node_name_at(void *arg, size_t i) { return ((workflow *)arg)->node[i].doc->name; }

/* ---- types ---- */

static const char *type_at(void *arg, size_t i)
{
    const catalog_view *c = arg;
    return c->type_at(c->self, i);
}

static void unknown_type(checker *k, const graph_node *g)
{
    const char *near = NULL, *known = NULL;
    const int may = document_may_suggest(k->doc, k->catalog->n_type);
    if (may && k->catalog->elsewhere) known = k->catalog->elsewhere(k->catalog->self, &k->doc->memory, g->doc->type);
    if (may && !known) near = nearest_type(g->doc->type, type_at, k->catalog->n_type, (void *)(uintptr_t)k->catalog);
    if (known)
        document_fault(k->doc, g->doc->type_at, g->doc, "no node type is called '%.130s'; %s", g->doc->type, known);
    else if (near)
        document_fault(k->doc, g->doc->type_at, g->doc, "no node type is called '%.130s'; did you mean '%s'?",
                       g->doc->type, near);
    else
        document_fault(
            k->doc, g->doc->type_at, g->doc,
            "no node type is called '%.130s'; `kiln nodes` lists those there are, `kiln plugins` what did not load",
            g->doc->type);
}

int checker_allocate(checker *k, graph_node *g)
{
    arena *a = &k->doc->memory;
    const kiln_node *t = g->type;
    g->params = arena_alloc(a, t->params_size);
    g->in = arena_alloc(a, t->n_in * sizeof *g->in);
    g->param_in = arena_alloc(a, t->n_param * sizeof *g->param_in);
    g->file = arena_alloc(a, t->n_param * sizeof *g->file);
    if (!g->params || !g->in || !g->param_in || !g->file) {
        k->doc->failed = 1;
        return 0;
    }
    for (uint32_t i = 0; i < t->n_param; i++) g->param_in[i].node = SOURCE_NONE;
    return 1;
}

/* ---- wires ---- */

int output_named(const kiln_node *t, const char *output, uint32_t *out, char have[300])
{
    int64_t number;
    size_t used = 0;
    if (str_to_i64(output, strlen(output), &number) && number >= 0 && number < (int64_t)t->n_out)
        return *out = (uint32_t)number, 1;
    for (uint32_t i = 0; i < t->n_out; i++)
        if (strcmp(node_out(t, i)->name, output) == 0) return *out = i, 1;
    snprintf(have, 300, "none");
    for (uint32_t i = 0; i < t->n_out && used < 299; i++) {
        int n = snprintf(have + used, 300 - used, "%s%u %s", i ? ", " : "", i, node_out(t, i)->name);
        used += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* The output that a wire names, if it exists; else 0 after a fault. */
static int resolve_wire(checker *k, const graph_node *user, const doc_input *in, const doc_wire *wr, source *out)
{
    int32_t at = checker_find(k, wr->node);
    if (at == SOURCE_NONE) {
        const char *near =
            document_may_suggest(k->doc, k->w->n) ? nearest_name(wr->node, node_name_at, k->w->n, k->w) : NULL;
        document_fault(k->doc, wr->at, user->doc, "input '%s' is wired to '%.100s', which is not a node here%s%s%s",
                       in->name, wr->node, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
        return 0;
    }
    const graph_node *from = &k->w->node[at];
    uint32_t output;
    char have[300];
    if (!from->type) return 0;
    if (!output_named(from->type, wr->output, &output, have)) {
        document_fault(k->doc, wr->at, user->doc, "input '%s': '%s' (%s) has no output '%.60s'; it has %s", in->name,
                       from->doc->name, from->type->type, wr->output, have);
        return 0;
    }
    *out = (source){.node = at, .output = output, .wire = wr};
    return 1;
}

/* "images.image0" is one more wire of a list input `images`: so ComfyUI writes inputs that grow. */
static int is_part_of(const char *name, const kiln_port *p)
{
    size_t n = strlen(p->name);
    return (p->flags & KILN_PORT_LIST) && strncmp(name, p->name, n) == 0 && name[n] == '.' && name[n + 1];
}

/* Room for all wires that the node's inputs of this name have together. */
static int reserve_wires(checker *k, const graph_node *g, const kiln_port *p, port_sources *to)
{
    size_t n = 0;
    for (size_t i = 0; i < g->doc->n_input; i++)
        if (strcmp(g->doc->input[i].name, p->name) == 0 || is_part_of(g->doc->input[i].name, p))
            n += g->doc->input[i].n_wire;
    to->from = arena_alloc(&k->doc->memory, (n + 1) * sizeof *to->from);
    if (!to->from) k->doc->failed = 1;
    return to->from != NULL;
}

/* Adds the wires behind those that are there: of a list input, `images` and `images.NAME` are the same. */
static void check_port(checker *k, graph_node *g, const doc_input *in, uint32_t port)
{
    const kiln_port *p = node_in(g->type, port);
    if (!in->is_wire) {
        document_fault(k->doc, in->value_at, g->doc, "input '%s' takes a wire of type %s: [node, output]", in->name,
                       p->type);
        return;
    }
    if (in->n_wire > 1 && !(p->flags & KILN_PORT_LIST)) {
        document_fault(k->doc, in->value_at, g->doc, "input '%s' takes one wire, not %zu", in->name, in->n_wire);
        return;
    }
    port_sources *to = &g->in[port];
    if (!to->from && !reserve_wires(k, g, p, to)) return;
    for (size_t i = 0; i < in->n_wire; i++)
        if (resolve_wire(k, g, in, &in->wires[i], &to->from[to->n])) to->n++;
}

/* A fault that says what the parameter takes: "input 'steps' BEFORE a whole number from 1 to 10000AFTER". */
static void fault_takes(checker *k, const graph_node *g, const kiln_param *p, place at, const char *before,
                        const char *after)
{
    str takes = {0};
    param_names names = checker_names(k);
    param_describe(p, &names, PARAM_LISTED, &takes);
    if (takes.failed) k->doc->failed = 1;
    document_fault(k->doc, at, g->doc, "input '%s' %s %s%s", p->name, before, str_text(&takes), after);
    str_free(&takes);
}

static void check_param_wire(checker *k, graph_node *g, const doc_input *in, uint32_t index)
{
    const kiln_param *p = node_param(g->type, index);
    if (in->n_wire != 1)
        document_fault(k->doc, in->value_at, g->doc, "input '%s' takes one value or one wire", in->name);
    else if (p->type == KILN_P_FILE)
        document_fault(k->doc, in->value_at, g->doc, "input '%s' names a file and cannot be wired", in->name);
    else
        resolve_wire(k, g, in, &in->wires[0], &g->param_in[index]);
}

/* Where the workflow says that a model file can be had, or NULL. */
static const char *url_of(const doc_node *n, const char *name)
{
    for (size_t i = 0; n->models && n->models->kind == YAML_SEQUENCE && i < n->models->n; i++) {
        const yaml_node *own = yaml_get(n->models->item[i], "name"), *url = yaml_get(n->models->item[i], "url");
        if (own && own->kind == YAML_SCALAR && strcmp(own->text, name) == 0)
            return url && url->kind == YAML_SCALAR ? url->text : NULL;
    }
    return NULL;
}

/* The path of a file named on the command line, if it is there seen from the current folder; models only by ./ and ../.
 * NULL: it is looked for in the folders of its kind. */
static const char *named_from_here(checker *k, const kiln_param *p, const doc_input *in)
{
    int is_input = strcmp(p->from ? p->from : "", "input") == 0;
    if (p->type != KILN_P_FILE || !in->here || !in->text[0] || in->text[0] == '/') return NULL;
    if (!is_input && strncmp(in->text, "./", 2) != 0 && strncmp(in->text, "../", 3) != 0) return NULL;
    if (!file_exists(in->text) && (is_input || !folder_exists(in->text))) return NULL;
    char *real = path_real(in->text);
    const char *kept = real ? arena_strdup(&k->doc->memory, real) : NULL;
    if (real ? !kept : errno == ENOMEM) k->doc->failed = 1;
    mem_free(real);
    return kept;
}

/* Puts the file that an alias of a model stands for into the document, so that whoever writes the workflow down writes
 * that; also into the parameter that gives it alone. Returns the alias, or NULL. */
static const char *take_alias(checker *k, const graph_node *g, const kiln_param *p, doc_input *in)
{
    error e = {0};
    if (p->type != KILN_P_FILE || !in->text || strcmp(p->from ? p->from : "input", "input") == 0) return NULL;
    const char *alias = in->text, *file = model_alias(&k->doc->memory, alias, &e);
    if (e.message[0]) document_fault(k->doc, in->value_at, g->doc, "input '%s': %s", in->name, e.message);
    if (!file) return NULL;
    size_t n = in->source ? strlen(in->source) : 0;
    int alone = n > 3 && strncmp(in->source, "${", 2) == 0 && strchr(in->source, '}') == in->source + n - 1;
    workflow_param *head = alone ? document_param(k->doc, in->source + 2, n - 3) : NULL;
    if (head && strcmp(head->text, alias) == 0) head->text = file;
    in->text = file;
    return alias;
}

/* 0: there has been a fault. */
static int take_prompt_aliases(checker *k, const graph_node *g, const doc_input *in, const char **text)
{
    error e = {0};
    const char *made = *text ? prompt_without_aliases(&k->doc->memory, *text, &e) : NULL;
    if (e.message[0]) return document_fault(k->doc, in->value_at, g->doc, "input '%s': %s", in->name, e.message), 0;
    if (*text && !made) k->doc->failed = 1;
    if (made) *text = made;
    return 1;
}

/* The same for the files that a text names; parameters that it refers to are written down with it. */
static void take_aliases_in_text(checker *k, const graph_node *g, const kiln_param *p, doc_input *in)
{
    if (p->type != KILN_P_STRING || !g->type->names_files || !in->text || !getenv("KILN_ALIASES")) return;
    if (!take_prompt_aliases(k, g, in, &in->text) || !take_prompt_aliases(k, g, in, &in->source)) return;
    for (size_t i = 0; in->source && i < k->doc->n_param; i++) {
        workflow_param *head = &k->doc->param[i];
        const char *at = strstr(in->source, head->name);
        for (size_t n = strlen(head->name); at; at = strstr(at + 1, head->name))
            if (at >= in->source + 2 && at[-1] == '{' && at[-2] == '$' && at[n] == '}') {
                take_prompt_aliases(k, g, in, &head->text);
                break;
            }
    }
}

/* What to write instead of a file's name as ComfyUI or Windows has it; "" when that is not what is wrong. */
static const char *name_hint(const char *name)
{
    static const char *const mark[] = {" [input]", " [output]", " [temp]"};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof mark / sizeof mark[0]; i++)
        if (n > strlen(mark[i]) && strcmp(name + n - strlen(mark[i]), mark[i]) == 0)
            return "; write the file's name without what is in [ ]";
    return strchr(name, '\\') ? "; write it with '/'" : "";
}

/* A file that the command line names, seen from the current folder, is not one. 0: there is nothing to add to what the
 * search says. */
static int fault_from_here(checker *k, const graph_node *g, const kiln_param *p, const doc_input *in)
{
    if (p->type != KILN_P_FILE || !in->here || !in->text[0]) return 0;
    if (strcmp(p->from ? p->from : "", "input") == 0 && folder_exists(in->text))
        document_fault(
            k->doc, in->value_at, g->doc,
            "input '%s': '%.200s' is a folder; name a file in it, or run once for each: --over '%.60s=%.200s/*.png'",
            in->name, in->text, in->name, in->text);
    else if (strncmp(in->text, "../", 3) == 0)
        document_fault(k->doc, in->value_at, g->doc,
                       "input '%s': no file '%.200s', seen from the current folder; in the folders that are searched "
                       "'..' leads nowhere",
                       in->name, in->text);
    else
        return 0;
    return 1;
}

static void check_param(checker *k, graph_node *g, const doc_input *in, uint32_t index)
{
    const kiln_param *p = node_param(g->type, index);
    error why = {0};
    int64_t given, used;
    if (in->is_wire) {
        check_param_wire(k, g, in, index);
        return;
    }
    if (in->not_scalar) {
        fault_takes(k, g, p, in->value_at, "takes", ", not a list or map");
        return;
    }
    param_names names = checker_names(k);
    const char *alias = take_alias(k, g, p, (doc_input *)(size_t)in); /* the document is the checker's */
    take_aliases_in_text(k, g, p, (doc_input *)(size_t)in);
    const char *here = named_from_here(k, p, in);
    param_value v = param_written(here ? here : in->text, in->quoted);
    kiln_status status = param_put(p, &v, &names, &k->doc->memory, g->params, &why);
    if (status == KILN_ERR_NOMEM) k->doc->failed = 1;
    if (status != KILN_OK && fault_from_here(k, g, p, in)) return;
    if (status != KILN_OK) {
        const char *url = p->type == KILN_P_FILE ? url_of(g->doc, in->text) : NULL;
        document_fault(k->doc, in->value_at, g->doc, "input '%s': %s%s%s%.300s%s%.100s%s", in->name, why.message,
                       p->type == KILN_P_FILE ? name_hint(in->text) : "", url ? "; the workflow has it from " : "",
                       url ? url : "", alias ? " ('" : "", alias ? alias : "", alias ? "' is an alias of it)" : "");
        return;
    }
    if (param_floored(p, g->params, &given, &used))
        document_warn(k->doc, in->value_at, g->doc, "input '%s': %lld is no multiple of %g; %lld will be used",
                      in->name, (long long)given, p->step, (long long)used);
    if (p->type == KILN_P_FILE) g->file[index] = param_get(p, g->params).text;
}

/* ---- inputs ---- */

static const char *input_name_at(void *arg, size_t i)
{
    const kiln_node *t = arg;
    return i < t->n_in ? node_in(t, (uint32_t)i)->name : node_param(t, (uint32_t)(i - t->n_in))->name;
}

static void unknown_input(checker *k, const graph_node *g, const doc_input *in)
{
    const char *near = NULL;
    if (document_may_suggest(k->doc, 1))
        near = nearest_name(in->name, input_name_at, g->type->n_in + g->type->n_param, (void *)(uintptr_t)g->type);
    if (strcmp(in->name, "control_after_generate") == 0)
        document_fault(
            k->doc, in->at, g->doc,
            "'control_after_generate' works only in ComfyUI's editor; take it out and give the seed with --set");
    else if (near)
        document_fault(k->doc, in->at, g->doc, "has no input '%.100s'; did you mean '%s'?", in->name, near);
    else
        document_fault(k->doc, in->at, g->doc, "has no input '%.100s'; see `kiln nodes %s`", in->name, g->type->type);
}

/* The number that a name ends with; -1: none. */
static int64_t number_of(const char *name)
{
    size_t n = strlen(name), first = n;
    int64_t number;
    while (first > 0 && name[first - 1] >= '0' && name[first - 1] <= '9') first--;
    return str_to_i64(name + first, n - first, &number) ? number : -1;
}

typedef struct {
    int64_t number;
    size_t at;
    doc_input in;
} numbered;

static int by_number(const void *a, const void *b)
{
    const numbered *x = a, *y = b;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

/* `images.image2` comes before `images.image10`, wherever they stand: so it is in ComfyUI. Others keep their order. */
static void sort_parts(document *d, doc_node *n, const kiln_port *p)
{
    numbered *part = mem_alloc((n->n_input + 1) * sizeof *part);
    size_t parts = 0, next = 0;
    if (!part) {
        d->failed = 1;
        return;
    }
    for (size_t i = 0; i < n->n_input; i++)
        if (is_part_of(n->input[i].name, p) && number_of(n->input[i].name) >= 0)
            part[parts++] = (numbered){number_of(n->input[i].name), i, n->input[i]};
    if (parts > 1) qsort(part, parts, sizeof *part, by_number);
    for (size_t i = 0; i < n->n_input && next < parts; i++)
        if (is_part_of(n->input[i].name, p) && number_of(n->input[i].name) >= 0) n->input[i] = part[next++].in;
    mem_free(part);
}

static void check_input(checker *k, graph_node *g, const doc_input *in, unsigned char *given)
{
    for (uint32_t i = 0; i < g->type->n_in; i++)
        if (strcmp(node_in(g->type, i)->name, in->name) == 0 || is_part_of(in->name, node_in(g->type, i))) {
            given[i] = 1;
            check_port(k, g, in, i);
            return;
        }
    for (uint32_t i = 0; i < g->type->n_param; i++)
        if (strcmp(node_param(g->type, i)->name, in->name) == 0) {
            given[g->type->n_in + i] = 1;
            check_param(k, g, in, i);
            return;
        }
    unknown_input(k, g, in);
}

static void check_absent(checker *k, graph_node *g, const unsigned char *given)
{
    for (uint32_t i = 0; i < g->type->n_in; i++) {
        const kiln_port *p = node_in(g->type, i);
        if (!given[i] && !(p->flags & KILN_PORT_OPTIONAL))
            document_fault(k->doc, g->doc->at, g->doc, "input '%s' is missing; wire it to an output of type %s",
                           p->name, p->type);
    }
    for (uint32_t i = 0; i < g->type->n_param; i++) {
        const kiln_param *p = node_param(g->type, i);
        if (given[g->type->n_in + i]) continue;
        if (p->flags & KILN_PARAM_REQUIRED) {
            fault_takes(k, g, p, g->doc->at, "is missing; it takes", "");
        } else if (p->type == KILN_P_FILE && p->def_str && p->def_str[0]) {
            doc_input in = {.name = p->name, .at = g->doc->at, .value_at = g->doc->at, .text = p->def_str};
            check_param(k, g, &in, i);
        }
    }
}

/* A parameter of another choice than the one that was made says nothing: ComfyUI takes it all the same. */
static void warn_of_other_choices(checker *k, const graph_node *g, const doc_input *in)
{
    const char *choice;
    for (uint32_t i = 0; i < g->type->n_param; i++) {
        const kiln_param *p = node_param(g->type, i);
        if (strcmp(p->name, in->name) == 0 && dependent_is_away(g, i, &choice))
            document_warn(k->doc, in->at, g->doc, "input '%s' counts where '%.*s' is '%s'; here that is '%s'", p->name,
                          (int)(strrchr(p->name, '.') - p->name), p->name, p->from, choice);
    }
}

void checker_node(checker *k, graph_node *g)
{
    const kiln_node *t = g->type;
    for (uint32_t i = 0; i < t->n_param; i++) {
        const kiln_param *p = node_param(t, i);
        assert(p->offset + param_size(p->type) <= t->params_size); /* plugin_table.c checked it */
        if (param_default(p, &k->doc->memory, g->params) != KILN_OK) k->doc->failed = 1;
    }
    unsigned char *given = mem_calloc((size_t)t->n_in + t->n_param + 1, 1);
    if (!given) {
        k->doc->failed = 1;
        return;
    }
    for (uint32_t i = 0; i < t->n_in; i++)
        if (node_in(t, i)->flags & KILN_PORT_LIST) sort_parts(k->doc, &k->doc->node[g - k->w->node], node_in(t, i));
    for (size_t i = 0; i < g->doc->n_input; i++) check_input(k, g, &g->doc->input[i], given);
    check_absent(k, g, given);
    for (size_t i = 0; i < g->doc->n_input; i++) warn_of_other_choices(k, g, &g->doc->input[i]);
    mem_free(given);
}

/* ---- order and cycles ---- */

typedef struct {
    uint32_t node, port, wire; /* position of the walk among this node's sources */
} walk;

/* The next source of node g from position `at` on: first those of its ports, then wired parameters. SOURCE_NONE at the
 * end. */
static int32_t next_source(const graph_node *g, walk *at)
{
    const kiln_node *t = g->type;
    while (t && at->port < t->n_in + t->n_param) {
        if (at->port < t->n_in) {
            if (at->wire < g->in[at->port].n) return g->in[at->port].from[at->wire++].node;
        } else if (at->wire++ == 0 && g->param_in[at->port - t->n_in].node != SOURCE_NONE) {
            return g->param_in[at->port - t->n_in].node;
        }
        at->port++;
        at->wire = 0;
    }
    return SOURCE_NONE;
}

static void report_cycle(checker *k, const walk *stack, size_t depth, uint32_t again)
{
    char text[600];
    size_t used = 0, i = depth;
    while (i > 0 && stack[i - 1].node != again) i--;
    for (; i <= depth && used < 500; i++) {
        const char *name = i ? k->w->node[stack[i - 1].node].doc->name : "";
        int n = i ? snprintf(text + used, sizeof text - used, "'%.60s' <- ", name) : 0;
        used += n > 0 ? (size_t)n : 0;
    }
    const graph_node *g = &k->w->node[again];
    document_fault(k->doc, g->doc->at, g->doc, "is part of a cycle: %.*s'%.60s'; a node cannot wait for itself",
                   (int)used, text, g->doc->name);
}

/* Depth-first search over sources, without recursion; `order` gets each node after its sources. */
static void order_nodes(checker *k)
{
    workflow *w = k->w;
    unsigned char *state = mem_calloc(w->n + 1, 1); /* 1: on the stack, 2: done */
    walk *stack = mem_alloc((w->n + 1) * sizeof *stack);
    size_t n = 0;
    if (!state || !stack) k->doc->failed = 1;
    for (uint32_t root = 0; root < w->n && !k->doc->failed; root++) {
        size_t depth = 0;
        if (state[root]) continue;
        stack[depth++] = (walk){.node = root};
        state[root] = 1;
        while (depth > 0) {
            walk *top = &stack[depth - 1];
            int32_t next = next_source(&w->node[top->node], top);
            if (next == SOURCE_NONE) {
                state[top->node] = 2;
                w->order[n++] = top->node;
                depth--;
            } else if (state[next] == 0) {
                state[next] = 1;
                stack[depth++] = (walk){.node = (uint32_t)next};
            } else if (state[next] == 1) {
                report_cycle(k, stack, depth, (uint32_t)next);
                break; /* one cycle per root is enough; the search goes on from the next root */
            }
        }
        for (; depth > 0; depth--) state[stack[depth - 1].node] = 2;
    }
    w->n_order = n;
    assert(n == w->n || k->doc->failed || k->doc->n_fault > 0);
    mem_free(state);
    mem_free(stack);
}

/* What only an unwanted lazy input hangs on is not needed, and nothing is wrong with that. */
static void spare_left(checker *k, unsigned char *spared)
{
    workflow *w = k->w;
    for (size_t i = w->n; i-- > 0;) {
        const graph_node *g = &w->node[w->order[i]];
        for (uint32_t p = 0; g->left && (g->needed || spared[w->order[i]]) && p < g->type->n_in; p++)
            for (uint32_t s = 0; s < g->left[p].n; s++) spared[g->left[p].from[s].node] = 1;
        walk at = {0};
        for (int32_t s; spared[w->order[i]] && (s = next_source(g, &at)) != SOURCE_NONE;) spared[s] = 1;
    }
}

static void warn_of_unneeded(checker *k)
{
    workflow *w = k->w;
    unsigned char *spared = mem_calloc(w->n + 1, 1);
    if (!spared) {
        k->doc->failed = 1;
        return;
    }
    spare_left(k, spared);
    for (size_t i = 0; i < w->n; i++) {
        const doc_node *d = w->node[i].doc;
        if (!w->node[i].needed && !spared[i] && !d->part_of && !d->folded)
            document_warn(k->doc, d->at, d, "nothing that is written depends on it; it will not run");
    }
    mem_free(spared);
}

static void mark_source(workflow *w, source from)
{
    if (from.node == SOURCE_NONE) return;
    w->node[from.node].needed = 1;
    if (from.output < 64) w->node[from.node].used |= UINT64_C(1) << from.output;
}

static void mark_sources(workflow *w, const graph_node *g)
{
    for (uint32_t p = 0; g->type && p < g->type->n_in; p++)
        for (uint32_t k = 0; k < g->in[p].n; k++) mark_source(w, g->in[p].from[k]);
    for (uint32_t p = 0; g->type && p < g->type->n_param; p++) mark_source(w, g->param_in[p]);
}

static void mark_needed(checker *k)
{
    workflow *w = k->w;
    size_t outputs = 0, unknown = 0;
    for (size_t i = w->n; i-- > 0;) {
        graph_node *g = &w->node[w->order[i]];
        unknown += g->type == NULL;
        if (g->type && (g->type->flags & KILN_NODE_OUTPUT)) g->needed = 1, outputs++;
        if (g->needed) mark_sources(w, g);
    }
    if (outputs == 0 && unknown == 0) { /* an unknown one, which was said, may be what writes */
        document_fault(k->doc, w->n ? w->node[0].doc->at : (place){.line = 1, .column = 1}, NULL,
                       "no node writes anything; add one like SaveImage%s",
                       k->doc->from_editor ? " (muted and bypassed nodes are left out)" : "");
    }
    if (outputs) warn_of_unneeded(k);
}

/* ---- the whole ---- */

/* Nodes with the rows of their types, and their names in order. 0: no memory. */
static int open_graph(checker *k)
{
    document *d = k->doc;
    workflow *w = k->w;
    *w = (workflow){.doc = d, .n = d->n_node};
    w->node = arena_alloc(&d->memory, (w->n + 1) * sizeof *w->node);
    w->order = arena_alloc(&d->memory, (w->n + 1) * sizeof *w->order);
    k->by_name = arena_alloc(&d->memory, (w->n + 1) * sizeof *k->by_name);
    if (!w->node || !w->order || !k->by_name) return 0;
    for (uint32_t i = 0; i < w->n; i++) {
        graph_node *g = &w->node[i];
        g->doc = &d->node[i];
        if (g->doc->type) g->type = k->catalog->find(k->catalog->self, g->doc->type, &g->plugin);
        k->by_name[i] = i;
    }
    sorting = w;
    qsort(k->by_name, w->n, sizeof *k->by_name, by_node_name);
    return 1;
}

/* Only what is made by expanding can have a name that is there already. */
static void check_names(checker *k)
{
    for (size_t i = 1; i < k->w->n; i++) {
        const doc_node *a = k->w->node[k->by_name[i - 1]].doc, *b = k->w->node[k->by_name[i]].doc;
        if (strcmp(a->name, b->name) != 0) continue;
        const doc_node *own = a->part_of ? b : a, *made = a->part_of ? a : b;
        document_fault(k->doc, own->at, own,
                       "has a name that '%.200s' (%s) gives to a node it expands into; call it "
                       "otherwise",
                       made->part_of ? made->part_of->name : "", made->part_of ? made->part_of->type : "");
    }
}

static void check_graph(checker *k)
{
    document *d = k->doc;
    workflow *w = k->w;
    check_names(k);
    for (size_t i = 0; i < w->n && !d->failed; i++) {
        graph_node *g = &w->node[i];
        if (g->type)
            checker_allocate(k, g);
        else if (g->doc->type)
            unknown_type(k, g);
    }
    for (size_t i = 0; i < w->n && !d->failed; i++)
        if (w->node[i].type && !w->node[i].doc->stuck) checker_node(k, &w->node[i]);
    if (!d->failed) order_nodes(k);
}

kiln_status workflow_check(document *doc, const catalog_view *catalog, workflow *w, error *e)
{
    checker k = {.doc = doc, .catalog = catalog, .w = w};
    size_t faults_before = doc->n_fault;
    do
        if (!open_graph(&k)) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", doc->path);
    while (!doc->failed && expand_level(&k));
    if (!doc->failed) check_graph(&k);
    if (!doc->failed) wiring_check(&k);
    if (!doc->failed && doc->n_fault == faults_before && w->n) mark_needed(&k);
    document_sort_faults(doc);
    return doc->failed ? error_set(e, KILN_ERR_NOMEM, "%s: out of memory", doc->path) : KILN_OK;
}
