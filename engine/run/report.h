/* report.h - what the user sees of a run: a bar or lines on the terminal, JSON events, a Chrome trace. Every function
 * may be called from any thread.
 *
 * On a terminal the bar is one line that is drawn again; otherwise a line for each node, and for long nodes one every
 * few seconds. Events are JSON lines: run_start, node_start, progress, node_done, node_failed, node_skipped, note,
 * file, link, row_done, run_done. node_done says whence the values came: "computed", "cache" (the store) or "shared"
 * (another node of this run); link, before it, what a node moved to and from a device with memory of its own: exact
 * "in" and "out" in bytes, "copies" in calls.
 */
#ifndef KILN_RUN_REPORT_H
#define KILN_RUN_REPORT_H

#include "backend/runtime.h"
#include "run/scheduler.h"

typedef struct report report;

/* The rows of a sweep (rows.h), when the nodes belong to some: one bar for the whole, a line a row, "row" in
 * events. */
typedef struct {
    const uint32_t *part_of;  /* by node: index in the two below   */
    const size_t *number;     /* the row's number, from 1          */
    const char *const *label; /* "seed=13 cfg=7"                   */
    size_t total;             /* rows of the whole sweep           */
} report_rows;

typedef struct {
    const workflow *workflow;
    const char *events, *trace; /* paths; events "-": stdout */
    int quiet, verbose;
    void (*on_event)(void *arg, const char *json); /* the events as well, without their newline; or NULL */
    void *arg;
} report_setting;

report *report_open(const report_setting *setting, error *e);
/* Writes what is left and closes; KILN_ERR_IO when a file could not be written. */
kiln_status report_close(report *r, const run_summary *summary, const char *status, error *e);
/* A run that goes on in another process says nothing twice: what was said is marked at once, and what is marked is not
 * said. Of an event's line in a file that the process before was killed over, the file's length tells whether it is
 * whole. */
enum { SAID_EVENT = 1, SAID_LINE = 2, SAID_ALL = SAID_EVENT | SAID_LINE };
void report_event(report *r, const run_event *event);
/* From here on the nodes are this workflow's, which are rows of a sweep. `done`: rows finished before. */
kiln_status report_rows_set(report *r, const workflow *w, const report_rows *rows, size_t done, error *e);
typedef struct {
    const char *status;  /* "done" or "failed" */
    const char *message; /* why it failed, or NULL */
    char *const *file;   /* relative to the output folder */
    size_t n_file;
    double seconds;
} row_end;
/* A row is finished. */
void report_row(report *r, size_t part, const row_end *end);
void report_progress(report *r, size_t node, uint64_t done, uint64_t total, const char *what);
/* A result as it stands: a "draft" event. */
void report_draft(report *r, size_t node, const char *text);
/* What it looks like: a "preview" event, height rows of width pixels of three bytes. */
void report_preview(report *r, size_t node, const uint8_t *rgb, uint32_t width, uint32_t height);
/* Something worth knowing about a node that is neither progress nor failure: a line when verbose, a "note" event. */
void report_note(report *r, size_t node, const char *text);
/* What went over the link to an asynchronous device while this node was computed: a "link" event, and a line when
 * verbose. */
void report_link(report *r, size_t node, const device_traffic *moved);
void report_file(report *r, size_t node, const char *path, struct supervised_said *said);
void report_op(void *report, const op_trace *op); /* a runtime_setting.trace */

#endif
