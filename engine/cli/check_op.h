/* check_op.h - tries a plugin's op against its own reference. Runs in a process of its own: it may crash. */
#ifndef KILN_CLI_CHECK_OP_H
#define KILN_CLI_CHECK_OP_H

#include "cli/check_node.h"
#include "kiln/ops.h"

/* Prints "ok" and "FAIL test: what" lines. */
check_counts check_op(const kiln_op_kind *kind, FILE *to);

#endif
