/* type_check.c - a value held against the row of its type; see value_types.h.
 *
 * Nothing here knows a particular type. It looks at kinds, dtypes and dimensions, never at a tensor's numbers: a check
 * costs a microsecond.
 */
#include "plugin/value_types.h"
#include "tensor/dtype.h"
#include "tensor/value.h"
#include "tensor/value_struct.h"

#include <stdio.h>
#include <string.h>

enum { DEPTH_MAX = 32, PLACE_MAX = 160 };

/* Where in a value the check is: "LATENT.samples", "CONDITIONING[2].mask". */
typedef struct {
    char place[PLACE_MAX];
    int depth;
    error *e;
} checker;

/* ---- sentences ---- */

static void found_words(const kiln_value *v, char out[TYPE_WORDS_MAX])
{
    if (value_kind(v) == KILN_V_OBJECT) {
        snprintf(out, TYPE_WORDS_MAX, "an object of type %.80s", v->as.object.type);
        return;
    }
    snprintf(out, TYPE_WORDS_MAX, "%s", v ? value_kind_name(value_kind(v)) : "nothing");
    if (value_kind(v) != KILN_V_TENSOR) return;
    const kiln_tensor *t = &v->as.tensor.window;
    int at = snprintf(out, TYPE_WORDS_MAX, "%s [", dtype_name(t->dtype));
    for (uint32_t i = 0; i < t->rank && at < TYPE_WORDS_MAX - 24; i++)
        at += snprintf(out + at, TYPE_WORDS_MAX - (size_t)at, "%s%lld", i ? "," : "", (long long)t->dim[i]);
    snprintf(out + at, TYPE_WORDS_MAX - (size_t)at, "]");
}

static kiln_status unfit(const checker *k, const kiln_value *v, const char *right)
{
    char found[TYPE_WORDS_MAX];
    found_words(v, found);
    return error_set(k->e, KILN_ERR_INVALID, "%s is %s; it has to be %s", k->place, found, right);
}

static kiln_status absent(const checker *k, const kiln_value_entry *r)
{
    char right[TYPE_WORDS_MAX];
    value_entry_words(r, right);
    return error_set(k->e, KILN_ERR_INVALID, "%s is missing; it has to be %s", k->place, right);
}

/* ---- the check ---- */

static kiln_status check_type(checker *k, const kiln_value *v, const char *type);

static int tensor_fits(const kiln_tensor *t, const kiln_value_entry *r)
{
    int64_t last = t->rank ? t->dim[t->rank - 1] : 0;
    if (r->dtypes && !(r->dtypes >> t->dtype & 1)) return 0;
    if (r->rank_max && (t->rank < r->rank_min || t->rank > r->rank_max)) return 0;
    return !r->last_max || (t->rank && last >= r->last_min && last <= r->last_max);
}

static int kind_fits(const kiln_value *v, uint32_t kinds) { return !kinds || (v && kinds >> value_kind(v) & 1); }

static int entry_fits(const kiln_value *v, const kiln_value_entry *r)
{
    if (!kind_fits(v, r->kinds)) return 0;
    if (value_kind(v) == KILN_V_TENSOR) return tensor_fits(&v->as.tensor.window, r);
    if (value_kind(v) == KILN_V_LIST && r->item_kinds)
        for (size_t i = 0; i < v->as.many.n; i++)
            if (!kind_fits(v->as.many.item[i], r->item_kinds)) return 0;
    return 1;
}

static kiln_status check_entry(checker *k, const kiln_value *map, const kiln_value_entry *r)
{
    char right[TYPE_WORDS_MAX];
    size_t before = strlen(k->place);
    const kiln_value *v = value_api.map_get(map, r->key);
    kiln_status status = KILN_OK;
    if (!v && r->flags & KILN_ENTRY_OPTIONAL) return KILN_OK;
    snprintf(k->place + before, PLACE_MAX - before, ".%s", r->key);
    if (!v)
        status = absent(k, r);
    else if (r->type)
        status = check_type(k, v, r->type);
    else if (!entry_fits(v, r)) {
        value_entry_words(r, right);
        status = unfit(k, v, right);
    }
    k->place[before] = '\0';
    return status;
}

static kiln_status check_entries(checker *k, const kiln_value *map, const kiln_value_type *t)
{
    if (t->n_entry && value_kind(map) != KILN_V_MAP) return unfit(k, map, "a map");
    for (uint32_t i = 0; i < t->n_entry; i++) {
        kiln_value_entry r = value_type_entry(t, i);
        TRY(check_entry(k, map, &r));
    }
    return KILN_OK;
}

static kiln_status check_items(checker *k, const kiln_value *list, const kiln_value_type *t)
{
    size_t before = strlen(k->place);
    for (size_t i = 0; i < list->as.many.n; i++) {
        snprintf(k->place + before, PLACE_MAX - before, "[%zu]", i);
        TRY(t->item ? check_type(k, list->as.many.item[i], t->item) : check_entries(k, list->as.many.item[i], t));
        k->place[before] = '\0';
    }
    return KILN_OK;
}

/* The value itself, without what is in it. */
static int is_of(const kiln_value *v, const kiln_value_type *t)
{
    kiln_value_entry r = {.kinds = 1u << t->kind,
                          .dtypes = t->dtypes,
                          .rank_min = t->rank_min,
                          .rank_max = t->rank_max,
                          .last_min = t->last_min,
                          .last_max = t->last_max};
    if (!entry_fits(v, &r)) return 0;
    return t->kind != KILN_V_OBJECT || strcmp(v->as.object.type, t->name) == 0;
}

static kiln_status check_type(checker *k, const kiln_value *v, const char *type)
{
    char right[TYPE_WORDS_MAX];
    const kiln_value_type *t = value_type_find(type);
    kiln_status status = KILN_OK;
    if (!t) return KILN_OK;
    if (k->depth == DEPTH_MAX)
        return error_set(k->e, KILN_ERR_INVALID, "%s is nested deeper than %d levels", k->place, DEPTH_MAX);
    if (!is_of(v, t)) {
        value_type_words(t, right);
        return unfit(k, v, right);
    }
    k->depth++;
    if (t->kind == KILN_V_MAP) status = check_entries(k, v, t);
    if (t->kind == KILN_V_LIST) status = check_items(k, v, t);
    k->depth--;
    return status;
}

kiln_status value_fits_type(const kiln_value *v, const char *type, error *e)
{
    checker k = {.e = e};
    snprintf(k.place, sizeof k.place, "%.100s", type);
    return check_type(&k, v, type);
}

/* ---- ports ---- */

/* What the port itself asks of a tensor. */
static kiln_status check_declared(const kiln_value *v, const kiln_port *port, error *e)
{
    kiln_value_entry r = {
        .kinds = 1u << KILN_V_TENSOR, .dtypes = port->dtypes, .rank_min = port->rank_min, .rank_max = port->rank_max};
    char right[TYPE_WORDS_MAX], found[TYPE_WORDS_MAX];
    if (value_kind(v) != KILN_V_TENSOR || tensor_fits(&v->as.tensor.window, &r)) return KILN_OK;
    value_entry_words(&r, right);
    found_words(v, found);
    return error_set(e, KILN_ERR_INVALID, "%s is %s, and this port declares %s", port->type, found, right);
}

static kiln_status check_one(const kiln_value *v, const kiln_port *port, error *e)
{
    TRY(value_fits_type(v, port->type, e));
    return check_declared(v, port, e);
}

kiln_status value_fits_port(const kiln_value *v, const kiln_port *port, error *e)
{
    if (!(port->flags & KILN_PORT_LIST)) return check_one(v, port, e);
    if (value_kind(v) != KILN_V_LIST)
        return error_set(e, KILN_ERR_INVALID, "what a list port is given has to be a list, not %s",
                         value_kind_name(value_kind(v)));
    for (size_t i = 0; i < v->as.many.n; i++) TRY(check_one(v->as.many.item[i], port, e));
    return KILN_OK;
}
