/* check_guider.h - tries a plugin's kinds of GUIDER (kiln/sampling.h) on small latents with guesses that are known
 * functions of x. Runs in a process of its own: they may crash.
 */
#ifndef KILN_CLI_CHECK_GUIDER_H
#define KILN_CLI_CHECK_GUIDER_H

#include "cli/check_op.h"
#include "cli/check_report.h"
#include "kiln/sampling.h"

/* Its settings as a table. */
kiln_param_table guider_settings(const kiln_guider *row);
const kiln_guider_model *guider_model_at(const kiln_guider *row, uint32_t i);
const kiln_guider_set *guider_set_at(const kiln_guider *row, uint32_t i);

/* on NULL: the host alone. */
check_counts check_guider(const kiln_guider *row, const char *plugin, const check_device *on);

#endif
