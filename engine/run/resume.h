/* resume.h - a run that begins again after a crash (supervisor.h): what the processes before this one have finished,
 * said and written, by the notes of plugin/supervised.h. In a run that nobody watches all of it does nothing. */
#ifndef KILN_RUN_RESUME_H
#define KILN_RUN_RESUME_H

#include "run/row_log.h"

#include <sys/stat.h>

/* Before a call of the node on this thread: whose it is. */
void resume_place(batch *b, size_t node);
/* KILN_OK; or how the node failed in an earlier process. */
kiln_status resume_failure(batch *b, size_t node, error *e);
/* 1: an earlier process has reported the node's end. */
int resume_has_ended(batch *b, size_t node);
/* 1: it wrote all it has to, and nobody takes a value of it. */
int resume_has_written(batch *b, size_t node);
/* Gives the files of such a node to its row. */
void resume_take_files(row_log *l, size_t node);

/* The event as the user is to see it; and that he has. One event at a time. */
run_event resume_event(batch *b, const run_event *ev);

/* The path of the node's next file, which an earlier process has written; NULL: it has not. *said: for report_file;
 * NULL: it was named and not noted.
 */
const char *resume_next_file(batch *b, size_t node, struct supervised_said **said);
/* The node's next file is about to get a name in that folder. */
void resume_naming(batch *b, size_t node, const char *folder, const struct stat *file);
/* It has one. For report_file. */
struct supervised_said *resume_named(batch *b, size_t node, const char *path);

/* Rows of a sweep. A row's line is about to be written to the manifest, at its end; and the row is finished. */
void resume_row_line(size_t row, uint64_t at, uint64_t bytes, int failed);
void resume_row_end(size_t row, const row_record *record, int failed);
/* Rows that earlier processes have finished, with their files. */
kiln_status resume_rows(row_set *r, const manifest *m, const char *out, error *e);

/* The nodes of all processes of this run. */
void resume_summary(run_summary *s);

#endif
