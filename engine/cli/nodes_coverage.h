/* nodes_coverage.h - `kiln nodes --coverage`: which of ComfyUI's node types the plugins have. */
#ifndef KILN_CLI_NODES_COVERAGE_H
#define KILN_CLI_NODES_COVERAGE_H

#include "cli/command.h"
#include "plugin/catalog.h"

/* Without operands a line for each category, with some every node type below those. Returns the exit status. */
int nodes_coverage(const catalog *c, const arguments *a);

#endif
