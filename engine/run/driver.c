/* driver.c - every run from its rows to its last words: job_run and job_check_rows of job.h.
 *
 *     rows (rows.c) -> batches (batch.c) -> a policy: execute (execute.c), or estimate for --explain and --dry-run
 *
 * A single run is one row in one batch, without a manifest. Before the first batch is executed under a budget it is
 * estimated, so that a budget that is too small is refused; the batches of a sweep are alike.
 */
#include "base/file.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "plugin/supervised.h"
#include "run/dry_run.h"
#include "run/execute.h"
#include "run/explain.h"
#include "run/interrupt.h"
#include "run/memory_budget.h"
#include "run/memory_report.h"
#include "run/resume.h"
#include "run/sweep_summary.h"

#include <assert.h>

typedef struct {
    job *job;
    const job_setting *setting;
    const job_rows *wanted; /* NULL: a single run */
    const char *out;
    job_summary *sum;
    machine machine;
    row_set rows;
    manifest *manifest;
    batch batch;
    loader_cache loaders;
    row_log log;
    dry_run dry;
    int executed; /* a batch has been, or has been tried */
} driver;

/* ---- the policies ---- */

static void add_nodes(run_summary *to, const run_summary *s)
{
    to->ran += s->ran, to->fetched += s->fetched, to->shared += s->shared, to->failed += s->failed,
        to->skipped += s->skipped;
    to->total += s->total, to->outputs_done += s->outputs_done, to->cancelled |= s->cancelled;
}

/* -o FILE: a name that its node refuses is found before anything is computed, and by --dry-run and --explain too. */
static kiln_status check_name(driver *d, error *e)
{
    execution x = {.machine = &d->machine, .batch = &d->batch, .log = &d->log, .setting = d->setting};
    return execute_check_name(&x, e);
}

/* A sweep: KILN_OK when the rows ran, whatever became of them; a single run: its first failure. */
static kiln_status execute(driver *d, error *e)
{
    run_summary nodes = {0};
    error first = {0};
    int once =
        d->rows.n_todo == 1 && !job_foreign_takes_part(d->job); /* whose plugins are called no more than needed */
    if (!d->executed) TRY(memory_check_budget(&d->machine, &d->batch, once, e));
    d->executed = 1;
    if (supervised_again())
        log_level_set(d->setting->quiet ? KILN_LOG_ERROR : d->setting->verbose ? KILN_LOG_INFO : KILN_LOG_WARN);
    execution x = {.machine = &d->machine,
                   .batch = &d->batch,
                   .log = &d->log,
                   .loaders = d->rows.n_todo > BATCH_ROWS ? &d->loaders : NULL,
                   .setting = d->setting};
    kiln_status status = execute_batch(&x, &nodes, &first);
    add_nodes(&d->sum->nodes, &nodes);
    int reported = d->rows.is_sweep && (nodes.failed || nodes.cancelled);
    if (status != KILN_OK && !reported) return error_set(e, status, "%s", first.message);
    return d->log.trouble.status == KILN_OK ? KILN_OK
                                            : error_set(e, d->log.trouble.status, "%s", d->log.trouble.message);
}

static kiln_status apply_policy(driver *d, error *e)
{
    switch (d->setting->mode) {
    case JOB_EXPLAIN: return explain_batch(&d->machine, &d->batch, d->setting->json, e);
    case JOB_DRY_RUN: return dry_run_batch(&d->dry, e);
    case JOB_RUN: return execute(d, e);
    }
    return KILN_ERR_BUG;
}

/* ---- batches ---- */

static void say_head(driver *d)
{
    if (d->setting->mode == JOB_EXPLAIN && !d->setting->json) explain_head();
    if (d->setting->mode != JOB_DRY_RUN) return;
    if (d->sum->before && !d->setting->json)
        print_text(stdout, "%zu of %zu rows were done before (%s)\n", d->sum->before, d->sum->rows,
                   d->wanted->manifest ? d->wanted->manifest : "the manifest in --out");
    dry_run_head(&d->dry, d->rows.n_todo);
}

/* Reading a single run's files for their keys can take minutes, in which a signal still ends the process. */
static kiln_status run_batch(driver *d, const uint32_t *todo, size_t n, error *e)
{
    kiln_status status = batch_open(&d->batch, &d->rows, todo, n, &d->machine, e);
    if (d->setting->mode == JOB_RUN && d->setting->signals) interrupt_watch();
    if (status == KILN_OK && d->setting->file && (status = check_name(d, e)) == KILN_OK) say_head(d);
    if (status == KILN_OK) status = apply_policy(d, e);
    batch_close(&d->batch);
    return status;
}

static kiln_status run_batches(driver *d, error *e)
{
    const row_set *r = &d->rows;
    job_summary *sum = d->sum;
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < r->n_todo && status == KILN_OK; i += BATCH_ROWS) {
        status = run_batch(d, r->todo + i, r->n_todo - i < BATCH_ROWS ? r->n_todo - i : BATCH_ROWS, e);
        if (sum->nodes.cancelled || interrupt_asked(NULL)) sum->cancelled = 1;
        if (sum->cancelled || (d->setting->fail_fast && sum->failed)) break;
    }
    sum->left = sum->rows - sum->done - sum->before - sum->failed;
    return status;
}

/* ---- a sweep's rows ---- */

/* The file's values alone are wrong, and rows replace them: the first row stands for the whole from here on. */
static kiln_status take_first_row(driver *d, error *e)
{
    open_row row;
    TRY(rows_check(&d->rows, NULL, e));
    kiln_status status = rows_read(&d->rows, 0, &row, e);
    if (status == KILN_OK && row.read->doc.n_fault)
        status = error_set(e, KILN_ERR_INVALID, "what the first row reads has changed since it was checked");
    if (status == KILN_OK) reading_move(&d->job->first, &row.own);
    rows_unread(&row);
    return status;
}

/* A dry run makes no file. */
static kiln_status open_manifest(driver *d, error *e)
{
    char *path = d->wanted->manifest ? mem_strdup(d->wanted->manifest) : path_join(d->out, "manifest.jsonl");
    if (!path) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    int wanted = d->setting->mode == JOB_RUN || file_exists(path);
    if (wanted) d->manifest = manifest_open(path, e);
    mem_free(path);
    return d->manifest || !wanted ? KILN_OK : e->status;
}

static kiln_status prepare_sweep(driver *d, error *e)
{
    key_setting keys = machine_keys(&d->machine);
    if (d->setting->signals) interrupt_watch();
    TRY(rows_check(&d->rows, &keys, e));
    return open_manifest(d, e);
}

/* ---- the whole ---- */

static kiln_status drive(driver *d, error *e)
{
    int is_sweep = d->wanted != NULL;
    TRY(rows_make(&d->rows, d->job, d->wanted, d->sum, e));
    if (d->job->first.doc.n_fault) TRY(take_first_row(d, e));
    if (d->setting->skip_existing) d->rows.skip_in = d->out;
    d->dry = (dry_run){.machine = &d->machine, .batch = &d->batch, .is_sweep = is_sweep, .json = d->setting->json};
    if (!is_sweep && !d->setting->file) say_head(d); /* keys can take a while */
    TRY(machine_open(&d->machine, d->job, d->setting, e));
    if (is_sweep) TRY(prepare_sweep(d, e));
    TRY(rows_choose(&d->rows, is_sweep && d->wanted->again ? NULL : d->manifest, d->out, e));
    if (is_sweep) say_head(d);
    if (d->job->drawn.len && !d->setting->quiet && !supervised_again() && d->setting->mode == JOB_RUN)
        print_text(stderr, "kiln: random seed: %s\n", str_text(&d->job->drawn));
    if (!is_sweep && !d->rows.n_todo && !d->setting->quiet)
        print_text(stderr, "kiln: %s/%s is there; nothing was run\n", d->out, d->rows.record[0].file[0]);
    d->log = (row_log){
        .rows = &d->rows, .batch = &d->batch, .report = d->machine.report, .manifest = d->manifest, .out = d->out};
    pthread_mutex_init(&d->log.lock, NULL);
    kiln_status status = run_batches(d, e);
    resume_summary(&d->sum->nodes);
    pthread_mutex_destroy(&d->log.lock);
    if (status == KILN_OK && d->setting->mode == JOB_DRY_RUN) dry_run_total(&d->dry, d->rows.n_todo);
    return status;
}

/* Closes what was written, each step whatever became of the ones before; the last one's failure is in `late`. */
static void finish(driver *d, kiln_status status, error *late)
{
    const job_setting *s = d->setting;
    int runs = s->mode == JOB_RUN;
    report_close(d->machine.report, &d->sum->nodes,
                 status != KILN_OK ? status_name(status)
                 : d->sum->failed  ? "partly"
                                   : "ok",
                 late);
    if (d->executed && !s->quiet) memory_say(&d->machine); /* the line of the progress is gone */
    manifest_close(d->manifest, late);
    if (status == KILN_OK && runs && d->wanted && d->wanted->sheet && !d->sum->cancelled)
        sweep_write_sheet(&d->rows, d->out, d->wanted->sheet, late);
    if (d->manifest && runs) sweep_say_summary(&d->rows, s->quiet);
    loader_cache_free(&d->loaders);
    dry_run_free(&d->dry);
    machine_close(&d->machine);
    rows_free(&d->rows);
}

kiln_status job_run(job *j, const job_setting *setting, const job_rows *rows, job_summary *summary, error *e)
{
    error late = {0};
    driver *d = mem_calloc(1, sizeof *d);
    *summary = (job_summary){0};
    if (!d) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    assert(!(rows && setting->mode == JOB_EXPLAIN)); /* the command line has refused it */
    *d = (driver){
        .job = j, .setting = setting, .wanted = rows, .out = setting->out ? setting->out : "out", .sum = summary};
    loader_cache_init(&d->loaders);
    kiln_status status = drive(d, e);
    if (supervised_holds() && d->executed && !d->sum->cancelled && !d->sum->nodes.cancelled) {
        machine_close(&d->machine); /* what is kept is written */
        supervised_end_held();
    }
    finish(d, status, &late);
    mem_free(d);
    if (status != KILN_OK) return status;
    return late.status != KILN_OK ? error_set(e, late.status, "%s", late.message) : KILN_OK;
}

kiln_status job_check_rows(job *j, const job_rows *rows, size_t *n_row, size_t *faulty, error *e)
{
    job_summary summary = {0};
    row_set r;
    kiln_status status = rows_make(&r, j, rows, &summary, e);
    if (status == KILN_OK) status = rows_check(&r, NULL, e);
    *faulty = summary.faulty;
    *n_row = r.plan.n_row;
    rows_free(&r);
    return status;
}
