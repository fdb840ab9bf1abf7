/* describe_source.c - writes a checked workflow in kiln's native form, with the parameters of its head; see describe.h.
 *
 * A value's source (doc_input.source) is its text before ${references} were replaced. The source is written wherever it
 * can be read back: a lone reference ("${seed}") for any input, one among other text ("a ${colour} star") for text
 * inputs. Parameters used in other ways are `fixed`: their references are replaced by the values they had.
 */
#include "workflow/describe.h"
#include "workflow/dependent.h"

#include "base/memory_alloc.h"
#include "param/param.h"

#include <assert.h>
#include <string.h>

typedef struct {
    const workflow *w;
    unsigned char *wanted;       /* [node]: is written                                        */
    unsigned char *fixed, *used; /* [parameter]: replaced by its value; written as a parameter */
    str out;
    const char *comma; /* before the next input */
} writer;

/* ---- references ---- */

static size_t param_index(document *d, const char *name, size_t n)
{
    int stem;
    const workflow_param *p = document_reference(d, name, n, &stem);
    return p ? (size_t)(p - d->param) : d->n_param;
}

/* The value of the reference at `at`, whose name has n letters. */
static void append_fixed(document *d, const char *at, size_t n, str *to)
{
    int stem;
    const workflow_param *p = document_reference(d, at + 2, n, &stem);
    size_t length = strlen(p->text);
    const char *text = stem ? str_stem(p->text, &length) : p->text;
    for (size_t i = 0; i < length; i++) str_append_n(to, text[i] == '$' ? "$$" : text + i, text[i] == '$' ? 2 : 1);
}

/* The next "${name}" in text, or NULL. *n: length of the name; *param: its index, n_param when there is none of that
 * name. "$$" is an escaped $. */
static const char *next_reference(document *d, const char *text, size_t *n, size_t *param)
{
    for (const char *p = text; (p = strchr(p, '$')) != NULL; p += p[1] == '$' ? 2 : 1) {
        const char *end = p[1] == '{' ? strchr(p, '}') : NULL;
        if (!end) continue;
        *n = (size_t)(end - p) - 2;
        *param = param_index(d, p + 2, *n);
        return p;
    }
    return NULL;
}

static void mark_references(document *d, const char *text, unsigned char *mark)
{
    size_t n, param;
    while ((text = next_reference(d, text, &n, &param)) != NULL) {
        if (param < d->n_param) mark[param] = 1;
        text += n + 3;
    }
}

static int stands_alone(document *d, const char *raw)
{
    size_t n, param;
    return next_reference(d, raw, &n, &param) == raw && raw[n + 3] == '\0' && param < d->n_param;
}

static void append_plain(str *s, const char *text)
{
    for (; *text; text++) str_append_n(s, *text == '$' ? "$$" : text, *text == '$' ? 2 : 1);
}

/* Appends the source, with fixed parameters replaced by their values. */
static void append_source(writer *x, const char *raw, str *to)
{
    document *d = x->w->doc;
    const char *at;
    size_t n, param;
    for (; (at = next_reference(d, raw, &n, &param)) != NULL; raw = at + n + 3) {
        str_append_n(to, raw, (size_t)(at - raw));
        if (param < d->n_param && !x->fixed[param])
            x->used[param] = 1, str_append_n(to, at, n + 3);
        else if (param < d->n_param)
            append_fixed(x->w->doc, at, n, to);
    }
    str_append(to, raw);
}

/* ---- inputs ---- */

static const char *source_of(const graph_node *g, const char *name)
{
    for (size_t i = 0; i < g->doc->n_input; i++)
        if (strcmp(g->doc->input[i].name, name) == 0 && !g->doc->input[i].is_wire) return g->doc->input[i].source;
    return NULL;
}

static void put_text(writer *x, const char *text) { str_json(&x->out, text, strlen(text), 1); }

static void put_plain(writer *x, const char *text)
{
    str s = {0};
    append_plain(&s, text);
    x->out.failed |= s.failed;
    put_text(x, str_text(&s));
    str_free(&s);
}

static void put_source(writer *x, const char *raw)
{
    str s = {0};
    append_source(x, raw, &s);
    x->out.failed |= s.failed;
    put_text(x, str_text(&s));
    str_free(&s);
}

static void put_value(writer *x, const graph_node *g, const kiln_param *p)
{
    const char *raw = source_of(g, p->name);
    size_t n, param = 0;
    int alone = raw && stands_alone(x->w->doc, raw) && next_reference(x->w->doc, raw, &n, &param) && !x->fixed[param];
    if (raw && (param_is_text(p->type) || alone)) {
        put_source(x, raw);
    } else if (!param_is_text(p->type)) {
        describe_value(&x->out, g, p, 1);
    } else {
        str value = {0};
        const char *file = p->type == KILN_P_FILE ? describe_literal(g, p->name) : NULL;
        if (p->type == KILN_P_FILE)
            str_append(&value, file ? file : p->def_str ? p->def_str : "");
        else
            describe_value(&value, g, p, 0);
        x->out.failed |= value.failed;
        put_plain(x, str_text(&value));
        str_free(&value);
    }
}

static void put_wire(writer *x, source from)
{
    assert(from.node >= 0 && (size_t)from.node < x->w->n);
    str_char(&x->out, '[');
    put_plain(x, x->w->node[from.node].doc->name);
    str_printf(&x->out, ", %u]", from.output);
}

static void put_wires(void *arg, const char *name, const source *from, size_t n)
{
    writer *x = arg;
    str_append(&x->out, x->comma);
    put_text(x, name);
    str_append(&x->out, n > 1 ? ": [" : ": ");
    for (size_t k = 0; k < n; k++) {
        if (k) str_append(&x->out, ", ");
        put_wire(x, from[k]);
    }
    if (n > 1) str_char(&x->out, ']');
    x->comma = ", ";
}

static void put_inputs(writer *x, const graph_node *g)
{
    x->comma = "";
    describe_wires(g, put_wires, x);
    const char *comma = x->comma, *choice;
    for (uint32_t i = 0; i < g->type->n_param; i++) {
        const kiln_param *p = node_param(g->type, i);
        if (p->type == KILN_P_FILE && !g->file[i]) continue;
        if (dependent_is_away(g, i, &choice) && !describe_literal(g, p->name)) continue;
        str_append(&x->out, comma);
        put_text(x, p->name);
        str_append(&x->out, ": ");
        if (g->param_in[i].node != SOURCE_NONE)
            put_wire(x, g->param_in[i]);
        else
            put_value(x, g, p);
        comma = ", ";
    }
}

/* ---- nodes and head ---- */

static void put_nodes(writer *x)
{
    const char *comma = "";
    str_append(&x->out, "\"nodes\": {");
    for (size_t i = 0; i < x->w->n; i++) {
        const graph_node *g = &x->w->node[i];
        if (!x->wanted[i]) continue;
        str_append(&x->out, comma);
        put_text(x, g->doc->name);
        str_append(&x->out, ": {\"class_type\": ");
        put_text(x, g->type->type);
        if (g->doc->title) str_append(&x->out, ", \"title\": "), put_text(x, g->doc->title);
        str_append(&x->out, ", \"inputs\": {");
        put_inputs(x, g);
        str_append(&x->out, "}}");
        comma = ", ";
    }
    str_append(&x->out, "}}");
}

/* A default is parsed by the type of the input that uses it, so numbers and booleans must stay without quotes. */
static void put_default(writer *x, const workflow_param *p)
{
    double number;
    int bare = !p->quoted && (strcmp(p->text, "true") == 0 || strcmp(p->text, "false") == 0 ||
                              str_to_double(p->text, strlen(p->text), &number));
    if (bare)
        str_append(&x->out, p->text);
    else
        put_text(x, p->text);
}

static void put_params(writer *x)
{
    const document *d = x->w->doc;
    const char *comma = "";
    str_append(&x->out, "\"params\": {");
    for (size_t i = 0; i < d->n_param; i++) {
        if (!x->used[i]) continue;
        str_append(&x->out, comma);
        put_text(x, d->param[i].name);
        str_append(&x->out, d->param[i].help ? ": {\"default\": " : ": ");
        put_default(x, &d->param[i]);
        if (d->param[i].help)
            str_append(&x->out, ", \"help\": "), put_text(x, d->param[i].help), str_char(&x->out, '}');
        comma = ", ";
    }
    str_append(&x->out, "}, ");
}

/* Marks the parameters that are replaced by their values. */
static void fix_params(writer *x)
{
    document *d = x->w->doc;
    for (const source_text *s = d->structural; s; s = s->next) mark_references(d, s->text, x->fixed);
    for (size_t i = 0; i < x->w->n; i++) {
        const graph_node *g = &x->w->node[i];
        for (uint32_t k = 0; x->wanted[i] && k < g->type->n_param; k++) {
            const char *raw = source_of(g, node_param(g->type, k)->name);
            if (raw && !param_is_text(node_param(g->type, k)->type) && !stands_alone(d, raw))
                mark_references(d, raw, x->fixed);
        }
    }
}

static void put_head(writer *x)
{
    const char *name = x->w->doc->name;
    str_append(&x->out, "{\"kiln\": 1, ");
    if (name) str_append(&x->out, "\"name\": "), put_text(x, name), str_append(&x->out, ", ");
    put_params(x);
}

/* Writes the nodes first, to learn which parameters are used, and puts the head before them. */
static void put_all(writer *x, int32_t node)
{
    describe_mark(x->w, node, x->wanted);
    fix_params(x);
    put_nodes(x);
    str nodes = x->out;
    x->out = (str){.failed = nodes.failed};
    if (memchr(x->used, 1, x->w->doc->n_param + 1)) put_head(x), str_append(&x->out, str_text(&nodes));
    str_free(&nodes);
}

char *describe_source(const workflow *w, int32_t node)
{
    writer x = {.w = w,
                .wanted = mem_calloc(w->n + 1, 1),
                .fixed = mem_calloc(w->doc->n_param + 1, 1),
                .used = mem_calloc(w->doc->n_param + 1, 1)};
    if (!x.wanted || !x.fixed || !x.used)
        x.out.failed = 1;
    else if (!w->doc->api_format)
        put_all(&x, node);
    mem_free(x.wanted), mem_free(x.fixed), mem_free(x.used);
    return str_take(&x.out);
}
