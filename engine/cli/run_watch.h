/* run_watch.h - `kiln run --watch`: runs again whenever the workflow, a plugin or a file that it reads has changed.
 *
 * Each run is a child process, so that a plugin that was built anew is loaded anew (a plugin is never unloaded), and
 * nothing a run does can end the watching. Another child reads the workflow before each run and says which files count:
 * the workflow's, what it includes, what its parameters name, the plugins' .so files. What is written while a run goes
 * on is seen when it has ended.
 */
#ifndef KILN_CLI_RUN_WATCH_H
#define KILN_CLI_RUN_WATCH_H

#include "cli/command.h"

/* 1: in a child, which is to run the workflow and end as ever. 0: the watching is over, *status is the command's. */
int run_watch(arguments *a, int *status);

#endif
