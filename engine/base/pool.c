/* pool.c - one job at a time, indices handed out by an atomic counter; see pool.h.
 *
 * A worker joins a job by raising `inside` under the lock, and the caller returns only once `inside` is 0 again, so the
 * job can live on the caller's stack.
 */
#include "base/pool.h"

#include "base/memory_alloc.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct {
    void (*fn)(void *, size_t);
    void *arg;
    size_t n;
    atomic_size_t next;
} job;

struct pool {
    pthread_mutex_t lock;
    pthread_cond_t work, idle;
    job *current;      /* under lock */
    unsigned inside;   /* workers that use `current` */
    uint64_t sequence; /* number of the job, so that a worker joins each one once */
    int stop;
    atomic_flag busy;
    unsigned n_worker;
    pthread_t worker[];
};

static void job_run(job *j)
{
    for (size_t i; (i = atomic_fetch_add(&j->next, 1)) < j->n;) j->fn(j->arg, i);
}

static void *worker_main(void *arg)
{
    pool *p = arg;
    uint64_t seen = 0;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->stop && (!p->current || p->sequence == seen)) pthread_cond_wait(&p->work, &p->lock);
        if (p->stop) break;
        seen = p->sequence;
        job *j = p->current;
        p->inside++;
        pthread_mutex_unlock(&p->lock);
        job_run(j);
        pthread_mutex_lock(&p->lock);
        assert(p->inside > 0);
        if (--p->inside == 0) pthread_cond_signal(&p->idle);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static unsigned processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? (unsigned)n : 1;
}

pool *pool_new(unsigned threads)
{
    if (threads == 0) threads = processors();
    pool *p = mem_calloc(1, sizeof *p + (threads - 1) * sizeof(pthread_t));
    if (!p) return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->idle, NULL);
    atomic_flag_clear(&p->busy);
    while (p->n_worker < threads - 1) {
        if (pthread_create(&p->worker[p->n_worker], NULL, worker_main, p) != 0) {
            pool_free(p);
            return NULL;
        }
        p->n_worker++;
    }
    return p;
}

void pool_free(pool *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    assert(!p->current && !p->inside); /* no pool_for is running */
    p->stop = 1;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->n_worker; i++) pthread_join(p->worker[i], NULL);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->idle);
    pthread_mutex_destroy(&p->lock);
    mem_free(p);
}

unsigned pool_threads(const pool *p) { return p ? p->n_worker + 1 : 1; }

void pool_for(pool *p, size_t n, void (*fn)(void *arg, size_t i), void *arg)
{
    assert(fn);
    if (!p || p->n_worker == 0 || n < 2 || atomic_flag_test_and_set(&p->busy)) {
        for (size_t i = 0; i < n; i++) fn(arg, i);
        return;
    }
    job j = {.fn = fn, .arg = arg, .n = n};
    atomic_init(&j.next, 0);
    pthread_mutex_lock(&p->lock);
    p->current = &j;
    p->sequence++;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    job_run(&j);
    pthread_mutex_lock(&p->lock);
    p->current = NULL;
    while (p->inside > 0) pthread_cond_wait(&p->idle, &p->lock);
    pthread_mutex_unlock(&p->lock);
    atomic_flag_clear(&p->busy);
}
