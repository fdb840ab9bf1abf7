/* check_sampler_device.h - a plugin's sampler, or kind of GUIDER, in a sampling of the engine's: on a device and on the
 * host it has the same numbers, step by step. Runs in a process of its own: it may crash.
 */
#ifndef KILN_CLI_CHECK_SAMPLER_DEVICE_H
#define KILN_CLI_CHECK_SAMPLER_DEVICE_H

#include "cli/check_op.h"
#include "cli/check_report.h"
#include "cli/sample_sampling.h"
#include "kiln/sampling.h"

/* The plan's row, options and levels. on NULL: said to be not checked. */
void check_sampler_device(const sampling_plan *, const char *plugin, const check_device *on, check_counts *);
/* By euler, with these settings; also without a device. */
void check_guider_device(const kiln_guider *row, const void *settings, const char *plugin, const check_device *on,
                         check_counts *);

#endif
