/* pool.h - the engine's thread pool.
 *
 * pool_for() splits n indices over the pool's threads and the caller's, and returns when all are done. How the work is
 * split never depends on the number of threads, so results do not depend on --threads as long as fn(i) does not. One
 * pool_for at a time uses the threads; a second or nested one runs on its caller's thread alone. A process that fork()
 * makes has none of these threads: it has to make a pool of its own.
 */
#ifndef KILN_BASE_POOL_H
#define KILN_BASE_POOL_H

#include <stddef.h>

typedef struct pool pool;

/* threads 0: one for each processor this process may use. NULL: no memory, or threads cannot be started. */
pool *pool_new(unsigned threads);
void pool_free(pool *p);              /* while no pool_for() runs */
unsigned pool_threads(const pool *p); /* the caller included */
/* p NULL: a plain loop on the caller's thread. */
void pool_for(pool *p, size_t n, void (*fn)(void *arg, size_t i), void *arg);

#endif
