/* ability_params.c - "kiln.params/1": a plugin's structs, filled by engine/param's rules. */
#include "base/names.h"
#include "param/param_rows.h"
#include "param/param_text.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "tensor/value.h"

#include <stdio.h>
#include <string.h>

/* A call of this ability: what its messages say and where its texts live. */
typedef struct {
    kiln_ctx *ctx;
    const kiln_param_table *table;
    char of[200]; /* " of sampler 'euler'", or "" */
} filling;

static const char *noun(const filling *f) { return f->table->noun ? f->table->noun : "parameter"; }

__attribute__((format(printf, 3, 4))) static kiln_status refuse(const filling *f, kiln_status status, const char *fmt,
                                                                ...)
{
    va_list args;
    va_start(args, fmt);
    error_setv(ctx_error(f->ctx), status, fmt, args);
    va_end(args);
    return status;
}

/* The table comes from a plugin, so it is checked before any of its rows is used. */
static kiln_status begin(filling *f, kiln_ctx *c, const kiln_param_table *t)
{
    error why = {0};
    *f = (filling){.ctx = c, .table = t};
    if (!c) return KILN_ERR_BUG;
    if (!t || !KILN_HAS(kiln_param_table, t, params_size))
        return refuse(f, KILN_ERR_BUG, "kiln.params/1 was given no table, or one without its size");
    if (t->owner) snprintf(f->of, sizeof f->of, " of %.190s", t->owner);
    if (param_rows_check(t, &why) != KILN_OK)
        return refuse(f, KILN_ERR_BUG, "the %ss%s are no table of parameters: %s", noun(f), f->of, why.message);
    for (size_t i = 0; i < t->n_param; i++)
        if (param_row(t, i)->type == KILN_P_FILE)
            return refuse(f, KILN_ERR_UNSUPPORTED, "%s '%s'%s is a file; only a parameter of a node can be one",
                          noun(f), param_row(t, i)->name, f->of);
    return KILN_OK;
}

/* "a, b, c", a dozen at most. */
static void list_rows(const kiln_param_table *t, str *out)
{
    for (size_t i = 0; i < t->n_param && i <= PARAM_LISTED; i++)
        str_printf(out, "%s%s", i ? ", " : "", i < PARAM_LISTED ? param_row(t, i)->name : "...");
}

static kiln_status unknown_name(const filling *f, const char *name)
{
    const char *near = param_row_nearest(f->table, name), *owner = f->table->owner ? f->table->owner : "this";
    str have = {0};
    if (f->table->n_param == 0)
        return refuse(f, KILN_ERR_INVALID, "%s has no %ss, so no '%.100s' either", owner, noun(f), name);
    if (near)
        return refuse(f, KILN_ERR_INVALID, "%s has no %s '%.100s'; did you mean '%s'?", owner, noun(f), name, near);
    list_rows(f->table, &have);
    refuse(f, KILN_ERR_INVALID, "%s has no %s '%.100s'; it has %.600s", owner, noun(f), name, str_text(&have));
    str_free(&have);
    return KILN_ERR_INVALID;
}

static kiln_status put(const filling *f, const kiln_param *p, const param_value *v, void *params)
{
    error why = {0};
    kiln_status status = param_put(p, v, &registry_names, &f->ctx->scratch, params, &why);
    if (status == KILN_ERR_NOMEM) return refuse(f, status, "out of memory");
    if (status != KILN_OK) refuse(f, status, "%s '%s'%s: %s", noun(f), p->name, f->of, why.message);
    return status;
}

static kiln_status put_entry(const filling *f, const char *name, const kiln_value *entry, void *params)
{
    const kiln_param *p = param_row_named(f->table, name);
    param_value v = param_wired(&value_api, entry);
    return p ? put(f, p, &v, params) : unknown_name(f, name);
}

/* ---- the table's functions ---- */

static kiln_status fill(kiln_ctx *c, const kiln_param_table *t, const kiln_value *map, void *params)
{
    filling f;
    TRY(begin(&f, c, t));
    if (map && value_kind(map) != KILN_V_MAP)
        return refuse(&f, KILN_ERR_INVALID, "the %ss%s have to be a map of names to values", noun(&f), f.of);
    memset(params, 0, t->params_size);
    for (size_t i = 0; i < t->n_param; i++) {
        const kiln_param *p = param_row(t, i);
        if (param_default(p, &c->scratch, params) != KILN_OK) return refuse(&f, KILN_ERR_NOMEM, "out of memory");
        if (p->flags & KILN_PARAM_REQUIRED && !value_api.map_get(map, p->name))
            return refuse(&f, KILN_ERR_INVALID, "%s '%s'%s has no default and has to be given", noun(&f), p->name,
                          f.of);
    }
    for (size_t i = 0; i < value_api.count(map); i++) {
        const char *name = NULL;
        const kiln_value *v = value_api.map_at(map, i, &name);
        TRY(put_entry(&f, name, v, params));
    }
    return KILN_OK;
}

/* Puts a value just made into the map; NULL is no memory. */
static kiln_status add(const filling *f, kiln_value *map, const char *name, kiln_value *v)
{
    kiln_status status = v ? value_api.map_set(map, name, v) : KILN_ERR_NOMEM;
    value_unref(v);
    if (status == KILN_ERR_NOMEM) return refuse(f, status, "out of memory");
    if (status != KILN_OK) return refuse(f, status, "the %ss%s go into a map that can be changed", noun(f), f->of);
    return KILN_OK;
}

static kiln_status to_map(kiln_ctx *c, const kiln_param_table *t, const void *params, kiln_value *map)
{
    filling f;
    TRY(begin(&f, c, t));
    for (size_t i = 0; i < t->n_param; i++) {
        const kiln_param *p = param_row(t, i);
        param_value v = param_get(p, params);
        if (v.kind == PARAM_TEXT && !v.text)
            return refuse(&f, KILN_ERR_BUG, "%s '%s'%s holds no value of its type", noun(&f), p->name, f.of);
        TRY(add(&f, map, p->name, param_to_value(&value_api, &v)));
    }
    return KILN_OK;
}

/* ---- "eta=0.5, order=2" ---- */

static const char blank[] = " \t\r\n";

/* The text without the blanks round it, cut at `end`. */
static char *trimmed(char *text, char *end)
{
    while (end > text && strchr(blank, end[-1])) end--;
    *end = '\0';
    return text + strspn(text, blank);
}

/* A value as it looks, for whoever has no row for it. */
static param_value as_it_looks(const char *text)
{
    param_value v = param_written(text, 0);
    if (v.kind == PARAM_NOTHING) v.kind = PARAM_TEXT;
    if (v.kind == PARAM_SEED) v.kind = PARAM_NUMBER; /* no int holds it */
    return v;
}

/* A value as its row reads it: checked, and of the row's type. */
static kiln_status by_row(const filling *f, const char *name, const char *text, param_value *out)
{
    uint64_t place = 0; /* large enough for any type */
    const kiln_param *p = param_row_named(f->table, name);
    param_value v = param_written(text, 0);
    if (!p) return unknown_name(f, name);
    kiln_param alone = *p;
    alone.offset = 0;
    TRY(put(f, &alone, &v, &place));
    *out = param_get(&alone, &place);
    return KILN_OK;
}

/* One NAME=VALUE; it is cut into pieces. */
static kiln_status parse_entry(const filling *f, int has_rows, char *one, kiln_value *map)
{
    param_value v;
    char *equals = strchr(one, '=');
    if (!equals) return refuse(f, KILN_ERR_INVALID, "'%.200s' is not NAME=VALUE, as in \"eta=0.5, order=2\"", one);
    char *value = trimmed(equals + 1, equals + 1 + strlen(equals + 1)), *name = trimmed(one, equals);
    if (value_api.map_get(map, name)) return refuse(f, KILN_ERR_INVALID, "'%.200s' is there twice", name);
    if (has_rows)
        TRY(by_row(f, name, value, &v));
    else
        v = as_it_looks(value);
    return add(f, map, name, param_to_value(&value_api, &v));
}

static kiln_status parse(kiln_ctx *c, const kiln_param_table *t, const char *text, kiln_value *map)
{
    static const kiln_param_table no_rows = {.size = sizeof no_rows};
    filling f;
    TRY(begin(&f, c, t ? t : &no_rows));
    if (!text || text[strspn(text, blank)] == '\0') return KILN_OK;
    char *copy = arena_strdup(&c->scratch, text);
    if (!copy) return refuse(&f, KILN_ERR_NOMEM, "out of memory");
    for (char *one = copy, *next; one; one = next) {
        char *end = strchr(one, ',');
        next = end ? end + 1 : NULL;
        TRY(parse_entry(&f, t != NULL, trimmed(one, end ? end : one + strlen(one)), map));
    }
    return KILN_OK;
}

/* ---- nearest name ---- */

typedef struct {
    const char *(*at)(const void *arg, size_t i);
    const void *arg;
} candidates;

static const char *candidate(void *arg, size_t i)
{
    const candidates *c = arg;
    return c->at(c->arg, i);
}

static const char *nearest(const char *name, size_t n, const char *(*at)(const void *arg, size_t i), const void *arg)
{
    return name ? nearest_name(name, candidate, n, &(candidates){at, arg}) : NULL;
}

const kiln_params_api params_api = {
    .size = sizeof(kiln_params_api),
    .fill = fill,
    .to_map = to_map,
    .parse = parse,
    .nearest = nearest,
};
