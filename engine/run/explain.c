/* explain.c - see explain.h. */
#include "run/explain.h"

#include "base/print.h"
#include "base/str.h"
#include "run/estimate_text.h"
#include "run/memory_budget.h"
#include "run/memory_report.h"

#include <stdio.h>

typedef struct {
    const batch *batch;
    size_t unknown;
} explanation;

void explain_head(void)
{
    print_text(stdout, "%-16s %-24s %-16s  %10s %12s %12s\n", "node", "type", "key", "weights", "activations", "GFLOP");
}

static void print_node(void *self, size_t i, const node_estimate *found)
{
    explanation *x = self;
    const graph_node *g = batch_node(x->batch, i);
    const runtime_usage *u = &found->usage;
    const char *none = found->kind == ESTIMATED_UNKNOWN ? "?" : "-";
    char key[33], weights[16], activations[16], flops[32];
    x->unknown += found->kind == ESTIMATED_UNKNOWN;
    print_text(stdout, "%-16.16s %-24.24s %.16s  %10s %12s %12s\n", g->doc->name, g->type->type,
               digest_hex(g->key, key), u->runs ? str_bytes(weights, u->weight_bytes) : none,
               u->runs ? str_bytes(activations, u->arena_peak + u->scratch_peak) : none,
               u->runs ? estimate_gflop(flops, u->flops) : none);
}

kiln_status explain_batch(machine *m, batch *b, error *e)
{
    explanation x = {.batch = b};
    TRY(estimate_for_people(m, b, &(estimate_observer){.node = print_node, .self = &x}, e));
    memory_explain(m);
    estimate_say_unknown(x.unknown);
    return KILN_OK;
}
