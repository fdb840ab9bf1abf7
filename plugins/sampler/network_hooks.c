/* network_hooks.c - see network_hooks.h. */
#include "network_hooks.h"

#include "kiln/kit.h"

#include <string.h>

static int is_known(const carried_hooks *all, const kiln_hook *hook)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->hook[i]->identity, hook->identity) == 0) return 1;
    return 0;
}

static kiln_status add(const kiln_call *c, const kiln_value *map, const char *what, carried_hooks *all)
{
    const kiln_hook *hook = kiln_network_hook_of(kit_values(c), map);
    if (!hook)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "%s: the '" KILN_NETWORK_HOOKS "' of an entry have a map without a hook", what);
    if (is_known(all, hook)) return KILN_OK;
    if (all->n == NETWORK_HOOKS_CARRIED)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "%s: the conditionings bring more than %d different hooks of the network", what,
                             NETWORK_HOOKS_CARRIED);
    all->hook[all->n++] = hook;
    return KILN_OK;
}

static kiln_status collect(const kiln_call *c, const kiln_value *conditioning, const char *what, carried_hooks *all)
{
    const kiln_value_api *v = kit_values(c);
    size_t n = v->kind(conditioning) == KILN_V_LIST ? v->count(conditioning) : 0;
    for (size_t i = 0; i < n; i++) {
        const kiln_value *list = v->map_get(v->list_at(conditioning, i), KILN_NETWORK_HOOKS);
        if (list && v->kind(list) != KILN_V_LIST)
            return c->host->fail(c->ctx, KILN_ERR_INVALID,
                                 "%s: the '" KILN_NETWORK_HOOKS "' of an entry have to be a list", what);
        for (size_t k = 0; list && k < v->count(list); k++) TRY(add(c, v->list_at(list, k), what, all));
    }
    return KILN_OK;
}

kiln_status carried_hooks_collect(const kiln_call *c, const guider_parts *by, const kiln_model *first,
                                  carried_hooks *all)
{
    *all = (carried_hooks){0};
    if (!by->row) return collect(c, by->conditioning[0], "the conditioning", all);
    for (size_t i = 0; i < by->row->n_set; i++) TRY(collect(c, by->conditioning[i], guider_set(by->row, i)->name, all));
    for (size_t i = 0; i < first->n_guidance; i++)
        if (first->guidance[i]->conditioning)
            TRY(collect(c, first->guidance[i]->conditioning, "the model's own conditioning", all));
    return KILN_OK;
}

kiln_status carried_hooks_model(const kiln_call *c, carried_hooks *all, const kiln_model *m, const kiln_model **out)
{
    *out = m;
    if (!all->n) return KILN_OK;
    for (size_t i = 0; i < all->n_model; i++)
        if (all->model[i].of == m) {
            *out = all->model[i].with;
            return KILN_OK;
        }
    if (all->n_model == COUNT(all->model))
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "more than %zu models in one sampling", COUNT(all->model));
    kiln_model *with = c->host->scratch(c->ctx, sizeof *with, KILN_CPU);
    const kiln_hook **hook = c->host->scratch(c->ctx, (m->n_hook + all->n) * sizeof *hook, KILN_CPU);
    if (!with || !hook) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < m->n_hook; i++) hook[i] = m->hook[i];
    for (size_t i = 0; i < all->n; i++) hook[m->n_hook + i] = all->hook[i];
    *with = *m;
    with->hook = hook, with->n_hook = m->n_hook + all->n;
    all->model[all->n_model].of = m, all->model[all->n_model++].with = with;
    *out = with;
    return KILN_OK;
}

const kiln_value *carried_hook_values(const kiln_value_api *v, const kiln_value *list, const kiln_hook *hook)
{
    const kiln_value *map = kiln_network_hook_find(v, list, hook->identity, NULL);
    return map ? v->map_get(map, "values") : NULL;
}
