/* interrupt.h - Ctrl-C, SIGTERM and SIGHUP while a job runs: the first asks the nodes to stop, the second ends the
 * process at once. */
#ifndef KILN_RUN_INTERRUPT_H
#define KILN_RUN_INTERRUPT_H

#include <stdatomic.h>

extern atomic_int interrupted; /* 1 from the first signal or request on */
void interrupt_watch(void);    /* signals, from here on; before that a signal ends the process as usual */
void interrupt_unwatch(
    void);                 /* what signals did before comes back, a fifth of a second after the first at the earliest */
void interrupt_keep(void); /* interrupt_unwatch() does nothing from here on: the process ends after the run */
void interrupt_request(void); /* as the first signal does. [any], async-signal-safe */
void interrupt_reset(void);   /* nobody has asked: before a run */
/* For call_environment.cancelled and the like; arg is not looked at. */
int interrupt_asked(void *arg);

#endif
