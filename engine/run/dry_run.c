/* dry_run.c - see dry_run.h. */
#include "run/dry_run.h"

#include "base/array.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/str.h"
#include "run/estimate_text.h"

#include <stdio.h>
#include <string.h>

void dry_run_head(dry_run *d, size_t n_row)
{
    if (d->json) {
        str_append(&d->out, d->is_sweep ? "{\"rows\": [" : "{\"nodes\": [");
        return;
    }
    if (!d->is_sweep)
        print_text(stdout, "%-16s %-24s %-16s  %-10s %10s %10s %10s\n", "node", "type", "key", "", "time", "memory",
                   "GFLOP");
    else if (n_row)
        print_text(stdout, "%-6s %6s %10s  %s\n", "row", "to run", "from cache",
                   "settings (a node counts for the first row that has it)");
}

/* 1: an earlier row has the node, and its result would be kept. */
static int was_seen(dry_run *d, const graph_node *g)
{
    for (size_t i = 0; g->cacheable && i < d->n_seen; i++)
        if (digest_equal(d->seen[i], g->key)) return 1;
    if (array_reserve(&d->seen, &d->seen_capacity, d->n_seen + 1, sizeof *d->seen)) /* else it is counted twice */
        d->seen[d->n_seen++] = g->key;
    return 0;
}

static size_t memory_of(const runtime_usage *u) { return u->weight_bytes + u->arena_peak + u->scratch_peak; }

/* Unknown figures are left out. */
static void put_node(dry_run *d, const graph_node *g, const node_estimate *found, double rate)
{
    const runtime_usage *u = &found->usage;
    char key[33];
    str_append(&d->out, d->n_put++ ? ", {" : "{");
    str_append(&d->out, "\"node\": "), str_json(&d->out, g->doc->name, strlen(g->doc->name), 1);
    str_append(&d->out, ", \"type\": "), str_json(&d->out, g->type->type, strlen(g->type->type), 1);
    str_printf(&d->out, ", \"key\": \"%s\", \"cached\": %s", digest_hex(g->key, key),
               found->kind == ESTIMATED_CACHED ? "true" : "false");
    if (found->kind == ESTIMATED_CACHED) str_printf(&d->out, ", \"bytes\": %llu", (unsigned long long)found->bytes);
    if (found->kind == ESTIMATED_UNKNOWN) str_append(&d->out, ", \"estimated\": false");
    if (found->kind == ESTIMATED_RUN && u->runs) {
        str_printf(&d->out, ", \"memory\": %zu, \"flops\": %llu", memory_of(u), (unsigned long long)u->flops);
        if (rate > 0) str_append(&d->out, ", \"seconds\": "), str_double(&d->out, (double)u->flops / rate);
    }
    str_char(&d->out, '}');
}

typedef struct {
    const char *what, *time, *memory, *flops;
} node_texts;

static void print_node(const dry_run *d, size_t i, const node_texts *t)
{
    const graph_node *g = batch_node(d->batch, i);
    char key[33];
    print_text(stdout, "%-16.16s %-24.24s %.16s  %-10s %10s %10s %10s\n", g->doc->name, g->type->type,
               digest_hex(g->key, key), t->what, t->time, t->memory, t->flops);
}

static void count_node(dry_run *d, size_t i, const node_estimate *found, double rate)
{
    const runtime_usage *u = &found->usage;
    size_t part = d->batch->merged.part_of[i];
    if (found->kind == ESTIMATED_CACHED) {
        d->fetched++, d->row_fetched[part]++;
        d->bytes += found->bytes;
        return;
    }
    d->run++, d->row_run[part]++;
    d->unknown += found->kind == ESTIMATED_UNKNOWN;
    if (!u->runs) return;
    d->flops += (double)u->flops;
    *(rate > 0 ? &d->seconds : &d->unknown_flops) += rate > 0 ? (double)u->flops / rate : (double)u->flops;
    if (memory_of(u) > d->memory) d->memory = memory_of(u);
}

static void on_node(void *self, size_t i, const node_estimate *found)
{
    dry_run *d = self;
    const graph_node *g = batch_node(d->batch, i);
    const runtime_usage *u = &found->usage;
    double rate = u->runs ? result_cache_rate(d->machine->result_cache, g->type->type) : 0;
    char seconds[32] = "?", memory[16], flops[32];
    if (!was_seen(d, g)) count_node(d, i, found, rate);
    if (d->is_sweep) return;
    if (d->json) {
        put_node(d, g, found, rate);
        return;
    }
    if (rate > 0) snprintf(seconds, sizeof seconds, "%.2f s", (double)u->flops / rate);
    char items[48];
    snprintf(items, sizeof items, "run %zu/%zu", found->n_item - found->n_cached, found->n_item);
    const char *run = found->n_item ? items : "run";
    switch (found->kind) {
    case ESTIMATED_CACHED: print_node(d, i, &(node_texts){"cached", "-", str_bytes(memory, found->bytes), "-"}); break;
    case ESTIMATED_UNKNOWN: print_node(d, i, &(node_texts){"run", "?", "?", "?"}); break;
    case ESTIMATED_RUN:
        print_node(d, i,
                   u->runs
                       ? &(node_texts){run, seconds, str_bytes(memory, memory_of(u)), estimate_gflop(flops, u->flops)}
                       : &(node_texts){run, "-", "-", "-"});
        break;
    }
}

kiln_status dry_run_batch(dry_run *d, error *e)
{
    const batch *b = d->batch;
    for (size_t i = 0; i < b->n_row; i++) d->row_run[i] = d->row_fetched[i] = 0;
    TRY(estimate_for_people(d->machine, d->batch, &(estimate_observer){.node = on_node, .self = d}, e));
    for (size_t i = 0; d->is_sweep && d->json && i < b->n_row; i++) {
        str_printf(&d->out, "%s{\"row\": %zu, \"run\": %zu, \"cached\": %zu, \"label\": ", d->n_put++ ? ", " : "",
                   b->number[i], d->row_run[i], d->row_fetched[i]);
        str_json(&d->out, b->label[i], strlen(b->label[i]), 1);
        str_char(&d->out, '}');
    }
    for (size_t i = 0; d->is_sweep && !d->json && i < b->n_row; i++)
        print_text(stdout, "%-6zu %6zu %10zu  %s\n", b->number[i], d->row_run[i], d->row_fetched[i], b->label[i]);
    return KILN_OK;
}

static void print_json(dry_run *d, size_t n_row)
{
    str_printf(&d->out, "], \"total\": {\"rows\": %zu, \"run\": %zu, \"cached\": %zu, \"cached_bytes\": %llu, ", n_row,
               d->run, d->fetched, (unsigned long long)d->bytes);
    str_append(&d->out, "\"seconds\": "), str_double(&d->out, d->seconds);
    str_printf(&d->out, ", \"memory\": %zu, \"flops\": ", d->memory), str_double(&d->out, d->flops);
    str_append(&d->out, ", \"flops_of_unknown_time\": "), str_double(&d->out, d->unknown_flops);
    str_printf(&d->out, ", \"unknown\": %zu}}\n", d->unknown);
    print_raw(stdout, str_text(&d->out));
}

void dry_run_total(dry_run *d, size_t n_row)
{
    char memory[16], bytes[16];
    if (d->json) {
        print_json(d, n_row);
        return;
    }
    if (d->is_sweep) print_text(stdout, "%zu row%s: ", n_row, n_row == 1 ? "" : "s");
    print_text(stdout, "%zu to run, %zu from the cache (%s); about %.1f s, %s of memory, %.3g GFLOP\n", d->run,
               d->fetched, str_bytes(bytes, d->bytes), d->seconds, str_bytes(memory, d->memory), d->flops * 1e-9);
    if (d->unknown_flops > 0)
        print_text(stdout, "and %.3g GFLOP of nodes of which none has run here yet: how long they take is not known\n",
                   d->unknown_flops * 1e-9);
    estimate_say_unknown(d->unknown);
}

void dry_run_free(dry_run *d)
{
    mem_free(d->seen);
    str_free(&d->out);
    *d = (dry_run){0};
}
