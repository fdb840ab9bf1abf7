/* check_workflow.h - a plugin in a workflow that its author brings: what made-up inputs cannot try. */
#ifndef KILN_CLI_CHECK_WORKFLOW_H
#define KILN_CLI_CHECK_WORKFLOW_H

#include "cli/check_report.h"
#include "plugin/catalog.h"

typedef struct {
    const char *workflow, *plugin;
    const char *models, *input; /* folders; NULL: where `kiln run` looks */
    const char *folder;         /* an empty one of ours */
    const catalog *plugins;
    const plugin_info *own; /* the plugin in it */
} workflow_trial;

/* Runs it twice by this same program, without a cache: with --validate and one thread, and with three threads. Both
 * have to end well and write the same files. *took_part: a node of the plugin ran, or a
 * family, sampler, schedule or op of it was used; a plugin without nodes is taken to.
 */
check_counts check_workflow(const workflow_trial *t, int *took_part);

#endif
