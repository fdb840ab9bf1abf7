/* crash_report.h - names the node when a plugin ends the process.
 *
 * A crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) still ends the process by its signal, after a line that names the
 * node. An exit() called by a plugin is reported and turned into status 1. Where another process watches this one
 * (supervised.h), it is told instead, and says it.
 */
#ifndef KILN_PLUGIN_CRASH_REPORT_H
#define KILN_PLUGIN_CRASH_REPORT_H

#include "kiln/plugin.h"

/* From here to crash_report_end(), every exit() is taken for a plugin's. Once in a process, on its main thread. */
void crash_report_begin(void);
/* exit() is legitimate from here: main() is about to return, or this is a child whose parent reports how it ended. */
void crash_report_end(void);

/* In a process that is watched, before plugins are loaded. */
void crash_report_watched(void);

/* The node that this thread runs has left the process unfit for others ("closed descriptors ..."). Where it is watched
 * it ends, with that as the reason, and the run goes on in another one; otherwise this returns. */
void crash_report_give_up(const char *what);

/* A thread of a pool, before it runs a plugin's code: gets a stack of its own for the report of an overflow. */
void crash_report_thread(void);

/* Around each call of a plugin's code for a node; pass what enter() returned to leave(), on the same thread. */
const kiln_ctx *crash_report_enter(kiln_ctx *call);
void crash_report_leave(const kiln_ctx *call, const kiln_ctx *outer);
int crash_report_inside(void); /* 1: this thread runs such a call */

#endif
