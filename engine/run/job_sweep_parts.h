/* job_sweep_parts.h - the inside of a sweep, for job_sweep.c (the whole, and batches), job_sweep_rows.c (reading,
 * checking and choosing rows), sweep_events.c (what is noted of rows while they run) and job_sweep_dry.c (what would
 * run).
 */
#ifndef KILN_RUN_JOB_SWEEP_PARTS_H
#define KILN_RUN_JOB_SWEEP_PARTS_H

#include "base/hash.h"
#include "run/job_parts.h"
#include "run/job_sweep.h"
#include "run/manifest.h"
#include "run/merge.h"

enum { BATCH_ROWS = 64, PREFIX_KEYS = 12, KEPT_NODES = 4, FAULTS_SHOWN = 100, FAILED_SHOWN = 20, LABEL_ROOM = 400 };

typedef enum { ROW_LEFT, ROW_BEFORE, ROW_DONE, ROW_FAILED } row_state;

typedef struct {
    digest key;                   /* of what the row makes: keys of its outputs, and its settings */
    uint32_t prefix[PREFIX_KEYS]; /* of each expensive node: the first row that has it too        */
    row_state state;
    size_t outputs_left;
    int failed, cancelled;
    double seconds;
    char *message;
    char **file; /* relative to the output folder */
    size_t n_file;
} row_record;

/* A row while it is worked on. */
typedef struct {
    size_t row;
    document doc;
    workflow w;
    const node_info **info;
    char label[LABEL_ROOM];
} row_work;

/* Outputs of a loader, for the batches to come. */
typedef struct {
    digest key;
    kiln_value **out;
    uint32_t n;
    uint64_t used;
} kept_node;

typedef struct {
    const document
        *file; /* what is wrong (or odd) without any row's settings is no row's; its warnings have been told */
    digest seen[FAULTS_SHOWN];
    size_t n, more;
} faults_shown;

typedef struct {
    job *j;
    const sweep_setting *what;
    const job_setting *setting;
    const char *out;
    workflow base; /* the first row's, while rows are made */
    const node_info **base_info;
    sweep plan;
    set_option *set; /* the row's, behind those of the command line */
    row_record *row;
    uint32_t *todo;
    size_t n_todo;
    manifest *manifest;
    sweep_summary *sum;
    run_summary nodes;
    /* the batch */
    row_work *work;
    size_t n_work;
    merged merged;
    size_t number[BATCH_ROWS];
    const char *label[BATCH_ROWS];
    kept_node kept[KEPT_NODES];
    uint64_t clock;
    int keep;
    int estimated;        /* what the rows want of memory is known */
    pthread_mutex_t lock; /* files and kept nodes */
    error trouble;        /* of the manifest */
} sweep_run;

static inline kiln_status no_memory(error *e) { return error_set(e, KILN_ERR_NOMEM, "out of memory"); }
static inline int is_output(const graph_node *g) { return g->needed && (g->type->flags & KILN_NODE_OUTPUT); }

/* ---- job_sweep_rows.c ---- */

/* The source read with the row's settings; look at w->doc.n_fault. The document is to be freed also on failure. */
kiln_status sweep_read_row(sweep_run *r, size_t row, row_work *w, error *e);
/* Each different fault and warning once, with the first row that has it. */
void sweep_show_faults(const row_work *w, faults_shown *shown);
/* Reads all rows and prints their faults: KILN_ERR_INVALID when there are some. */
kiln_status sweep_check_rows(sweep_run *r, error *e);
/* Reads and checks all rows; keys and prefixes into r->row. */
kiln_status sweep_scan_rows(sweep_run *r, error *e);
/* Those the manifest (NULL: there is none) does not know into r->todo, ordered so that equal prefixes meet. */
kiln_status sweep_choose_rows(sweep_run *r, error *e);
kiln_status sweep_add_file(row_record *row, const char *name);

/* ---- sweep_events.c: hooks with the sweep_run as self ---- */

const workflow *sweep_part_of(void *self, size_t node, size_t *there);
void sweep_on_file(void *self, size_t node, const char *path);
void sweep_on_event(void *self, const run_event *ev);

/* ---- job_sweep.c: a batch of n rows, read and merged into r->j->workflow; and its end ---- */

kiln_status sweep_read_batch(sweep_run *r, const uint32_t *todo, size_t n, error *e);
kiln_status sweep_merge_batch(sweep_run *r, error *e);
void sweep_batch_close(sweep_run *r);

/* ---- job_sweep_dry.c: what the rows of r->todo would run, printed ---- */

kiln_status sweep_dry_run(sweep_run *r, error *e);

#endif
