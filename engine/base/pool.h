/* pool.h - the engine's threads.
 *
 * pool_for() splits n indices over the pool's threads plus the caller and returns when
 * all are done. What runs is never a function of the number of threads: only who runs it
 * is, so results do not depend on --threads as long as fn(i) does not. One pool_for at a time
 * uses the threads; a second one, or a nested one, runs on its caller's thread alone.
 */
#ifndef KILN_BASE_POOL_H
#define KILN_BASE_POOL_H

#include <stddef.h>

typedef struct pool pool;

/* threads 0 = the processors this process may use. NULL: no memory or no threads. */
pool *pool_new(unsigned threads);
void pool_free(pool *p);
unsigned pool_threads(const pool *p); /* the caller included */
/* p NULL runs in a plain loop. */
void pool_for(pool *p, size_t n, void (*fn)(void *arg, size_t i), void *arg);

#endif
