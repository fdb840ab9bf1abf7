/* job_memory.c - the memory budget of a run: where it comes from, what it will mean, and that before anything is
 * computed. Tensors that go from node to node are on its account when the device is the host.
 */
#include "backend/rates.h"
#include "base/log.h"
#include "base/print.h"
#include "base/str.h"
#include "run/job_parts.h"
#include "tensor/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* How much of the host's memory packed weights may lock beside a GPU: with more the system has too little left for
 * files. */
static size_t half_of_the_host(void)
{
    size_t free_bytes = 0, total = 0;
    memory_device *host = device_host();
    return host->table->memory(host, &free_bytes, &total, NULL) == KILN_OK ? free_bytes / 2 : 0;
}

kiln_status job_memory_setting(const job_setting *s, runtime_setting *rs, error *e)
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

/* ---- account of tensors ---- */

static kiln_status take(void *arg, size_t bytes, error *e)
{
    return budget_take(arg, MEMORY_VALUES, bytes, "a tensor", e);
}
static void give(void *arg, size_t bytes) { budget_give(arg, MEMORY_VALUES, bytes); }

void job_memory_begin(job *j)
{
    if (!residency_device(runtime_residency(j->runtime))->table->asynchronous)
        value_account(take, give, residency_budget(runtime_residency(j->runtime)));
}

void job_memory_end(void) { value_account(NULL, NULL, NULL); }

/* ---- the link ---- */

device_traffic job_link(const job *j)
{
    const memory_device *d = residency_device(runtime_residency(j->runtime));
    return d->table->asynchronous ? d->table->traffic(d) : (device_traffic){0};
}

void job_tell_link(job *j, size_t i, device_traffic before)
{
    device_traffic all = job_link(j);
    if (all.copies != before.copies)
        report_link(j->report, i,
                    &(device_traffic){
                        .in = all.in - before.in, .out = all.out - before.out, .copies = all.copies - before.copies});
}

/* ---- before anything runs ---- */

static void no_progress(void *arg, size_t node, uint64_t done, uint64_t total, const char *what)
{
    (void)arg, (void)node, (void)done, (void)total, (void)what;
}

/* Nodes that write are not called. */
static kiln_status estimate_node(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out,
                                 error *e)
{
    job *j = self;
    const graph_node *g = &j->workflow.node[i];
    if (!(g->type->flags & KILN_NODE_OUTPUT)) return job_call_node(j, i, params, in, out, e);
    for (uint32_t k = 0; k < g->type->n_out; k++) out[k] = value_map();
    return KILN_OK;
}

static kiln_status too_small(size_t limit, size_t least, const char *what, error *e)
{
    char has[16], needed[16];
    return error_set(e, KILN_ERR_NOMEM,
                     "a memory budget of %s is too small for this workflow: %s needs %s at least; give --memory %zuM "
                     "or more (nothing was run)",
                     str_bytes(has, limit), what, str_bytes(needed, least), least / 1000000 + (least % 1000000 != 0));
}

static kiln_status estimate(job *j, error *why)
{
    call_environment kept = j->env;
    run_summary summary;
    int level = log_level();
    j->env = (call_environment){.runtime = j->runtime,
                                .pool = runtime_pool(j->runtime),
                                .cancelled = env_cancelled,
                                .progress = no_progress,
                                .text = kept.text,
                                .arg = j};
    log_level_set(KILN_LOG_ERROR); /* what nodes warn of comes again when it is run */
    runtime_set_estimating(j->runtime, 1);
    kiln_status status = run_schedule(
        &j->workflow, &(run_hooks){.self = j, .call = estimate_node, .known = job_known, .fetch = job_fetch},
        &(run_setting){.workers = 1, .fail_fast = 1, .cancel = &interrupted}, &summary, why);
    runtime_set_estimating(j->runtime, 0);
    log_level_set(level);
    j->env = kept;
    return status;
}

/* Tensors that go from node to node did not fit: once more without a limit, to know what all of it would take. */
kiln_status job_least_memory(job *j, error *e)
{
    budget *b = residency_budget(runtime_residency(j->runtime));
    size_t limit = budget_limit(b);
    error why = {0};
    char name[80];
    residency_give_up(runtime_residency(j->runtime), SIZE_MAX);
    budget_set_limit(b, SIZE_MAX / 4);
    budget_peak_reset(b);
    kiln_status status = estimate(j, &why);
    size_t values = budget_peak(b);
    budget_set_limit(b, limit);
    if (status == KILN_CANCELLED) return error_set(e, status, "%s", why.message);
    runtime_estimate o = runtime_get_estimate(j->runtime);
    snprintf(name, sizeof name, "'%.64s'", o.least_name);
    if (o.least > limit && o.least >= values) return too_small(limit, o.least, name, e);
    return values > limit ? too_small(limit, values, "what goes from node to node", e) : KILN_OK;
}

kiln_status job_estimate_memory(job *j, error *e)
{
    size_t limit = budget_limit(residency_budget(runtime_residency(j->runtime)));
    error why = {0};
    char name[80];
    if (!limit && !residency_device(runtime_residency(j->runtime))->table->asynchronous)
        return KILN_OK; /* there the order says what to bring in ahead */
    kiln_status status = estimate(j, &why);
    if (limit && status == KILN_ERR_NOMEM) TRY(job_least_memory(j, e));
    runtime_estimate o = runtime_get_estimate(j->runtime);
    snprintf(name, sizeof name, "'%.64s'", o.least_name);
    if (limit && o.least > limit) return too_small(limit, o.least, name, e);
    if (limit && status == KILN_ERR_NOMEM) return error_set(e, status, "%s", why.message);
    return KILN_OK; /* another fault comes again when it is run, and is reported there */
}

/* ---- for people ---- */

/* Where the same cores copy and compute, the times add up; over a link they overlap. */
static void say_slowdown(const job *j, const runtime_estimate *o)
{
    device_rates rates;
    char rate[16];
    if (!o->widest.streamed || !o->widest_flops || device_rates_measure(j->runtime, &rates, NULL) != KILN_OK) return;
    double compute = (double)o->widest_flops / rates.flops, move = (double)o->widest.streamed / rates.bytes;
    int overlaps = (int)residency_device(runtime_residency(j->runtime))->table->asynchronous;
    double slower = overlaps ? (move > compute ? move / compute : 1) : 1 + move / compute;
    print_text(stdout,
               "expected: about %.2f times as long as with everything resident (weights come at %s a second; a quick "
               "look at this machine)\n",
               slower, str_bytes(rate, (uint64_t)rates.bytes));
}

void job_explain_memory(const job *j)
{
    runtime_estimate o = runtime_get_estimate(j->runtime);
    size_t limit = budget_limit(residency_budget(runtime_residency(j->runtime)));
    char a[16], b[16], c[16], d[16], f[16];
    if (!o.whole) return;
    print_text(stdout, "\nmemory: %s holds everything one program needs at once; %s is the least that works ('%s')\n",
               str_bytes(a, o.whole), str_bytes(b, o.least), o.least_name);
    if (!limit || o.least > limit) {
        if (limit) print_text(stdout, "a budget of %s is too small\n", str_bytes(a, limit));
        return;
    }
    const residency_estimate *w = &o.widest;
    print_text(stdout,
               "with a budget of %s: peak %s: activations %s, %u of %u weights resident (%s), the others through slots "
               "of %s\n",
               str_bytes(a, limit), str_bytes(b, w->peak), str_bytes(c, w->fixed), w->n_weight - w->n_streamed,
               w->n_weight, str_bytes(d, w->resident), str_bytes(f, w->ring));
    print_text(stdout, "%s come in again each time it runs, %s in the whole run\n", str_bytes(a, w->streamed),
               str_bytes(b, o.streamed));
    say_slowdown(j, &o);
}

void job_say_memory(const job *j, const job_setting *s)
{
    struct rusage usage;
    char peak[16], arena_text[16], weights[16], limit_text[16], held[16], moved[16];
    runtime_usage u = runtime_usage_get(j->runtime);
    const residency *r = runtime_residency(j->runtime);
    size_t limit = budget_limit(residency_budget(r));
    if (s->quiet || getrusage(RUSAGE_SELF, &usage) != 0) return;
    print_text(stderr, "peak memory %s (planned: weights %s, activations %s)\n",
               str_bytes(peak, (uint64_t)usage.ru_maxrss * 1024), str_bytes(weights, runtime_weight_peak(j->runtime)),
               str_bytes(arena_text, u.arena_peak + u.scratch_peak));
    if (limit)
        print_text(stderr, "memory budget %s: held at most %s; %s of weights were made ready for use\n",
                   str_bytes(limit_text, limit), str_bytes(held, budget_peak(residency_budget(r))),
                   str_bytes(moved, residency_traffic_get(r).packed_bytes));
    device_traffic link = job_link(j);
    if (link.copies)
        print_text(stderr, "link: %s in, %s out, %llu copies\n", str_bytes(held, link.in), str_bytes(moved, link.out),
                   (unsigned long long)link.copies);
}
