/* editor_scope.c - see editor_scope.h. */
#include "workflow/editor/editor_scope.h"

#include "base/names.h"
#include "base/str.h"
#include "workflow/editor/editor_widgets.h"

#include <assert.h>
#include <string.h>

enum { SHOWN_MAX = 200 };

static editor_scope *new_scope(editor *x, const editor_graph *g)
{
    arena *a = &x->d->memory;
    editor_scope *s = arena_alloc(a, sizeof *s);
    if (s) *s = (editor_scope){.graph = g, .prefix = ""};
    if (!s || !(s->host = arena_alloc(a, (g->n_in + 1) * sizeof *s->host)) ||
        !(s->set = arena_alloc(a, (g->n_in + 1) * sizeof *s->set)) ||
        !(s->child = arena_alloc(a, (g->n_node + 1) * sizeof *s->child)) ||
        !(s->made = arena_alloc(a, (g->n_node + 1) * sizeof *s->made)))
        return x->d->failed = 1, NULL;
    for (size_t i = 0; i < g->n_node; i++) s->made[i] = SOURCE_NONE;
    return s;
}

editor_scope *editor_scope_top(editor *x) { return new_scope(x, &x->graph[0]); }

/* ---- what a definition's input feeds ---- */

/* 1: the slot is a widget's, of a node or promoted by an instance. */
static int is_widget(editor *x, const editor_graph *g, const editor_node *n, const editor_slot *slot, unsigned depth);

static int port_named(editor *x, const editor_graph *g, const char *name)
{
    for (size_t i = 0; i < g->n_in && editor_step(x, 1); i++)
        if (strcmp(g->in[i].name, name) == 0) return (int)i;
    return -1;
}

/* The i-th link of a definition's input that leads to an input of a node, or NULL past the end. */
static const editor_link *feed(editor *x, const editor_graph *g, size_t input, size_t *i)
{
    const yaml_node *ids = g->in[input].links;
    while (ids && *i < ids->n && editor_step(x, 1)) {
        const char *id = editor_text(ids->item[(*i)++]);
        const editor_link *l = id ? editor_link_of(g, id) : NULL;
        if (l && l->user != SOURCE_NONE && strcmp(l->from, "-10") == 0 && l->slot == input) return l;
    }
    return NULL;
}

static int feeds_widget(editor *x, const editor_graph *g, size_t input, unsigned depth)
{
    const editor_link *l;
    for (size_t i = 0; depth < EDITOR_DEPTH_MAX && (l = feed(x, g, input, &i));)
        if (is_widget(x, g, &g->node[l->user], &g->node[l->user].in[l->user_slot], depth)) return 1;
    return 0;
}

static int is_widget(editor *x, const editor_graph *g, const editor_node *n, const editor_slot *slot, unsigned depth)
{
    (void)g;
    if (n->kind == EDITOR_NODE) return n->row ? editor_param(n->row, slot->name) >= 0 : slot->widget;
    int input = n->kind == EDITOR_INSTANCE ? port_named(x, n->inner, slot->name) : -1;
    return input >= 0 && feeds_widget(x, n->inner, (size_t)input, depth + 1);
}

int editor_promoted(editor *x, editor_scope *s, size_t input, const yaml_node **value)
{
    const editor_graph *g = s->graph;
    const editor_link *l;
    *value = s->set[input] ? s->set[input] : s->host[input];
    for (size_t i = 0; (l = feed(x, g, input, &i));) {
        const editor_node *n = &g->node[l->user];
        const editor_slot *slot = &n->in[l->user_slot];
        if (!is_widget(x, g, n, slot, s->depth)) continue;
        if (!*value) *value = editor_value(x, s, n, slot->name);
        return 1;
    }
    return 0;
}

/* ---- values ---- */

static const yaml_node *override_of(const editor_scope *s, const char *node, const char *widget)
{
    for (size_t i = s->n_override; i-- > 0;)
        if (strcmp(s->override[i].node, node) == 0 && (!widget || strcmp(s->override[i].widget, widget) == 0))
            return s->override[i].value;
    return NULL;
}

const yaml_node *editor_value(editor *x, editor_scope *s, const editor_node *n, const char *widget)
{
    const yaml_node *value = NULL;
    if (!editor_step(x, 1 + s->n_override)) return NULL;
    if (n->kind == EDITOR_INSTANCE) {
        editor_scope *in = editor_scope_of(x, s, n);
        int input = in ? port_named(x, in->graph, widget) : -1;
        return input >= 0 && editor_promoted(x, in, (size_t)input, &value) ? value : NULL;
    }
    if ((value = override_of(s, n->id, widget))) return value;
    int p = n->row ? editor_param(n->row, widget) : -1;
    return p >= 0 ? n->value[p] : NULL;
}

const yaml_node *editor_primitive(const editor_scope *s, const editor_node *n)
{
    const yaml_node *value = override_of(s, n->id, NULL);
    if (value) return value;
    if (n->values && n->values->kind == YAML_SEQUENCE && n->values->n) return n->values->item[0];
    return n->values && n->values->kind == YAML_MAP ? yaml_get(n->values, "value") : NULL;
}

/* ---- values of an instance ---- */

/* The input of the definition that is linked to this widget of an inner node; -1: none. */
static int input_of_widget(editor *x, const editor_graph *g, const char *node, const char *widget)
{
    const editor_node *n = editor_node_of(g, node);
    const editor_slot *slot = n && editor_step(x, n->n_in) ? editor_input(n, widget) : NULL;
    const editor_link *l = slot && slot->link ? editor_link_of(g, slot->link) : NULL;
    return l && strcmp(l->from, "-10") == 0 && l->slot < g->n_in ? (int)l->slot : -1;
}

/* Gives an inner widget a value in this instance: by the input that feeds it, of which `by_input` has the values, else
 * by itself. */
static void set_widget(editor *x, editor_scope *s, const yaml_node **by_input, const editor_override *set)
{
    int input = set->inner ? input_of_widget(x, s->graph, set->inner, set->widget) : -1;
    if (input < 0) input = input_of_widget(x, s->graph, set->node, set->widget);
    if (input >= 0)
        by_input[input] = set->value;
    else
        s->override[s->n_override++] = *set;
}

/* "6: text" is the widget `text` of node 6 inside. */
static editor_override split_name(editor *x, const char *node, const char *widget, const char *inner)
{
    const char *colon = strstr(widget, ": ");
    size_t digits = strspn(widget, "0123456789");
    editor_override set = {.node = node, .widget = widget, .inner = inner};
    if (colon && digits && widget + digits == colon) {
        set.inner = arena_strndup(&x->d->memory, widget, digits);
        set.widget = colon + 2;
        if (!set.inner) x->d->failed = 1;
    }
    return set;
}

/* The entry of properties.proxyWidgets: [inner node, widget] or [inner node, widget, node inside of that]. 0: none. */
static int read_proxy(editor *x, const yaml_node *one, editor_override *out)
{
    const char *node = one->kind == YAML_SEQUENCE && one->n > 1 ? editor_text(one->item[0]) : NULL;
    const char *widget = node ? editor_text(one->item[1]) : NULL;
    if (!widget || strncmp(widget, "$$", 2) == 0 || strcmp(widget, "control_after_generate") == 0) return 0;
    *out = split_name(x, node, widget, one->n > 2 ? editor_text(one->item[2]) : NULL);
    return 1;
}

static const yaml_node *proxies_of(const editor_scope *s)
{
    const yaml_node *list = yaml_get(s->instance->properties, "proxyWidgets");
    return list && list->kind == YAML_SEQUENCE ? list : NULL;
}

/* The inner widget that this instance shows by a name of its own. 0: none. */
static int shown_widget(editor *x, const editor_scope *s, const char *name, editor_override *out)
{
    const yaml_node *list = proxies_of(s);
    for (size_t i = 0; list && i < list->n && editor_step(x, 1); i++)
        if (read_proxy(x, list->item[i], out) && strcmp(out->widget, name) == 0 && editor_node_of(s->graph, out->node))
            return 1;
    return 0;
}

/* The value is the one at the same place of widgets_values. */
static void take_proxies(editor *x, editor_scope *s, const yaml_node *proxies, const yaml_node *values)
{
    for (size_t i = 0; i < proxies->n && values && i < values->n; i++) {
        const yaml_node *value = values->item[i];
        editor_override set;
        if (!read_proxy(x, proxies->item[i], &set)) continue;
        if (value->kind == YAML_SCALAR && !value->quoted && !editor_text(value)) continue;
        set.value = value;
        int input = strcmp(set.node, "-1") == 0 ? port_named(x, s->graph, set.widget) : -1;
        if (input >= 0)
            s->host[input] = value;
        else if (editor_node_of(s->graph, set.node))
            set_widget(x, s, s->host, &set);
    }
}

/* widgets_values in the order of the promoted inputs. */
static void take_values(editor *x, editor_scope *s, const yaml_node *values)
{
    size_t at = 0;
    for (size_t i = 0; i < s->graph->n_in && editor_step(x, 1); i++) {
        if (values->kind == YAML_MAP) s->host[i] = yaml_get(values, s->graph->in[i].name);
        if (values->kind == YAML_MAP || !feeds_widget(x, s->graph, i, s->depth)) continue;
        const yaml_node *v = at < values->n ? values->item[at] : NULL;
        s->host[i] = v && (v->kind != YAML_SCALAR || v->quoted || editor_text(v)) ? v : NULL;
        at++;
    }
}

/* Entries that the editor could not place: {originalEntry: ["-1", input], hostValue: value}. */
static void take_quarantine(editor *x, editor_scope *s, const yaml_node *list)
{
    for (size_t i = 0; list && list->kind == YAML_SEQUENCE && i < list->n; i++) {
        const yaml_node *entry = yaml_get(list->item[i], "originalEntry"),
                        *value = yaml_get(list->item[i], "hostValue");
        const char *node = entry && entry->kind == YAML_SEQUENCE && entry->n > 1 ? editor_text(entry->item[0]) : NULL,
                   *name = node ? editor_text(entry->item[1]) : NULL;
        int input = name && value && strcmp(node, "-1") == 0 ? port_named(x, s->graph, name) : -1;
        if (input >= 0) s->host[input] = value;
    }
}

/* What the outer graph sets on this instance's own promoted widgets. */
static void take_overrides(editor *x, editor_scope *s)
{
    const editor_scope *up = s->up;
    for (size_t i = 0; i < up->n_override && editor_step(x, 1); i++) {
        const editor_override *o = &up->override[i];
        if (strcmp(o->node, s->instance->id) != 0) continue;
        int input = port_named(x, s->graph, o->widget);
        editor_override set = {.node = o->inner ? o->inner : "", .widget = o->widget, .value = o->value}, shown;
        if (input < 0 || (o->inner && input_of_widget(x, s->graph, o->inner, o->widget) >= 0))
            input = o->inner ? input_of_widget(x, s->graph, o->inner, o->widget) : -1;
        if (input >= 0)
            s->host[input] = o->value;
        else if (o->inner && editor_node_of(s->graph, o->inner))
            s->override[s->n_override++] = set;
        else if (!o->inner && shown_widget(x, s, o->widget, &shown))
            shown.value = o->value, set_widget(x, s, s->host, &shown);
    }
}

/* 1: `name`, n bytes, is the instance's id, or at the top its title, which no other node there has. */
static int is_called(const editor_scope *s, const char *name, size_t n)
{
    const char *title = s->instance->title;
    size_t prefix = strlen(s->up->prefix), titled = 0;
    if (n > prefix && strncmp(name, s->up->prefix, prefix) == 0 && strlen(s->instance->id) == n - prefix &&
        strncmp(name + prefix, s->instance->id, n - prefix) == 0)
        return 1;
    if (s->up->up || !*title || strlen(title) != n || strncmp(name, title, n) != 0) return 0;
    for (size_t i = 0; i < s->up->graph->n_node; i++) titled += strcmp(s->up->graph->node[i].title, title) == 0;
    return titled == 1;
}

/* Names that nothing here has are a fault; nodes inside have ids of their own. */
static void refuse_setting(editor *x, const editor_scope *s, const set_option *set, const char *widget)
{
    const char *known[SHOWN_MAX];
    const yaml_node *list = proxies_of(s);
    editor_override shown;
    size_t n = 0;
    for (size_t i = 0; i < s->graph->n_in && n < SHOWN_MAX; i++)
        if (feeds_widget(x, s->graph, i, s->depth)) known[n++] = s->graph->in[i].name;
    for (size_t i = 0; list && i < list->n && n < SHOWN_MAX; i++)
        if (read_proxy(x, list->item[i], &shown)) known[n++] = shown.widget;
    const char *near = nearest_of(widget, known, n);
    document_fault(x->d, x->d->set_at, NULL, "%s %.200s: subgraph \"%.60s\" shows no widget of that name%s%s%s",
                   set->word ? set->word : "--set", set->name,
                   s->instance->title[0] ? s->instance->title : s->graph->name, near ? "; did you mean '" : "",
                   near ? near : "", near ? "'?" : "");
}

/* --set INSTANCE.WIDGET=VALUE, of a widget that the instance shows. */
static void take_settings(editor *x, editor_scope *s)
{
    for (size_t i = 0; i < x->n_set && editor_step(x, 1); i++) {
        const char *dot = strrchr(x->set[i].name, '.');
        editor_override shown;
        if (!dot || !is_called(s, x->set[i].name, (size_t)(dot - x->set[i].name))) continue;
        x->d->set_taken[i] = 1;
        int input = port_named(x, s->graph, dot + 1);
        int promoted = input >= 0 && feeds_widget(x, s->graph, (size_t)input, s->depth);
        if (!promoted && !shown_widget(x, s, dot + 1, &shown)) {
            refuse_setting(x, s, &x->set[i], dot + 1);
            continue;
        }
        yaml_node *v = arena_alloc(&x->d->memory, sizeof *v);
        if (!v) {
            x->d->failed = 1;
            return;
        }
        *v = (yaml_node){.kind = YAML_SCALAR, .at = s->instance->at, .text = x->set[i].value};
        v->length = strlen(v->text);
        if (promoted)
            s->set[input] = v;
        else
            shown.value = v, set_widget(x, s, s->set, &shown);
    }
}

static void take_instance(editor *x, editor_scope *s)
{
    const editor_node *n = s->instance;
    const yaml_node *proxies = proxies_of(s), *values = n->values;
    int listed = proxies && proxies->n;
    size_t room = (listed ? proxies->n : 0) + s->up->n_override + x->n_set;
    s->override = arena_alloc(&x->d->memory, (room + 1) * sizeof *s->override);
    if (!s->override) {
        x->d->failed = 1;
        return;
    }
    if (listed)
        take_proxies(x, s, proxies, values && values->kind == YAML_SEQUENCE ? values : NULL);
    else if (values && values->kind != YAML_SCALAR)
        take_values(x, s, values);
    take_quarantine(x, s, yaml_get(n->properties, "proxyWidgetErrorQuarantine"));
    take_overrides(x, s);
    take_settings(x, s);
}

/* ---- instances ---- */

editor_scope *editor_scope_of(editor *x, editor_scope *up, const editor_node *n)
{
    assert(n->kind == EDITOR_INSTANCE && n >= up->graph->node && n < up->graph->node + up->graph->n_node);
    editor_scope **child = &up->child[n - up->graph->node];
    if (*child || x->d->failed || x->stopped) return *child;
    if (up->depth == EDITOR_DEPTH_MAX) {
        document_fault(x->d, n->at, NULL,
                       "node '%s%.60s': subgraph \"%.100s\" is more than %d deep, or contains itself", up->prefix,
                       n->id, n->inner->name, EDITOR_DEPTH_MAX);
        x->stopped = 1;
        return NULL;
    }
    if ((x->nodes += n->inner->n_node) > DOCUMENT_NODES_MAX) {
        document_fault(x->d, n->at, NULL, "all subgraphs expanded, there are more than %d nodes", DOCUMENT_NODES_MAX);
        x->stopped = 1;
        return NULL;
    }
    editor_scope *s = new_scope(x, n->inner);
    if (!s || !(s->prefix = arena_printf(&x->d->memory, "%s%s:", up->prefix, n->id))) return x->d->failed = 1, NULL;
    s->up = up, s->instance = n, s->depth = up->depth + 1;
    *child = s;
    take_instance(x, s);
    return s;
}

const char *editor_where(editor *x, const editor_scope *s, const editor_node *n)
{
    str text = {0};
    const editor_scope *path[EDITOR_DEPTH_MAX + 1];
    size_t depth = 0;
    if (n->title[0] && strcmp(n->title, n->type) != 0) str_printf(&text, " \"%.80s\"", n->title);
    for (; s->up; s = s->up) path[depth++] = s;
    for (size_t i = depth; i-- > 0;)
        str_printf(&text, "%s\"%.60s\"", i + 1 == depth ? " in subgraph " : " > ",
                   path[i]->instance->title[0] ? path[i]->instance->title : path[i]->graph->name);
    const char *copy = text.failed ? NULL : arena_strdup(&x->d->memory, str_text(&text));
    if (!copy) x->d->failed = 1;
    str_free(&text);
    return copy ? copy : "";
}
