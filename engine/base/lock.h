/* lock.h - for assert(mutex_held(&lock)) in functions that need the caller to hold a mutex. */
#ifndef KILN_BASE_LOCK_H
#define KILN_BASE_LOCK_H

#include <errno.h>
#include <pthread.h>

/* 1: some thread holds the mutex; which one cannot be told. For assert() alone. */
static inline int mutex_held(pthread_mutex_t *m)
{
    if (pthread_mutex_trylock(m) == EBUSY) return 1;
    pthread_mutex_unlock(m);
    return 0;
}

#endif
