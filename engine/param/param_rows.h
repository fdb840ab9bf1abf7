/* param_rows.h - tables of rows that came from a plugin: are they legal, and which row has a name.
 *
 * A table is read through its own stride. It is checked (validation, in every build) before anything else in
 * engine/param is asked about its rows; after that what a row promises is asserted.
 */
#ifndef KILN_PARAM_PARAM_ROWS_H
#define KILN_PARAM_PARAM_ROWS_H

#include "base/status.h"
#include "kiln/params.h"

/* KILN_ERR_INVALID with a sentence that names the row: names and docs, known types and flags, places inside the struct
 * that are aligned and do not overlap, ranges, choices, defaults. */
kiln_status param_rows_check(const kiln_param_table *t, error *e);

const kiln_param *param_row(const kiln_param_table *t, size_t i);
const kiln_param *param_row_named(const kiln_param_table *t, const char *name); /* NULL: none         */
const char *param_row_nearest(const kiln_param_table *t, const char *name);     /* NULL: none is near */

#endif
