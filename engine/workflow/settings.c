/* settings.c - see settings.h. */
#include "workflow/settings.h"

#include "base/names.h"
#include "workflow/check.h"

#include <stdio.h>
#include <string.h>

enum { LISTED = 6, LIST_TEXT = 500 };

static const char *node_at(void *arg, size_t i) { return ((document *)arg)->node[i].name; }
static const char *param_at(void *arg, size_t i) { return ((document *)arg)->param[i].name; }

static doc_input *input_of(const doc_node *n, const char *name)
{
    for (size_t i = 0; i < n->n_input; i++)
        if (strcmp(n->input[i].name, name) == 0) return &n->input[i];
    return NULL;
}

/* ---- INPUT alone ---- */

/* A literal; or (`any`) also an input that is wired or that the file does not write. */
static int has_input(const doc_node *n, const char *name, const catalog_view *catalog, int any)
{
    const doc_input *in = input_of(n, name);
    digest ignored;
    if (!any) return in && !in->is_wire;
    const kiln_node *t = catalog && n->type ? catalog->find(catalog->self, n->type, &ignored) : NULL;
    for (uint32_t i = 0; t && i < t->n_param; i++)
        if (strcmp(node_param(t, i)->name, name) == 0) return 1;
    return 0;
}

/* How many nodes have it; the first of them, and the names of the first few for a message. */
static size_t nodes_with(const document *d, const char *name, const catalog_view *catalog, int any, doc_node **first,
                         char list[LIST_TEXT])
{
    size_t n = 0, used = 0;
    *first = NULL, list[0] = '\0';
    for (size_t i = 0; i < d->n_node; i++) {
        doc_node *one = &d->node[i];
        if (!has_input(one, name, catalog, any)) continue;
        if (n++ == 0) *first = one;
        if (n > LISTED || used > LIST_TEXT - 90) continue;
        used += (size_t)snprintf(list + used, 80, "%s%.35s.%.35s", n > 1 ? ", " : "", one->name, name);
        if (one->title && used < LIST_TEXT - 60) used += (size_t)snprintf(list + used, 40, " \"%.30s\"", one->title);
    }
    return n;
}

static const char *literal_at(void *arg, size_t i)
{
    const document *d = arg;
    for (size_t k = 0; k < d->n_node; k++) {
        if (i < d->node[k].n_input) return d->node[k].input[i].is_wire ? NULL : d->node[k].input[i].name;
        i -= d->node[k].n_input;
    }
    return NULL;
}

/* One that goes on where the name ends: sampler_name for sampler. */
static const char *longer_name(const char *name, const char *(*at)(void *, size_t), size_t n, document *d)
{
    size_t length = strlen(name);
    for (size_t i = 0; length > 2 && i < n; i++) {
        const char *found = at(d, i);
        if (found && strncmp(found, name, length) == 0 && found[length] == '_') return found;
    }
    return NULL;
}

static const char *nearest_setting(document *d, const char *name)
{
    const char *near = nearest_name(name, param_at, d->n_param, d);
    size_t inputs = 0;
    for (size_t k = 0; k < d->n_node; k++) inputs += d->node[k].n_input;
    if (near || !document_may_suggest(d, inputs)) return near;
    if ((near = nearest_name(name, literal_at, inputs, d))) return near;
    near = longer_name(name, param_at, d->n_param, d);
    return near ? near : longer_name(name, literal_at, inputs, d);
}

static doc_node *node_with(document *d, const char *word, const char *name, const catalog_view *catalog)
{
    char list[LIST_TEXT];
    doc_node *first;
    size_t n = 0;
    for (int any = 0; any < 2 && n == 0; any++) n = nodes_with(d, name, catalog, any, &first, list);
    if (n == 1) return first;
    if (n > 1) {
        document_fault(d, d->set_at, NULL, "%s %.200s: %zu nodes have an input of that name: %s%s; name one of them",
                       word, name, n, list, n > LISTED ? ", ..." : "");
        return NULL;
    }
    const char *near = nearest_setting(d, name);
    document_fault(d, d->set_at, NULL, "%s %.200s: no parameter or input is called that%s%s%s", word, name,
                   near ? "; did you mean '" : "; `kiln params FILE` lists what can be set", near ? near : "",
                   near ? "'?" : "");
    return NULL;
}

/* ---- NODE.INPUT ---- */

/* The one node of that name, else of that title. NULL after a fault. */
static doc_node *node_named(document *d, const char *word, const char *set, const char *name)
{
    doc_node *found = document_node(d, name);
    char all[200] = "";
    size_t n = 0, used = 0;
    if (found) return found;
    for (size_t i = 0; i < d->n_node; i++) {
        doc_node *one = &d->node[i];
        if (!one->title || strcmp(one->title, name) != 0) continue;
        if (used < sizeof all - 80) used += (size_t)snprintf(all + used, 80, "%s'%.60s'", n ? ", " : "", one->name);
        if (n++ == 0) found = one;
    }
    if (n == 1) return found;
    const char *near = n ? NULL : nearest_name(name, node_at, d->n_node, d);
    if (n)
        document_fault(d, d->set_at, NULL, "%s %.200s: %zu nodes have the title '%.100s': %s; name one of them", word,
                       set, n, name, all);
    else
        document_fault(d, d->set_at, NULL, "%s %.200s: no node is called '%.200s'%s%s%s", word, set, name,
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return NULL;
}

/* ---- applying ---- */

/* An input that a setting has changed, and by which name. */
typedef struct {
    const doc_node *node;
    const char *input, *name;
} changed;

static void put(document *d, doc_node *n, const char *input, const set_option *s, const char *raw)
{
    doc_input *in = input_of(n, input);
    const char *value = s->value;
    if (s->drawn) input = arena_strdup(&d->memory, input), value = arena_strdup(&d->memory, value);
    if (!input || !value) {
        d->failed = 1;
        return;
    }
    if (!in) {
        doc_input *grown = arena_alloc(&d->memory, (n->n_input + 1) * sizeof *grown);
        if (!grown) {
            d->failed = 1;
            return;
        }
        if (n->n_input) memcpy(grown, n->input, n->n_input * sizeof *grown);
        n->input = grown;
        in = &grown[n->n_input++];
    }
    *in = (doc_input){.name = input, .at = n->at, .value_at = n->at, .text = value, .source = raw, .here = s->here};
}

/* The dot that ends the node's name, or title: names of nodes may have dots, and so may those of inputs. It is the last
 * before which a node is called that; else the last. */
static const char *end_of_node(const document *d, const char *name)
{
    const char *last = strrchr(name, '.');
    for (const char *dot = last; dot && dot > name; dot--) {
        char node[256];
        if (*dot != '.') continue;
        snprintf(node, sizeof node, "%.*s", (int)(dot - name), name);
        for (size_t i = 0; i < d->n_node; i++)
            if (strcmp(d->node[i].name, node) == 0 || (d->node[i].title && strcmp(d->node[i].title, node) == 0))
                return dot;
    }
    return last;
}

static void set_input(document *d, const set_option *s, const char *raw, const catalog_view *catalog, changed *done,
                      size_t *n_done)
{
    const char *dot = end_of_node(d, s->name), *input = dot ? dot + 1 : s->name;
    const char *word = s->word ? s->word : d->set_word;
    char name[256];
    snprintf(name, sizeof name, "%.*s", dot ? (int)(dot - s->name) : 0, s->name);
    doc_node *n = dot ? node_named(d, word, s->name, name) : node_with(d, word, s->name, catalog);
    if (!n) return;
    for (size_t i = 0; i < *n_done && !s->drawn; i++)
        if (done[i].node == n && strcmp(done[i].input, input) == 0 && strcmp(done[i].name, s->name) != 0) {
            document_fault(d, d->set_at, NULL, "%s %.200s and %.200s are one input; which value? Take one of them away",
                           word, done[i].name, s->name);
            return;
        }
    if (strcmp(input, "filename_prefix") == 0 && s->value && strstr(s->value, "${")) {
        document_fault(d, d->set_at, NULL,
                       "%s %.200s: ${...} stands for a parameter in the file alone; here write %%NODE.INPUT%%, or "
                       "%%NODE.INPUT.stem%% of a file",
                       word, s->name);
        return;
    }
    done[(*n_done)++] = (changed){n, input, s->name};
    put(d, n, input, s, raw);
}

static void mark_used(document *d, const char *from)
{
    for (const char *p = from; p && (p = strchr(p, '$')) != NULL; p += p[1] == '$' ? 2 : 1) {
        const char *end = p[1] == '{' ? strchr(p, '}') : NULL;
        int stem;
        workflow_param *found = end ? document_reference(d, p + 2, (size_t)(end - p) - 2, &stem) : NULL;
        if (found) found->used = 1;
    }
}

/* Finds again which parameters are used: a setting may have replaced every input that used one. */
static void find_used(document *d)
{
    for (size_t i = 0; i < d->n_param; i++) d->param[i].used = 0;
    for (const source_text *s = d->structural; s; s = s->next) mark_used(d, s->text);
    for (size_t i = 0; i < d->n_node; i++)
        for (size_t k = 0; k < d->node[i].n_input; k++) mark_used(d, d->node[i].input[k].source);
}

void settings_apply(document *d, const set_option *set, size_t n, const catalog_view *catalog)
{
    changed *done = arena_alloc(&d->memory, (n + 1) * sizeof *done);
    size_t n_done = 0;
    if (!done) {
        d->failed = 1;
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (!document_param(d, set[i].name, strlen(set[i].name)) && !(d->set_taken && d->set_taken[i]))
            set_input(d, &set[i], d->set_source ? d->set_source[i] : NULL, catalog, done, &n_done);
    if (!d->included && n) find_used(d);
}
