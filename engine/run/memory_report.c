/* memory_report.c - see memory_report.h. */
#include "run/memory_report.h"

#include "backend/rates.h"
#include "base/print.h"
#include "base/str.h"

#include <stdio.h>
#include <sys/resource.h>

/* Where the same cores copy and compute, the times add up; over a link they overlap. */
static void say_slowdown(const machine *m, const runtime_estimate *o)
{
    device_rates rates;
    char rate[16];
    if (!o->widest.streamed || !o->widest_flops || device_rates_measure(m->runtime, &rates, NULL) != KILN_OK) return;
    double compute = (double)o->widest_flops / rates.flops, move = (double)o->widest.streamed / rates.bytes;
    double slower = machine_asynchronous(m) ? (move > compute ? move / compute : 1) : 1 + move / compute;
    print_text(stdout,
               "expected: about %.2f times as long as with everything resident (weights come at %s a second; a quick "
               "look at this machine)\n",
               slower, str_bytes(rate, (uint64_t)rates.bytes));
}

void memory_explain(const machine *m, const runtime_estimate *o)
{
    size_t limit = budget_limit(machine_budget(m));
    char a[16], b[16], c[16], d[16], f[16];
    if (!o->whole) return;
    print_text(stdout, "\nmemory: %s holds everything one program needs at once; %s is the least that works ('%s')\n",
               str_bytes(a, o->whole), str_bytes(b, o->least), o->least_name);
    if (!limit || o->least > limit) {
        if (limit) print_text(stdout, "a budget of %s is too small\n", str_bytes(a, limit));
        return;
    }
    const residency_estimate *w = &o->widest;
    print_text(stdout,
               "with a budget of %s: peak %s: activations %s, %u of %u weights resident (%s), the others through slots "
               "of %s\n",
               str_bytes(a, limit), str_bytes(b, w->peak), str_bytes(c, w->fixed), w->n_weight - w->n_streamed,
               w->n_weight, str_bytes(d, w->resident), str_bytes(f, w->ring));
    print_text(stdout, "%s come in again each time it runs, %s in the whole run\n", str_bytes(a, w->streamed),
               str_bytes(b, o->streamed));
    say_slowdown(m, o);
}

void memory_say(const machine *m)
{
    struct rusage usage;
    char peak[16], arena_text[16], weights[16], limit_text[16], most[16], in[16], moved[16];
    runtime_usage u = runtime_usage_get(m->runtime);
    size_t limit = budget_limit(machine_budget(m));
    if (getrusage(RUSAGE_SELF, &usage) != 0) return;
    print_text(stderr, "peak memory %s (planned: weights %s, activations %s)\n",
               str_bytes(peak, (uint64_t)usage.ru_maxrss * 1024), str_bytes(weights, runtime_weight_peak(m->runtime)),
               str_bytes(arena_text, u.arena_peak + u.scratch_peak));
    if (limit)
        print_text(stderr, "memory budget %s: held at most %s; %s of weights were made ready for use\n",
                   str_bytes(limit_text, limit), str_bytes(most, budget_peak(machine_budget(m))),
                   str_bytes(moved, residency_traffic_get(machine_residency(m)).packed_bytes));
    device_traffic link = machine_traffic(m);
    if (link.copies)
        print_text(stderr, "link: %s in, %s out, %llu copies\n", str_bytes(in, link.in), str_bytes(moved, link.out),
                   (unsigned long long)link.copies);
}
