/* memory_report.h - what a budget means and what a run used, for people. */
#ifndef KILN_RUN_MEMORY_REPORT_H
#define KILN_RUN_MEMORY_REPORT_H

#include "run/machine.h"

/* --explain's last lines, from an estimate: how much a program needs, and what streams under the budget. */
void memory_explain(const machine *m, const runtime_estimate *o);
/* After a run: peaks, the budget, what went over the link. */
void memory_say(const machine *m);

#endif
