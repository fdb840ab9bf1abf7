/* existing.h - is what a row would write there already? By its names alone: for --skip-existing. */
#ifndef KILN_RUN_EXISTING_H
#define KILN_RUN_EXISTING_H

#include "run/rows.h"

/* What lies in one folder, sorted: thousands of rows ask for the same one. */
struct folder_names {
    char *folder;
    char **name;
    size_t n, capacity;
};
void folder_names_free(struct folder_names *f); /* and f itself; NULL is allowed */

/* *found: every output node of the row has a file in the folder `out` that begins with its filename_prefix, and they
 * are in the record. *names: a digest of these beginnings; zero when a result has no filename_prefix, and is never
 * taken to be there. *seen: made when it is NULL. */
kiln_status existing_find(const open_row *row, const char *out, struct folder_names **seen, row_record *record,
                          int *found, digest *names, error *e);

#endif
