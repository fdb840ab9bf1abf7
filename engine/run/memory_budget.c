/* memory_budget.c - see memory_budget.h. */
#include "run/memory_budget.h"

#include "base/log.h"
#include "base/str.h"
#include "run/estimate.h"
#include "tensor/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How much of the host's memory packed weights may lock beside a GPU: with more the system has too little left for
 * files. */
static size_t half_of_the_host(void)
{
    size_t free_bytes = 0, total = 0;
    memory_device *host = device_host();
    return host->table->memory(host, &free_bytes, &total, NULL) == KILN_OK ? free_bytes / 2 : 0;
}

kiln_status memory_budget_choose(const job_setting *s, runtime_setting *rs, error *e)
{
    const char *given = getenv("KILN_MEMORY");
    uint64_t bytes = s->memory;
    if (!bytes && given && *given && (!str_to_bytes(given, strlen(given), &bytes) || !bytes))
        return error_set(e, KILN_ERR_INVALID, "KILN_MEMORY=%s: it is a size like 500M, 4G or 1.5GiB", given);
    rs->memory = (size_t)bytes;
    rs->memory_follow = bytes == 0;
    rs->host_memory = rs->backend->device == KILN_CPU ? 0 : half_of_the_host();
    return KILN_OK;
}

static kiln_status take(void *arg, size_t bytes, error *e)
{
    return budget_take(arg, MEMORY_VALUES, bytes, "a tensor", e);
}
static void give(void *arg, size_t bytes) { budget_give(arg, MEMORY_VALUES, bytes); }

void memory_count_values(budget *b) { value_account(b ? take : NULL, b ? give : NULL, b); }

/* ---- too small? ---- */

static kiln_status too_small(size_t limit, size_t least, const char *what, error *e)
{
    char has[16], needed[16];
    return error_set(e, KILN_ERR_NOMEM,
                     "a memory budget of %s is too small for this workflow: %s needs %s at least; give --memory %zuM "
                     "or more (nothing was run)",
                     str_bytes(has, limit), what, str_bytes(needed, least), least / 1000000 + (least % 1000000 != 0));
}

static void count_unknown(void *self, size_t i, const node_estimate *found)
{
    (void)i;
    *(size_t *)self += found->kind == ESTIMATED_UNKNOWN;
}
/* Nobody watches, and what nodes warn of comes again when they run. unknown: nodes that could not be estimated, or
 * NULL.
 */
static kiln_status estimate_silently(machine *m, batch *b, size_t *unknown, error *e)
{
    int level = log_level();
    log_level_set(KILN_LOG_ERROR);
    const estimate_observer o = {.node = unknown ? count_unknown : NULL, .self = unknown};
    kiln_status status = estimate_batch(m, b, &o, e);
    log_level_set(level);
    return status;
}

/* Tensors that go from node to node did not fit: once more without a limit, to know what all of it would take. */
kiln_status memory_least_budget(machine *m, batch *b, error *e)
{
    budget *account = machine_budget(m);
    size_t limit = budget_limit(account);
    error why = {0};
    char name[80];
    residency_give_up(machine_residency(m), SIZE_MAX);
    budget_set_limit(account, SIZE_MAX / 4);
    budget_peak_reset(account);
    kiln_status status = estimate_silently(m, b, NULL, &why);
    size_t values = budget_peak(account);
    budget_set_limit(account, limit);
    if (status == KILN_CANCELLED) return error_set(e, status, "%s", why.message);
    runtime_estimate o = runtime_get_estimate(m->runtime);
    snprintf(name, sizeof name, "'%.64s'", o.least_name);
    if (o.least > limit && o.least >= values) return too_small(limit, o.least, name, e);
    return values > limit ? too_small(limit, values, "what goes from node to node", e) : KILN_OK;
}

static void limit_to(machine *m, size_t bytes)
{
    budget_set_limit(machine_budget(m), bytes), residency_set_limit(machine_residency(m), bytes);
}

kiln_status memory_tighten(machine *m, batch *b, runtime_estimate *o, error *e)
{
    const size_t limit = budget_limit(machine_budget(m));
    kiln_status status = KILN_OK;
    for (int closer = 1; closer && o->least > 1 && (!limit || o->least <= limit);) {
        error why = {0};
        limit_to(m, o->least - 1);
        status = estimate_silently(m, b, NULL, &why);
        runtime_estimate found = runtime_get_estimate(m->runtime);
        closer = status == KILN_OK && found.least < o->least;
        if (closer) o->least = found.least, memcpy(o->least_name, found.least_name, sizeof o->least_name);
        if (status == KILN_CANCELLED) error_set(e, status, "%s", why.message);
    }
    limit_to(m, limit);
    return status == KILN_CANCELLED ? status : KILN_OK;
}

/* Will any node but those that write? */
static int computes(const machine *m, const batch *b)
{
    const workflow *w = &b->merged.all;
    for (size_t i = 0; i < w->n; i++) {
        const graph_node *g = &w->node[i];
        if (!g->needed || !(g->type->flags & KILN_NODE_OUTPUT)) continue;
        for (uint32_t p = 0; p < g->type->n_in; p++)
            for (uint32_t k = 0; k < g->in[p].n; k++)
                if (!result_cache_known(m->result_cache, (size_t)g->in[p].from[k].node)) return 1;
    }
    return 0;
}

kiln_status memory_check_budget(machine *m, batch *b, int once, error *e)
{
    size_t limit = budget_limit(machine_budget(m));
    error why = {0};
    char name[80];
    if (!limit && !machine_asynchronous(m) && !(once && computes(m, b))) return KILN_OK;
    size_t unknown = 0;
    budget_peak_reset(machine_budget(m));
    if (once) residency_read_ahead(machine_residency(m));
    kiln_status status = estimate_silently(m, b, &unknown, &why);
    size_t values = budget_peak(machine_budget(m));
    if (once && status == KILN_OK && !unknown) residency_order_is_whole(machine_residency(m));
    if (limit && status == KILN_ERR_NOMEM) TRY(memory_least_budget(m, b, e));
    runtime_estimate o = runtime_get_estimate(m->runtime);
    m->tight = limit && (o.least > values ? o.least : values) > limit / 4 * 3;
    snprintf(name, sizeof name, "'%.64s'", o.least_name);
    if (limit && o.least > limit) return too_small(limit, o.least, name, e);
    return limit && status == KILN_ERR_NOMEM ? error_set(e, status, "%s", why.message) : KILN_OK;
}
