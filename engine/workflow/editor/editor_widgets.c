/* editor_widgets.c - see editor_widgets.h. */
#include "workflow/editor/editor_widgets.h"

#include "base/str.h"
#include "workflow/dependent.h"

#include <math.h>
#include <string.h>

int editor_has_control(const kiln_param *p)
{
    if (p->flags & KILN_PARAM_OWN) return 0;
    if (p->type == KILN_P_INT && (strcmp(p->name, "seed") == 0 || strcmp(p->name, "noise_seed") == 0)) return 1;
    return p->type == KILN_P_SEED || p->flags & KILN_PARAM_CONTROL;
}

int editor_param(const kiln_node *row, const char *name)
{
    for (uint32_t i = 0; i < row->n_param; i++)
        if (strcmp(node_param(row, i)->name, name) == 0) return (int)i;
    return -1;
}

const char *editor_param_type(const kiln_param *p)
{
    switch (p->type) {
    case KILN_P_BOOL: return "BOOLEAN";
    case KILN_P_INT:
    case KILN_P_SEED: return "INT";
    case KILN_P_FLOAT: return "FLOAT";
    case KILN_P_STRING: return "STRING";
    default: return "COMBO";
    }
}

static const yaml_node *scalar(editor *x, place at, const char *text, int quoted)
{
    yaml_node *v = arena_alloc(&x->d->memory, sizeof *v);
    char *copy = arena_strdup(&x->d->memory, text);
    if (!v || !copy) return x->d->failed = 1, NULL;
    *v = (yaml_node){.kind = YAML_SCALAR, .at = at, .text = copy, .length = strlen(copy), .quoted = quoted};
    return v;
}

/* What ComfyUI has where neither the file nor the row says anything. */
static const yaml_node *nothing_given(editor *x, const editor_node *n, const kiln_param *p)
{
    if (!(p->flags & KILN_PARAM_REQUIRED)) return NULL;
    if (p->type == KILN_P_STRING) return scalar(x, n->at, "", 1);
    if (p->type == KILN_P_BOOL) return scalar(x, n->at, "false", 0);
    return p->type == KILN_P_INT || p->type == KILN_P_FLOAT ? scalar(x, n->at, "0", 0) : NULL;
}

/* A choice that is null is the default. */
static int is_given(const kiln_param *p, const yaml_node *v)
{
    return v->kind != YAML_SCALAR || v->quoted || editor_text(v) || strcmp(editor_param_type(p), "COMBO") != 0;
}

/* What the file has for the parameter, so far. */
static const char *written(void *arg, const char *name)
{
    const editor_node *n = arg;
    int i = editor_param(n->row, name);
    return i >= 0 && n->value[i] ? editor_text(n->value[i]) : NULL;
}

/* A box stands in the list as a map and then once more number by number: what the map has for the parameter, which is
 * called "crop_region.x". NULL: it is no part of one. *at goes on behind the last part. */
static const yaml_node *part_of_box(const editor_node *n, uint32_t i, const yaml_node *list, size_t *at)
{
    const kiln_param *p = node_param(n->row, i), *next = i + 1 < n->row->n_param ? node_param(n->row, i + 1) : NULL;
    const char *dot = strchr(p->name, '.');
    const yaml_node *box = dot && *at < list->n && list->item[*at]->kind == YAML_MAP ? list->item[*at] : NULL;
    if (!box) return NULL;
    size_t group = (size_t)(dot - p->name) + 1;
    if (!next || strncmp(next->name, p->name, group) != 0) *at += 1 + box->n;
    return yaml_get(box, dot + 1);
}

void editor_widgets_read(editor *x, editor_node *n)
{
    const yaml_node *v = n->values;
    int list = v && v->kind == YAML_SEQUENCE, map = v && v->kind == YAML_MAP;
    size_t at = 0;
    n->value = arena_alloc(&x->d->memory, (n->row->n_param + 1) * sizeof *n->value);
    if (!n->value) {
        x->d->failed = 1;
        return;
    }
    if (v && !list && !map && editor_text(v))
        document_fault(x->d, v->at, NULL, "node '%.60s' (%.130s): `widgets_values` must be a list of values", n->id,
                       n->type);
    for (uint32_t i = 0; i < n->row->n_param; i++) {
        const kiln_param *p = node_param(n->row, i);
        if (map) n->value[i] = yaml_get(v, p->name);
        if (dependent_was_left(n->row, p, written, n)) continue;
        const yaml_node *part = list ? part_of_box(n, i, v, &at) : NULL;
        if (part) {
            n->value[i] = part;
        } else if (list && !(p->flags & KILN_PARAM_OWN)) {
            n->value[i] = at < v->n ? v->item[at] : NULL;
            at += 1 + (size_t)editor_has_control(p);
        }
        if (n->value[i] && !is_given(p, n->value[i])) n->value[i] = NULL;
        if (!n->value[i]) n->value[i] = nothing_given(x, n, p);
    }
}

/* ---- what a PrimitiveNode gives ---- */

/* 10 to the number of decimals that the step has. */
static double scale_of(double step)
{
    double scale = 1;
    while (scale < 1e15 && fabs(step * scale - round(step * scale)) > 1e-9 * step * scale) scale *= 10;
    return scale;
}

const yaml_node *editor_copied(editor *x, const kiln_param *p, const yaml_node *value)
{
    const char *text = value->quoted ? NULL : editor_text(value);
    double v, step = p->step;
    if (!text || !(p->type == KILN_P_INT || p->type == KILN_P_FLOAT) || !(p->min < p->max)) return value;
    if (!str_to_double(text, strlen(text), &v) || fabs(v) > 9007199254740992.0) return value; /* 2^53 */
    double rounded = v;
    if (p->type == KILN_P_INT)
        rounded = step > 1 ? p->min + round((v - p->min) / step) * step : round(v);
    else if (step > 0)
        rounded = round(v * scale_of(step)) / scale_of(step);
    rounded = rounded < p->min ? p->min : rounded > p->max ? p->max : rounded;
    if (rounded == v) return value;
    str s = {0};
    str_double(&s, rounded);
    const yaml_node *made = s.failed ? NULL : scalar(x, value->at, str_text(&s), 0);
    if (!made) x->d->failed = 1;
    str_free(&s);
    return made ? made : value;
}
