/* pool.c - one job at a time, indices handed out by an atomic counter; see pool.h.
 *
 * A worker raises `inside` before it reads `current`, and the caller takes `current` away before it reads `inside` and
 * returns only once that is 0: so the job can live on the caller's stack. In the same way a worker that goes to sleep
 * raises `asleep` before it looks for a job the last time, and the caller counts its job before it reads `asleep`.
 *
 * The jobs of a small model are a tenth of a millisecond long, and to wake a thread that sleeps takes a large part of
 * that. So who waits looks again and again for a while first, and lets other threads that want the processor have it;
 * a worker that found nothing looks half as long the next time, until one comes soon after it has gone to sleep.
 */
#include "base/pool.h"

#include "base/memory_alloc.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

enum { LOOK_LONGEST = 100000, LOOK_SHORTEST = 1000, LOOKS = 32 }; /* nanoseconds; looks between two at the clock */

typedef struct {
    void (*fn)(void *, size_t);
    void *arg;
    size_t n;
    atomic_size_t next;
} job;

struct pool {
    _Atomic(job *) current;
    atomic_uint inside;            /* workers that use it, or are about to look whether there is one */
    atomic_uint_fast64_t sequence; /* number of the job, so that a worker joins each one once */
    atomic_uint asleep;
    atomic_int stop, waiting; /* waiting: the caller sleeps until `inside` is 0 */
    atomic_flag busy;
    pthread_mutex_t lock; /* of those that sleep */
    pthread_cond_t work, idle;
    int looks; /* is there a processor for each thread? */
    unsigned n_worker;
    pthread_t worker[];
};

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pause_for_a_look(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

static void job_run(job *j)
{
    for (size_t i; (i = atomic_fetch_add(&j->next, 1)) < j->n;) j->fn(j->arg, i);
}

/* ---- workers ---- */

static int has_come(pool *p, uint64_t seen) { return atomic_load(&p->sequence) != seen || atomic_load(&p->stop); }

static int look_for_job(pool *p, uint64_t seen, int64_t longest)
{
    for (int64_t end = now() + longest; now() < end; sched_yield())
        for (int i = 0; i < LOOKS; i++) {
            if (has_come(p, seen)) return 1;
            pause_for_a_look();
        }
    return has_come(p, seen);
}
static void sleep_for_job(pool *p, uint64_t seen)
{
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->asleep, 1);
    while (!has_come(p, seen)) pthread_cond_wait(&p->work, &p->lock);
    atomic_fetch_sub(&p->asleep, 1);
    pthread_mutex_unlock(&p->lock);
}
/* Returns how long to look the next time. */
static int64_t wait_for_job(pool *p, uint64_t seen, int64_t longest)
{
    int64_t since = now();
    if (p->looks && look_for_job(p, seen, longest)) return longest;
    sleep_for_job(p, seen);
    if (now() - since < LOOK_LONGEST) return LOOK_LONGEST;
    return longest / 2 > LOOK_SHORTEST ? longest / 2 : LOOK_SHORTEST;
}

static void *worker_main(void *arg)
{
    pool *p = arg;
    int64_t longest = LOOK_LONGEST;
    for (uint64_t seen = 0;;) {
        longest = wait_for_job(p, seen, longest);
        if (atomic_load(&p->stop)) return NULL;
        seen = atomic_load(&p->sequence);
        atomic_fetch_add(&p->inside, 1);
        job *j = atomic_load(&p->current);
        if (j) job_run(j);
        if (atomic_fetch_sub(&p->inside, 1) > 1 || !atomic_load(&p->waiting)) continue;
        pthread_mutex_lock(&p->lock);
        pthread_cond_signal(&p->idle);
        pthread_mutex_unlock(&p->lock);
    }
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
    p->looks = threads <= processors();
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
    assert(!atomic_load(&p->current)); /* no pool_for is running */
    atomic_store(&p->stop, 1);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->n_worker; i++) pthread_join(p->worker[i], NULL);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->idle);
    pthread_mutex_destroy(&p->lock);
    mem_free(p);
}

unsigned pool_threads(const pool *p) { return p ? p->n_worker + 1 : 1; }

/* ---- the caller ---- */

static void wake_workers(pool *p, size_t n)
{
    pthread_mutex_lock(&p->lock);
    if (n >= p->n_worker)
        pthread_cond_broadcast(&p->work);
    else
        while (n--) pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
}
static void wait_for_workers(pool *p)
{
    for (int64_t end = p->looks ? now() + LOOK_LONGEST : 0; atomic_load(&p->inside) > 0; sched_yield()) {
        for (int i = 0; i < LOOKS && atomic_load(&p->inside) > 0; i++) pause_for_a_look();
        if (now() >= end) break;
    }
    if (!atomic_load(&p->inside)) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->waiting, 1);
    while (atomic_load(&p->inside) > 0) pthread_cond_wait(&p->idle, &p->lock);
    atomic_store(&p->waiting, 0);
    pthread_mutex_unlock(&p->lock);
}

void pool_for(pool *p, size_t n, void (*fn)(void *arg, size_t i), void *arg)
{
    assert(fn);
    if (!p || p->n_worker == 0 || n < 2 || atomic_flag_test_and_set(&p->busy)) {
        for (size_t i = 0; i < n; i++) fn(arg, i);
        return;
    }
    job j = {.fn = fn, .arg = arg, .n = n};
    atomic_init(&j.next, 0);
    atomic_store(&p->current, &j);
    atomic_fetch_add(&p->sequence, 1);
    if (atomic_load(&p->asleep)) wake_workers(p, n - 1);
    job_run(&j);
    atomic_store(&p->current, NULL);
    wait_for_workers(p);
    atomic_flag_clear(&p->busy);
}
