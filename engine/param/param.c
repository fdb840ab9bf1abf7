/* param.c - see param.h: types, and a row's place in its struct. */
#include "param/param.h"

#include "base/names.h"
#include "base/str.h"
#include "param/param_text.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Whole numbers up to here are exact as doubles, with some distance. */
static const double whole_max = 9e15;

/* ---- types ---- */

static const struct {
    const char *name, *wire;
    size_t size;
    int is_text;
} types[] = {
    [KILN_P_BOOL] = {"BOOL", "BOOLEAN", sizeof(int32_t), 0},
    [KILN_P_INT] = {"INT", "INT", sizeof(int64_t), 0},
    [KILN_P_SEED] = {"SEED", "INT", sizeof(uint64_t), 0},
    [KILN_P_FLOAT] = {"FLOAT", "FLOAT", sizeof(double), 0},
    [KILN_P_ENUM] = {"ENUM", "STRING", sizeof(int32_t), 1},
    [KILN_P_NAME] = {"NAME", "STRING", sizeof(const char *), 1},
    [KILN_P_STRING] = {"STRING", "STRING", sizeof(const char *), 1},
    [KILN_P_FILE] = {"FILE", "STRING", sizeof(const char *), 1},
};

size_t param_size(uint32_t type) { return type < sizeof types / sizeof types[0] ? types[type].size : 0; }

const char *param_type_name(uint32_t type) { return assert(param_size(type)), types[type].name; }
const char *param_wire_type(uint32_t type) { return assert(param_size(type)), types[type].wire; }
int param_is_text(uint32_t type) { return assert(param_size(type)), types[type].is_text; }

size_t param_choice_count(const kiln_param *p)
{
    size_t n = 0;
    if (p->type != KILN_P_ENUM) return 0;
    assert(p->choice);
    while (kiln_choice_at(p, n).name) n++;
    return n;
}

/* ---- reading and writing the place ---- */

/* The name of the choice of a value, NULL: none. */
static const char *choice_name(const kiln_param *p, int64_t value)
{
    assert(p->choice);
    for (size_t i = 0;; i++) {
        kiln_choice c = kiln_choice_at(p, i);
        if (!c.name || c.value == value) return c.name;
    }
}

static param_value choice_value(const kiln_param *p, int64_t value)
{
    return (param_value){.kind = PARAM_TEXT, .whole = value, .text = choice_name(p, value)};
}

/* Writes what is known to be right; of an ENUM `whole`. */
static void store(const kiln_param *p, const param_value *v, void *params)
{
    void *at = (char *)params + p->offset;
    int32_t small = (int32_t)(p->type == KILN_P_BOOL ? v->flag != 0 : v->whole);
    assert(param_size(p->type) && p->offset % param_size(p->type) == 0);
    switch (p->type) {
    case KILN_P_BOOL:
    case KILN_P_ENUM: memcpy(at, &small, sizeof small); break;
    case KILN_P_INT: memcpy(at, &v->whole, sizeof v->whole); break;
    case KILN_P_SEED: memcpy(at, &v->bits, sizeof v->bits); break;
    case KILN_P_FLOAT: memcpy(at, &v->number, sizeof v->number); break;
    default: memcpy(at, &v->text, sizeof v->text); break;
    }
}

param_value param_get(const kiln_param *p, const void *params)
{
    const void *at = (const char *)params + p->offset;
    param_value v = {0};
    int32_t small;
    assert(param_size(p->type));
    switch (p->type) {
    case KILN_P_BOOL: memcpy(&small, at, sizeof small), v.kind = PARAM_BOOL, v.flag = small; break;
    case KILN_P_INT: memcpy(&v.whole, at, sizeof v.whole), v.kind = PARAM_INT, v.number = (double)v.whole; break;
    case KILN_P_SEED: memcpy(&v.bits, at, sizeof v.bits), v.kind = PARAM_SEED, v.number = (double)v.bits; break;
    case KILN_P_FLOAT: memcpy(&v.number, at, sizeof v.number), v.kind = PARAM_NUMBER; break;
    case KILN_P_ENUM: memcpy(&small, at, sizeof small), v = choice_value(p, small); break;
    default: memcpy(&v.text, at, sizeof v.text), v.kind = PARAM_TEXT; break;
    }
    return v;
}

/* The nearest number of 64 bits; 0 of what is none. A row that is REQUIRED may have any default. */
static int64_t whole_of(double number)
{
    if (isnan(number)) return 0;
    return number >= 0x1p63 ? INT64_MAX : number <= -0x1p63 ? INT64_MIN : (int64_t)number;
}

param_value param_default_value(const kiln_param *p)
{
    switch (p->type) {
    case KILN_P_BOOL: return (param_value){.kind = PARAM_BOOL, .flag = p->def != 0};
    case KILN_P_INT: return (param_value){.kind = PARAM_INT, .whole = whole_of(p->def), .number = p->def};
    case KILN_P_SEED:
        return (param_value){.kind = PARAM_SEED, .bits = p->def > 0 ? (uint64_t)p->def : 0, .number = p->def};
    case KILN_P_FLOAT: return (param_value){.kind = PARAM_NUMBER, .number = p->def};
    case KILN_P_ENUM: return choice_value(p, whole_of(p->def));
    default: return (param_value){.kind = PARAM_TEXT, .text = p->def_str ? p->def_str : ""};
    }
}

/* Stores a text type's value as a copy of `text` in a. */
static kiln_status store_text(const kiln_param *p, const char *text, arena *a, void *params)
{
    param_value v = {.kind = PARAM_TEXT, .text = arena_strdup(a, text)};
    if (!v.text) return KILN_ERR_NOMEM;
    store(p, &v, params);
    return KILN_OK;
}

kiln_status param_default(const kiln_param *p, arena *a, void *params)
{
    param_value v = param_default_value(p);
    if (p->type != KILN_P_ENUM && param_is_text(p->type)) return store_text(p, v.text, a, params);
    store(p, &v, params);
    return KILN_OK;
}

int param_in_range(const kiln_param *p, double number)
{
    return (p->flags & KILN_PARAM_ABOVE_MIN ? number > p->min : number >= p->min) &&
           (p->flags & KILN_PARAM_BELOW_MAX ? number < p->max : number <= p->max);
}

int param_end(const kiln_param *p, int high, param_value *out)
{
    double end = high ? p->max : p->min;
    if (!param_in_range(p, end)) end = nextafter(end, high ? p->min : p->max);
    int64_t whole = whole_of(end);
    switch (p->type) {
    case KILN_P_INT: *out = (param_value){.kind = PARAM_INT, .whole = whole, .number = (double)whole}; return 1;
    case KILN_P_FLOAT: *out = (param_value){.kind = PARAM_NUMBER, .number = end}; return 1;
    case KILN_P_SEED: *out = (param_value){.kind = PARAM_SEED, .bits = high ? UINT64_MAX : 0}; return 1;
    default: return 0;
    }
}

int param_floored(const kiln_param *p, const void *params, int64_t *given, int64_t *used)
{
    int64_t step = (int64_t)p->step;
    if (p->type != KILN_P_INT || !(p->flags & KILN_PARAM_FLOORED) || step < 2) return 0;
    *given = param_get(p, params).whole;
    int64_t over = (*given % step + step) % step;
    *used = *given - over;
    return over != 0;
}

/* ---- the rules: which value a type takes ---- */

/* 20 and 20.0 are whole numbers, 20.5 is not. */
static int as_whole(const param_value *v, int64_t *out)
{
    *out = v->whole;
    if (v->kind == PARAM_INT) return 1;
    if (v->kind != PARAM_NUMBER || v->number != floor(v->number) || fabs(v->number) > whole_max) return 0;
    *out = (int64_t)v->number;
    return 1;
}

static int as_int(const kiln_param *p, const param_value *v, param_value *out)
{
    return as_whole(v, &out->whole) && (double)out->whole >= p->min && (double)out->whole <= p->max;
}

static int as_seed(const param_value *v, param_value *out)
{
    int64_t whole;
    out->bits = v->bits;
    if (v->kind == PARAM_SEED) return 1;
    if (!as_whole(v, &whole) || (whole < 0 && !(v->wired && v->kind == PARAM_INT))) return 0;
    out->bits = (uint64_t)whole;
    return 1;
}

static int as_float(const kiln_param *p, const param_value *v, param_value *out)
{
    int is_number = v->kind == PARAM_INT || v->kind == PARAM_SEED || v->kind == PARAM_NUMBER;
    out->number = v->number;
    return is_number && param_in_range(p, v->number);
}

static int as_choice(const kiln_param *p, const char *name, param_value *out)
{
    assert(p->choice);
    for (size_t i = 0;; i++) {
        kiln_choice c = kiln_choice_at(p, i);
        if (!c.name) return 0;
        if (strcmp(c.name, name) != 0) continue;
        out->whole = c.value;
        return 1;
    }
}

static int is_registered(const kiln_param *p, const char *name, const param_names *names)
{
    const char *one;
    for (size_t i = 0; (one = param_name_at(p, names, i)); i++)
        if (strcmp(one, name) == 0) return 1;
    return 0;
}

static kiln_status put_file(const kiln_param *p, const char *name, const param_names *names, arena *a, void *params,
                            error *e)
{
    error why = {0};
    const char *from = p->from ? p->from : "input";
    param_value v = {.kind = PARAM_TEXT};
    if (names && names->file) v.text = names->file(names->self, a, from, name, &why);
    if (!v.text)
        return error_set(e, why.status == KILN_ERR_NOMEM ? KILN_ERR_NOMEM : KILN_ERR_INVALID, "%s",
                         why.message[0] ? why.message : "there is no such file");
    store(p, &v, params);
    return KILN_OK;
}

static kiln_status put_text(const kiln_param *p, const param_value *v, const param_names *names, arena *a, void *params,
                            error *e)
{
    param_value choice = {.kind = PARAM_TEXT};
    str shown = {0};
    kiln_status status = KILN_OK;
    if (!v->text) param_value_text(v, &shown);
    const char *text = v->text ? v->text : str_text(&shown);
    if (shown.failed)
        status = KILN_ERR_NOMEM;
    else if (p->type == KILN_P_FILE)
        status = put_file(p, text, names, a, params, e);
    else if (p->type == KILN_P_ENUM && as_choice(p, text, &choice))
        store(p, &choice, params);
    else if (p->type == KILN_P_ENUM || (p->type == KILN_P_NAME && !is_registered(p, text, names)))
        status = param_refuse(p, v, names, e);
    else
        status = store_text(p, text, a, params);
    str_free(&shown);
    return status;
}

kiln_status param_put(const kiln_param *p, const param_value *v, const param_names *names, arena *a, void *params,
                      error *e)
{
    param_value right = {0};
    int fits = 0;
    assert(param_size(p->type) && (p->type != KILN_P_ENUM || p->choice));
    if (v->kind == PARAM_PARTS || (v->kind == PARAM_NOTHING && p->type != KILN_P_STRING))
        return param_refuse(p, v, names, e);
    switch (p->type) {
    case KILN_P_BOOL: right.flag = v->flag, fits = v->kind == PARAM_BOOL; break;
    case KILN_P_INT: fits = as_int(p, v, &right); break;
    case KILN_P_SEED: fits = as_seed(v, &right); break;
    case KILN_P_FLOAT: fits = as_float(p, v, &right); break;
    default: return put_text(p, v, names, a, params, e);
    }
    if (!fits) return param_refuse(p, v, names, e);
    store(p, &right, params);
    return KILN_OK;
}
