/* read_ahead.h - on a host device, files of programs that come, read by the system while others are prepared and run.
 * For memory/; residency.h has the user's view.
 *
 * One thread goes through the order of programs, as far as an estimate has noted it, and asks the system for the files
 * of each program's weights: of all of them once where the order is what will run (residency_read_ahead), else of those
 * that somebody says come next.
 */
#ifndef KILN_MEMORY_READ_AHEAD_H
#define KILN_MEMORY_READ_AHEAD_H

#include "memory/residency.h"

#include <pthread.h>

typedef struct {
    pthread_t thread;
    int begun;
    int all, stop;        /* every program that is noted is due; the thread is to end */
    pthread_cond_t noted; /* a program is due, or stop is set */
} read_ahead;

/* p comes next: its files are due, again if they were before. With residency_read_ahead each is asked for once, and
 * this changes nothing. Never fails: at worst nothing is read. */
void read_ahead_of(residency_pass *p);
/* The order has become longer. With the lock held. */
void read_ahead_noted(residency *r);
/* Ends the thread, if there is one. */
void read_ahead_end(residency *r);

#endif
