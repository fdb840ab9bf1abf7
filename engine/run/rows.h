/* rows.h - the rows of a run: which there are, what is wrong with them, and which are left to do. A row is the source
 * read with the row's settings. A single run has one row, which is the job's first reading.
 */
#ifndef KILN_RUN_ROWS_H
#define KILN_RUN_ROWS_H

#include "base/hash.h"
#include "run/manifest.h"
#include "run/reading.h"
#include "run/sweep.h"
#include "workflow/key.h"

enum { PREFIX_KEYS = 12, LABEL_CAPACITY = 400 };

typedef enum { ROW_LEFT, ROW_BEFORE, ROW_DONE, ROW_FAILED } row_state;

/* What is known of a row as long as the run lasts. */
typedef struct {
    digest key;                   /* of what the row makes: keys of its outputs, and its settings */
    uint32_t prefix[PREFIX_KEYS]; /* of each expensive node: the first row that has it too        */
    row_state state;
    int exists; /* what it writes is in row_set.skip_in */
    digest names;
    double seconds;
    char *message; /* why it failed */
    int said;      /* it was printed when it failed */
    char **file;   /* relative to the output folder */
    size_t n_file, file_capacity;
} row_record;

typedef struct {
    job *job;
    int is_sweep;
    sweep plan;
    const char *skip_in;       /* rows whose results are in this folder are done; NULL: their names do not matter */
    struct folder_names *seen; /* what existing.c has read of folders   */
    set_option *set;           /* the command line's settings, and room for a row's behind them */
    row_record *record;
    uint32_t *todo;
    size_t n_todo;
    job_summary *sum;
} row_set;

/* A row while it is worked on. */
typedef struct {
    size_t row;
    reading *read;
    reading own; /* what `read` points to, unless it is the job's first reading */
    char label[LABEL_CAPACITY];
    size_t outputs_left; /* this and the next while it runs (row_log.c) */
    int failed, cancelled;
} open_row;

/* setting NULL: a single run. Free it also on failure. */
kiln_status rows_make(row_set *r, job *j, const job_rows *setting, job_summary *sum, error *e);
void rows_free(row_set *r);

/* Look at out->read->doc.n_fault. rows_unread also on failure. */
kiln_status rows_read(row_set *r, size_t row, open_row *out, error *e);
void rows_unread(open_row *row);

/* Reads all rows of a sweep and prints their faults: KILN_ERR_INVALID when there are some. keys: not NULL, also gives
 * each row its key and finds what it has in common with others. */
kiln_status rows_check(row_set *r, const key_setting *keys, error *e);
/* The rows that the manifest (NULL: there is none) does not know into r->todo, ordered so that equal prefixes meet.
 * out: the folder with their files. */
kiln_status rows_choose(row_set *r, const manifest *m, const char *out, error *e);
kiln_status row_add_file(row_record *row, const char *name);

static inline int is_output(const graph_node *g) { return g->needed && (g->type->flags & KILN_NODE_OUTPUT); }

#endif
