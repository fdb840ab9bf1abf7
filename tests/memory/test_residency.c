/* test_residency.c - packed weights in memory: shared by what they are, gone with the last holder, two threads at once. */
#include "harness.h"
#include "memory/residency.h"

#include "base/memory_alloc.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

static atomic_int packed;

typedef struct {
    unsigned char fill;
    size_t bytes;
    int fails, slow;
} job;

static kiln_status pack(void *arg, void *dst, error *e)
{
    const job *j = arg;
    atomic_fetch_add(&packed, 1);
    if (j->slow) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    if (j->fails) return error_set(e, KILN_ERR_IO, "told to fail");
    memset(dst, j->fill, j->bytes);
    return KILN_OK;
}

static resident *get(residency *r, const char *set, const char *tensor, const char *form, job j)
{
    resident *x = NULL;
    error e = {0};
    CHECK_MSG(residency_get(r, set, tensor, form, j.bytes, pack, &j, &x, &e) == KILN_OK, "%s", e.message);
    return x;
}

static void test_shared_by_what_it_is(void)
{
    residency *r = residency_new();
    REQUIRE(r);
    atomic_store(&packed, 0);
    resident *a = get(r, "s", "w", "f", (job){1, 100, 0, 0}), *b = get(r, "s", "w", "f", (job){2, 100, 0, 0});
    resident *other[] = {get(r, "t", "w", "f", (job){3, 100, 0, 0}), get(r, "s", "v", "f", (job){4, 100, 0, 0}), get(r, "s", "w", "g", (job){5, 100, 0, 0}),
                         get(r, "sw", "", "f", (job){6, 100, 0, 0})};
    CHECK(resident_data(a) == resident_data(b));
    CHECK_EQ(packed, 5);
    CHECK_EQ(((const unsigned char *)resident_data(b))[99], 1);
    CHECK_EQ((uintptr_t)resident_data(a) % 64, 0);
    for (int i = 0; i < 4; i++) CHECK_EQ(((const unsigned char *)resident_data(other[i]))[50], 3 + i);
    CHECK_EQ(residency_bytes(r), 500);
    resident_release(a);
    CHECK_EQ(((const unsigned char *)resident_data(b))[0], 1);
    resident_release(b);
    CHECK_EQ(residency_bytes(r), 400);
    for (int i = 0; i < 4; i++) resident_release(other[i]);
    CHECK_EQ(residency_bytes(r), 0);
    CHECK_EQ(residency_peak(r), 500);
    resident_release(get(r, "s", "w", "f", (job){7, 100, 0, 0})); /* packed anew */
    CHECK_EQ(packed, 6);
    resident_release(NULL);
    residency_free(r);
}

static void test_failed_packing_leaves_nothing(void)
{
    residency *r = residency_new();
    REQUIRE(r);
    resident *x = (resident *)&packed;
    error e = {0};
    job bad = {1, 100, 1, 0};
    CHECK_EQ(residency_get(r, "s", "w", "f", 100, pack, &bad, &x, &e), KILN_ERR_IO);
    CHECK_STR(e.message, "told to fail");
    CHECK(x == NULL);
    CHECK_EQ(residency_bytes(r), 0);
    x = get(r, "s", "w", "f", (job){9, 100, 0, 0});
    CHECK_EQ(((const unsigned char *)resident_data(x))[0], 9);
    resident_release(x);
    residency_free(r);
}

static void test_no_memory(void)
{
    residency *r = residency_new();
    REQUIRE(r);
    int done = 0, named = 0;
    for (int64_t k = 0; k < 20 && !done; k++) {
        job j = {1, 100, 0, 0};
        resident *x = NULL;
        error e = {0};
        mem_fail_at(k, 0);
        kiln_status status = residency_get(r, "s", "w", "f", 100, pack, &j, &x, &e);
        done = mem_count() <= k;
        mem_fail_at(-1, 0);
        CHECK_EQ(status, done ? KILN_OK : KILN_ERR_NOMEM);
        named |= strstr(e.message, "'w' (100 bytes)") != NULL;
        if (status == KILN_OK) resident_release(x);
        CHECK_EQ(residency_bytes(r), 0);
    }
    CHECK(done);
    CHECK_MSG(named, "no message names the weight and its size");
    residency_free(r);
}

static residency *shared;
static atomic_int wrong, failing;

static void *user(void *arg)
{
    (void)arg;
    for (int i = 0; i < 50; i++) {
        job j = {(unsigned char)(i % 3), 64, atomic_load(&failing) && i % 5 == 0, i % 10 == 0};
        char name[2] = {(char)('a' + i % 3), 0};
        resident *x = NULL;
        error e = {0};
        kiln_status status = residency_get(shared, "s", name, "f", 64, pack, &j, &x, &e);
        if (status == KILN_OK && ((const unsigned char *)resident_data(x))[63] != i % 3) atomic_fetch_add(&wrong, 1);
        if (status != KILN_OK && (!j.fails || !e.message[0])) atomic_fetch_add(&wrong, 1);
        resident_release(x);
    }
    return NULL;
}

static void test_threads(void)
{
    for (int fails = 0; fails < 2; fails++) {
        pthread_t t[3];
        shared = residency_new();
        atomic_store(&failing, fails);
        for (int i = 0; i < 3; i++) CHECK_EQ(pthread_create(&t[i], NULL, user, NULL), 0);
        for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
        CHECK_EQ(wrong, 0);
        CHECK_EQ(residency_bytes(shared), 0);
        residency_free(shared);
    }
}

/* Two ask for one weight at once: it is packed once. */
static void *ask(void *out)
{
    *(resident **)out = get(shared, "s", "w", "f", (job){5, 64, 0, 1});
    return NULL;
}

static void test_two_ask_at_once(void)
{
    pthread_t t;
    resident *a = NULL, *b = NULL;
    shared = residency_new();
    atomic_store(&packed, 0);
    CHECK_EQ(pthread_create(&t, NULL, ask, &a), 0);
    ask(&b);
    pthread_join(t, NULL);
    CHECK_EQ(packed, 1);
    CHECK(a == b);
    resident_release(a);
    resident_release(b);
    residency_free(shared);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_shared_by_what_it_is), CASE(test_failed_packing_leaves_nothing), CASE(test_no_memory), CASE(test_threads),
                                      CASE(test_two_ask_at_once)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
