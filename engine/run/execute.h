/* execute.h - the policy that runs a batch: results come from the store, from a loader that was kept, from another
 * process, or are computed, and what is computed is kept. */
#ifndef KILN_RUN_EXECUTE_H
#define KILN_RUN_EXECUTE_H

#include "plugin/ctx.h"
#include "run/batch.h"
#include "run/loader_cache.h"
#include "run/row_log.h"

typedef struct {
    machine *machine;
    batch *batch;
    row_log *log;
    loader_cache *loaders; /* NULL: there is no batch to come that would want them */
    const job_setting *setting;
    call_environment env;
} execution;

/* Outputs that cannot write a file of the name that -o gives say so. */
kiln_status execute_check_name(execution *x, error *e);
/* The first failure's status, its message in e; it has been reported to the user. */
kiln_status execute_batch(execution *x, run_summary *summary, error *e);

#endif
