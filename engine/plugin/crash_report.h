/* crash_report.h - names the node when the process ends inside a plugin.
 *
 * A crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) ends the process as it always did, by its signal, but says first
 * in which node. exit() called by a plugin never passes for success: it is said, and the status is 1.
 */
#ifndef KILN_PLUGIN_CRASH_REPORT_H
#define KILN_PLUGIN_CRASH_REPORT_H

#include "kiln/plugin.h"

/* From here to crash_report_end() an exit() is a plugin's. Once a process, from its main thread. */
void crash_report_begin(void);
/* main() is about to return, or this is a child that reports in its own way: exit() is in order. */
void crash_report_end(void);

/* Around each call of a plugin's code for a node. enter() returns what leave() takes. Any thread. */
const kiln_ctx *crash_report_enter(const kiln_ctx *call);
void crash_report_leave(const kiln_ctx *call, const kiln_ctx *outer);

#endif
