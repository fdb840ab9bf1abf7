/* job.h - a workflow from its file to its pictures: `kiln run`, `kiln check` and `kiln graph` open one; one a process
 * at a time.
 *
 * Every run goes through driver.c: rows of settings are read, merged into batches, and each batch is executed or
 * estimated. A single run is one row without settings of its own.
 */
#ifndef KILN_RUN_JOB_H
#define KILN_RUN_JOB_H

#include "plugin/catalog.h"
#include "run/scheduler.h"
#include "workflow/document.h"

typedef struct {
    const char *path;      /* workflow file, or a PNG that carries one   */
    const set_option *set; /* --set, for every row; outlives the job     */
    size_t n_set;
    const char *plugins; /* --plugins, ':'-separated, or NULL */
    const char *models;  /* --models, or NULL                 */
    const char *input;   /* --input, or NULL                  */
    int over;            /* --over or --over-file will set more than `set` does        */
    int rows;            /* whoever opens it goes through the rows of `matrix:`, if any */
    int thorough;        /* nodes look into files for what is wrong                     */
    int unchecked;       /* it is only read: its workflow has the document alone, whose node types, values and files
                            nobody has looked at. Such a job is of use for nothing but job_workflow */
    /* Takes each fault and warning, a line for people; NULL: they go to standard error. */
    void (*line)(void *arg, const char *text, int is_warning);
    void *arg;
    catalog *catalog; /* what another job of this process loaded (job_catalog); NULL: `plugins` are loaded now */
} job_source;

typedef enum {
    JOB_RUN,
    JOB_EXPLAIN, /* print each node's key, memory and FLOPs; compute nothing, look at no kept result             */
    JOB_DRY_RUN  /* print what would run and what comes from the cache, with time, memory, FLOPs; compute nothing */
} job_mode;

typedef struct {
    job_mode mode;
    const char *out;       /* output folder; NULL: "out" */
    const char *device;    /* as backend/choose.h        */
    const char *precision; /* "f32", "bf16", "f16", "auto" */
    unsigned threads;
    const char *events;   /* file, "-" for stdout, or NULL */
    const char *trace;    /* file or NULL                  */
    const char *cache;    /* folder of the store; NULL: the default one */
    uint64_t memory;      /* bytes of the device's memory; 0: KILN_MEMORY, else what is free there */
    uint64_t cache_limit; /* bytes; 0: the store's default          */
    double state_seconds; /* between resumable states; 0: 30; negative: none */
    unsigned jobs;        /* nodes at once; 0: the scheduler's default */
    const char *file;     /* the one result's name in `out`; NULL: numbered names */
    int no_cache, quiet, verbose, validate, fail_fast;
    int skip_existing;      /* what is in `out` already is done (existing.h)                */
    int json;               /* JOB_EXPLAIN and JOB_DRY_RUN print one JSON object */
    uint32_t preview_every; /* steps of a sampling between two previews; 0: none */
    int signals;            /* 1: the first of them asks the run to stop, the second ends the process */
    void (*on_event)(void *arg, const char *json); /* see report.h; or NULL */
    void *arg;
} job_setting;

/* What makes a run a sweep: the rows of --over, --over-file and the workflow's `matrix:`. */
typedef struct {
    const char *const *over;
    size_t n_over;
    const char *over_file, *manifest, *sheet; /* manifest NULL: OUT/manifest.jsonl; sheet NULL: none */
    int again;                                /* also rows that the manifest says are done           */
} job_rows;

typedef struct {
    run_summary nodes;
    size_t rows, done, before, failed, left; /* before: done in an earlier run; left: not begun or not finished */
    size_t faulty;                           /* rows with faults: nothing was run                               */
    int cancelled;
} job_summary;

typedef struct job job;

/* Loads plugins, reads and checks. *faults: printed to stderr already; the job is of use only when it is 0. NULL with a
 * message when there is no workflow to speak of. Of a workflow whose rows are gone through only warnings are printed
 * and *faults is 0: a row may replace the value that is wrong, and job_run and job_check_rows say what is wrong with
 * the rows. */
job *job_open(const job_source *from, size_t *faults, error *e);
void job_close(job *j);
/* Takes the job's catalog over, which job_close then leaves: plugins are loaded once a process. */
catalog *job_take_catalog(job *j);
const workflow *job_workflow(const job *j);
const catalog *job_catalog(const job *j);
const yaml_node *job_matrix(const job *j); /* the head's `matrix:`, or NULL */
/* A node of the workflow is a plugin's that is neither kiln's own nor trusted, or such a one has registered something:
 * a sampler, a family, a type. */
int job_foreign_takes_part(const job *j);

/* Runs, explains or dry-runs it; rows NULL: once, as it stands. Prints progress, faults and results. A single run
 * returns its first failure (summary->nodes tells failed from skipped nodes); a sweep returns KILN_OK also when rows
 * failed, and an error when it could not be done as a whole. */
kiln_status job_run(job *j, const job_setting *setting, const job_rows *rows, job_summary *summary, error *e);

/* Reads and checks every row and runs nothing. Faults go where job_source says. */
kiln_status job_check_rows(job *j, const job_rows *rows, size_t *n_row, size_t *faulty, error *e);

#endif
