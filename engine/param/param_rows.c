/* param_rows.c - see param_rows.h. */
#include "param/param_rows.h"

#include "base/checked.h"
#include "base/names.h"
#include "param/param.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { ROWS_MAX = 1024, CHOICES_MAX = 1000, STRIDE_MAX = 65536, STRUCT_MAX = 1 << 20 };
enum {
    KNOWN_FLAGS = KILN_PARAM_REQUIRED | KILN_PARAM_MULTILINE | KILN_PARAM_NEUTRAL | KILN_PARAM_FLOORED |
                  KILN_PARAM_PASSED | KILN_PARAM_CONTROL | KILN_PARAM_OWN | KILN_PARAM_ABOVE_MIN | KILN_PARAM_BELOW_MAX
};
enum { ROW_1_0 = offsetof(kiln_param, from) + sizeof(const char *) }; /* version 1.0: a plugin cannot be older */
enum { CHOICE_1_0 = offsetof(kiln_choice, value) + sizeof(int64_t) };

const kiln_param *param_row(const kiln_param_table *t, size_t i)
{
    assert(i < t->n_param);
    return (const void *)((const char *)t->param + i * t->param_stride);
}

const kiln_param *param_row_named(const kiln_param_table *t, const char *name)
{
    for (size_t i = 0; i < t->n_param; i++)
        if (strcmp(param_row(t, i)->name, name) == 0) return param_row(t, i);
    return NULL;
}

static const char *row_name(void *table, size_t i) { return param_row(table, i)->name; }

const char *param_row_nearest(const kiln_param_table *t, const char *name)
{
    return nearest_name(name, row_name, t->n_param, (void *)(uintptr_t)t);
}

/* ---- is it legal ---- */

__attribute__((format(printf, 2, 3))) static kiln_status bad(error *e, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    kiln_status status = error_setv(e, KILN_ERR_INVALID, fmt, args);
    va_end(args);
    return status;
}

static kiln_status check_name(const kiln_param_table *t, const kiln_param *p, size_t i, error *e)
{
    if (!name_is_valid(p->name)) return bad(e, "parameter %zu has no usable name; names are [A-Za-z0-9_.+-]{1,128}", i);
    if (!line_is_valid(p->doc)) return bad(e, "parameter '%s' has no doc; give it one line of help", p->name);
    if (!param_size(p->type))
        return bad(e, "parameter '%s' has type %u, which this version does not know", p->name, p->type);
    if (p->flags & ~(uint32_t)KNOWN_FLAGS)
        return bad(e, "parameter '%s' has flags 0x%x this version does not know", p->name, p->flags);
    if (p->flags & KILN_PARAM_FLOORED &&
        (p->type != KILN_P_INT || !(p->step >= 1 && p->step == floor(p->step) && p->step <= 1e9)))
        return bad(e, "parameter '%s' is FLOORED; that takes type INT and a whole step of 1 at least", p->name);
    if (p->flags & (KILN_PARAM_ABOVE_MIN | KILN_PARAM_BELOW_MAX) && p->type != KILN_P_FLOAT)
        return bad(e, "parameter '%s' leaves out an end of its range; that takes type FLOAT", p->name);
    for (size_t j = 0; j < i; j++)
        if (strcmp(p->name, param_row(t, j)->name) == 0)
            return bad(e, "two parameters are called '%s'; every name once", p->name);
    return KILN_OK;
}

static kiln_status check_place(const kiln_param_table *t, const kiln_param *p, size_t i, error *e)
{
    size_t size = param_size(p->type), end;
    if (!checked_add_size(p->offset, size, &end) || end > t->params_size)
        return bad(e,
                   "parameter '%s' lies at offset %zu, past the %zu bytes of params_size; use offsetof and sizeof of "
                   "one struct",
                   p->name, p->offset, t->params_size);
    if (p->offset % size)
        return bad(e, "parameter '%s' lies at offset %zu, which is not a multiple of its %zu bytes", p->name, p->offset,
                   size);
    for (size_t j = 0; j < i; j++) {
        const kiln_param *q = param_row(t, j);
        if (p->offset < q->offset + param_size(q->type) && q->offset < end)
            return bad(e, "parameters '%s' and '%s' lie at the same place; give each its own member", q->name, p->name);
    }
    return KILN_OK;
}

static kiln_status check_choices(const kiln_param *p, error *e)
{
    size_t n = 0;
    int found = 0;
    if (!p->choice) return bad(e, "parameter '%s' is an ENUM without choices", p->name);
    if (p->choice_stride < CHOICE_1_0 || p->choice_stride > STRIDE_MAX || p->choice_stride % sizeof(void *))
        return bad(e,
                   "the stride of the choices of parameter '%s' is %u bytes; version 1.0 of the contract has %d: "
                   "declare them with KILN_CHOICES",
                   p->name, p->choice_stride, CHOICE_1_0);
    for (kiln_choice c; (c = kiln_choice_at(p, n)).name; n++) {
        if (n == CHOICES_MAX)
            return bad(e, "parameter '%s' has more than %d choices; the list ends with a row whose name is NULL",
                       p->name, CHOICES_MAX);
        if (!line_is_valid(c.name)) return bad(e, "choice %zu of parameter '%s' has no usable name", n, p->name);
        if (c.value < INT32_MIN || c.value > INT32_MAX)
            return bad(e, "choice '%s' of parameter '%s' has a value beyond int32_t", c.name, p->name);
        found |= (double)c.value == p->def;
        for (size_t k = 0; k < n; k++)
            if (strcmp(kiln_choice_at(p, k).name, c.name) == 0)
                return bad(e, "parameter '%s' has the choice '%s' twice", p->name, c.name);
    }
    if (!n) return bad(e, "parameter '%s' is an ENUM without choices", p->name);
    if (!found && !(p->flags & KILN_PARAM_REQUIRED))
        return bad(e, "the default %g of parameter '%s' is the value of no choice", p->def, p->name);
    return KILN_OK;
}

static kiln_status check_range(const kiln_param *p, error *e)
{
    if (!isfinite(p->def) || !isfinite(p->min) || !isfinite(p->max) || !isfinite(p->step) || p->step < 0)
        return bad(e, "the range of parameter '%s' is not finite", p->name);
    if (!(p->min <= p->max))
        return bad(e, "parameter '%s' takes %g to %g; min has to be below max", p->name, p->min, p->max);
    if (p->flags & (KILN_PARAM_ABOVE_MIN | KILN_PARAM_BELOW_MAX) && nextafter(p->min, p->max) >= p->max)
        return bad(e, "nothing lies between the ends %g and %g of parameter '%s'", p->min, p->max, p->name);
    if (!(p->flags & KILN_PARAM_REQUIRED) && !param_in_range(p, p->def))
        return bad(e, "the default %g of parameter '%s' is outside its range %g to %g%s", p->def, p->name, p->min,
                   p->max, p->def == p->min || p->def == p->max ? ", an end that it leaves out" : "");
    if (p->type == KILN_P_INT && (p->def != floor(p->def) || fabs(p->min) > 9.3e18 || fabs(p->max) > 9.3e18))
        return bad(e, "the default and range of parameter '%s' have to be whole numbers of 64 bits", p->name);
    return KILN_OK;
}

static kiln_status check_by_type(const kiln_param *p, error *e)
{
    switch (p->type) {
    case KILN_P_INT:
    case KILN_P_FLOAT: return check_range(p, e);
    case KILN_P_ENUM: return check_choices(p, e);
    case KILN_P_BOOL:
        if (p->def != 0 && p->def != 1)
            return bad(e, "the default of parameter '%s' is %g; a BOOL is 0 or 1", p->name, p->def);
        return KILN_OK;
    case KILN_P_SEED:
        if (!(p->def >= 0 && p->def < 0x1p64))
            return bad(e, "the default of parameter '%s' is %g; a SEED is 0 or more", p->name, p->def);
        return KILN_OK;
    case KILN_P_NAME:
    case KILN_P_FILE:
        if (!name_is_valid(p->from))
            return bad(e, "parameter '%s' does not say where its names come from; set .from", p->name);
        return KILN_OK;
    default: return KILN_OK;
    }
}

kiln_status param_rows_check(const kiln_param_table *t, error *e)
{
    if (t->params_size > STRUCT_MAX) return bad(e, "params_size is %zu; the most is %d", t->params_size, STRUCT_MAX);
    if (t->n_param > ROWS_MAX) return bad(e, "%u parameters; the most is %d", t->n_param, ROWS_MAX);
    if (t->n_param && !t->param)
        return bad(e, "%u parameters but no array of them; declare it with KILN_ARRAY", t->n_param);
    if (t->n_param && (t->param_stride < ROW_1_0 || t->param_stride > STRIDE_MAX || t->param_stride % sizeof(void *)))
        return bad(e,
                   "the stride of the parameters is %u bytes; version 1.0 of the contract has %d: declare the array "
                   "with KILN_ARRAY",
                   t->param_stride, ROW_1_0);
    if (t->n_param && !t->params_size)
        return bad(e, "%u parameters and params_size 0; it is the sizeof of the struct that they fill", t->n_param);
    for (size_t i = 0; i < t->n_param; i++) {
        const kiln_param *p = param_row(t, i);
        TRY(check_name(t, p, i, e));
        TRY(check_place(t, p, i, e));
        TRY(check_by_type(p, e));
    }
    return KILN_OK;
}
