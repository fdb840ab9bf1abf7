/* param_text.c - see param_text.h. */
#include "param/param_text.h"

#include "base/json_members.h"
#include "base/names.h"
#include "param/foreign_names.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 1000 };

/* ---- values ---- */

void param_value_text(const param_value *v, str *out)
{
    switch (v->kind) {
    case PARAM_BOOL: str_append(out, v->flag ? "true" : "false"); break;
    case PARAM_INT: str_printf(out, "%lld", (long long)v->whole); break;
    case PARAM_SEED: str_printf(out, "%llu", (unsigned long long)v->bits); break;
    case PARAM_NUMBER: str_double(out, v->number); break;
    default: str_append(out, v->text ? v->text : ""); break;
    }
}

static void quoted(const char *text, int ascii, str *out)
{
    if (!text) text = "";
    str_json(out, text, strlen(text), ascii);
}

void param_value_json(const param_value *v, str *out)
{
    if (v->kind == PARAM_TEXT)
        quoted(v->text, 1, out);
    else
        param_value_text(v, out);
}

/* ---- what a row takes ---- */

const char *param_name_at(const kiln_param *p, const param_names *names, size_t i)
{
    if (i >= NAMES_MAX) return NULL;
    if (p->type == KILN_P_ENUM) return assert(p->choice), kiln_choice_at(p, i).name;
    return p->type == KILN_P_NAME && names && names->name_at ? names->name_at(names->self, p->from, i) : NULL;
}

/* A bound as people write it: 10000, not 1e+04. */
static const char *bound_text(double v, char buf[40])
{
    if (v == floor(v) && fabs(v) < 1e15)
        snprintf(buf, 40, "%lld", (long long)v);
    else
        snprintf(buf, 40, "%g", v);
    return buf;
}

static void describe_range(const kiln_param *p, const char *what, str *out)
{
    char low[40], high[40], step[40];
    const int above = (p->flags & KILN_PARAM_ABOVE_MIN) != 0, below = (p->flags & KILN_PARAM_BELOW_MAX) != 0;
    static const char *const until[2][2] = {{"to", "to below"}, {"and up to", "and below"}};
    str_printf(out, "%s %s %s %s %s", what, above ? "above" : "from", bound_text(p->min, low), until[above][below],
               bound_text(p->max, high));
    if (p->type == KILN_P_INT && p->flags & KILN_PARAM_FLOORED)
        str_printf(out, ", a multiple of %s", bound_text(p->step, step));
}

static void describe_choices(const kiln_param *p, const param_names *names, size_t listed, str *out)
{
    const char *name;
    str_append(out, "one of ");
    for (size_t i = 0; (name = param_name_at(p, names, i)); i++) {
        str_append(out, i ? ", " : "");
        if (listed && i == listed) {
            str_append(out, "...");
            return;
        }
        str_append(out, name);
    }
}

void param_describe(const kiln_param *p, const param_names *names, size_t listed, str *out)
{
    assert(param_size(p->type));
    switch (p->type) {
    case KILN_P_BOOL: str_append(out, "true or false"); break;
    case KILN_P_INT: describe_range(p, "a whole number", out); break;
    case KILN_P_SEED: str_append(out, "a whole number from 0 to 18446744073709551615"); break;
    case KILN_P_FLOAT: describe_range(p, "a number", out); break;
    case KILN_P_STRING: str_append(out, "a text"); break;
    case KILN_P_FILE: str_printf(out, "a file of the %s folder", p->from ? p->from : "input"); break;
    default: describe_choices(p, names, listed, out); break;
    }
}

void param_default_text(const kiln_param *p, str *out)
{
    param_value v = param_default_value(p);
    if (v.kind == PARAM_TEXT && p->type != KILN_P_ENUM)
        quoted(v.text, 0, out);
    else
        param_value_text(&v, out);
}

/* ---- refusals ---- */

typedef struct {
    const kiln_param *param;
    const param_names *names;
} name_list;

static const char *listed_name(void *arg, size_t i)
{
    const name_list *l = arg;
    return param_name_at(l->param, l->names, i);
}

static const char *nearest_choice(const kiln_param *p, const char *text, const param_names *names)
{
    name_list list = {p, names};
    size_t n = 0;
    while (param_name_at(p, names, n)) n++;
    return nearest_name(text, listed_name, n, &list);
}

kiln_status param_refuse(const kiln_param *p, const param_value *v, const param_names *names, error *e)
{
    str takes = {0}, shown = {0};
    param_describe(p, names, PARAM_LISTED, &takes);
    if (v->text)
        str_append(&shown, v->text);
    else
        param_value_text(v, &shown);
    int is_name = p->type == KILN_P_ENUM || p->type == KILN_P_NAME;
    const char *text = str_text(&shown), *near = is_name ? nearest_choice(p, text, names) : NULL;
    const char *open = v->quoted && !is_name ? "the text \"" : "'", *close = v->quoted && !is_name ? "\"" : "'";
    const char *scheduler = NULL, *ours = p->type == KILN_P_NAME && strcmp(p->from, "sampler") == 0
                                              ? foreign_sampler(text, &scheduler)
                                              : NULL;
    if (ours && scheduler)
        error_set(e, KILN_ERR_INVALID, "'%.60s' is sampler '%s' with scheduler '%s' here; set both", text, ours,
                  scheduler);
    else if (ours)
        error_set(e, KILN_ERR_INVALID, "'%.60s' is called '%s' here", text, ours);
    else if (v->kind == PARAM_NOTHING)
        error_set(e, KILN_ERR_INVALID, "has no value; it takes %s", str_text(&takes));
    else if (v->kind == PARAM_PARTS)
        error_set(e, KILN_ERR_INVALID, "a value with parts is not %s", str_text(&takes));
    else if (near && p->type == KILN_P_NAME)
        error_set(e, KILN_ERR_INVALID, "no %s is called '%.60s'; did you mean '%s'?", p->from, text, near);
    else if (near)
        error_set(e, KILN_ERR_INVALID, "'%.60s' is not a choice; did you mean '%s'?", text, near);
    else
        error_set(e, KILN_ERR_INVALID, "%s%.60s%s is not %s", open, text, close, str_text(&takes));
    str_free(&takes);
    str_free(&shown);
    return KILN_ERR_INVALID;
}

/* ---- JSON ---- */

static void json_choices(const kiln_param *p, const param_names *names, str *out)
{
    const char *name;
    member_key(out, "choices");
    str_append(out, "[");
    for (size_t i = 0; (name = param_name_at(p, names, i)); i++) {
        str_append(out, i ? ", " : "");
        quoted(name, 0, out);
    }
    str_append(out, "]");
}

static void json_default(const kiln_param *p, str *out)
{
    param_value v = param_default_value(p);
    member_key(out, "default");
    if (v.kind == PARAM_TEXT)
        quoted(v.text, 0, out);
    else
        param_value_text(&v, out);
}

void param_json(const kiln_param *p, const param_names *names, str *out)
{
    member_next(out);
    str_append(out, "{");
    member_field(out, "name", p->name);
    member_field(out, "type", param_type_name(p->type));
    member_field(out, "doc", p->doc);
    member_bool(out, "required", p->flags & KILN_PARAM_REQUIRED);
    member_bool(out, "multiline", p->flags & KILN_PARAM_MULTILINE);
    member_bool(out, "neutral", p->flags & KILN_PARAM_NEUTRAL);
    member_bool(out, "floored", p->flags & KILN_PARAM_FLOORED);
    member_bool(out, "control", p->flags & KILN_PARAM_CONTROL);
    member_bool(out, "own", p->flags & KILN_PARAM_OWN);
    if (!(p->flags & KILN_PARAM_REQUIRED)) json_default(p, out);
    if (p->type == KILN_P_INT || p->type == KILN_P_FLOAT) {
        member_number(out, "min", p->min);
        member_number(out, "max", p->max);
        member_number(out, "step", p->step);
        member_bool(out, "above_min", p->flags & KILN_PARAM_ABOVE_MIN);
        member_bool(out, "below_max", p->flags & KILN_PARAM_BELOW_MAX);
    }
    if (p->from) member_field(out, "from", p->from);
    if (p->type == KILN_P_ENUM || p->type == KILN_P_NAME) json_choices(p, names, out);
    str_append(out, "}");
}
