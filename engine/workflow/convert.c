/* convert.c - see convert.h. */
#include "workflow/convert.h"

#include "base/memory_alloc.h"
#include "base/str.h"
#include "param/param_text.h"
#include "workflow/check.h"
#include "workflow/dependent.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const document *d;
    const convert_rows *rows;
    uint32_t *by_name; /* [d->n_node] */
    str out;
    error *e;
} writer;

static const kiln_node *row_of(const writer *x, const char *type) { return x->rows->find(x->rows->self, type); }

/* ---- order ---- */

static _Thread_local const document *sorting;

static int by_name(const void *a, const void *b)
{
    return strcmp(sorting->node[*(const uint32_t *)a].name, sorting->node[*(const uint32_t *)b].name);
}

static int find_name(const void *key, const void *i) { return strcmp(key, sorting->node[*(const uint32_t *)i].name); }

static const doc_node *node_named(const writer *x, const char *name)
{
    sorting = x->d;
    const uint32_t *i = bsearch(name, x->by_name, x->d->n_node, sizeof *i, find_name);
    return i ? &x->d->node[*i] : NULL;
}

/* The k-th source of a node, or NULL past the end. */
static const doc_node *source_at(const writer *x, const doc_node *n, size_t *input, size_t *wire)
{
    for (; *input < n->n_input; ++*input, *wire = 0)
        while (*wire < n->input[*input].n_wire) {
            const doc_node *from = node_named(x, n->input[*input].wires[(*wire)++].node);
            if (from) return from;
        }
    return NULL;
}

typedef struct {
    const doc_node *node;
    size_t input, wire;
} walk;

/* Sources before users, otherwise as the file has them; a circle is broken anywhere. NULL: no memory. */
static const doc_node **in_order(const writer *x)
{
    size_t n = x->d->n_node, done = 0, depth;
    const doc_node **order = mem_alloc((n + 1) * sizeof *order), *next;
    unsigned char *seen = mem_calloc(n + 1, 1);
    walk *stack = mem_alloc((n + 1) * sizeof *stack);
    for (size_t i = 0; order && seen && stack && i < n; i++) {
        if (seen[i]) continue;
        seen[i] = 1, depth = 0;
        stack[depth++] = (walk){.node = &x->d->node[i]};
        while (depth) {
            walk *top = &stack[depth - 1];
            while ((next = source_at(x, top->node, &top->input, &top->wire)) && seen[next - x->d->node]) {
            }
            if (!next)
                order[done++] = top->node, depth--;
            else
                seen[next - x->d->node] = 1, stack[depth++] = (walk){.node = next};
        }
    }
    if (!seen || !stack) mem_free(order), order = NULL;
    mem_free(seen), mem_free(stack);
    return order;
}

/* ---- values ---- */

static const kiln_param *param_of(const kiln_node *row, const char *name)
{
    for (uint32_t i = 0; row && i < row->n_param; i++)
        if (strcmp(node_param(row, i)->name, name) == 0) return node_param(row, i);
    return NULL;
}

static int is_number(const char *text)
{
    double v;
    return str_to_double(text, strlen(text), &v) && strchr("+-.0123456789", text[0]);
}

/* A word that YAML reads as a text, and that a reader takes for one. */
static int is_plain(const char *text)
{
    static const char *const other[] = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"};
    size_t n = strlen(text);
    for (size_t i = 0; i < sizeof other / sizeof other[0]; i++)
        if (strcasecmp(text, other[i]) == 0) return 0;
    if (n == 0 || n > 60 || !((text[0] >= 'a' && text[0] <= 'z') || (text[0] >= 'A' && text[0] <= 'Z'))) return 0;
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./") == n;
}

static void put_quoted(writer *x, const char *text) { str_json(&x->out, text, strlen(text), 0); }

/* A key or a name: ids of nodes are numbers, and stay so. */
static void put_name(writer *x, const char *text)
{
    if (is_plain(text) || (*text && strspn(text, "0123456789") == strlen(text)))
        str_append(&x->out, text);
    else
        put_quoted(x, text);
}

/* A text in kiln's form: a $ is $$ there. */
static void put_text(writer *x, const char *text)
{
    str plain = {0};
    for (; *text; text++) str_append_n(&plain, *text == '$' ? "$$" : text, *text == '$' ? 2 : 1);
    x->out.failed |= plain.failed;
    if (is_plain(str_text(&plain)))
        str_append(&x->out, str_text(&plain));
    else
        put_quoted(x, str_text(&plain));
    str_free(&plain);
}

static int is_bare(const doc_input *in)
{
    if (in->quoted) return 0;
    return is_number(in->text) || strcmp(in->text, "true") == 0 || strcmp(in->text, "false") == 0;
}

/* JSON's numbers: what is one for kiln may be written otherwise there (1., 007). */
static void put_json_number(writer *x, const char *text)
{
    int64_t whole;
    uint64_t large;
    double number = 0;
    if (str_to_i64(text, strlen(text), &whole))
        str_printf(&x->out, "%lld", (long long)whole);
    else if (str_to_u64(text, strlen(text), &large))
        str_printf(&x->out, "%llu", (unsigned long long)large);
    else
        str_to_double(text, strlen(text), &number), str_double(&x->out, number);
}

static void put_json_value(writer *x, const doc_input *in, const kiln_param *p)
{
    int text =
        p && (p->type == KILN_P_STRING || p->type == KILN_P_ENUM || p->type == KILN_P_NAME || p->type == KILN_P_FILE);
    if (!is_bare(in) || text)
        put_quoted(x, in->text);
    else if (is_number(in->text))
        put_json_number(x, in->text);
    else
        str_append(&x->out, in->text);
}

static kiln_status no_value(writer *x, const doc_node *n, const doc_input *in)
{
    return error_set(x->e, KILN_ERR_INVALID,
                     "%s:%u:%u: node '%.100s': input '%.100s' is a list or a map, which no node takes",
                     document_file(x->d, in->value_at), in->value_at.line, in->value_at.column, n->name, in->name);
}

/* ---- wires ---- */

static kiln_status output_number(writer *x, const doc_node *n, const doc_wire *w, uint32_t *out)
{
    const doc_node *from = node_named(x, w->node);
    const kiln_node *row = from && from->type ? row_of(x, from->type) : NULL;
    int64_t number;
    if (str_to_i64(w->output, strlen(w->output), &number) && number >= 0 && number <= UINT32_MAX)
        return *out = (uint32_t)number, KILN_OK;
    for (uint32_t i = 0; row && i < row->n_out; i++)
        if (strcmp(node_out(row, i)->name, w->output) == 0) return *out = i, KILN_OK;
    return error_set(x->e, KILN_ERR_INVALID,
                     "%s:%u:%u: node '%.100s' takes output '%.100s' of '%.100s', whose number nobody knows",
                     document_file(x->d, w->at), w->at.line, w->at.column, n->name, w->output, w->node);
}

/* The output by its name, where there is one that no other has. */
static const char *output_name(const writer *x, const doc_wire *w)
{
    const doc_node *from = node_named(x, w->node);
    const kiln_node *row = from && from->type ? row_of(x, from->type) : NULL;
    int64_t number;
    if (!row || !str_to_i64(w->output, strlen(w->output), &number) || number < 0 || number >= (int64_t)row->n_out)
        return w->output;
    const char *name = node_out(row, (uint32_t)number)->name;
    for (uint32_t i = 0; i < row->n_out; i++)
        if ((int64_t)i != number && strcmp(node_out(row, i)->name, name) == 0) return w->output;
    return is_plain(name) ? name : w->output;
}

static kiln_status put_wires(writer *x, const doc_node *n, const doc_input *in, int json)
{
    str_append(&x->out, in->n_wire == 1 ? "" : "[");
    for (size_t i = 0; i < in->n_wire; i++) {
        const doc_wire *w = &in->wires[i];
        uint32_t number = 0;
        if (json) TRY(output_number(x, n, w, &number));
        str_append(&x->out, i ? ", [" : "[");
        if (json)
            put_quoted(x, w->node), str_printf(&x->out, ", %u]", number);
        else
            put_name(x, w->node), str_append(&x->out, ", "), put_name(x, output_name(x, w)), str_char(&x->out, ']');
    }
    str_append(&x->out, in->n_wire == 1 ? "" : "]");
    return KILN_OK;
}

/* ---- YAML ---- */

/* Text of a comment: one line. */
static void put_comment(writer *x, const char *text)
{
    for (; *text; text++) str_char(&x->out, (unsigned char)*text < 32 || *text == 127 ? ' ' : *text);
}

static kiln_status yaml_node_text(writer *x, const doc_node *n)
{
    const kiln_node *row = row_of(x, n->type);
    int titled =
        n->title && strcmp(n->title, n->type) != 0 && !(row && row->title && strcmp(n->title, row->title) == 0);
    if (n->where && *n->where)
        str_append(&x->out, "\n  #"), put_comment(x, n->where);
    else if (titled)
        str_append(&x->out, "\n  # "), put_comment(x, n->title);
    str_append(&x->out, "\n  "), put_name(x, n->name);
    str_append(&x->out, ":\n    class_type: "), put_name(x, n->type), str_char(&x->out, '\n');
    if (titled) str_append(&x->out, "    title: "), put_quoted(x, n->title), str_char(&x->out, '\n');
    if (n->n_input) str_append(&x->out, "    inputs:\n");
    for (size_t i = 0; i < n->n_input; i++) {
        const doc_input *in = &n->input[i];
        str_append(&x->out, "      "), put_name(x, in->name), str_append(&x->out, ": ");
        if (in->not_scalar) return no_value(x, n, in);
        if (in->is_wire)
            TRY(put_wires(x, n, in, 0));
        else if (in->source)
            put_quoted(x, in->source); /* as it was written, "${seed}" */
        else if (is_bare(in))
            str_append(&x->out, in->text);
        else
            put_text(x, in->text);
        str_char(&x->out, '\n');
    }
    return KILN_OK;
}

/* The parameters of a workflow that a picture carries in kiln's own form. */
static void put_params(writer *x)
{
    if (x->d->n_param) str_append(&x->out, "params:\n");
    for (size_t i = 0; i < x->d->n_param; i++) {
        const workflow_param *p = &x->d->param[i];
        str_append(&x->out, "  "), put_name(x, p->name), str_append(&x->out, ": {default: ");
        if (is_bare(&(doc_input){.text = p->text, .quoted = p->quoted}))
            str_append(&x->out, p->text);
        else
            put_quoted(x, p->text);
        if (p->help) str_append(&x->out, ", help: "), put_quoted(x, p->help);
        str_append(&x->out, "}\n");
    }
}

static kiln_status write_yaml(writer *x, const doc_node **order)
{
    const char *slash = strrchr(x->d->path, '/');
    str_append(&x->out, "# Converted from "), put_comment(x, slash ? slash + 1 : x->d->path);
    str_append(&x->out, "\nkiln: 1\n");
    if (x->d->name) str_append(&x->out, "name: "), put_quoted(x, x->d->name), str_char(&x->out, '\n');
    put_params(x);
    str_append(&x->out, "nodes:");
    for (size_t i = 0; i < x->d->n_node; i++) TRY(yaml_node_text(x, order[i]));
    return KILN_OK;
}

/* ---- JSON ---- */

static int has_input(const doc_node *n, const char *name)
{
    for (size_t i = 0; i < n->n_input; i++)
        if (strcmp(n->input[i].name, name) == 0) return 1;
    return 0;
}

static const char *written(void *arg, const char *name)
{
    const doc_node *n = arg;
    for (size_t i = 0; i < n->n_input; i++)
        if (strcmp(n->input[i].name, name) == 0 && !n->input[i].is_wire) return n->input[i].text;
    return NULL;
}

/* The length of "crop_region" in the parameter "crop_region.x" where the row has a socket of that name: what ComfyUI
 * writes as one map. 0: it is none. */
static size_t box_name(const kiln_node *row, const char *name)
{
    const char *dot = strchr(name, '.');
    size_t length = dot ? (size_t)(dot - name) : 0;
    for (uint32_t i = 0; row && dot && param_of(row, name) && i < row->n_in; i++)
        if (strncmp(node_in(row, i)->name, name, length) == 0 && !node_in(row, i)->name[length]) return length;
    return 0;
}

/* Whether the socket itself is wired, or a part of the box was written before input `end`. */
static int box_is_done(const doc_node *n, const char *name, size_t length, size_t end)
{
    for (size_t i = 0; i < n->n_input; i++) {
        const char *at = n->input[i].name;
        if (strncmp(at, name, length) == 0 && (!at[length] || (at[length] == '.' && i < end))) return 1;
    }
    return 0;
}

static const doc_input *input_called(const doc_node *n, const char *name)
{
    for (size_t i = 0; i < n->n_input; i++)
        if (strcmp(n->input[i].name, name) == 0) return &n->input[i];
    return NULL;
}

/* {"x": 8, ...}: what is said of the box, and the defaults of the rest. */
static void put_box(writer *x, const doc_node *n, const kiln_node *row, const char *name, size_t length)
{
    int said = 0;
    str_char(&x->out, '"'), str_append_n(&x->out, name, length), str_append(&x->out, "\": {");
    for (uint32_t i = 0; i < row->n_param; i++) {
        const kiln_param *p = node_param(row, i);
        if (strncmp(p->name, name, length + 1) != 0) continue;
        const doc_input *in = input_called(n, p->name);
        param_value v = param_default_value(p);
        str_append(&x->out, said++ ? ", " : ""), put_quoted(x, p->name + length + 1), str_append(&x->out, ": ");
        if (in && !in->is_wire)
            put_json_value(x, in, p);
        else
            param_value_json(&v, &x->out);
    }
    str_char(&x->out, '}');
}

/* Boxes of which nothing is said at all. */
static void put_default_boxes(writer *x, const doc_node *n, const kiln_node *row, size_t *said)
{
    for (uint32_t i = 0; row && i < row->n_param; i++) {
        const char *name = node_param(row, i)->name;
        size_t length = box_name(row, name);
        int again = i && strncmp(node_param(row, i - 1)->name, name, length + 1) == 0;
        if (!length || again || box_is_done(n, name, length, n->n_input)) continue;
        str_append(&x->out, (*said)++ ? ",\n      " : "\n      ");
        put_box(x, n, row, name, length);
    }
}

/* ComfyUI wants every parameter said, those too that have a default. */
static void put_defaults(writer *x, const doc_node *n, const kiln_node *row, size_t said)
{
    for (uint32_t i = 0; row && i < row->n_param; i++) {
        const kiln_param *p = node_param(row, i);
        param_value v = param_default_value(p);
        if (p->flags & (KILN_PARAM_OWN | KILN_PARAM_REQUIRED) || has_input(n, p->name)) continue;
        if (box_name(row, p->name)) continue;
        if (dependent_was_left(row, p, written, (void *)(uintptr_t)n)) continue;
        if (p->type == KILN_P_FILE && !*v.text) continue;
        str_append(&x->out, said++ ? ",\n      " : "\n      "), put_quoted(x, p->name), str_append(&x->out, ": ");
        param_value_json(&v, &x->out);
    }
}

static kiln_status json_node_text(writer *x, const doc_node *n)
{
    const kiln_node *row = row_of(x, n->type);
    size_t said = 0;
    str_append(&x->out, "\n  "), put_quoted(x, n->name), str_append(&x->out, ": {\n    \"inputs\": {");
    for (size_t i = 0; i < n->n_input; i++) {
        const doc_input *in = &n->input[i];
        size_t box = box_name(row, in->name);
        if (box && box_is_done(n, in->name, box, i)) continue;
        str_append(&x->out, said++ ? ",\n      " : "\n      ");
        if (box) {
            put_box(x, n, row, in->name, box);
            continue;
        }
        put_quoted(x, in->name), str_append(&x->out, ": ");
        if (in->not_scalar) return no_value(x, n, in);
        if (in->is_wire)
            TRY(put_wires(x, n, in, 1));
        else
            put_json_value(x, in, param_of(row, in->name));
    }
    put_default_boxes(x, n, row, &said);
    put_defaults(x, n, row, said);
    str_append(&x->out, "\n    },\n    \"class_type\": ");
    put_quoted(x, n->type);
    if (n->title)
        str_append(&x->out, ",\n    \"_meta\": {\"title\": "), put_quoted(x, n->title), str_char(&x->out, '}');
    str_append(&x->out, "\n  }");
    return KILN_OK;
}

static kiln_status write_json(writer *x, const doc_node **order)
{
    str_char(&x->out, '{');
    for (size_t i = 0; i < x->d->n_node; i++) {
        str_append(&x->out, i ? "," : "");
        TRY(json_node_text(x, order[i]));
    }
    str_append(&x->out, "\n}\n");
    return KILN_OK;
}

/* ---- the whole ---- */

static char *convert(const document *d, const convert_rows *rows, kiln_status (*write)(writer *, const doc_node **),
                     error *e)
{
    writer x = {.d = d, .rows = rows, .e = e, .by_name = mem_alloc((d->n_node + 1) * sizeof *x.by_name)};
    for (uint32_t i = 0; x.by_name && i < d->n_node; i++) x.by_name[i] = i;
    sorting = d;
    if (x.by_name) qsort(x.by_name, d->n_node, sizeof *x.by_name, by_name);
    const doc_node **order = x.by_name ? in_order(&x) : NULL;
    kiln_status status = order ? write(&x, order) : KILN_ERR_NOMEM;
    if (status == KILN_ERR_NOMEM || x.out.failed) status = error_set(e, KILN_ERR_NOMEM, "out of memory");
    mem_free(order), mem_free(x.by_name);
    if (status == KILN_OK) return str_take(&x.out);
    str_free(&x.out);
    return NULL;
}

char *convert_to_yaml(const document *d, const convert_rows *rows, error *e) { return convert(d, rows, write_yaml, e); }

char *convert_to_api(const document *d, const convert_rows *rows, error *e) { return convert(d, rows, write_json, e); }
