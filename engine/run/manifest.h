/* manifest.h - what became of each row of a sweep, as JSON lines, written as rows finish.
 *
 * A line: {"row", "settings", "status" ("done", "failed"), "files" (relative to the output folder), "seeds", "keys" (of
 * the nodes that write), "key" (of the row), "seconds", "time", "error"}. Lines are appended; of several with one key
 * the last holds. A line that a crash cut short is passed over.
 */
#ifndef KILN_RUN_MANIFEST_H
#define KILN_RUN_MANIFEST_H

#include "base/hash.h"
#include "base/str.h"

#include "base/status.h"

typedef struct manifest manifest;

/* Reads what is there and opens the file for more. KILN_ERR_INVALID when it is something else than a manifest. NULL on
 * failure. */
manifest *manifest_open(const char *path, error *e);
/* The files of the row with this key when its last line says done and all of them are in folder `out`; *n: how many.
 * NULL when there is no such row. They live until manifest_close. */
const char *const *manifest_find(const manifest *m, digest key, const char *out, size_t *n);
/* Appends one line (without its end). On disk after at most a few seconds; a killed process loses nothing that was
 * added. */
kiln_status manifest_add(manifest *m, const str *line, error *e);
uint64_t manifest_bytes(const manifest *m);        /* how large the file is */
kiln_status manifest_close(manifest *m, error *e); /* fsync */

#endif
