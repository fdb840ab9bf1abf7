/* job_parts.h - the inside of a job, for job.c and job_sweep.c alone.
 *
 * A run is: job_machine, keys for j->workflow, job_take_up, run_schedule, job_let_go (the last three again for each
 * further workflow on the same machine), job_finish.
 */
#ifndef KILN_RUN_JOB_PARTS_H
#define KILN_RUN_JOB_PARTS_H

#include "backend/runtime.h"
#include "base/file_list.h"
#include "plugin/ctx.h"
#include "plugin/output.h"
#include "run/files.h"
#include "run/job.h"
#include "run/result_cache.h"
#include "run/report.h"
#include "run/scheduler.h"
#include "workflow/key.h"

#include <pthread.h>

struct job {
    catalog *catalog;
    document doc;
    workflow workflow;
    file_roots roots;
    arena memory;
    const node_info **info; /* by node */
    const char *path;       /* the source's, as given */
    char *text;             /* the source             */
    size_t text_size;
    /* while it runs */
    report *report;
    result_cache *result_cache;
    runtime *runtime;
    call_environment env;
    void **instance;
    char **texts;      /* by node and kind (job.c), made when asked for */
    file_list **files; /* by node: what its call read or may have, while it runs (job_files.c) */
    pthread_mutex_t lock;
    /* while it is a sweep (job_sweep.c): the row's own workflow of a node, and who else is told of files */
    void *sweep;
    const workflow *(*part_of)(void *sweep, size_t node, size_t *there);
    void (*on_file)(void *sweep, size_t node, const char *path);
};

/* signals.c */
extern atomic_int interrupted; /* Ctrl-C, SIGTERM, SIGHUP */
void job_watch_signals(void);
int env_cancelled(void *arg);

/* The source read with these settings, and checked; look at doc->n_fault. *info lives in the document. The document is
 * to be freed also on failure. */
kiln_status job_read(job *j, const set_option *set, size_t n_set, document *doc, workflow *w, const node_info ***info,
                     error *e);
/* Report, runtime and store. */
kiln_status job_machine(job *j, const job_setting *s, error *e);
key_setting job_keys(const job *j);
/* What belongs to the nodes of j->workflow, which has its keys, and its end. */
kiln_status job_take_up(job *j, error *e);
void job_let_go(job *j);
void job_finish(job *j);
call_environment job_environment(job *j, const job_setting *s, output_folder *output);
/* job_memory.c. The budget of --memory or KILN_MEMORY, or else none but what the device has. */
kiln_status job_memory_setting(const job_setting *s, runtime_setting *rs, error *e);
void job_memory_begin(job *j); /* tensors are on the runtime's account from here */
void job_memory_end(void);
/* With a budget that was asked for: calls the nodes of j->workflow once without computing, so that a budget that is too
 * small is refused (KILN_ERR_NOMEM, with the least one that works) before anything runs, and the order of programs is
 * known. */
kiln_status job_estimate_memory(job *j, error *e);
/* A node found no room within the budget: KILN_ERR_NOMEM with the least budget that works; KILN_OK when that is no more
 * than the budget. */
kiln_status job_least_memory(job *j, error *e);
/* job_look.c: a key_setting.unreadable. */
int job_unreadable(void *arg, const char *path);
/* What went over the link so far; all 0 where the device's memory is the host's. */
device_traffic job_link(const job *j);
/* Tells the report what node i, which alone used the device, moved since `before`. */
void job_tell_link(job *j, size_t i, device_traffic before);
void job_explain_memory(const job *j);
void job_say_memory(const job *j, const job_setting *s);
/* job_files.c: the files behind node i, gathered before its call: its own, as its key saw them, and those of the
 * objects it was given. */
kiln_status job_files_begin(job *j, size_t i, kiln_value *const *in, error *e);
/* After its call: KILN_ERR_IO when one of them has changed; else its objects hang on them. */
kiln_status job_files_end(job *j, size_t i, kiln_status status, kiln_value **out, error *e);
/* For call_environment. */
kiln_status job_files_opened(void *arg, size_t i, const char *path, const file_identity *was, error *e);
kiln_status job_files_unchanged(void *arg, size_t i, error *e);
/* For key_setting: of an index of shards, the shards and the texts that lie with it. */
kiln_status job_files_beside(void *arg, const char *path, kiln_status (*each)(void *to, const char *path, error *e),
                             void *to, error *e);
kiln_status job_call_node(job *j, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e);

/* Prepares the machine for looking only, and goes through j->workflow with these hooks; then its end. */
kiln_status job_explain_all(job *j, const job_setting *setting, int dry, const run_hooks *hooks, error *e);
void job_close_quietly(job *j);

/* job_dry.c: what a dry run counts; run_hooks with it as self; its last lines. */
typedef struct {
    job *job;
    int quiet; /* no line for each node */
    size_t run, fetched;
    double seconds, flops, unknown_flops;
    size_t bytes, memory;
} dry_run;
kiln_status dry_call(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e);
int dry_known(void *self, size_t i);
kiln_status dry_fetch(void *self, size_t i, kiln_value **out, error *e);
void dry_total(const dry_run *d);

/* run_hooks with the job as self. */
kiln_status job_call(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e);
int job_known(void *self, size_t i);
int job_taken(void *self, size_t i);
kiln_status job_fetch(void *self, size_t i, kiln_value **out, error *e);

#endif
