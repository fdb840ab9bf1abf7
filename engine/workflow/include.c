/* include.c - see include.h. An included file is read into a document of its own, which borrows the includer's arena,
 * faults and counters. Its nodes are then renamed and appended to the includer's, and wires through the entry are
 * connected.
 */
#include "workflow/include.h"

#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/names.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 8, FILES_MAX = 1000, BYTES_MAX = 64 << 20, FILE_BYTES_MAX = 16 << 20, SETTINGS_MAX = 200 };

typedef struct include_chain {
    const struct include_chain *up;
    const char *path, *real;
    size_t depth;
} include_chain;

typedef struct {
    const char *what; /* "input" or "output" */
    doc_input *port;
    size_t n;
} port_list;

/* An entry that was included: its name, and the file's ports, with nodes by their new names. */
typedef struct {
    const char *name;
    port_list in, out;
} scope;

typedef struct {
    document *d;
    scope *scope; /* [entries] */
    size_t n_scope, entries;
    doc_node *node; /* the new list; moves when it grows */
    size_t n, capacity;
} includer;

void include_root(document *d)
{
    include_chain *c = arena_alloc(&d->memory, sizeof *c);
    char *real = d->path ? path_real(d->path) : NULL;
    if (d->path && !real && errno == ENOMEM) d->failed = 1;
    d->file = arena_alloc(&d->memory, FILES_MAX * sizeof *d->file);
    if (!c || !d->file || !d->path || !(c->real = arena_strdup(&d->memory, real ? real : d->path))) {
        d->failed = 1;
    } else {
        c->path = d->path;
        d->file[d->n_file++] = d->path;
        d->chain = c;
    }
    mem_free(real);
}

/* ---- the file ---- */

static const char *beside(document *d, const char *name)
{
    const char *slash = strrchr(d->chain->path, '/');
    const char *path = slash ? arena_printf(&d->memory, "%.*s/%s", (int)(slash - d->chain->path), d->chain->path, name)
                             : arena_strdup(&d->memory, name);
    if (!path) d->failed = 1;
    return path;
}

static void fault_circle(document *d, const doc_node *n, place at, const char *path)
{
    char text[700] = "";
    const include_chain *link[DEPTH_MAX + 1] = {NULL};
    size_t depth = 0, used = 0;
    for (const include_chain *c = d->chain; c && depth <= DEPTH_MAX; c = c->up) link[depth++] = c;
    while (depth-- > 0 && used < sizeof text - 100)
        used += (size_t)snprintf(text + used, 90, "%.80s -> ", link[depth]->path);
    document_fault(d, at, n, "`include` goes in a circle: %s%.80s", text, path);
}

/* The chain with file `name` added, or NULL after a fault. */
static const include_chain *enter(document *d, const doc_node *n, place at, const char *name)
{
    if (!*name || *name == '/')
        return document_fault(d, at, n, "`include` names a file relative to this one, not '%.200s'", name), NULL;
    const char *path = beside(d, name);
    char *real = path ? path_real(path) : NULL;
    include_chain *c = path ? arena_alloc(&d->memory, sizeof *c) : NULL;
    int circle = 0;
    for (const include_chain *up = d->chain; real && up; up = up->up) circle |= strcmp(up->real, real) == 0;
    if (path && !real && errno == ENOMEM)
        d->failed = 1;
    else if (path && !real)
        document_fault(d, at, n, "`include`: no file '%.300s'", path);
    else if (circle)
        fault_circle(d, n, at, path);
    else if (d->chain->depth == DEPTH_MAX)
        document_fault(d, at, n, "`include` goes more than %d files deep", DEPTH_MAX);
    else if (d->n_file == FILES_MAX)
        document_fault(d, at, n, "more than %d files are included", FILES_MAX);
    else if (c && (c->real = arena_strdup(&d->memory, real)))
        c->up = d->chain, c->path = path, c->depth = d->chain->depth + 1;
    else
        d->failed = 1;
    mem_free(real);
    return c && c->path ? c : NULL;
}

static yaml_node *read_tree(document *d, const doc_node *n, place at, const include_chain *c)
{
    error e = {0};
    char *data = NULL;
    size_t size = 0;
    yaml_node *root = NULL;
    kiln_status status = file_read(c->path, FILE_BYTES_MAX, &data, &size, &e);
    d->included_bytes += size;
    if (status == KILN_OK && d->included_bytes > BYTES_MAX)
        status = error_set(&e, KILN_ERR_INVALID, "all included files together are more than 64 MiB");
    if (status == KILN_OK) {
        d->file[d->n_file] = c->path;
        status = yaml_tree_read(&d->memory, c->path, (uint32_t)d->n_file++, data, size, &root, &e);
    }
    mem_free(data);
    if (status == KILN_ERR_NOMEM) d->failed = 1;
    if (status != KILN_OK) document_fault(d, at, n, "`include`: %s", e.message);
    return status == KILN_OK ? root : NULL;
}

static size_t read_set(document *d, const doc_node *n, const yaml_node *map, set_option *set, const char **source)
{
    size_t k = 0;
    if (map && (map->kind != YAML_MAP || map->n > SETTINGS_MAX)) {
        document_fault(d, map->at, n, "`set` must be a map of at most %d names to values", SETTINGS_MAX);
        return 0;
    }
    for (size_t i = 0; map && i < map->n; i++) {
        if (map->item[i]->kind != YAML_SCALAR)
            document_fault(d, map->item[i]->at, n, "`set`: '%.100s' takes a single value; wires go to `inputs`",
                           map->key[i]->text);
        else
            set[k] = (set_option){.name = map->key[i]->text, .value = document_expand(d, n, map->item[i], &source[k])},
            k++;
    }
    return k;
}

/* Reads the file into c. c borrows d's memory, faults and counters, and d takes them back. */
static void read_part(document *d, const doc_node *n, const include_chain *chain, const yaml_node *root, document *c)
{
    set_option set[SETTINGS_MAX];
    const char *from[SETTINGS_MAX];
    const yaml_node *given = yaml_get(n->include, "set");
    size_t n_set = read_set(d, n, given, set, from);
    *c = *d;
    c->node = NULL, c->param = NULL, c->in_port = NULL, c->out_port = NULL, c->matrix = NULL, c->name = NULL;
    c->n_node = c->n_param = c->n_in_port = c->n_out_port = 0;
    c->chain = chain, c->included = 1;
    c->set_at = given ? given->at : n->at;
    c->set_word = "`set`:", c->set_source = from;
    document_read_included(c, root, set, n_set);
    if (c->matrix) document_warn(c, c->matrix->at, NULL, "the `matrix` of an included file is not looked at");
    d->memory = c->memory;
    d->faults = c->faults, d->n_fault = c->n_fault, d->n_warning = c->n_warning;
    d->n_file = c->n_file, d->included_bytes = c->included_bytes, d->expanded = c->expanded;
    d->structural = c->structural;
    d->failed |= c->failed;
}

/* ---- joining ---- */

static const char *within(document *d, const char *scope_name, const char *name)
{
    const char *text = arena_printf(&d->memory, "%s/%s", scope_name, name);
    if (!text) d->failed = 1;
    return text ? text : "";
}

static void rename_inputs(document *d, const char *name, doc_input *in, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < in[i].n_wire; k++) in[i].wires[k].node = within(d, name, in[i].wires[k].node);
}

static void push_node(includer *x, doc_node n)
{
    if (x->n == DOCUMENT_NODES_MAX) {
        document_fault(x->d, n.at, NULL, "more than %d nodes with what is included", DOCUMENT_NODES_MAX);
        return;
    }
    if (x->n == x->capacity) {
        size_t capacity = x->capacity ? 2 * x->capacity : 64;
        doc_node *grown = arena_alloc(&x->d->memory, capacity * sizeof *grown);
        if (!grown) {
            x->d->failed = 1;
            return;
        }
        if (x->n) memcpy(grown, x->node, x->n * sizeof *grown);
        x->node = grown, x->capacity = capacity;
    }
    x->node[x->n++] = n;
}

static doc_node *node_named(doc_node *node, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(node[i].name, name) == 0) return &node[i];
    return NULL;
}

static const char *port_name_at(void *arg, size_t i) { return ((const doc_input *)arg)[i].name; }

static doc_input *port_named(const port_list *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->port[i].name, name) == 0) return &l->port[i];
    return NULL;
}

/* The port of that name, or NULL after a fault at `at`. */
static doc_input *find_port(document *d, const doc_node *owner, place at, const scope *s, const port_list *l,
                            const char *name)
{
    doc_input *port = port_named(l, name);
    if (port) return port;
    const char *near = document_may_suggest(d, l->n) ? nearest_name(name, port_name_at, l->n, l->port) : NULL;
    document_fault(d, at, owner, "what '%.100s' includes has no %s '%.100s'%s%s%s", s->name, l->what, name,
                   near ? "; did you mean '" : "; the head of that file names them", near ? near : "",
                   near ? "'?" : "");
    return NULL;
}

/* Replaces the node's input by the includer's wire or value. */
static void set_target(document *d, doc_node *node, size_t n, const doc_wire *target, const doc_input *given)
{
    doc_node *to = node_named(node, n, target->node);
    if (!to) return; /* check_ports() of the included file has reported it */
    doc_input value = *given;
    value.name = target->output;
    for (size_t i = 0; i < to->n_input; i++)
        if (strcmp(to->input[i].name, target->output) == 0) {
            to->input[i] = value;
            return;
        }
    doc_input *grown = arena_alloc(&d->memory, (to->n_input + 1) * sizeof *grown);
    if (!grown) {
        d->failed = 1;
        return;
    }
    if (to->n_input) memcpy(grown, to->input, to->n_input * sizeof *grown);
    grown[to->n_input] = value;
    to->input = grown;
    to->n_input++;
}

static void join(includer *x, const doc_node *entry, document *c)
{
    document *d = x->d;
    for (size_t i = 0; i < c->n_node; i++) {
        c->node[i].name = within(d, entry->name, c->node[i].name);
        rename_inputs(d, entry->name, c->node[i].input, c->node[i].n_input);
    }
    rename_inputs(d, entry->name, c->in_port, c->n_in_port);
    rename_inputs(d, entry->name, c->out_port, c->n_out_port);
    assert(x->n_scope < x->entries);
    scope *s = &x->scope[x->n_scope++];
    *s = (scope){entry->name, {"input", c->in_port, c->n_in_port}, {"output", c->out_port, c->n_out_port}};
    for (size_t i = 0; i < entry->n_input; i++) {
        const doc_input *given = &entry->input[i], *port = find_port(d, entry, given->at, s, &s->in, given->name);
        for (size_t k = 0; port && k < port->n_wire; k++) set_target(d, c->node, c->n_node, &port->wires[k], given);
    }
    for (size_t i = 0; i < c->n_node; i++) push_node(x, c->node[i]);
}

static void include_one(includer *x, const doc_node *entry)
{
    document *d = x->d, c;
    const yaml_node *name = yaml_get(entry->include, "include");
    if (name->kind != YAML_SCALAR) {
        document_fault(d, name->at, entry, "`include` names one file");
        return;
    }
    const include_chain *chain = enter(d, entry, name->at, document_expand(d, entry, name, NULL));
    const yaml_node *root = chain ? read_tree(d, entry, name->at, chain) : NULL;
    if (!root) return;
    read_part(d, entry, chain, root, &c);
    join(x, entry, &c);
}

/* ---- wires that go through an entry ---- */

static const scope *find_scope(const includer *x, const char *name)
{
    for (size_t i = 0; i < x->n_scope; i++)
        if (strcmp(x->scope[i].name, name) == 0) return &x->scope[i];
    return NULL;
}

static void tie(includer *x, const doc_node *owner, doc_input *in)
{
    for (size_t k = 0; k < in->n_wire; k++) {
        const scope *s = find_scope(x, in->wires[k].node);
        if (!s) continue;
        const doc_input *port = find_port(x->d, owner, in->wires[k].at, s, &s->out, in->wires[k].output);
        if (port) in->wires[k].node = port->wires[0].node, in->wires[k].output = port->wires[0].output;
    }
}

/* A port wired to an input of an entry gets the wires of that input. */
static void tie_in_port(includer *x, doc_input *port)
{
    document *d = x->d;
    size_t n = 0;
    for (size_t k = 0; k < port->n_wire; k++) {
        const scope *s = find_scope(x, port->wires[k].node);
        const doc_input *inner = s ? find_port(d, NULL, port->wires[k].at, s, &s->in, port->wires[k].output) : NULL;
        n += inner ? inner->n_wire : 1;
    }
    doc_wire *all = arena_alloc(&d->memory, (n + 1) * sizeof *all);
    if (!all) {
        d->failed = 1;
        return;
    }
    n = 0;
    for (size_t k = 0; k < port->n_wire; k++) {
        const scope *s = find_scope(x, port->wires[k].node);
        const doc_input *inner = s ? port_named(&s->in, port->wires[k].output) : NULL;
        if (!inner) all[n++] = port->wires[k];
        for (size_t i = 0; inner && i < inner->n_wire; i++) all[n++] = inner->wires[i];
    }
    port->wires = all;
    port->n_wire = n;
}

static void check_ports(document *d, const doc_input *port, size_t n, const char *what)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < port[i].n_wire; k++)
            if (!document_node(d, port[i].wires[k].node))
                document_fault(d, port[i].value_at, NULL, "`%s`: '%.100s' names '%.100s', which is not a node here",
                               what, port[i].name, port[i].wires[k].node);
}

/* Faults the file's own nodes whose name begins like those of an included file, NAME/... */
static void check_names(includer *x, const doc_node *own, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; !own[i].include && strchr(own[i].name, '/') && k < x->n_scope; k++) {
            size_t length = strlen(x->scope[k].name);
            if (strncmp(own[i].name, x->scope[k].name, length) != 0 || own[i].name[length] != '/') continue;
            document_fault(
                x->d, own[i].at, &own[i],
                "names that begin with '%.100s/' are those of what is included there; call this one otherwise",
                x->scope[k].name);
        }
}

static void include_all(document *d, size_t entries)
{
    includer x = {.d = d, .scope = arena_alloc(&d->memory, entries * sizeof(scope)), .entries = entries};
    if (!x.scope) {
        d->failed = 1;
        return;
    }
    for (size_t i = 0; i < d->n_node; i++) {
        if (d->node[i].include)
            include_one(&x, &d->node[i]);
        else
            push_node(&x, d->node[i]);
    }
    for (size_t i = 0; i < x.n; i++)
        for (size_t k = 0; k < x.node[i].n_input; k++) tie(&x, &x.node[i], &x.node[i].input[k]);
    check_names(&x, d->node, d->n_node);
    for (size_t i = 0; i < d->n_in_port; i++) tie_in_port(&x, &d->in_port[i]);
    for (size_t i = 0; i < d->n_out_port; i++) tie(&x, NULL, &d->out_port[i]);
    d->node = x.node;
    d->n_node = x.n;
}

void include_files(document *d)
{
    size_t entries = 0;
    for (size_t i = 0; i < d->n_node; i++) entries += d->node[i].include != NULL;
    if (entries && !d->failed) include_all(d, entries);
    check_ports(d, d->in_port, d->n_in_port, "inputs");
    check_ports(d, d->out_port, d->n_out_port, "outputs");
}
