/* clock.h - the time, for waits, progress and estimates; never for a result. Any thread. */
#ifndef KILN_BASE_CLOCK_H
#define KILN_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Since some moment in the past; does not jump when the wall clock is set. */
static inline int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline double clock_seconds(void) { return (double)clock_ns() * 1e-9; }

/* Since 1970. */
static inline int64_t clock_wall_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline double clock_wall_seconds(void) { return (double)clock_wall_ns() * 1e-9; }

#endif
