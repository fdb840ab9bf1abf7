/* param.c - parameters: text to the place in the node's struct, by the declared type. */
#include "workflow/check.h"

#include "base/str.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHOICES_MAX = 1000 };

const char *param_wire_type(uint32_t type)
{
    switch (type) {
    case KILN_P_BOOL: return "BOOLEAN";
    case KILN_P_INT:
    case KILN_P_SEED: return "INT";
    case KILN_P_FLOAT: return "FLOAT";
    default: return "STRING";
    }
}

static void put(const kiln_param *p, void *params, const void *value, size_t size)
{
    memcpy((char *)params + p->offset, value, size);
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

int param_floored(const kiln_param *p, const void *params, int64_t *given, int64_t *used)
{
    int64_t step = (int64_t)p->step;
    if (p->type != KILN_P_INT || !(p->flags & KILN_PARAM_FLOORED) || step < 2) return 0;
    memcpy(given, (const char *)params + p->offset, sizeof *given);
    int64_t over = (*given % step + step) % step;
    *used = *given - over;
    return over != 0;
}

static size_t choices_text(const kiln_param *p, const catalog_view *c, char *text, size_t capacity)
{
    size_t used = 0;
    for (size_t i = 0; i < CHOICES_MAX && used + 1 < capacity; i++) {
        const char *name = p->type == KILN_P_ENUM ? p->choice[i].name
                           : c && c->name_at      ? c->name_at(c->self, p->from, i)
                                                  : NULL;
        if (!name) break;
        int n = snprintf(text + used, capacity - used, "%s%s", i ? ", " : "", name);
        used += n > 0 ? (size_t)n : 0;
    }
    return used;
}

void param_describe(const kiln_param *p, const catalog_view *catalog, char *text, size_t capacity)
{
    char low[40], high[40];
    text[0] = '\0';
    switch (p->type) {
    case KILN_P_BOOL: snprintf(text, capacity, "true or false"); break;
    case KILN_P_INT: {
        int n =
            snprintf(text, capacity, "a whole number from %s to %s", bound_text(p->min, low), bound_text(p->max, high));
        if (p->flags & KILN_PARAM_FLOORED && n > 0 && (size_t)n < capacity)
            snprintf(text + n, capacity - (size_t)n, ", a multiple of %s", bound_text(p->step, low));
        break;
    }
    case KILN_P_SEED: snprintf(text, capacity, "a whole number from 0 to 18446744073709551615"); break;
    case KILN_P_FLOAT:
        snprintf(text, capacity, "a number from %s to %s", bound_text(p->min, low), bound_text(p->max, high));
        break;
    case KILN_P_STRING: snprintf(text, capacity, "a text"); break;
    case KILN_P_FILE: snprintf(text, capacity, "a file of the %s folder", p->from ? p->from : "input"); break;
    default: {
        int n = snprintf(text, capacity, "one of ");
        choices_text(p, catalog, text + n, capacity - (size_t)n);
    }
    }
}

/* ---- by type ---- */

static kiln_status wrong(const kiln_param *p, const catalog_view *c, const char *text, int quoted, char why[512])
{
    char right[400];
    param_describe(p, c, right, sizeof right);
    snprintf(why, 512, "%s%.60s%s is not %s", quoted ? "the text \"" : "'", text, quoted ? "\"" : "'", right);
    return KILN_ERR_INVALID;
}

static kiln_status parse_bool(const kiln_param *p, const char *text, int quoted, void *params, char why[512])
{
    int32_t v = strcmp(text, "true") == 0;
    if (quoted || (!v && strcmp(text, "false") != 0)) return wrong(p, NULL, text, quoted, why);
    put(p, params, &v, sizeof v);
    return KILN_OK;
}

/* 20 and 20.0 are whole numbers, 20.5 is not. */
static int whole_number(const char *text, int64_t *out)
{
    double d;
    if (str_to_i64(text, strlen(text), out)) return 1;
    if (!str_to_double(text, strlen(text), &d) || d != floor(d) || fabs(d) > 9e15) return 0;
    *out = (int64_t)d;
    return 1;
}

static kiln_status parse_int(const kiln_param *p, const char *text, int quoted, void *params, char why[512])
{
    int64_t v;
    if (quoted || !whole_number(text, &v)) return wrong(p, NULL, text, quoted, why);
    if ((double)v < p->min || (double)v > p->max) return wrong(p, NULL, text, 0, why);
    put(p, params, &v, sizeof v);
    return KILN_OK;
}

static kiln_status parse_seed(const kiln_param *p, const char *text, int quoted, void *params, char why[512])
{
    uint64_t v;
    if (quoted || !str_to_u64(text, strlen(text), &v)) return wrong(p, NULL, text, quoted, why);
    put(p, params, &v, sizeof v);
    return KILN_OK;
}

static kiln_status parse_float(const kiln_param *p, const char *text, int quoted, void *params, char why[512])
{
    double v;
    if (quoted || !str_to_double(text, strlen(text), &v)) return wrong(p, NULL, text, quoted, why);
    if (!(v >= p->min && v <= p->max)) return wrong(p, NULL, text, 0, why);
    put(p, params, &v, sizeof v);
    return KILN_OK;
}

static const char *choice_at(void *arg, size_t i) { return ((const kiln_choice *)arg)[i].name; }

static kiln_status parse_enum(const kiln_param *p, const char *text, void *params, char why[512])
{
    size_t n = 0;
    for (; p->choice[n].name; n++)
        if (strcmp(p->choice[n].name, text) == 0) {
            int32_t v = (int32_t)p->choice[n].value;
            put(p, params, &v, sizeof v);
            return KILN_OK;
        }
    const char *near = nearest_name(text, choice_at, n, (void *)(uintptr_t)p->choice);
    if (!near) return wrong(p, NULL, text, 0, why);
    snprintf(why, 512, "'%.60s' is not a choice; did you mean '%s'?", text, near);
    return KILN_ERR_INVALID;
}

typedef struct {
    const catalog_view *catalog;
    const char *from;
} registry_walk;

static const char *registry_at(void *arg, size_t i)
{
    registry_walk *w = arg;
    return w->catalog->name_at(w->catalog->self, w->from, i);
}

static kiln_status parse_name(const kiln_param *p, const char *text, const catalog_view *c, arena *a, void *params,
                              char why[512])
{
    registry_walk walk = {c, p->from};
    const char *name;
    size_t n = 0;
    for (; c->name_at && n < CHOICES_MAX && (name = registry_at(&walk, n)); n++)
        if (strcmp(name, text) == 0) {
            const char *copy = arena_strdup(a, text);
            put(p, params, &copy, sizeof copy);
            return copy ? KILN_OK : KILN_ERR_NOMEM;
        }
    const char *near = n ? nearest_name(text, registry_at, n, &walk) : NULL;
    if (!near) return wrong(p, c, text, 0, why);
    snprintf(why, 512, "no %s is called '%.60s'; did you mean '%s'?", p->from, text, near);
    return KILN_ERR_INVALID;
}

static kiln_status parse_file(const kiln_param *p, const char *text, const catalog_view *c, arena *a, void *params,
                              char why[512])
{
    error e = {0};
    const char *path = c->file ? c->file(c->self, a, p->from ? p->from : "input", text, &e) : NULL;
    if (!path) {
        snprintf(why, 512, "%.511s", e.message[0] ? e.message : "there is no such file");
        return e.status == KILN_ERR_NOMEM ? KILN_ERR_NOMEM : KILN_ERR_INVALID;
    }
    put(p, params, &path, sizeof path);
    return KILN_OK;
}

kiln_status param_parse(const kiln_param *p, const char *text, int quoted, const catalog_view *catalog, arena *a,
                        void *params, char why[512])
{
    if (!quoted && (text[0] == '\0' || strcmp(text, "null") == 0 || strcmp(text, "~") == 0) &&
        p->type != KILN_P_STRING) {
        char right[400];
        param_describe(p, catalog, right, sizeof right);
        snprintf(why, 512, "has no value; it takes %s", right);
        return KILN_ERR_INVALID;
    }
    switch (p->type) {
    case KILN_P_BOOL: return parse_bool(p, text, quoted, params, why);
    case KILN_P_INT: return parse_int(p, text, quoted, params, why);
    case KILN_P_SEED: return parse_seed(p, text, quoted, params, why);
    case KILN_P_FLOAT: return parse_float(p, text, quoted, params, why);
    case KILN_P_ENUM: return parse_enum(p, text, params, why);
    case KILN_P_NAME: return parse_name(p, text, catalog, a, params, why);
    case KILN_P_FILE: return parse_file(p, text, catalog, a, params, why);
    default: {
        const char *copy = arena_strdup(a, text);
        put(p, params, &copy, sizeof copy);
        return copy ? KILN_OK : KILN_ERR_NOMEM;
    }
    }
}

kiln_status param_default(const kiln_param *p, arena *a, void *params)
{
    int32_t small = (int32_t)p->def;
    int64_t whole = (int64_t)p->def;
    uint64_t seed = p->def > 0 ? (uint64_t)p->def : 0;
    const char *text = arena_strdup(a, p->def_str ? p->def_str : "");
    switch (p->type) {
    case KILN_P_BOOL:
    case KILN_P_ENUM: put(p, params, &small, sizeof small); break;
    case KILN_P_INT: put(p, params, &whole, sizeof whole); break;
    case KILN_P_SEED: put(p, params, &seed, sizeof seed); break;
    case KILN_P_FLOAT: put(p, params, &p->def, sizeof p->def); break;
    default: put(p, params, &text, sizeof text); break;
    }
    return text ? KILN_OK : KILN_ERR_NOMEM;
}
