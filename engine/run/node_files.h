/* node_files.h - that a result is of the files its key says: which files a node read, and whether they are still what
 * they were.
 *
 * A node's files are those its own parameters name, in the state the key was made of, those its call opens, and those
 * behind the objects it was given: a MODEL's weights are read when they are packed, long after its loader was done.
 * Plain data was checked when it was made. All are checked after the call's last reading and before anything it made is
 * kept, named or handed on.
 */
#ifndef KILN_RUN_NODE_FILES_H
#define KILN_RUN_NODE_FILES_H

#include "base/file_list.h"
#include "run/batch.h"

/* Before the call of node i: gathers what is known of its files so far. On failure nothing is left to end. */
kiln_status node_files_begin(batch *b, size_t i, kiln_value *const *in, error *e);
/* After it: KILN_ERR_IO when one of them has changed; else the objects it made depend on them. When the status is not
 * KILN_OK the outputs are let go. */
kiln_status node_files_end(batch *b, size_t i, kiln_status status, kiln_value **out, error *e);
/* Between the two: the call opened one more; are they still what they were? */
kiln_status node_files_opened(batch *b, size_t i, const char *path, const file_identity *was, error *e);
kiln_status node_files_unchanged(const batch *b, size_t i, error *e);

#endif
