/* param_text.c - see param_text.h. */
#include "cli/param_text.h"
#include "base/print.h"

#include "plugin/abilities.h"
#include "workflow/check.h"

#include <stdio.h>
#include <string.h>

static const char *const param_type_name[] = {
    [KILN_P_BOOL] = "BOOL", [KILN_P_INT] = "INT",   [KILN_P_SEED] = "SEED",     [KILN_P_FLOAT] = "FLOAT",
    [KILN_P_ENUM] = "ENUM", [KILN_P_NAME] = "NAME", [KILN_P_STRING] = "STRING", [KILN_P_FILE] = "FILE",
};
static const char *name_at(void *self, const char *from, size_t i) { return (void)self, registry_name(from, i); }
static const catalog_view registries = {.name_at = name_at};

/* ---- text ---- */

static const char *choice_of(const kiln_param *p, double value)
{
    for (const kiln_choice *c = p->choice; c && c->name; c++)
        if ((double)c->value == value) return c->name;
    return "";
}

/* The default as it would be written in a workflow. */
void param_default_text(const kiln_param *p, str *s)
{
    switch (p->type) {
    case KILN_P_BOOL: str_append(s, p->def != 0 ? "true" : "false"); break;
    case KILN_P_ENUM: str_append(s, choice_of(p, p->def)); break;
    case KILN_P_INT:
    case KILN_P_SEED: str_printf(s, "%.0f", p->def); break;
    case KILN_P_FLOAT: str_double(s, p->def); break;
    default:
        if (p->def_str)
            str_json(s, p->def_str, strlen(p->def_str), 0);
        else
            str_append(s, "\"\"");
    }
}

void param_print(const kiln_param *p)
{
    char takes[2048];
    str def = {0};
    param_describe(p, &registries, takes, sizeof takes);
    if (p->type == KILN_P_NAME)
        str_append(&def, p->def_str ? p->def_str : "");
    else
        param_default_text(p, &def);
    print_text(stdout, "  %-20s %s%s%s%s\n  %-20s   %s\n", p->name, takes,
               p->flags & KILN_PARAM_REQUIRED ? "; has to be given" : "; default ",
               p->flags & KILN_PARAM_REQUIRED ? "" : str_text(&def),
               p->flags & KILN_PARAM_NEUTRAL ? "; does not change the result" : "", "", p->doc);
    for (const kiln_choice *c = p->choice; p->type == KILN_P_ENUM && c && c->name; c++)
        if (c->doc && c->doc[0]) print_text(stdout, "  %-20s     %s: %s\n", "", c->name, c->doc);
    str_free(&def);
}

/* ---- JSON ---- */

void member_key(str *s, const char *name)
{
    char last = s->len ? s->data[s->len - 1] : '{';
    str_printf(s, "%s\"%s\": ", last == '{' || last == '[' ? "" : ", ", name);
}

void member_field(str *s, const char *name, const char *text)
{
    member_key(s, name);
    if (text)
        str_json(s, text, strlen(text), 0);
    else
        str_append(s, "null");
}

void member_bool(str *s, const char *name, uint32_t value)
{
    member_key(s, name);
    str_append(s, value ? "true" : "false");
}

void member_number(str *s, const char *name, double value)
{
    member_key(s, name);
    str_double(s, value);
}

void member_next(str *s)
{
    if (s->len && s->data[s->len - 1] == '}') str_append(s, ", ");
}

static void json_choices(str *s, const kiln_param *p)
{
    size_t n = 0;
    member_key(s, "choices");
    str_append(s, "[");
    for (const kiln_choice *c = p->choice; p->type == KILN_P_ENUM && c && c->name; c++) {
        if (n++) str_append(s, ", ");
        str_json(s, c->name, strlen(c->name), 0);
    }
    for (const char *name; p->type == KILN_P_NAME && (name = registry_name(p->from, n)) != NULL; n++) {
        if (n) str_append(s, ", ");
        str_json(s, name, strlen(name), 0);
    }
    str_append(s, "]");
}

void param_json(str *s, const kiln_param *p)
{
    member_next(s);
    str_append(s, "{");
    member_field(s, "name", p->name);
    member_field(s, "type", param_type_name[p->type]);
    member_field(s, "doc", p->doc);
    member_bool(s, "required", p->flags & KILN_PARAM_REQUIRED);
    member_bool(s, "multiline", p->flags & KILN_PARAM_MULTILINE);
    member_bool(s, "neutral", p->flags & KILN_PARAM_NEUTRAL);
    member_bool(s, "floored", p->flags & KILN_PARAM_FLOORED);
    if (!(p->flags & KILN_PARAM_REQUIRED)) {
        member_key(s, "default");
        if (p->type == KILN_P_ENUM)
            str_json(s, choice_of(p, p->def), strlen(choice_of(p, p->def)), 0);
        else
            param_default_text(p, s);
    }
    if (p->type == KILN_P_INT || p->type == KILN_P_FLOAT) {
        member_number(s, "min", p->min);
        member_number(s, "max", p->max);
        member_number(s, "step", p->step);
    }
    if (p->from) member_field(s, "from", p->from);
    if (p->type == KILN_P_ENUM || p->type == KILN_P_NAME) json_choices(s, p);
    str_append(s, "}");
}
