/* options.c - see options.h. kiln.params/1 interprets the rows. */
#include "options.h"

#include "kiln/kit.h"
#include "kiln/params.h"
#include "sample.h"

#include <stdio.h>
#include <string.h>

static const kiln_params_api *params_of(const kiln_call *c) { return c->host->ability(KILN_PARAMS_ABILITY); }

const char *options_nearest(const kiln_call *c, const char *text, size_t n,
                            const char *(*at)(const void *arg, size_t i), const void *arg)
{
    return params_of(c)->nearest(text, n, at, arg);
}

kiln_status options_fill(const kiln_call *c, const kiln_sampler *row, const kiln_value *options, const void **out)
{
    char owner[160];
    snprintf(owner, sizeof owner, "sampler '%.128s'", row->name);
    kiln_param_table table = {.size = sizeof table,
                              .noun = "option",
                              .owner = owner,
                              .param = row->param,
                              .n_param = row->n_param,
                              .param_stride = row->param_stride,
                              .params_size = row->params_size};
    void *block = c->host->scratch(c->ctx, row->params_size ? row->params_size : 1, KILN_CPU);
    if (!block) return KILN_ERR_NOMEM;
    TRY(params_of(c)->fill(c->ctx, &table, options, block));
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
    kiln_param_table one = {.size = sizeof one,
                            .noun = "option",
                            .param = p,
                            .n_param = 1,
                            .param_stride = sizeof *p,
                            .params_size = p->offset + sizeof(int64_t)};
    return params_of(c)->to_map(c->ctx, &one, params, map);
}

kiln_status options_parse(const kiln_call *c, const char *text, kiln_value *map)
{
    return params_of(c)->parse(c->ctx, NULL, text, map);
}
