/* check_node.h - tries to catch a node breaking the contract. Runs in a process of its own: it may crash. */
#ifndef KILN_CLI_CHECK_NODE_H
#define KILN_CLI_CHECK_NODE_H

#include "plugin/catalog.h"

#include <stdio.h>

typedef struct {
    size_t passed, failed;
} check_counts;

/* NULL, or why the node cannot be tried without a workflow ("its input 'model' takes a MODEL, ..."). Text in `why`. */
const char *check_node_needs(const kiln_node *n, char why[256]);

/* Prints "FAIL test: what" lines. `folder`: where an output node may write. */
check_counts check_node(const node_info *n, const char *folder, FILE *to);

#endif
