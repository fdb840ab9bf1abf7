/* dry_run.h - --dry-run: what would run, what comes from the cache, and an estimate of time, memory and FLOPs. Of a
 * single run a line for each node; of a sweep a line for each row, in which a node counts for the first row that has
 * it.
 */
#ifndef KILN_RUN_DRY_RUN_H
#define KILN_RUN_DRY_RUN_H

#include "base/str.h"
#include "run/batch.h"

typedef struct {
    machine *machine;
    batch *batch;
    int is_sweep, json;
    size_t run, fetched, unknown;
    double seconds, flops, unknown_flops; /* unknown: of nodes of which none has run here yet */
    uint64_t bytes;
    size_t memory;
    digest *seen; /* keys of earlier batches: their results would be kept */
    size_t n_seen, seen_capacity;
    size_t row_run[BATCH_ROWS], row_fetched[BATCH_ROWS];
    str out; /* json: what is printed at the end */
    size_t n_put;
} dry_run;

void dry_run_head(dry_run *d, size_t n_row);
kiln_status dry_run_batch(dry_run *d, error *e);
void dry_run_total(dry_run *d, size_t n_row);
void dry_run_free(dry_run *d);

#endif
