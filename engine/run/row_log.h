/* row_log.h - what becomes of the rows of a batch while it runs: their files, messages and seconds, and a line of the
 * manifest when a row is finished. */
#ifndef KILN_RUN_ROW_LOG_H
#define KILN_RUN_ROW_LOG_H

#include "run/batch.h"

typedef struct {
    row_set *rows;
    batch *batch;
    report *report;
    manifest *manifest; /* NULL: no sweep */
    const char *out;    /* the output folder */
    pthread_mutex_t lock;
    error trouble; /* the manifest could not be written */
} row_log;

/* A node wrote a file. Any thread. */
void row_log_file(row_log *l, size_t node, const char *path);
/* The scheduler's events, one at a time. */
void row_log_event(row_log *l, const run_event *ev);

#endif
