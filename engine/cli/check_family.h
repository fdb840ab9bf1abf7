/* check_family.h - tries whether a plugin's model family knows its own files: what it says of sets of weights that are
 * none of its. Runs in a process of its own: it may crash.
 */
#ifndef KILN_CLI_CHECK_FAMILY_H
#define KILN_CLI_CHECK_FAMILY_H

#include "cli/check_report.h"
#include "kiln/model.h"

check_counts check_family(const kiln_model_family *row);

#endif
