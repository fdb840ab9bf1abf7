/* document.c - see document.h. */
#include "workflow/document.h"

#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/names.h"
#include "base/str.h"
#include "workflow/editor/editor.h"
#include "workflow/include.h"
#include "workflow/settings.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORTS_MAX = 64, FAULTS_MAX = 1000, PARAMS_MAX = 1000, SUGGEST_FAULTS = 50, SUGGEST_NAMES = 5000 };
#define STEM ".stem"

/* ---- faults ---- */

static void add_fault(document *d, place at, const doc_node *n, int warning, const char *fmt, va_list args)
{
    assert(d && fmt);
    if ((*(warning ? &d->n_warning : &d->n_fault))++ >= FAULTS_MAX) return; /* counted, but not stored */
    char text[1024];
    int used = 0;
    if (n && n->type && n->part_of)
        used = snprintf(text, sizeof text, "node '%.200s' (%.130s), which '%.100s' (%.130s) expands into: ", n->name,
                        n->type, n->part_of->name, n->part_of->type);
    else if (n && n->type)
        used =
            snprintf(text, sizeof text, "node '%.200s' (%.130s)%.300s: ", n->name, n->type, n->where ? n->where : "");
    else if (n)
        used = snprintf(text, sizeof text, "node '%.200s': ", n->name);
    vsnprintf(text + used, sizeof text - (size_t)used, fmt, args);
    fault *f = arena_alloc(&d->memory, sizeof *f);
    const char *copy = f ? arena_strdup(&d->memory, text) : NULL;
    if (!copy) {
        d->failed = 1;
        return;
    }
    *f = (fault){.next = d->faults, .at = at, .warning = warning, .text = copy};
    d->faults = f;
}

void document_fault(document *d, place at, const doc_node *n, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_fault(d, at, n, 0, fmt, args);
    va_end(args);
}

void document_warn(document *d, place at, const doc_node *n, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    add_fault(d, at, n, 1, fmt, args);
    va_end(args);
}

static int by_place(const fault *x, const fault *y)
{
    if (x->at.file != y->at.file) return x->at.file < y->at.file ? -1 : 1;
    if (x->at.line != y->at.line) return x->at.line < y->at.line ? -1 : 1;
    if (x->at.column != y->at.column) return x->at.column < y->at.column ? -1 : 1;
    return strcmp(x->text, y->text);
}

/* A merge sort of the first n of a list, which takes no memory. */
static fault *sorted(fault *first, size_t n)
{
    fault *half = first, *all = NULL, **end = &all;
    if (n < 2) {
        if (first) first->next = NULL;
        return first;
    }
    for (size_t i = 0; i < n / 2; i++) half = half->next;
    half = sorted(half, n - n / 2), first = sorted(first, n / 2);
    while (first && half) {
        fault **less = by_place(first, half) <= 0 ? &first : &half;
        *end = *less, end = &(*less)->next, *less = (*less)->next;
    }
    *end = first ? first : half;
    return all;
}

void document_sort_faults(document *d)
{
    size_t n = 0;
    for (const fault *f = d->faults; f; f = f->next) n++;
    d->faults = sorted(d->faults, n);
}

const char *document_file(const document *d, place at) { return at.file < d->n_file ? d->file[at.file] : d->path; }

static void print_fault(const document *d, const fault *f, void (*line)(void *arg, const char *text, int is_warning),
                        void *arg)
{
    char text[2048];
    const char *what = f->warning ? "warning" : "error";
    if (f->at.line)
        snprintf(text, sizeof text, "%s:%u:%u: %s: %s", document_file(d, f->at), f->at.line, f->at.column, what,
                 f->text);
    else
        snprintf(text, sizeof text, "%s: %s", what, f->text); /* of a --set: it has no place in a file */
    line(arg, text, f->warning);
}

void document_print_warnings(const document *d, void (*line)(void *arg, const char *text, int is_warning), void *arg)
{
    for (const fault *f = d->faults; f; f = f->next)
        if (f->warning) print_fault(d, f, line, arg);
}

void document_print_faults(const document *d, void (*line)(void *arg, const char *text, int is_warning), void *arg)
{
    for (const fault *f = d->faults; f; f = f->next) print_fault(d, f, line, arg);
    if (d->n_fault > FAULTS_MAX) {
        char text[100];
        snprintf(text, sizeof text, "and %zu more errors", d->n_fault - FAULTS_MAX);
        line(arg, text, 0);
    }
}

int document_may_suggest(const document *d, size_t n_candidates)
{
    return d->n_fault < SUGGEST_FAULTS && n_candidates <= SUGGEST_NAMES;
}

place doc_node_place(const doc_node *n, const char *name)
{
    for (size_t i = 0; name && i < n->n_input; i++) {
        const doc_input *in = &n->input[i];
        if (strcmp(in->name, name) == 0) return in->is_wire && in->n_wire ? in->wires[0].at : in->value_at;
    }
    return n->at;
}

doc_node *document_node(const document *d, const char *name)
{
    for (size_t i = 0; i < d->n_node; i++)
        if (strcmp(d->node[i].name, name) == 0) return &d->node[i];
    return NULL;
}

/* ---- ${param} ---- */

static const char *param_at(void *arg, size_t i) { return ((document *)arg)->param[i].name; }

workflow_param *document_param(document *d, const char *name, size_t n)
{
    for (size_t i = 0; i < d->n_param; i++)
        if (strlen(d->param[i].name) == n && strncmp(d->param[i].name, name, n) == 0) return &d->param[i];
    return NULL;
}

static void unknown_param(document *d, place at, const doc_node *owner, const char *name)
{
    const char *near = document_may_suggest(d, d->n_param) ? nearest_name(name, param_at, d->n_param, d) : NULL;
    if (near)
        document_fault(d, at, owner, "no parameter is called '%s'; did you mean '${%s}'?", name, near);
    else
        document_fault(d, at, owner,
                       "no parameter is called '%s'; declare it under `params:`, or write $${ for a plain ${", name);
}

/* Appends plain text with each $ escaped as $$. */
static void append_plain_n(str *s, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) str_append_n(s, text[i] == '$' ? "$$" : text + i, text[i] == '$' ? 2 : 1);
}

/* A scalar on its way from "${seed}" to "7". */
typedef struct {
    document *d;
    const doc_node *owner;
    place at;
    str out, source;   /* source: of an included file, the text in the root's parameters */
    size_t references; /* how many were replaced */
    int quoted, here;  /* of the last parameter */
} expansion;

workflow_param *document_reference(document *d, const char *name, size_t n, int *stem)
{
    workflow_param *p = document_param(d, name, n);
    *stem = !p && n > strlen(STEM) && strncmp(name + n - strlen(STEM), STEM, strlen(STEM)) == 0;
    return *stem ? document_param(d, name, n - strlen(STEM)) : p;
}

/* What "${name.stem}" stands for in terms of the root file's parameters: kept as a reference if `name` is one alone. */
static void append_stem_source(str *to, const workflow_param *p)
{
    size_t n = p->source ? strlen(p->source) : 0, stem_n;
    int alone = n > 3 && strncmp(p->source, "${", 2) == 0 && strchr(p->source, '}') == p->source + n - 1;
    const char *stem = str_stem(p->text, &stem_n);
    if (alone)
        str_append_n(to, p->source, n - 1), str_append(to, STEM "}");
    else
        append_plain_n(to, stem, stem_n);
}

/* Appends the value of the "${name}" at text; end: its closing brace. */
static void expand_one(expansion *x, const char *text, const char *end)
{
    assert(text[0] == '$' && text[1] == '{' && *end == '}');
    document *d = x->d;
    size_t n = (size_t)(end - text) - 2;
    char name[128];
    int stem;
    workflow_param *p = document_reference(d, text + 2, n, &stem);
    x->references++;
    if (p) {
        size_t value_n = strlen(p->text);
        const char *value = stem ? str_stem(p->text, &value_n) : p->text;
        p->used = 1;
        x->quoted = p->quoted || stem, x->here = p->here;
        d->expanded += value_n;
        str_append_n(&x->out, value, value_n);
        if (p->source && d->included) d->expanded += strlen(p->source);
        if (stem && d->included)
            append_stem_source(&x->source, p);
        else if (p->source && d->included)
            str_append(&x->source, p->source);
        else if (d->included)
            append_plain_n(&x->source, p->text, value_n);
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)(n < 120 ? n : 120), text + 2);
    unknown_param(d, x->at, x->owner, name);
}

/* Replaces all ${references} of a text, and $$ by $. */
static void expand_all(expansion *x, const char *text)
{
    for (const char *p = text; *p && x->d->expanded <= DOCUMENT_EXPANDED_MAX;) {
        size_t plain = strcspn(p, "$");
        str_append_n(&x->out, p, plain), str_append_n(&x->source, p, plain);
        p += plain;
        if (p[0] != '$') break;
        const char *end = p[1] == '{' ? strchr(p, '}') : NULL;
        if (end) {
            expand_one(x, p, end);
            p = end + 1;
        } else if (p[1] == '{') {
            document_fault(x->d, x->at, x->owner, "a ${ without its }; write $${ for a plain ${");
            return;
        } else {
            str_char(&x->out, '$'), str_append(&x->source, "$$");
            p += p[1] == '$' ? 2 : 1;
        }
    }
}

static const char *keep(document *d, str *s)
{
    const char *copy = s->failed ? NULL : arena_strdup(&d->memory, str_text(s));
    if (!copy) d->failed = 1;
    str_free(s);
    return copy ? copy : "";
}

void document_note_structural(document *d, const char *source)
{
    source_text *s = arena_alloc(&d->memory, sizeof *s);
    if (!s)
        d->failed = 1;
    else
        *s = (source_text){.next = d->structural, .text = source}, d->structural = s;
}

/* A scalar's text with its ${references} replaced. In API files there are none, and a $ is a $. *source:
 * doc_input.source; `source` NULL: the text decides more than a value. */
static const char *expand(document *d, const doc_node *owner, const yaml_node *scalar, int *quoted, const char **source,
                          int *here)
{
    *quoted = scalar->quoted;
    if (source) *source = NULL;
    if (d->api_format || !strchr(scalar->text, '$') || d->expanded > DOCUMENT_EXPANDED_MAX) return scalar->text;
    expansion x = {.d = d, .owner = owner, .at = scalar->at};
    expand_all(&x, scalar->text);
    if (d->expanded > DOCUMENT_EXPANDED_MAX)
        document_fault(d, scalar->at, owner, "the ${references} of this file make more than 16 MiB of text");
    /* A lone "${steps}" is the parameter itself, even in quotes. */
    if (x.references == 1 && strncmp(scalar->text, "${", 2) == 0 &&
        strchr(scalar->text, '}') == scalar->text + scalar->length - 1)
        *quoted = x.quoted, *here = x.here;
    if (x.references) {
        const char *text = d->included ? keep(d, &x.source) : scalar->text;
        if (source)
            *source = text;
        else
            document_note_structural(d, text);
    }
    str_free(&x.source);
    return keep(d, &x.out);
}

/* ---- inputs ---- */

static int is_wire_list(const yaml_node *v)
{
    return v->kind == YAML_SEQUENCE && v->n == 2 && v->item[0]->kind == YAML_SCALAR && v->item[1]->kind == YAML_SCALAR;
}

static doc_wire read_wire(document *d, const doc_node *owner, const yaml_node *v)
{
    int quoted, here;
    return (doc_wire){.at = v->at,
                      .node = expand(d, owner, v->item[0], &quoted, NULL, &here),
                      .output = expand(d, owner, v->item[1], &quoted, NULL, &here)};
}

static int is_list_of_wires(const yaml_node *v)
{
    if (v->kind != YAML_SEQUENCE || v->n == 0) return 0;
    for (size_t i = 0; i < v->n; i++)
        if (!is_wire_list(v->item[i])) return 0;
    return 1;
}

static void read_wires(document *d, const doc_node *owner, const yaml_node *v, doc_input *in)
{
    size_t n = is_wire_list(v) ? 1 : v->n;
    in->is_wire = 1;
    in->wires = arena_alloc(&d->memory, n * sizeof *in->wires);
    if (!in->wires) {
        d->failed = 1;
        return;
    }
    for (size_t i = 0; i < n; i++) in->wires[i] = read_wire(d, owner, is_wire_list(v) ? v : v->item[i]);
    in->n_wire = n;
}

static void read_input(document *d, const doc_node *owner, const yaml_node *key, const yaml_node *v, doc_input *in)
{
    *in = (doc_input){.name = key->text, .at = key->at, .value_at = v->at};
    const yaml_node *wrapped = yaml_get(v, "__value__"); /* ComfyUI's way to write a literal list */
    if (wrapped && v->n == 1) v = wrapped;
    if (!wrapped && (is_wire_list(v) || is_list_of_wires(v))) {
        read_wires(d, owner, v, in);
    } else if (v->kind == YAML_SCALAR) {
        in->text = expand(d, owner, v, &in->quoted, &in->source, &in->here);
    } else {
        in->not_scalar = 1;
        in->text = "";
    }
}

/* A map of plain values: `crop_region: {x: 8, y: 0}`. */
static int is_box(const yaml_node *v)
{
    if (v->kind != YAML_MAP || !v->n || yaml_get(v, "__value__")) return 0;
    for (size_t i = 0; i < v->n; i++)
        if (v->item[i]->kind != YAML_SCALAR) return 0;
    return 1;
}

static void read_parts(document *d, const doc_node *owner, const yaml_node *box, doc_input *in)
{
    in->part = arena_alloc(&d->memory, box->n * sizeof *in->part);
    for (size_t i = 0; in->part && i < box->n; i++) {
        char *name = arena_printf(&d->memory, "%s.%s", in->name, box->key[i]->text);
        read_input(d, owner, box->key[i], box->item[i], &in->part[i]);
        in->part[i].name = name;
        if (!name) d->failed = 1;
    }
    if (in->part)
        in->n_part = box->n;
    else
        d->failed = 1;
}

static void read_inputs(document *d, doc_node *n, const yaml_node *map)
{
    if (map->kind != YAML_MAP) {
        document_fault(d, map->at, n, "`inputs` must be a map of input name to value or [node, output]");
        return;
    }
    n->input = arena_alloc(&d->memory, map->n * sizeof *n->input);
    if (!n->input) {
        d->failed = 1;
        return;
    }
    for (size_t i = 0; i < map->n; i++) {
        read_input(d, n, map->key[i], map->item[i], &n->input[i]);
        if (is_box(map->item[i])) read_parts(d, n, map->item[i], &n->input[i]);
    }
    n->n_input = map->n;
}

static void read_node(document *d, const yaml_node *key, const yaml_node *v, doc_node *n)
{
    static const char *const known[] = {"class_type",          "inputs",  "_meta", "title", "is_changed",
                                        "override_display_id", "include", "set"};
    *n = (doc_node){.name = key->text, .at = key->at};
    if (v->kind != YAML_MAP) {
        document_fault(d, v->at, n, "must be a map with `class_type` and `inputs`");
        return;
    }
    const yaml_node *type = yaml_get(v, "class_type"), *inputs = yaml_get(v, "inputs"), *meta = yaml_get(v, "_meta");
    const yaml_node *title = meta ? yaml_get(meta, "title") : yaml_get(v, "title");
    if (yaml_get(v, "include")) {
        if (d->api_format)
            document_fault(d, yaml_get(v, "include")->at, n, "`include` belongs to kiln's own form of a workflow");
        else
            n->include = v;
        if (type) document_fault(d, type->at, n, "has `include` and `class_type`; which is it?");
    } else if (yaml_get(v, "set")) {
        document_fault(d, yaml_get(v, "set")->at, n, "`set` belongs to an `include`; a node's values go in `inputs`");
    } else if (!type || type->kind != YAML_SCALAR) {
        document_fault(d, type ? type->at : key->at, n, "has no `class_type`");
    } else {
        n->type = type->text;
        n->type_at = type->at;
    }
    if (title && title->kind == YAML_SCALAR)
        n->title = title->text;
    else if (title)
        document_fault(d, title->at, n, "`title` must be a text");
    for (size_t i = 0; i < v->n; i++) {
        int found = 0;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) found |= strcmp(v->key[i]->text, known[k]) == 0;
        const char *near = found || !document_may_suggest(d, 2) ? NULL : nearest_of(v->key[i]->text, known, 2);
        if (!found)
            document_fault(d, v->key[i]->at, n, "unknown key '%.100s'%s%s%s", v->key[i]->text,
                           near ? "; did you mean '" : "; a node has `class_type` and `inputs`", near ? near : "",
                           near ? "'?" : "");
    }
    if (inputs) read_inputs(d, n, inputs);
}

static void read_nodes(document *d, const yaml_node *map)
{
    if (map->kind != YAML_MAP) {
        document_fault(d, map->at, NULL, "`nodes` must be a map of node name to node");
        return;
    }
    if (map->n > DOCUMENT_NODES_MAX) {
        document_fault(d, map->at, NULL, "%zu nodes; at most %d are allowed", map->n, DOCUMENT_NODES_MAX);
        return;
    }
    if (map->n == 0) document_fault(d, map->at, NULL, "there are no nodes");
    d->node = arena_alloc(&d->memory, map->n * sizeof *d->node);
    if (!d->node) {
        d->failed = 1;
        return;
    }
    size_t edges = 0;
    for (size_t i = 0; i < map->n; i++) {
        read_node(d, map->key[i], map->item[i], &d->node[i]);
        edges += d->node[i].n_input;
    }
    d->n_node = map->n;
    if (edges > DOCUMENT_EDGES_MAX)
        document_fault(d, map->at, NULL, "%zu inputs; at most %d are allowed", edges, DOCUMENT_EDGES_MAX);
}

/* ---- head ---- */

static void read_param(document *d, const yaml_node *key, const yaml_node *v, workflow_param *p)
{
    *p = (workflow_param){.name = key->text, .at = key->at, .text = ""};
    if (v->kind == YAML_MAP) {
        const yaml_node *help = yaml_get(v, "help");
        if (help && help->kind == YAML_SCALAR) p->help = help->text;
        for (size_t i = 0; i < v->n; i++)
            if (strcmp(v->key[i]->text, "default") != 0 && strcmp(v->key[i]->text, "help") != 0)
                document_fault(d, v->key[i]->at, NULL,
                               "parameter '%.100s': unknown key '%.100s'; it has `default` and `help`", p->name,
                               v->key[i]->text);
        v = yaml_get(v, "default");
    }
    if (!v || v->kind != YAML_SCALAR) {
        document_fault(d, key->at, NULL, "parameter '%.100s' needs a default: a single value", p->name);
        return;
    }
    p->text = v->text;
    p->quoted = v->quoted;
}

static void read_params(document *d, const yaml_node *map)
{
    if (map->kind != YAML_MAP || map->n > PARAMS_MAX) {
        document_fault(d, map->at, NULL, "`params` must be a map of at most %d names to defaults", PARAMS_MAX);
        return;
    }
    d->param = arena_alloc(&d->memory, map->n * sizeof *d->param);
    if (!d->param) {
        d->failed = 1;
        return;
    }
    for (size_t i = 0; i < map->n; i++) read_param(d, map->key[i], map->item[i], &d->param[i]);
    d->n_param = map->n;
}

static void read_version(document *d, const yaml_node *v)
{
    if (v->kind != YAML_SCALAR || strcmp(v->text, "1") != 0)
        document_fault(d, v->at, NULL, "this kiln reads workflows of version 1 (`kiln: 1`)");
}

/* Of an included file it is its own affair: the one that is run says it for all. */
static void read_dynamic(document *d, const yaml_node *v)
{
    int is = v->kind == YAML_SCALAR && !v->quoted && strcmp(v->text, "true") == 0;
    if (!is && (v->kind != YAML_SCALAR || v->quoted || strcmp(v->text, "false") != 0))
        document_fault(d, v->at, NULL, "`dynamic_prompts` is true or false");
    if (!d->included) d->dynamic_prompts = is;
}

static const char *read_text(document *d, const yaml_node *v, const char *key)
{
    if (v->kind == YAML_SCALAR) return v->text;
    document_fault(d, v->at, NULL, "`%s` must be a text", key);
    return NULL;
}

static void apply_params(document *d, const set_option *set, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        workflow_param *p = document_param(d, set[i].name, strlen(set[i].name));
        if (!p) continue;
        p->text = set[i].drawn ? arena_strdup(&d->memory, set[i].value) : set[i].value;
        if (!p->text) d->failed = 1, p->text = "";
        p->source = d->set_source ? d->set_source[i] : NULL;
        p->quoted = 0;
        p->set = 1;
        p->here = set[i].here;
    }
}

/* The head's `inputs` and `outputs`: names for wires of this file. */
static void read_ports(document *d, const yaml_node *map, const char *what, doc_input **port, size_t *n)
{
    if (map->kind == YAML_MAP && map->n > PORTS_MAX) {
        document_fault(d, map->at, NULL, "`%s` has %zu names; at most %d are allowed", what, map->n, PORTS_MAX);
        return;
    }
    if (map->kind == YAML_MAP) *port = arena_alloc(&d->memory, (map->n + 1) * sizeof **port);
    if (map->kind == YAML_MAP && !*port) d->failed = 1;
    for (size_t i = 0; *port && i < map->n; i++) {
        doc_input *p = &(*port)[*n];
        read_input(d, NULL, map->key[i], map->item[i], p);
        if (p->is_wire && (p->n_wire == 1 || (*port == d->in_port && p->n_wire <= PORTS_MAX)))
            ++*n;
        else
            document_fault(d, map->item[i]->at, NULL, "`%s`: '%.100s' needs a wire of this file, [node, %s]", what,
                           p->name, *port == d->in_port ? "input], or several" : "output]");
    }
    if (map->kind != YAML_MAP)
        document_fault(d, map->at, NULL, "`%s` must be a map of name to [node, %s]", what,
                       strcmp(what, "inputs") == 0 ? "input" : "output");
}

static void read_native(document *d, const yaml_node *root, const set_option *set, size_t n_set)
{
    static const char *const known[] = {"kiln",    "name",   "description", "params",         "inputs",
                                        "outputs", "matrix", "nodes",       "dynamic_prompts"};
    const yaml_node *part;
    if ((part = yaml_get(root, "kiln"))) read_version(d, part);
    if ((part = yaml_get(root, "name"))) d->name = read_text(d, part, "name");
    if ((part = yaml_get(root, "description"))) read_text(d, part, "description"); /* checked, then ignored */
    if ((part = yaml_get(root, "params"))) read_params(d, part);
    d->matrix = yaml_get(root, "matrix"); /* checked by a sweep */
    if ((part = yaml_get(root, "dynamic_prompts"))) read_dynamic(d, part);
    apply_params(d, set, n_set);
    for (size_t i = 0; i < root->n; i++) {
        int found = 0;
        const char *key = root->key[i]->text;
        for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) found |= strcmp(key, known[k]) == 0;
        const char *near =
            found || !document_may_suggest(d, 8) ? NULL : nearest_of(key, known, sizeof known / sizeof known[0]);
        if (strcmp(key, "include") == 0)
            document_fault(d, root->key[i]->at, NULL,
                           "`include` belongs to an entry of `nodes`: NAME: {include: FILE, inputs: ..., set: ...}");
        else if (!found && key[0] != '.' && strncmp(key, "x-", 2) != 0)
            document_fault(d, root->key[i]->at, NULL, "unknown key '%.100s'%s%s%s", key,
                           near ? "; did you mean '"
                                : "; the head has kiln, name, description, params, inputs, outputs, matrix, "
                                  "dynamic_prompts, nodes "
                                  "(x-... is ignored)",
                           near ? near : "", near ? "'?" : "");
    }
    read_nodes(d, yaml_get(root, "nodes"));
    if ((part = yaml_get(root, "inputs"))) read_ports(d, part, "inputs", &d->in_port, &d->n_in_port);
    if ((part = yaml_get(root, "outputs"))) read_ports(d, part, "outputs", &d->out_port, &d->n_out_port);
    include_files(d);
}

/* ---- the whole ---- */

static int looks_like_api(const yaml_node *root)
{
    for (size_t i = 0; i < root->n; i++)
        if (yaml_get(root->item[i], "class_type")) return 1;
    return 0;
}

/* A file of ComfyUI's editor: as the API form, of whose nodes more is known. */
static void read_editor(document *d, const yaml_node *root, const document_source *from)
{
    const editor_note *note = NULL;
    d->api_format = d->from_editor = 1;
    if (!from->catalog) {
        document_fault(d, root->at, NULL, "a file of ComfyUI's editor, which cannot be read without the node types");
        return;
    }
    d->set_taken = arena_alloc(&d->memory, from->n_set + 1);
    if (!d->set_taken) d->failed = 1;
    const yaml_node *api = d->failed ? NULL : editor_to_api(d, root, from, &note);
    if (!api) return;
    read_nodes(d, api);
    for (size_t i = 0; i < d->n_node; i++) d->node[i].where = note[i].where, d->node[i].models = note[i].models;
}

static void read_root(document *d, const yaml_node *root, const document_source *from)
{
    if (root->kind == YAML_MAP && yaml_get(root, "prompt") && looks_like_api(yaml_get(root, "prompt")))
        root = yaml_get(root, "prompt");
    const yaml_node *nodes = root->kind == YAML_MAP ? yaml_get(root, "nodes") : NULL;
    if (editor_is_saved(root)) {
        read_editor(d, root, from);
    } else if (root->kind != YAML_MAP) {
        document_fault(d, root->at, NULL, "a workflow is a map with `nodes:`, or ComfyUI's API format");
    } else if (nodes && !yaml_get(nodes, "class_type")) {
        read_native(d, root, from->set, from->n_set);
    } else if (looks_like_api(root)) {
        d->api_format = 1;
        read_nodes(d, root);
    } else {
        document_fault(d, root->at, NULL, "there is no `nodes:` here, nor any node with a `class_type`");
    }
}

static void finish(document *d, const set_option *set, size_t n_set, const struct catalog_view *catalog)
{
    settings_apply(d, set, n_set, catalog);
    for (size_t i = 0; i < d->n_param; i++)
        if (!d->param[i].used)
            document_warn(d, d->param[i].at, NULL, "parameter '%s' is used nowhere", d->param[i].name);
}

void document_read_included(document *d, const yaml_node *root, const set_option *set, size_t n_set)
{
    if (root->kind != YAML_MAP || !yaml_get(root, "nodes") || yaml_get(root, "nodes")->kind != YAML_MAP) {
        document_fault(d, root->at, NULL, "a file to include is a workflow with `nodes:`");
        return;
    }
    read_native(d, root, set, n_set);
    finish(d, set, n_set, NULL);
}

const char *document_expand(document *d, const doc_node *owner, const yaml_node *scalar, const char **source)
{
    int quoted, here;
    return expand(d, owner, scalar, &quoted, source, &here);
}

kiln_status document_read(document *d, const document_source *from, error *e)
{
    yaml_node *root;
    *d = (document){0};
    d->path = arena_strdup(&d->memory, from->name);
    d->set_word = "--set";
    size_t blank = 0;
    while (blank < from->size && strchr(" \t\r\n", from->data[blank]) && from->data[blank]) blank++;
    d->is_json = blank < from->size && from->data[blank] == '{';
    include_root(d);
    kiln_status status = d->path && !d->failed
                             ? yaml_tree_read(&d->memory, from->name, 0, from->data, from->size, &root, e)
                             : error_set(e, KILN_ERR_NOMEM, "%s: out of memory", from->name);
    if (status == KILN_OK) {
        read_root(d, root, from);
        finish(d, from->set, from->n_set, from->catalog);
        if (d->failed) status = error_set(e, KILN_ERR_NOMEM, "%s: out of memory", from->name);
    }
    if (status != KILN_OK) document_free(d);
    return status;
}

kiln_status document_parse(document *d, const char *name, const char *data, size_t size, const set_option *set,
                           size_t n_set, error *e)
{
    return document_read(d, &(document_source){.name = name, .data = data, .size = size, .set = set, .n_set = n_set},
                         e);
}

void document_free(document *d)
{
    arena_free(&d->memory);
    *d = (document){0};
}
