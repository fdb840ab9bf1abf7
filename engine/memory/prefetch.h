/* prefetch.h - the next program's weights on their way before it begins. For memory/; residency.h has the user's view.
 *
 * What one run sends for the next program is a batch, and batches have numbers. `arrived` is recorded behind a batch on
 * the copy stream; the four numbers say how far things are:
 *
 *     begun >= recorded >= waited, seen
 *       begun     the last batch that was begun
 *       recorded  `arrived` stands for this one and all before it
 *       waited    the compute stream waits for these
 *       seen      the host knows that these have arrived: no weight of them is COPYING any more
 *
 * With residency_setting.no_prefetch nothing here does anything: each program brings its own weights in when it begins.
 */
#ifndef KILN_MEMORY_PREFETCH_H
#define KILN_MEMORY_PREFETCH_H

#include "memory/residency.h"

#include <pthread.h>

typedef struct {
    uint64_t begun, recorded, waited, seen;
    device_event *arrived;
    pthread_cond_t unguarded; /* a pass that was being prefetched for may be freed (residency_pass.guards) */
    char name[64];            /* of the program that was prefetched last */
} prefetch_batches;

/* p's run has begun. If it is the last in a row, and weights of p itself have to be evicted for the next program's,
 * checkpoints are placed among its ops. On a host device the system is asked to read the next program's files. Never
 * fails: at worst nothing is prefetched. */
void prefetch_begin(residency_pass *p);
/* After op: records a checkpoint on the compute stream, where one is due. */
void prefetch_checkpoint(residency_pass *p, uint32_t op);
/* Lets the compute stream wait for all batches that were recorded. */
kiln_status prefetch_wait(residency *r, error *e);
/* The host knows that all batches up to this one have arrived. Without the lock, as the next. */
void prefetch_seen(residency *r, uint64_t batch);
/* Waits for a batch, so that memory it writes to can be released; 0: for none. */
void prefetch_settle(residency *r, uint64_t batch);

#endif
