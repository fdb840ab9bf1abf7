/* row_faults.h - faults and warnings of a sweep's rows: each different one is printed once, with the first row that has
 * it. */
#ifndef KILN_RUN_ROW_FAULTS_H
#define KILN_RUN_ROW_FAULTS_H

#include "run/rows.h"

enum { FAULTS_SHOWN = 100 };

typedef struct {
    const job *job;
    const document *file; /* the first reading: what it has too is no single row's */
    digest seen[FAULTS_SHOWN];
    size_t n, more;
} row_faults;

void row_faults_show(row_faults *shown, const open_row *row);
void row_faults_end(const row_faults *shown); /* how many more there were */

#endif
