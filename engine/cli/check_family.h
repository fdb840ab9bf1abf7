/* check_family.h - tries whether a plugin's model family knows its own files: what it says of sets of weights that are
 * none of its, and what it does with those that are (check_fixture.h). Runs in a process of its own: it may crash.
 */
#ifndef KILN_CLI_CHECK_FAMILY_H
#define KILN_CLI_CHECK_FAMILY_H

#include "cli/check_node.h"
#include "cli/check_report.h"
#include "kiln/model.h"

check_counts check_family(const check_context *of, const kiln_model_family *row);

#endif
