/* test_residency.c - packed weights: made once however many ask, gone with the last holder, whole after a failure. */
#include "harness.h"

#include "base/memory_alloc.h"
#include "memory/residency.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    atomic_int packed;
    int fails; /* the first so many times */
    unsigned char value;
} maker;

static kiln_status make(void *arg, void *dst, error *e)
{
    maker *m = arg;
    int n = atomic_fetch_add(&m->packed, 1);
    if (n < m->fails) return error_set(e, KILN_ERR_IO, "cannot read it");
    memset(dst, m->value, 1000);
    return KILN_OK;
}

static kiln_status get(residency *r, const char *set, const char *name, const char *form, maker *m, resident **out, error *e)
{
    return residency_get(r, set, name, form, 1000, make, m, out, e);
}

static void test_what_is_asked_for_twice_is_made_once(void)
{
    residency *r = residency_new();
    resident *a, *b, *other[3];
    maker m = {.value = 7}, n = {.value = 8};
    error e = {0};
    REQUIRE(r);
    CHECK_EQ(get(r, "set", "w", "f32", &m, &a, &e), KILN_OK);
    CHECK_EQ(get(r, "set", "w", "f32", &m, &b, &e), KILN_OK);
    CHECK(a == b && m.packed == 1 && ((const unsigned char *)resident_data(a))[999] == 7);
    CHECK_EQ((uintptr_t)resident_data(a) % 64, 0);
    CHECK_EQ(get(r, "set2", "w", "f32", &n, &other[0], &e), KILN_OK); /* set, name and form each tell them apart */
    CHECK_EQ(get(r, "set", "w2", "f32", &n, &other[1], &e), KILN_OK);
    CHECK_EQ(get(r, "set", "w", "bf16", &n, &other[2], &e), KILN_OK);
    CHECK_EQ(n.packed, 3);
    CHECK_EQ(residency_bytes(r), 4000);
    for (int i = 0; i < 3; i++) resident_release(other[i]);
    resident_release(a);
    CHECK_EQ(residency_bytes(r), 1000); /* b still holds it */
    resident_release(b);
    CHECK_EQ(residency_bytes(r), 0);
    CHECK_EQ(residency_peak(r), 4000);
    CHECK_EQ(get(r, "set", "w", "f32", &m, &a, &e), KILN_OK); /* gone, so made again */
    CHECK_EQ(m.packed, 2);
    residency_free(r); /* frees what is still held */
}

static void test_a_failure_leaves_nothing_and_the_next_one_may_succeed(void)
{
    residency *r = residency_new();
    resident *a = NULL;
    maker m = {.fails = 1, .value = 1};
    error e = {0}, later = {0};
    REQUIRE(r);
    CHECK_EQ(get(r, "set", "w", "f32", &m, &a, &e), KILN_ERR_IO);
    CHECK_STR(e.message, "cannot read it");
    CHECK(a == NULL);
    CHECK_EQ(residency_bytes(r), 0);
    CHECK_EQ(get(r, "set", "w", "f32", &m, &a, &later), KILN_OK);
    resident_release(a);
    residency_free(r);
}

static void test_every_allocation_may_fail(void)
{
    residency *r = residency_new();
    REQUIRE(r);
    int64_t k = 0;
    for (kiln_status status = KILN_ERR_NOMEM; status != KILN_OK && k < 20; k++) {
        maker m = {.value = 1};
        error e = {0};
        resident *a = NULL;
        mem_fail_at(k, 0);
        status = get(r, "set", "w", "f32", &m, &a, &e);
        mem_fail_at(-1, 0);
        if (status != KILN_OK) CHECK(status == KILN_ERR_NOMEM && residency_bytes(r) == 0 && m.packed == 0);
        else resident_release(a);
    }
    CHECK(k > 2 && k < 20);
    residency_free(r);
}

typedef struct {
    residency *r;
    maker *m; /* one a weight */
    atomic_int wrong;
} crowd;

enum { WEIGHTS = 5, ROUNDS = 400 };

static void *ask(void *arg)
{
    crowd *c = arg;
    for (int i = 0; i < ROUNDS; i++) {
        char name[16];
        int k = i * 3 % WEIGHTS;
        resident *x = NULL;
        snprintf(name, sizeof name, "w%d", k);
        kiln_status status = get(c->r, "set", name, "f32", &c->m[k], &x, NULL);
        const unsigned char *data = status == KILN_OK ? resident_data(x) : NULL;
        if (status == KILN_OK && (data[0] != c->m[k].value || data[999] != c->m[k].value)) atomic_store(&c->wrong, 1);
        if (status != KILN_OK && status != KILN_ERR_IO) atomic_store(&c->wrong, 1);
        if (status == KILN_OK) resident_release(x);
    }
    return NULL;
}

/* Some of the makers fail a few times: who waited for one that failed makes it itself. */
static void test_threads_share_and_survive_failures(void)
{
    maker m[WEIGHTS];
    pthread_t threads[4];
    for (int i = 0; i < WEIGHTS; i++) m[i] = (maker){.value = (unsigned char)(i + 1), .fails = i * 2};
    crowd c = {.r = residency_new(), .m = m};
    REQUIRE(c.r);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, ask, &c);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    CHECK_EQ(atomic_load(&c.wrong), 0);
    CHECK_EQ(residency_bytes(c.r), 0);
    residency_free(c.r);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_what_is_asked_for_twice_is_made_once), CASE(test_a_failure_leaves_nothing_and_the_next_one_may_succeed),
        CASE(test_every_allocation_may_fail), CASE(test_threads_share_and_survive_failures),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
