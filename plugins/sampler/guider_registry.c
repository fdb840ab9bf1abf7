/* guider_registry.c - see guider_registry.h. */
#include "guider_registry.h"

#include "kiln/kit.h"
#include "kiln/params.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { ROWS_MAX = 256, NAME_MAX_BYTES = 100 };

static struct {
    const kiln_host *host;
    const kiln_guider *row[ROWS_MAX];
    size_t n;
} table;

void guider_registry_open(const kiln_host *host)
{
    table.host = host;
    table.n = 0;
}

/* ---- rows ---- */

static const char *ability_of(const char *name, char id[128])
{
    snprintf(id, 128, "kiln.guider.%s/1", name);
    return id;
}

static int is_array(const void *at, uint32_t n, uint32_t stride, uint32_t most, size_t size)
{
    return at && n >= 1 && n <= most && stride >= size && stride % sizeof(void *) == 0;
}

static int is_complete(const kiln_guider *row)
{
    if (!row || !KILN_HAS(kiln_guider, row, combine) || !row->name || strlen(row->name) > NAME_MAX_BYTES ||
        !row->wants || !row->combine)
        return 0;
    if (!is_array(row->model, row->n_model, row->model_stride, KILN_GUIDER_MODELS, sizeof(kiln_guider_model)) ||
        !is_array(row->set, row->n_set, row->set_stride, KILN_GUIDER_SETS, sizeof(kiln_guider_set)))
        return 0;
    for (uint32_t i = 0; i < row->n_model; i++)
        if (!guider_model(row, i)->name) return 0;
    for (uint32_t i = 0; i < row->n_set; i++)
        if (!guider_set(row, i)->name || guider_set(row, i)->model >= row->n_model) return 0;
    return row->unconditional >= -1 && row->unconditional < (int32_t)row->n_set;
}

/* 0: the row is of a plugin that was refused later; the engine has removed its ability. */
static int is_registered(const kiln_guider *row)
{
    char id[128];
    return table.host->ability(ability_of(row->name, id)) == row;
}

kiln_status guider_register(const kiln_guider *row)
{
    char id[128];
    assert(table.host); /* this plugin was opened first */
    if (!is_complete(row)) {
        table.host->log(KILN_LOG_ERROR,
                        "register_guider: a row without a name, models or conditionings (declare them with "
                        "KILN_ARRAY), wants() or combine(), with more than 4 or 8 of them, or whose "
                        "sets name a model or an unconditional set it has not");
        return KILN_ERR_INVALID;
    }
    kiln_status status = table.host->provide(ability_of(row->name, id), row);
    if (status != KILN_OK) return status;
    size_t at = 0;
    while (at < table.n && is_registered(table.row[at]) && table.row[at] != row) at++;
    if (at == ROWS_MAX) return KILN_ERR_NOMEM;
    table.row[at] = row;
    if (at == table.n) table.n++;
    return KILN_OK;
}

const kiln_guider *guider_at(size_t i)
{
    for (size_t k = 0; k < table.n; k++)
        if (is_registered(table.row[k]) && i-- == 0) return table.row[k];
    return NULL;
}

size_t guider_count(void)
{
    size_t n = 0;
    for (size_t k = 0; k < table.n; k++) n += is_registered(table.row[k]) != 0;
    return n;
}

const kiln_guider *guider_named(const char *name)
{
    for (size_t k = 0; name && k < table.n; k++)
        if (strcmp(table.row[k]->name, name) == 0 && is_registered(table.row[k])) return table.row[k];
    return NULL;
}

static const char *name_at(const void *arg, size_t i) { return (void)arg, guider_at(i)->name; }

static kiln_status find(const kiln_call *c, const char *name, const kiln_guider **out)
{
    const kiln_params_api *params = c->host->ability(KILN_PARAMS_ABILITY);
    *out = guider_named(name);
    if (*out) return KILN_OK;
    const char *near = params->nearest(name ? name : "", guider_count(), name_at, NULL);
    if (near)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "no guider is of the kind '%s'; did you mean '%s'?", name, near);
    char kinds[256] = "";
    for (size_t i = 0, at = 0; i < guider_count() && at < sizeof kinds; i++)
        at += (size_t)snprintf(kinds + at, sizeof kinds - at, "%s%s", i ? ", " : "", guider_at(i)->name);
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "no guider is of the kind '%s'; there are %s", name ? name : "",
                         kinds);
}

/* ---- values ---- */

/* 1: `key` is the kind, a model or a conditioning, and not a setting. */
static int is_part(const kiln_guider *row, const char *key)
{
    if (strcmp(key, "kind") == 0) return 1;
    for (size_t i = 0; i < row->n_model; i++)
        if (strcmp(key, guider_model(row, i)->name) == 0) return 1;
    for (size_t i = 0; i < row->n_set; i++)
        if (strcmp(key, guider_set(row, i)->name) == 0) return 1;
    return 0;
}

/* The row's struct, filled by what of the value is a setting. */
static kiln_status read_settings(const kiln_call *c, const kiln_guider *row, const kiln_value *value, const void **out)
{
    const kiln_params_api *params = c->host->ability(KILN_PARAMS_ABILITY);
    const kiln_value_api *v = kit_values(c);
    char owner[128];
    snprintf(owner, sizeof owner, "guider '%s'", row->name);
    kiln_param_table rows = {.size = sizeof rows,
                             .noun = "setting",
                             .owner = owner,
                             .param = row->param,
                             .n_param = row->n_param,
                             .param_stride = row->param_stride,
                             .params_size = row->params_size};
    void *block = c->host->scratch(c->ctx, row->params_size ? row->params_size : 1, KILN_CPU);
    kiln_value *settings = block ? v->new_map(c->ctx) : NULL;
    kiln_status status = settings ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < v->count(value); i++) {
        const char *key;
        kiln_value *item = v->map_at(value, i, &key);
        if (!is_part(row, key)) status = v->map_set(settings, key, item);
    }
    if (status == KILN_OK) status = params->fill(c->ctx, &rows, settings, block);
    c->host->unref(settings);
    *out = block;
    return status;
}

static kiln_status lacks(const kiln_call *c, const kiln_guider *row, const char *name)
{
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "the GUIDER of the kind '%s' lacks its '%s'", row->name, name);
}

static kiln_status read_as(const kiln_call *c, const kiln_guider *row, const kiln_value *value, guider_parts *out)
{
    const kiln_value_api *v = kit_values(c);
    *out = (guider_parts){.row = row};
    for (size_t i = 0; i < row->n_model; i++) {
        const char *name = guider_model(row, i)->name;
        if (!(out->model[i] = v->map_get(value, name))) return lacks(c, row, name);
    }
    for (size_t i = 0; i < row->n_set; i++) {
        const char *name = guider_set(row, i)->name;
        if (!(out->conditioning[i] = v->map_get(value, name))) return lacks(c, row, name);
    }
    return read_settings(c, row, value, &out->params);
}

kiln_status guider_read(const kiln_call *c, const kiln_value *value, guider_parts *out)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_guider *row;
    if (v->kind(value) != KILN_V_MAP) return c->host->fail(c->ctx, KILN_ERR_INVALID, "a GUIDER has to be a map");
    TRY(find(c, v->get_string(v->map_get(value, "kind"), NULL), &row));
    return read_as(c, row, value, out);
}

kiln_status guider_new(const kiln_call *c, const char *kind, kiln_value *parts, kiln_value **out)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_guider *row;
    guider_parts checked;
    kiln_status status = parts ? find(c, kind, &row) : KILN_ERR_NOMEM;
    if (status == KILN_OK) status = kit_set(c, parts, "kind", v->new_string(c->ctx, kind, strlen(kind)));
    if (status == KILN_OK) status = read_as(c, row, parts, &checked);
    if (status == KILN_OK)
        *out = parts;
    else
        c->host->unref(parts);
    return status;
}
