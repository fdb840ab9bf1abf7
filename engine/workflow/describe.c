/* describe.c - see describe.h. */
#include "workflow/describe.h"

#include "base/memory_alloc.h"
#include "base/str.h"
#include "param/param_text.h"
#include "workflow/dependent.h"

#include <string.h>

enum { WALK_MAX = 4096 };

/* ---- values ---- */

void describe_value(str *s, const graph_node *g, const kiln_param *p, int json)
{
    param_value v = param_get(p, g->params);
    if (json)
        param_value_json(&v, s);
    else
        param_value_text(&v, s);
}

/* A file is written as the workflow names it, not as the path it was found at: that would not run elsewhere. */
const char *describe_literal(const graph_node *g, const char *name)
{
    for (size_t i = 0; i < g->doc->n_input; i++)
        if (strcmp(g->doc->input[i].name, name) == 0 && !g->doc->input[i].is_wire) return g->doc->input[i].text;
    return NULL;
}

static void append_input(str *s, const graph_node *g, const kiln_param *p)
{
    const char *file = p->type == KILN_P_FILE ? describe_literal(g, p->name) : NULL;
    if (file)
        str_json(s, file, strlen(file), 1);
    else
        describe_value(s, g, p, 1);
}

static void append_wire(str *s, const workflow *w, source from)
{
    const char *name = w->node[from.node].doc->name;
    str_char(s, '[');
    str_json(s, name, strlen(name), 1);
    str_printf(s, ", %u]", from.output);
}

void describe_wires(const graph_node *g, void (*fn)(void *arg, const char *name, const source *from, size_t n),
                    void *arg)
{
    for (uint32_t i = 0; i < g->type->n_in; i++) {
        const port_sources *p = g->left && g->left[i].n ? &g->left[i] : &g->in[i];
        const char *name = node_in(g->type, i)->name;
        size_t length = strlen(name), at = 0;
        for (size_t k = 0; k < g->doc->n_input && at < p->n; k++) {
            const doc_input *in = &g->doc->input[k];
            if (!in->is_wire || strncmp(in->name, name, length) != 0 || (in->name[length] && in->name[length] != '.'))
                continue;
            size_t n = in->n_wire < p->n - at ? in->n_wire : p->n - at;
            fn(arg, in->name, p->from + at, n);
            at += n;
        }
    }
}

typedef struct {
    str *s;
    const workflow *w;
    int first;
} wire_writer;

static void append_wires(void *arg, const char *name, const source *from, size_t n)
{
    wire_writer *x = arg;
    str_append(x->s, x->first ? "" : ", ");
    str_json(x->s, name, strlen(name), 1);
    str_append(x->s, n > 1 ? ": [" : ": ");
    for (size_t k = 0; k < n; k++) {
        if (k) str_append(x->s, ", ");
        append_wire(x->s, x->w, from[k]);
    }
    if (n > 1) str_char(x->s, ']');
    x->first = 0;
}

/* 1: ComfyUI's node of this name has no such parameter, and it says what it says without being written. Without memory
 * `s` has failed. */
static int goes_without_saying(str *s, const graph_node *g, const kiln_param *p)
{
    if (!(p->flags & KILN_PARAM_OWN)) return 0;
    param_value is = param_get(p, g->params), unsaid = param_default_value(p);
    str a = {0}, b = {0};
    param_value_json(&is, &a);
    param_value_json(&unsaid, &b);
    int same = strcmp(str_text(&a), str_text(&b)) == 0;
    s->failed |= a.failed || b.failed;
    str_free(&a);
    str_free(&b);
    return same;
}

static void append_inputs(str *s, const workflow *w, const graph_node *g)
{
    wire_writer wires = {.s = s, .w = w, .first = 1};
    describe_wires(g, append_wires, &wires);
    int first = wires.first;
    const char *choice;
    for (uint32_t i = 0; i < g->type->n_param; i++) {
        const kiln_param *p = node_param(g->type, i);
        if (p->type == KILN_P_FILE && !g->file[i]) continue;
        if (g->param_in[i].node == SOURCE_NONE && goes_without_saying(s, g, p)) continue;
        if (dependent_is_away(g, i, &choice)) continue;
        str_append(s, first ? "" : ", ");
        str_json(s, p->name, strlen(p->name), 1);
        str_append(s, ": ");
        if (g->param_in[i].node != SOURCE_NONE)
            append_wire(s, w, g->param_in[i]);
        else
            append_input(s, g, p);
        first = 0;
    }
}

/* ---- what a node depends on ---- */

void describe_mark(const workflow *w, int32_t node, unsigned char *wanted)
{
    if (node != SOURCE_NONE) wanted[node] = 1;
    for (size_t i = w->n; i-- > 0;) {
        const graph_node *g = &w->node[w->order[i]];
        if (node == SOURCE_NONE && g->needed) wanted[w->order[i]] = 1;
        if (!wanted[w->order[i]]) continue;
        for (uint32_t p = 0; p < g->type->n_in; p++)
            for (uint32_t k = 0; k < g->in[p].n; k++) wanted[g->in[p].from[k].node] = 1;
        for (uint32_t p = 0; g->left && p < g->type->n_in; p++) /* without them the switch would lack an input */
            for (uint32_t k = 0; k < g->left[p].n; k++) wanted[g->left[p].from[k].node] = 1;
        for (uint32_t p = 0; p < g->type->n_param; p++)
            if (g->param_in[p].node != SOURCE_NONE) wanted[g->param_in[p].node] = 1;
    }
}

char *describe_prompt(const workflow *w, int32_t node)
{
    str s = {0};
    int first = 1;
    unsigned char *wanted = mem_calloc(w->n + 1, 1);
    if (!wanted) return NULL;
    describe_mark(w, node, wanted);
    str_char(&s, '{');
    for (size_t i = 0; i < w->n; i++) {
        const graph_node *g = &w->node[i];
        if (!wanted[i]) continue;
        str_append(&s, first ? "" : ", ");
        str_json(&s, g->doc->name, strlen(g->doc->name), 1);
        str_append(&s, ": {\"inputs\": {");
        append_inputs(&s, w, g);
        str_append(&s, "}, \"class_type\": ");
        str_json(&s, g->type->type, strlen(g->type->type), 1);
        if (g->doc->title) {
            str_append(&s, ", \"_meta\": {\"title\": ");
            str_json(&s, g->doc->title, strlen(g->doc->title), 1);
            str_char(&s, '}');
        }
        str_char(&s, '}');
        first = 0;
    }
    str_char(&s, '}');
    mem_free(wanted);
    return str_take(&s);
}

/* ---- A1111's lines ---- */

static const kiln_param *param_named(const graph_node *g, const char *name)
{
    for (uint32_t i = 0; i < g->type->n_param; i++)
        if (strcmp(node_param(g->type, i)->name, name) == 0) return node_param(g->type, i);
    return NULL;
}

static int32_t source_named(const graph_node *g, const char *name)
{
    for (uint32_t i = 0; i < g->type->n_in; i++)
        if (strcmp(node_in(g->type, i)->name, name) == 0 && g->in[i].n) return g->in[i].from[0].node;
    return SOURCE_NONE;
}

/* The nearest node upstream of `start` that has a parameter of that name, by the first wire that leads to one. */
static int32_t upstream_with(const workflow *w, int32_t start, const char *param)
{
    int32_t queue[WALK_MAX];
    size_t n = 0;
    if (start == SOURCE_NONE) return SOURCE_NONE;
    queue[n++] = start;
    for (size_t i = 0; i < n; i++) {
        const graph_node *g = &w->node[queue[i]];
        if (param_named(g, param)) return queue[i];
        for (uint32_t p = 0; p < g->type->n_in; p++)
            for (uint32_t k = 0; k < g->in[p].n && n < WALK_MAX; k++) {
                int seen = 0;
                for (size_t j = 0; j < n; j++) seen |= queue[j] == g->in[p].from[k].node;
                if (!seen) queue[n++] = g->in[p].from[k].node;
            }
    }
    return SOURCE_NONE;
}

static void append_param(str *s, const workflow *w, int32_t node, const char *name, const char *label)
{
    const graph_node *g = node == SOURCE_NONE ? NULL : &w->node[node];
    const kiln_param *p = g ? param_named(g, name) : NULL;
    if (!p) return;
    for (uint32_t i = 0; i < g->type->n_param; i++) {
        source from = g->param_in[i];
        if (node_param(g->type, i) != p || from.node == SOURCE_NONE) continue;
        g = &w->node[from.node]; /* what comes by wire is known of constants alone */
        if (!(g->type->flags & KILN_NODE_CONSTANT)) return;
        p = node_param(g->type, from.output);
        break;
    }
    const char *file = p->type == KILN_P_FILE ? describe_literal(g, name) : NULL;
    str_append(s, label);
    if (file)
        str_append(s, file);
    else
        describe_value(s, g, p, 0);
}

char *describe_parameters(const workflow *w, int32_t node)
{
    str s = {0};
    int32_t sampler = upstream_with(w, node, "sampler_name");
    if (sampler == SOURCE_NONE) {
        str_append(&s, "");
        return str_take(&s);
    }
    const graph_node *g = &w->node[sampler];
    int32_t latent = upstream_with(w, source_named(g, "latent_image"), "width");
    append_param(&s, w, upstream_with(w, source_named(g, "positive"), "text"), "text", "");
    append_param(&s, w, upstream_with(w, source_named(g, "negative"), "text"), "text", "\nNegative prompt: ");
    append_param(&s, w, sampler, "steps", "\nSteps: ");
    append_param(&s, w, sampler, "sampler_name", ", Sampler: ");
    append_param(&s, w, sampler, "scheduler", ", Schedule type: ");
    append_param(&s, w, sampler, "cfg", ", CFG scale: ");
    append_param(&s, w, sampler, "seed", ", Seed: ");
    append_param(&s, w, sampler, "noise_seed", ", Seed: ");
    append_param(&s, w, latent, "width", ", Size: ");
    append_param(&s, w, latent, "height", "x");
    append_param(&s, w, upstream_with(w, source_named(g, "model"), "ckpt_name"), "ckpt_name", ", Model: ");
    append_param(&s, w, sampler, "denoise", ", Denoising strength: ");
    str_printf(&s, ", Version: kiln");
    return str_take(&s);
}
