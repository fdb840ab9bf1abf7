/* job_sweep_dry.c - what the rows of a sweep would run, without running it: batch by batch as the sweep itself would,
 * each node counted for the first row that has it.
 */
#include "run/job_sweep_parts.h"

#include "base/memory_alloc.h"
#include "base/print.h"

#include <stdio.h>

enum { SEEN_FIRST = 1024 };

typedef struct {
    sweep_run *r;
    dry_run all;
    digest *seen; /* keys of earlier batches: their results would be kept */
    size_t n_seen, capacity;
    size_t run[BATCH_ROWS], fetched[BATCH_ROWS];
} sweep_dry;

static int was_seen(sweep_dry *d, const graph_node *g)
{
    for (size_t i = 0; g->cacheable && i < d->n_seen; i++)
        if (digest_equal(d->seen[i], g->key)) return 1;
    if (d->n_seen == d->capacity) {
        size_t capacity = d->capacity ? 2 * d->capacity : SEEN_FIRST;
        digest *more = mem_realloc(d->seen, capacity * sizeof *more);
        if (!more) return 0; /* counted once too often */
        d->seen = more, d->capacity = capacity;
    }
    d->seen[d->n_seen++] = g->key;
    return 0;
}

static kiln_status call(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e)
{
    sweep_dry *d = self;
    const graph_node *g = &d->r->merged.all.node[i];
    dry_run before = d->all;
    int seen = was_seen(d, g);
    TRY(dry_call(&d->all, i, params, in, out, e));
    if (seen)
        d->all = before;
    else
        d->run[d->r->merged.part_of[i]]++;
    return KILN_OK;
}

static int known(void *self, size_t i) { return dry_known(&((sweep_dry *)self)->all, i); }

static kiln_status fetch(void *self, size_t i, kiln_value **out, error *e)
{
    sweep_dry *d = self;
    dry_run before = d->all;
    int seen = was_seen(d, &d->r->merged.all.node[i]);
    TRY(dry_fetch(&d->all, i, out, e));
    if (seen)
        d->all = before;
    else
        d->fetched[d->r->merged.part_of[i]]++;
    return KILN_OK;
}

static kiln_status batch(sweep_dry *d, const uint32_t *todo, size_t n, error *e)
{
    sweep_run *r = d->r;
    run_summary nodes = {0};
    TRY(sweep_read_batch(r, todo, n, e));
    TRY(sweep_merge_batch(r, e));
    for (size_t i = 0; i < n; i++) d->run[i] = d->fetched[i] = 0;
    TRY(run_schedule(&r->j->workflow, &(run_hooks){.self = d, .call = call, .known = known, .fetch = fetch},
                     &(run_setting){.workers = 1, .fail_fast = 1, .cancel = &interrupted}, &nodes, e));
    for (size_t i = 0; i < n; i++)
        print_text(stdout, "%-6zu %6zu %10zu  %s\n", r->number[i], d->run[i], d->fetched[i], r->label[i]);
    return KILN_OK;
}

kiln_status sweep_dry_run(sweep_run *r, error *e)
{
    sweep_dry d = {.r = r, .all = {.job = r->j, .quiet = 1}};
    kiln_status status = KILN_OK;
    if (r->sum->before)
        print_text(stdout, "%zu of %zu rows were done before (%s)\n", r->sum->before, r->sum->rows,
                   r->what->manifest ? r->what->manifest : "the manifest in --out");
    if (r->n_todo)
        print_text(stdout, "%-6s %6s %10s  %s\n", "row", "to run", "from cache",
                   "settings (a node counts for the first row that has it)");
    for (size_t i = 0; i < r->n_todo && status == KILN_OK; i += BATCH_ROWS) {
        status = batch(&d, r->todo + i, r->n_todo - i < BATCH_ROWS ? r->n_todo - i : BATCH_ROWS, e);
        sweep_batch_close(r);
    }
    if (status == KILN_OK) {
        print_text(stdout, "%zu rows: ", r->n_todo);
        dry_total(&d.all);
    }
    mem_free(d.seen);
    return status;
}
