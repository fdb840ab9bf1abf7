/* options.c - see options.h. */
#include "options.h"

#include "kiln/kit.h"
#include "sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BLANK " \t\r\n"
enum { NAME_ROOM = 64, CHOICES_MAX = 1000 };

/* ---- nearest names ---- */

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Levenshtein's distance; names of NAME_ROOM and more are far from everything. */
static size_t distance(const char *a, const char *b)
{
    size_t row[NAME_ROOM], n = strlen(b);
    if (strlen(a) >= NAME_ROOM || n >= NAME_ROOM) return NAME_ROOM;
    for (size_t k = 0; k <= n; k++) row[k] = k;
    for (size_t i = 0; a[i]; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t k = 1; k <= n; k++) {
            size_t change = corner + (a[i] != b[k - 1]);
            corner = row[k];
            row[k] = smaller(change, smaller(row[k], row[k - 1]) + 1);
        }
    }
    return row[n];
}

const char *options_nearest(const char *text, size_t n, const char *(*at)(const void *arg, size_t i), const void *arg)
{
    const char *best = NULL;
    size_t least = strlen(text) / 2 + 2;
    for (size_t i = 0; i < n; i++) {
        size_t d = distance(text, at(arg, i));
        if (d < least) least = d, best = at(arg, i);
    }
    return best;
}

static const kiln_param *param_at(const kiln_sampler *row, size_t i)
{
    return (const void *)((const char *)row->param + i * row->param_stride);
}

static const char *param_name(const void *row, size_t i) { return param_at(row, i)->name; }
static const char *choice_name(const void *choices, size_t i) { return ((const kiln_choice *)choices)[i].name; }

static size_t choice_count(const kiln_param *p)
{
    size_t n = 0;
    while (n < CHOICES_MAX && p->choice[n].name) n++;
    return n;
}

/* ---- one option ---- */

typedef struct {
    const kiln_call *call;
    const kiln_sampler *row;
    const kiln_param *param;
} place;

static kiln_status wrong(const place *at, const char *wanted)
{
    return at->call->host->fail(at->call->ctx, KILN_ERR_INVALID, "option '%s' of sampler '%s' wants %s",
                                at->param->name, at->row->name, wanted);
}

static kiln_status outside(const place *at, double value)
{
    return at->call->host->fail(at->call->ctx, KILN_ERR_INVALID,
                                "option '%s' of sampler '%s' is %g; it goes from %g to %g", at->param->name,
                                at->row->name, value, at->param->min, at->param->max);
}

static kiln_status put_float(const place *at, const kiln_value *v, char *dst)
{
    double d;
    if (kit_values(at->call)->get_float(v, &d) != KILN_OK) return wrong(at, "a number");
    if (!(d >= at->param->min && d <= at->param->max)) return outside(at, d);
    memcpy(dst, &d, sizeof d);
    return KILN_OK;
}

static kiln_status put_int(const place *at, const kiln_value *v, char *dst)
{
    int64_t n;
    if (kit_values(at->call)->get_int(v, &n) != KILN_OK) return wrong(at, "a whole number");
    if ((double)n < at->param->min || (double)n > at->param->max) return outside(at, (double)n);
    memcpy(dst, &n, sizeof n);
    return KILN_OK;
}

static kiln_status put_bool(const place *at, const kiln_value *v, char *dst)
{
    int b;
    if (kit_values(at->call)->get_bool(v, &b) != KILN_OK) return wrong(at, "true or false");
    memcpy(dst, &(int32_t){b != 0}, sizeof(int32_t));
    return KILN_OK;
}

static kiln_status put_enum(const place *at, const kiln_value *v, char *dst)
{
    const char *text = kit_values(at->call)->get_string(v, NULL);
    size_t n = choice_count(at->param), i = 0;
    if (!text) return wrong(at, "the name of a choice");
    while (i < n && strcmp(at->param->choice[i].name, text) != 0) i++;
    if (i < n) {
        memcpy(dst, &(int32_t){(int32_t)at->param->choice[i].value}, sizeof(int32_t));
        return KILN_OK;
    }
    const char *near = options_nearest(text, n, choice_name, at->param->choice);
    return at->call->host->fail(at->call->ctx, KILN_ERR_INVALID,
                                "'%s' is no choice of option '%s' of sampler '%s'; did you mean '%s'?", text,
                                at->param->name, at->row->name, near ? near : at->param->choice[0].name);
}

static kiln_status put(const place *at, const kiln_value *v, char *block)
{
    char *dst = block + at->param->offset;
    switch (at->param->type) {
    case KILN_P_FLOAT: return put_float(at, v, dst);
    case KILN_P_INT: return put_int(at, v, dst);
    case KILN_P_BOOL: return put_bool(at, v, dst);
    case KILN_P_ENUM: return put_enum(at, v, dst);
    default: return wrong(at, "what cannot be said here: only numbers, booleans and choices can");
    }
}

static kiln_status put_default(const place *at, char *block)
{
    const kiln_param *p = at->param;
    int64_t whole = (int64_t)p->def;
    int32_t small = (int32_t)p->def;
    uint64_t seed = (uint64_t)p->def;
    char *dst = block + p->offset;
    switch (p->type) {
    case KILN_P_FLOAT: memcpy(dst, &p->def, sizeof p->def); break;
    case KILN_P_INT: memcpy(dst, &whole, sizeof whole); break;
    case KILN_P_SEED: memcpy(dst, &seed, sizeof seed); break;
    case KILN_P_BOOL:
    case KILN_P_ENUM: memcpy(dst, &small, sizeof small); break;
    case KILN_P_STRING:
    case KILN_P_NAME: memcpy(dst, &p->def_str, sizeof p->def_str); break;
    default:
        return at->call->host->fail(at->call->ctx, KILN_ERR_UNSUPPORTED,
                                    "sampler '%s' has an option '%s' that is a file", at->row->name, p->name);
    }
    return KILN_OK;
}

/* ---- all of them ---- */

static kiln_status put_named(const kiln_call *c, const kiln_sampler *row, const char *name, const kiln_value *v,
                             char *block)
{
    for (uint32_t i = 0; i < row->n_param; i++)
        if (strcmp(param_at(row, i)->name, name) == 0) return put(&(place){c, row, param_at(row, i)}, v, block);
    if (row->n_param == 0)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "sampler '%s' has no options, so no '%s' either", row->name,
                             name);
    const char *near = options_nearest(name, row->n_param, param_name, row);
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "sampler '%s' has no option '%s'; did you mean '%s'?", row->name,
                         name, near ? near : param_at(row, 0)->name);
}

kiln_status options_fill(const kiln_call *c, const kiln_sampler *row, const kiln_value *options, const void **out)
{
    const kiln_value_api *v = kit_values(c);
    char *block = c->host->scratch(c->ctx, row->params_size ? row->params_size : 1, KILN_CPU);
    if (!block) return KILN_ERR_NOMEM;
    memset(block, 0, row->params_size);
    for (uint32_t i = 0; i < row->n_param; i++) TRY(put_default(&(place){c, row, param_at(row, i)}, block));
    for (size_t i = 0; options && i < v->count(options); i++) {
        const char *name = NULL;
        const kiln_value *item = v->map_at(options, i, &name);
        TRY(put_named(c, row, name, item, block));
    }
    *out = row->params_size ? block : NULL;
    return KILN_OK;
}

/* ---- values ---- */

kiln_status options_sampler(const kiln_call *c, const kiln_sampler *row, kiln_value *options, kiln_value **out)
{
    const void *checked;
    const kiln_value_api *v = kit_values(c);
    kiln_status status = options ? options_fill(c, row, options, &checked) : KILN_ERR_NOMEM;
    kiln_value *map = status == KILN_OK ? v->new_map(c->ctx) : NULL;
    if (status == KILN_OK && !map) status = KILN_ERR_NOMEM;
    if (status == KILN_OK) status = kit_set(c, map, "sampler", v->new_string(c->ctx, row->name, strlen(row->name)));
    if (status == KILN_OK) status = v->map_set(map, "options", options);
    c->host->unref(options);
    if (status == KILN_OK)
        *out = map;
    else
        c->host->unref(map);
    return status;
}

kiln_status options_read(const kiln_call *c, const kiln_value *sampler, const kiln_sampler **row, const void **options)
{
    const kiln_value_api *v = kit_values(c);
    const char *name = v->get_string(v->map_get(sampler, "sampler"), NULL);
    const kiln_value *map = v->map_get(sampler, "options");
    if (!name || (map && v->kind(map) != KILN_V_MAP))
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "a SAMPLER has to be a map with the name of a sampler and a map of options");
    TRY(sample_find(c, name, row));
    return options_fill(c, *row, map, options);
}

kiln_status options_put(const kiln_call *c, kiln_value *map, const kiln_param *p, const void *params)
{
    const kiln_value_api *v = kit_values(c);
    const char *src = (const char *)params + p->offset;
    int32_t small = 0;
    int64_t whole = 0;
    double number = 0;
    if (p->type == KILN_P_FLOAT) memcpy(&number, src, sizeof number);
    if (p->type == KILN_P_INT) memcpy(&whole, src, sizeof whole);
    if (p->type == KILN_P_BOOL || p->type == KILN_P_ENUM) memcpy(&small, src, sizeof small);
    switch (p->type) {
    case KILN_P_FLOAT: return kit_set(c, map, p->name, v->new_float(c->ctx, number));
    case KILN_P_INT: return kit_set(c, map, p->name, v->new_int(c->ctx, whole));
    case KILN_P_BOOL: return kit_set(c, map, p->name, v->new_bool(c->ctx, small));
    case KILN_P_ENUM:
        for (size_t i = 0; i < choice_count(p); i++)
            if (p->choice[i].value == small)
                return kit_set(c, map, p->name, v->new_string(c->ctx, p->choice[i].name, strlen(p->choice[i].name)));
        break;
    default: break;
    }
    return c->host->fail(c->ctx, KILN_ERR_BUG, "parameter '%s' is no option of a sampler", p->name);
}

/* ---- text ---- */

static kiln_value *value_of_text(const kiln_call *c, const char *text)
{
    const kiln_value_api *v = kit_values(c);
    char *end;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) return v->new_bool(c->ctx, text[0] == 't');
    double d = strtod(text, &end);
    if (end == text || *end != '\0') return v->new_string(c->ctx, text, strlen(text));
    if (d == floor(d) && fabs(d) < 9e15) return v->new_int(c->ctx, (int64_t)d);
    return v->new_float(c->ctx, d);
}

/* The text without the blanks round it, cut at `end`. */
static char *trimmed(char *text, char *end)
{
    while (end > text && strchr(BLANK, end[-1])) end--;
    *end = '\0';
    return text + strspn(text, BLANK);
}

kiln_status options_parse(const kiln_call *c, const char *text, kiln_value *map)
{
    size_t n = strlen(text);
    if (strspn(text, BLANK) == n) return KILN_OK;
    char *copy = c->host->scratch(c->ctx, n + 1, KILN_CPU);
    if (!copy) return KILN_ERR_NOMEM;
    memcpy(copy, text, n + 1);
    for (char *one = copy, *next; one; one = next) {
        char *end = strchr(one, ',');
        next = end ? end + 1 : NULL;
        one = trimmed(one, end ? end : one + strlen(one));
        char *equals = strchr(one, '=');
        if (!equals)
            return c->host->fail(c->ctx, KILN_ERR_INVALID,
                                 "options: '%s' is not NAME=VALUE (as in \"eta=0.5, s_noise=1\")", one);
        char *value = trimmed(equals + 1, equals + 1 + strlen(equals + 1)), *name = trimmed(one, equals);
        if (kit_values(c)->map_get(map, name))
            return c->host->fail(c->ctx, KILN_ERR_INVALID, "options: '%s' is there twice", name);
        TRY(kit_set(c, map, name, value_of_text(c, value)));
    }
    return KILN_OK;
}
