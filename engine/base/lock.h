/* lock.h - what asserts ask of a mutex. */
#ifndef KILN_BASE_LOCK_H
#define KILN_BASE_LOCK_H

#include <errno.h>
#include <pthread.h>

/* 1: somebody holds it. For assert() alone: it cannot say who. */
static inline int mutex_held(pthread_mutex_t *m)
{
    if (pthread_mutex_trylock(m) == EBUSY) return 1;
    pthread_mutex_unlock(m);
    return 0;
}

#endif
