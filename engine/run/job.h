/* job.h - one workflow run from file to pictures: plugins, check, keys, schedule, what the user sees.
 *
 * Used by `kiln run`, `kiln check` and `kiln graph`. One job a process at a time.
 */
#ifndef KILN_RUN_JOB_H
#define KILN_RUN_JOB_H

#include "plugin/catalog.h"
#include "run/scheduler.h"
#include "workflow/document.h"

typedef struct {
    const char *path; /* workflow file, or a PNG that carries one */
    const set_option *set;
    size_t n_set;
    const char *plugins; /* --plugins, ':'-separated, or NULL */
    const char *models;  /* --models, or NULL                 */
    const char *input;   /* --input, or NULL                  */
    int over;            /* rows of a sweep set more than `set` does (--over, --over-file)      */
    int rows;            /* whoever opens it goes through the rows of `matrix:`, if there is one */
} job_source;

typedef struct {
    const char *out;       /* output folder           */
    const char *device;    /* as backend/choose.h     */
    const char *precision; /* "f32", "bf16", "f16", "auto" */
    unsigned threads;
    const char *events;   /* file, "-" for stdout, or NULL */
    const char *trace;    /* file or NULL                  */
    const char *cache;    /* folder of the store; NULL: the default one */
    uint64_t memory;      /* bytes of the device's memory; 0: KILN_MEMORY, else what is free there */
    uint64_t cache_limit; /* bytes; 0: the store's default          */
    double state_seconds; /* between resumable states; 0: 30; negative: none */
    unsigned jobs;        /* nodes at once; 0: the scheduler's default */
    int no_cache, dry_run;
    int explain, quiet, verbose, validate, fail_fast;
} job_setting;

typedef struct job job;

/* Loads plugins, reads and checks. *faults: printed to stderr already; the job is of use only when it is 0. NULL with a
 * message when there is no workflow to speak of. Of a workflow whose rows are gone through only warnings are printed
 * and *faults is 0: a row may replace the value that is wrong, and job_sweep and job_check_rows tell what is wrong with
 * the rows. */
job *job_open(const job_source *from, size_t *faults, error *e);
void job_close(job *j);
const workflow *job_workflow(const job *j);
const yaml_node *job_matrix(const job *j); /* the head's `matrix:`, or NULL */
/* Runs it. Prints progress and results; the status says how it went (run_summary tells failed from skipped). */
kiln_status job_run(job *j, const job_setting *setting, run_summary *summary, error *e);
/* What would run: keys, and (by recording the programs) memory and FLOPs a node. */
kiln_status job_explain(job *j, const job_setting *setting, error *e);
/* What would run and what would come from the store, with an estimate of time, memory and FLOPs: printed, nothing is
 * run. */
kiln_status job_dry_run(job *j, const job_setting *setting, error *e);

#endif
