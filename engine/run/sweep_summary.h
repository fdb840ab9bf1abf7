/* sweep_summary.h - a sweep's last words: how many rows are done, which failed and why, and the contact sheet. */
#ifndef KILN_RUN_SWEEP_SUMMARY_H
#define KILN_RUN_SWEEP_SUMMARY_H

#include "run/rows.h"

/* quiet: which rows failed, and nothing else. */
void sweep_say_summary(const row_set *r, int quiet);
/* The first picture of each row that is done, from the folder `out`, on the PNG `path`, which is printed. */
kiln_status sweep_write_sheet(const row_set *r, const char *out, const char *path, error *e);

#endif
