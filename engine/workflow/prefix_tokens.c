/* prefix_tokens.c - see prefix_tokens.h. */
#include "workflow/prefix_tokens.h"

#include "base/names.h"
#include "base/str.h"
#include "param/param.h"
#include "workflow/describe.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct {
    workflow *w;
    const graph_node *g; /* whose prefix it is */
    place at;
    str out;
} replacing;

/* ---- dates ---- */

static const char *const part_name[] = {"yyyy", "yy", "MM", "M", "dd", "d", "hh", "h", "mm", "m", "ss", "s"};
enum { PARTS = sizeof part_name / sizeof part_name[0] };

static void append_date(str *to, const char *format, size_t n)
{
    time_t seconds = time(NULL);
    struct tm t;
    localtime_r(&seconds, &t);
    const int value[PARTS] = {t.tm_year + 1900, t.tm_year % 100, t.tm_mon + 1, t.tm_mon + 1, t.tm_mday, t.tm_mday,
                              t.tm_hour,        t.tm_hour,       t.tm_min,     t.tm_min,     t.tm_sec,  t.tm_sec};
    for (size_t at = 0; at < n;) {
        size_t i = 0;
        while (i < PARTS &&
               (strlen(part_name[i]) > n - at || strncmp(format + at, part_name[i], strlen(part_name[i])) != 0))
            i++;
        if (i < PARTS)
            str_printf(to, "%0*d", (int)strlen(part_name[i]), value[i]), at += strlen(part_name[i]);
        else
            str_char(to, format[at++]);
    }
}

/* ---- values ---- */

static void append_clean(str *to, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        str_char(to, (unsigned char)text[i] < 0x20 || strchr("/?<>\\:*|\"\x7f", text[i]) ? '_' : text[i]);
}

static int same(const char *text, const char *name, size_t n)
{
    return text && strlen(text) == n && !strncmp(text, name, n);
}

/* The one node of that name, title or type; NULL: none or several (*n: how many). */
static const graph_node *node_called(const workflow *w, const char *name, size_t length, size_t *n)
{
    for (int by = 0; by < 3; by++) {
        const graph_node *found = NULL;
        *n = 0;
        for (size_t i = 0; i < w->n; i++) {
            const doc_node *d = w->node[i].doc;
            if (same(by == 0 ? d->name : by == 1 ? d->title : d->type, name, length) && (*n)++ == 0)
                found = &w->node[i];
        }
        if (*n) return *n == 1 ? found : NULL;
    }
    return NULL;
}

static const char *name_at(void *arg, size_t i)
{
    const workflow *w = arg;
    return i < w->n ? w->node[i].doc->name : w->node[i - w->n].doc->type;
}

static const char *input_at(void *arg, size_t i) { return node_param(arg, (uint32_t)i)->name; }

static const kiln_param *param_called(const graph_node *g, const char *name, size_t n, uint32_t *at)
{
    for (*at = 0; g->type && *at < g->type->n_param; ++*at)
        if (same(node_param(g->type, *at)->name, name, n)) return node_param(g->type, *at);
    return NULL;
}

static void fault_node(replacing *r, const char *token, int n, const char *name, size_t length, size_t several)
{
    char word[130];
    snprintf(word, sizeof word, "%.*s", (int)(length < 128 ? length : 128), name);
    const char *near = several || !document_may_suggest(r->w->doc, 2 * r->w->n)
                           ? NULL
                           : nearest_name(word, name_at, 2 * r->w->n, r->w);
    document_fault(r->w->doc, r->at, r->g->doc, "input 'filename_prefix': %%%.*s%%: %s '%s'%s%s%s", n, token,
                   several ? "several nodes are called" : "no node is called", word,
                   several ? "; use a node's own name"
                   : near  ? "; did you mean '"
                           : "",
                   near ? near : "", near ? "'?" : "");
}

static void fault_input(replacing *r, const char *token, int n, const graph_node *of, const char *name, size_t length)
{
    char word[130];
    snprintf(word, sizeof word, "%.*s", (int)(length < 128 ? length : 128), name);
    const char *near = of->type ? nearest_name(word, input_at, of->type->n_param, (void *)(uintptr_t)of->type) : NULL;
    document_fault(r->w->doc, r->at, r->g->doc, "input 'filename_prefix': %%%.*s%%: '%s' (%s) has no value '%s'%s%s%s",
                   n, token, of->doc->name, of->doc->type, word, near ? "; did you mean '" : "", near ? near : "",
                   near ? "'?" : "");
}

/* The value of a parameter that is written, or wired to a constant. 0: only the run knows it. */
static int append_value(replacing *r, const graph_node *g, uint32_t at, int stem)
{
    const kiln_param *p = node_param(g->type, at);
    if (g->param_in[at].node != SOURCE_NONE) {
        source from = g->param_in[at];
        g = &r->w->node[from.node], at = from.output;
        if (!(g->type->flags & KILN_NODE_CONSTANT) || g->param_in[at].node != SOURCE_NONE) return 0;
        p = node_param(g->type, at);
    }
    str value = {0};
    const char *file = p->type == KILN_P_FILE ? describe_literal(g, p->name) : NULL;
    if (file)
        str_append(&value, file);
    else
        describe_value(&value, g, p, 0);
    size_t n = value.len;
    const char *text = stem ? str_stem(str_text(&value), &n) : str_text(&value);
    append_clean(&r->out, text, n);
    r->out.failed |= value.failed;
    str_free(&value);
    return 1;
}

/* token: "NODE.INPUT" or "NODE.INPUT.stem", n letters with a dot among them. */
static void append_token(replacing *r, const char *token, size_t n)
{
    size_t length = n, dot, several;
    uint32_t at;
    int stem = n > 5 && strncmp(token + n - 5, ".stem", 5) == 0 && memchr(token, '.', n - 5);
    if (stem) length -= 5;
    for (dot = length; token[dot - 1] != '.'; dot--) continue;
    const graph_node *g = node_called(r->w, token, dot - 1, &several);
    if (!g)
        fault_node(r, token, (int)n, token, dot - 1, several);
    else if (!param_called(g, token + dot, length - dot, &at))
        fault_input(r, token, (int)n, g, token + dot, length - dot);
    else if (!append_value(r, g, at, stem))
        document_fault(r->w->doc, r->at, r->g->doc,
                       "input 'filename_prefix': %%%.*s%%: that input is wired, and its value is known only in the run",
                       (int)n, token);
}

static void replace(replacing *r, const char *text)
{
    while (*text) {
        size_t plain = strcspn(text, "%");
        str_append_n(&r->out, text, plain);
        text += plain;
        if (!*text) return;
        size_t n = strcspn(text + 1, "%/");
        const char *token = text + 1;
        int closed = n > 0 && token[n] == '%';
        if (closed && n > 5 && strncmp(token, "date:", 5) == 0)
            append_date(&r->out, token + 5, n - 5), text += n + 2;
        else if (closed && memchr(token, '.', n) && token[0] != '.' && token[n - 1] != '.' && !memchr(token, ' ', 1))
            append_token(r, token, n), text += n + 2;
        else
            str_char(&r->out, *text++);
    }
}

static void replace_in(workflow *w, graph_node *g, const kiln_param *p)
{
    param_value old = param_get(p, g->params);
    replacing r = {.w = w, .g = g, .at = g->doc->at};
    error why = {0};
    if (!old.text || !strchr(old.text, '%')) return;
    for (size_t i = 0; i < g->doc->n_input; i++)
        if (strcmp(g->doc->input[i].name, p->name) == 0) r.at = g->doc->input[i].value_at;
    replace(&r, old.text);
    param_value v = param_written(str_text(&r.out), 1);
    if (r.out.failed || param_put(p, &v, NULL, &w->doc->memory, g->params, &why) == KILN_ERR_NOMEM) w->doc->failed = 1;
    str_free(&r.out);
}

void prefix_tokens_replace(workflow *w)
{
    for (size_t i = 0; i < w->n; i++) {
        graph_node *g = &w->node[i];
        for (uint32_t k = 0; g->type && k < g->type->n_param; k++) {
            const kiln_param *p = node_param(g->type, k);
            if (p->type == KILN_P_STRING && strcmp(p->name, "filename_prefix") == 0 &&
                g->param_in[k].node == SOURCE_NONE)
                replace_in(w, g, p);
        }
    }
}
