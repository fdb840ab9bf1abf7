/* binds.h - the binds of a run, which a plugin of another version may have made: their size is the first's. Layer:
 * backend. */
#ifndef KILN_BACKEND_BINDS_H
#define KILN_BACKEND_BINDS_H

#include "base/status.h"
#include "kiln/ops.h"

/* KILN_ERR_BUG with a sentence when one has no size, not the first's, no name, or dimensions that are not there. */
kiln_status binds_check(const kiln_bind *b, size_t n, const char *program, error *e);
const kiln_bind *bind_at(const kiln_bind *b, size_t i);
const kiln_bind *bind_named(const kiln_bind *b, size_t n, const char *name); /* NULL: none */

#endif
