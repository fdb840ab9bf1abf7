/* param_value.c - plain values from text and from wires, and back to a kiln_value. */
#include "param/param.h"

#include "base/str.h"

#include <string.h>

static int means_nothing(const char *text)
{
    return text[0] == '\0' || strcmp(text, "null") == 0 || strcmp(text, "~") == 0;
}

static int read_bool(const char *text, param_value *v)
{
    v->flag = strcmp(text, "true") == 0;
    return v->flag || strcmp(text, "false") == 0;
}

param_value param_written(const char *text, int quoted)
{
    param_value v = {.kind = PARAM_TEXT, .text = text, .quoted = quoted != 0};
    size_t n = strlen(text);
    if (quoted) return v;
    if (means_nothing(text))
        v.kind = PARAM_NOTHING;
    else if (read_bool(text, &v))
        v.kind = PARAM_BOOL;
    else if (str_to_i64(text, n, &v.whole))
        v.kind = PARAM_INT, v.number = (double)v.whole;
    else if (str_to_u64(text, n, &v.bits))
        v.kind = PARAM_SEED, v.number = (double)v.bits;
    else if (str_to_double(text, n, &v.number))
        v.kind = PARAM_NUMBER;
    if (v.kind == PARAM_INT && v.whole == 0 && text[0] == '-') v.number = -0.0;
    return v;
}

param_value param_wired(const kiln_value_api *values, const kiln_value *v)
{
    param_value out = {.wired = 1, .kind = PARAM_PARTS};
    if (values->get_bool(v, &out.flag) == KILN_OK)
        out.kind = PARAM_BOOL;
    else if (values->get_int(v, &out.whole) == KILN_OK)
        out.kind = PARAM_INT, out.number = (double)out.whole;
    else if (values->get_float(v, &out.number) == KILN_OK)
        out.kind = PARAM_NUMBER;
    else if ((out.text = values->get_string(v, NULL)))
        out.kind = PARAM_TEXT, out.quoted = 1;
    return out;
}

kiln_value *param_to_value(const kiln_value_api *values, const param_value *v)
{
    switch (v->kind) {
    case PARAM_BOOL: return values->new_bool(NULL, v->flag);
    case PARAM_INT: return values->new_int(NULL, v->whole);
    case PARAM_SEED: return values->new_int(NULL, (int64_t)v->bits);
    case PARAM_NUMBER: return values->new_float(NULL, v->number);
    default: return values->new_string(NULL, v->text ? v->text : "", v->text ? strlen(v->text) : 0);
    }
}
