/* job_sweep.h - a job run once for each row of a sweep, in one process: models loaded once, what rows share computed
 * once.
 *
 * Every row is the source read again with the row's settings. All rows are read and checked before anything runs; then
 * they run in batches, each batch one merged workflow (merge.h), rows ordered so that equal prefixes meet. Values of
 * loader nodes are kept from one batch to the next. Each finished row is a line of the manifest, and a row that stands
 * there as done is not run again.
 */
#ifndef KILN_RUN_JOB_SWEEP_H
#define KILN_RUN_JOB_SWEEP_H

#include "run/job.h"
#include "run/sweep.h"

typedef struct {
    const job_source *source; /* its --set holds for every row */
    const char *const *over;
    size_t n_over;
    const char *over_file, *manifest, *sheet; /* manifest NULL: OUT/manifest.jsonl; sheet NULL: none */
    int again;                                /* also rows that the manifest says are done           */
} sweep_setting;

typedef struct {
    size_t rows, done, before, failed, left; /* before: done in an earlier run; left: not begun or not finished */
    size_t faulty;                           /* rows with faults: nothing was run                               */
    int cancelled;
} sweep_summary;

/* Prints progress, faults and which rows failed. KILN_OK also when rows failed: look at the summary. An error when the
 * sweep as a whole could not be done. */
kiln_status job_sweep(job *j, const sweep_setting *what, const job_setting *setting, sweep_summary *summary, error *e);

/* Reads and checks the row of every setting of the workflow's `matrix:`, which it has, and runs nothing. Faults are
 * printed. */
kiln_status job_check_rows(job *j, const job_source *from, size_t *rows, size_t *faulty, error *e);

#endif
