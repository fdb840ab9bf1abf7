/* busy_time.h - what processors worked for a pool's jobs. The system brings the time of a thread that runs on another
 * processor up to date only every few milliseconds, and a pool's threads run on for a while when a job is done: so each
 * of them is asked for its own.
 */
#ifndef KILN_TESTS_BUSY_TIME_H
#define KILN_TESTS_BUSY_TIME_H

#include "base/pool.h"

#include <sched.h>
#include <stdatomic.h>
#include <time.h>

typedef struct {
    unsigned threads;
    atomic_uint arrived;
    atomic_llong nanoseconds;
} busy_count;

static inline void busy_count_add(void *arg, size_t i)
{
    (void)i;
    busy_count *b = arg;
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    atomic_fetch_add(&b->nanoseconds, (long long)t.tv_sec * 1000000000 + t.tv_nsec);
    atomic_fetch_add(&b->arrived, 1);
    while (atomic_load(&b->arrived) < b->threads) sched_yield(); /* so that each thread comes here once */
}

/* Seconds that the pool's threads and the caller's have had a processor. Not within a job of the pool, and by one
 * thread at a time. p NULL: the caller's alone. */
static inline double busy_time(pool *p)
{
    busy_count b = {.threads = p ? pool_threads(p) : 1};
    pool_for(p, b.threads, busy_count_add, &b);
    return (double)atomic_load(&b.nanoseconds) * 1e-9;
}

#endif
