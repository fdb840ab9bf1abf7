/* test_pool.c - jobs of a pool: each index once, all of it done when pool_for() returns, whether workers look for a job
 * or have gone to sleep; several callers, nested jobs, more threads than processors.
 */
#include "harness.h"

#include "base/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

enum { INDICES = 257, MOST_THREADS = 33 };

typedef struct {
    unsigned char done[INDICES]; /* each by one thread, read when the job is over: TSan sees a caller that is early */
    atomic_int twice;
} work;

static void step(void *arg, size_t i)
{
    work *w = arg;
    if (w->done[i]++) atomic_fetch_add(&w->twice, 1);
}
static void wait_microseconds(long n)
{
    struct timespec t = {n / 1000000, n % 1000000 * 1000};
    if (n > 0) nanosleep(&t, NULL);
}

/* Indices of a job of n that were not done once. */
static size_t wrong_after(pool *p, size_t n)
{
    work w = {{0}, 0};
    size_t wrong = 0;
    pool_for(p, n, step, &w);
    for (size_t i = 0; i < INDICES; i++) wrong += w.done[i] != (i < n);
    return wrong + (size_t)atomic_load(&w.twice);
}

static void test_each_index_once(void)
{
    static const unsigned threads[] = {0, 1, 2, 3, 8, MOST_THREADS};
    for (size_t t = 0; t < sizeof threads / sizeof threads[0]; t++) {
        pool *p = pool_new(threads[t]);
        REQUIRE(p);
        CHECK(threads[t] == 0 || pool_threads(p) == threads[t]);
        size_t wrong = 0;
        for (size_t n = 0; n <= INDICES; n++) wrong += wrong_after(p, n);
        CHECK_EQ(wrong, 0);
        pool_free(p);
    }
}

/* Waits about as long as workers look, on both sides of it, so that some of them are just going to sleep. */
static void test_after_any_pause(void)
{
    static const unsigned threads[] = {2, 5};
    for (size_t t = 0; t < 2; t++) {
        pool *p = pool_new(threads[t]);
        REQUIRE(p);
        size_t wrong = 0;
        for (long pause = 0; pause < 300; pause++) {
            wait_microseconds(pause);
            wrong += wrong_after(p, 1 + (size_t)pause % INDICES);
        }
        for (int i = 0; i < 20; i++) {
            wait_microseconds(i < 10 ? 2000 : 50);
            for (int k = 0; k < 50; k++) wrong += wrong_after(p, 2);
        }
        CHECK_EQ(wrong, 0);
        pool_free(p);
    }
}

typedef struct {
    pool *p;
    atomic_size_t wrong;
} caller;

static void *call_often(void *arg)
{
    caller *c = arg;
    for (size_t i = 0; i < 2000; i++) atomic_fetch_add(&c->wrong, wrong_after(c->p, 1 + i % 9));
    return NULL;
}
static void test_several_callers(void)
{
    pool *p = pool_new(3);
    REQUIRE(p);
    caller c = {p, 0};
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) REQUIRE(pthread_create(&thread[i], NULL, call_often, &c) == 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    CHECK_EQ(atomic_load(&c.wrong), 0);
    pool_free(p);
}

static void nested_step(void *arg, size_t i)
{
    caller *c = arg;
    atomic_fetch_add(&c->wrong, wrong_after(c->p, 1 + i));
}
static void test_nested(void)
{
    caller c = {pool_new(4), 0};
    REQUIRE(c.p);
    for (int i = 0; i < 50; i++) pool_for(c.p, 20, nested_step, &c);
    CHECK_EQ(atomic_load(&c.wrong), 0);
    pool_free(c.p);
}

/* Of any age, used or not: its threads end. */
static void test_new_and_free(void)
{
    size_t wrong = 0;
    for (long i = 0; i < 200; i++) {
        pool *p = pool_new(1 + (unsigned)(i % 5));
        REQUIRE(p);
        for (long k = 0; k < i % 3; k++) wrong += wrong_after(p, 7);
        if (i % 4 == 0) wait_microseconds(i * 2);
        pool_free(p);
    }
    CHECK_EQ(wrong, 0);
    pool_free(NULL);
    CHECK_EQ(wrong_after(NULL, 5), 0);
}

static void slow_step(void *arg, size_t i)
{
    wait_microseconds(i ? 3000 : 0);
    atomic_fetch_add((atomic_int *)arg, 1);
}
/* A worker that takes longer than its caller looks: the caller sleeps, and is woken. */
static void test_a_slow_worker(void)
{
    pool *p = pool_new(2);
    REQUIRE(p);
    for (int i = 0; i < 10; i++) {
        atomic_int done = 0;
        pool_for(p, 2, slow_step, &done);
        CHECK_EQ(atomic_load(&done), 2);
    }
    pool_free(p);
}

typedef struct {
    atomic_int begun, alone;
    int all;
} meeting;

/* Waits for the others, half a minute at most. */
static void meet(void *arg, size_t i)
{
    meeting *m = arg;
    (void)i;
    atomic_fetch_add(&m->begun, 1);
    for (int k = 0; atomic_load(&m->begun) < m->all && k < 30000; k++) wait_microseconds(1000);
    if (atomic_load(&m->begun) < m->all) atomic_fetch_add(&m->alone, 1);
}
/* So many threads as there are indices are at a job at once, whether they slept or not. */
static void test_threads_are_woken(void)
{
    for (int threads = 2; threads < 6; threads++)
        for (int all = 2; all <= threads; all++) {
            pool *p = pool_new((unsigned)threads);
            REQUIRE(p);
            for (int k = 0; k < 4; k++) {
                meeting m = {.all = all};
                if (k % 2) wait_microseconds(5000); /* all are asleep */
                pool_for(p, (size_t)all, meet, &m);
                CHECK_EQ(atomic_load(&m.alone), 0);
            }
            pool_free(p);
        }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_each_index_once), CASE(test_after_any_pause), CASE(test_several_callers),  CASE(test_nested),
        CASE(test_new_and_free),    CASE(test_a_slow_worker),   CASE(test_threads_are_woken)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
