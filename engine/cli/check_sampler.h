/* check_sampler.h - tries a plugin's samplers and schedules on a model whose guesses are known. Runs in a process of
 * its own: they may crash.
 */
#ifndef KILN_CLI_CHECK_SAMPLER_H
#define KILN_CLI_CHECK_SAMPLER_H

#include "cli/check_op.h"
#include "cli/check_report.h"
#include "kiln/sampler.h"

/* on NULL: the host alone. */
check_counts check_sampler(const kiln_sampler *row, const char *plugin, const check_device *on);
check_counts check_schedule(const kiln_schedule *row);

#endif
