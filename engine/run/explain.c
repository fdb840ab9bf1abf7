/* explain.c - see explain.h. */
#include "run/explain.h"

#include "base/print.h"
#include "base/str.h"
#include "run/estimate_text.h"
#include "run/memory_budget.h"
#include "run/memory_report.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    const batch *batch;
    size_t unknown;
    str *json; /* NULL: a table for people */
} explanation;

static void put_node(explanation *x, size_t i, const node_estimate *found)
{
    const graph_node *g = batch_node(x->batch, i);
    const runtime_usage *u = &found->usage;
    char key[33];
    str_append(x->json, x->json->len > 1 ? ", {\"node\": " : "{\"nodes\": [{\"node\": ");
    str_json(x->json, g->doc->name, strlen(g->doc->name), 1);
    str_append(x->json, ", \"type\": "), str_json(x->json, g->type->type, strlen(g->type->type), 1);
    str_printf(x->json, ", \"key\": \"%s\"", digest_hex(g->key, key));
    if (found->kind == ESTIMATED_UNKNOWN) str_append(x->json, ", \"estimated\": false");
    if (u->runs)
        str_printf(x->json, ", \"weights\": %zu, \"activations\": %zu, \"flops\": %llu", u->weight_bytes,
                   u->arena_peak + u->scratch_peak, (unsigned long long)u->flops);
    str_char(x->json, '}');
}

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
    if (x->json) {
        put_node(x, i, found);
        return;
    }
    char key[33], weights[16], activations[16], flops[32];
    x->unknown += found->kind == ESTIMATED_UNKNOWN;
    print_text(stdout, "%-16.16s %-24.24s %.16s  %10s %12s %12s\n", g->doc->name, g->type->type,
               digest_hex(g->key, key), u->runs ? str_bytes(weights, u->weight_bytes) : none,
               u->runs ? str_bytes(activations, u->arena_peak + u->scratch_peak) : none,
               u->runs ? estimate_gflop(flops, u->flops) : none);
}

static kiln_status explain_json(machine *m, batch *b, error *e)
{
    str json = {0};
    explanation x = {.batch = b, .json = &json};
    TRY(estimate_for_people(m, b, &(estimate_observer){.node = print_node, .self = &x}, e));
    runtime_estimate o = runtime_get_estimate(m->runtime);
    kiln_status status = memory_tighten(m, b, &o, e);
    str_append(&json, json.len ? "]" : "{\"nodes\": []");
    str_printf(&json, ", \"memory\": {\"whole\": %zu, \"least\": %zu, \"budget\": %zu}}\n", (size_t)o.whole,
               (size_t)o.least, budget_limit(machine_budget(m)));
    if (status == KILN_OK && json.failed) status = error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (status == KILN_OK) print_raw(stdout, str_text(&json));
    str_free(&json);
    return status;
}

kiln_status explain_batch(machine *m, batch *b, int json, error *e)
{
    explanation x = {.batch = b};
    if (json) return explain_json(m, b, e);
    TRY(estimate_for_people(m, b, &(estimate_observer){.node = print_node, .self = &x}, e));
    runtime_estimate o = runtime_get_estimate(m->runtime);
    TRY(memory_tighten(m, b, &o, e));
    memory_explain(m, &o);
    estimate_say_unknown(x.unknown);
    return KILN_OK;
}
