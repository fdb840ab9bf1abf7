/* check_op.h - tries a plugin's op against its own reference. Runs in a process of its own: it may crash. */
#ifndef KILN_CLI_CHECK_OP_H
#define KILN_CLI_CHECK_OP_H

#include "backend/backend.h"
#include "cli/check_report.h"
#include "kiln/ops.h"

/* A device on which it is tried too. */
typedef struct {
    const char *name; /* as it was asked for */
    const backend *backend;
    unsigned index;
} check_device;

/* on NULL: the processor alone. */
check_counts check_op(const kiln_op_kind *kind, const check_device *on);

#endif
