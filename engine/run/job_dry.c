/* job_dry.c - what would run, what comes from the cache, and an estimate of time, memory and FLOPs: hooks that compute
 * nothing. */
#include "base/print.h"
#include "base/str.h"
#include "run/job_parts.h"

#include <stdio.h>

static void dry_line(const dry_run *d, const graph_node *g, const char *what, const char *time_text, const char *memory,
                     const char *flops)
{
    char key[33];
    if (d->quiet) return;
    print_text(stdout, "%-16.16s %-24.24s %.16s  %-10s %10s %10s %10s\n", g->doc->name, g->type->type,
               digest_hex(g->key, key), what, time_text, memory, flops);
}

kiln_status dry_call(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e)
{
    dry_run *d = self;
    const graph_node *g = &d->job->workflow.node[i];
    char seconds[32] = "-", memory[16] = "-", flops[32] = "-";
    runtime_usage_reset(d->job->runtime);
    if (g->type->flags & KILN_NODE_OUTPUT)
        for (uint32_t k = 0; k < g->type->n_out; k++) out[k] = value_map();
    else
        TRY(job_call_node(d->job, i, params, in, out, e));
    runtime_usage u = runtime_usage_get(d->job->runtime);
    d->run++;
    if (u.runs) {
        double rate = result_cache_rate(d->job->result_cache, g->type->type);
        size_t need = u.weight_bytes + u.arena_peak + u.scratch_peak;
        str_bytes(memory, need);
        snprintf(flops, sizeof flops, "%.3g", (double)u.flops * 1e-9);
        if (rate > 0)
            snprintf(seconds, sizeof seconds, "%.2f s", (double)u.flops / rate);
        else
            snprintf(seconds, sizeof seconds, "?");
        *(rate > 0 ? &d->seconds : &d->unknown_flops) += rate > 0 ? (double)u.flops / rate : (double)u.flops;
        d->flops += (double)u.flops;
        if (need > d->memory) d->memory = need;
    }
    dry_line(d, g, "run", seconds, memory, flops);
    return KILN_OK;
}

int dry_known(void *self, size_t i) { return result_cache_known(((dry_run *)self)->job->result_cache, i); }

kiln_status dry_fetch(void *self, size_t i, kiln_value **out, error *e)
{
    dry_run *d = self;
    store_entry entry = {0};
    char bytes[16];
    result_cache_look(d->job->result_cache, i, &entry);
    TRY(result_cache_fetch(d->job->result_cache, i, out, e));
    dry_line(d, &d->job->workflow.node[i], "cached", "-", str_bytes(bytes, entry.bytes), "-");
    d->fetched++;
    d->bytes += entry.bytes;
    return KILN_OK;
}

void dry_total(const dry_run *d)
{
    char memory[16], bytes[16];
    print_text(stdout, "%zu to run, %zu from the cache (%s); about %.1f s, %s of memory, %.3g GFLOP\n", d->run,
               d->fetched, str_bytes(bytes, d->bytes), d->seconds, str_bytes(memory, d->memory), d->flops * 1e-9);
    if (d->unknown_flops > 0)
        print_text(stdout, "and %.3g GFLOP of nodes of which none has run here yet: how long they take is not known\n",
                   d->unknown_flops * 1e-9);
}

kiln_status job_dry_run(job *j, const job_setting *setting, error *e)
{
    dry_run d = {.job = j};
    print_text(stdout, "%-16s %-24s %-16s  %-10s %10s %10s %10s\n", "node", "type", "key", "", "time", "memory",
               "GFLOP");
    kiln_status status = job_explain_all(
        j, setting, 1, &(run_hooks){.self = &d, .call = dry_call, .known = dry_known, .fetch = dry_fetch}, e);
    if (status == KILN_OK) dry_total(&d);
    job_close_quietly(j);
    return status;
}
