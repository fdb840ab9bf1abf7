/* test_weight_slabs.c - small weights lie side by side, and what is freed goes back to the system. */
#include "harness.h"

#include "base/memory_alloc.h"
#include "base/memory_fault.h"
#include "memory/weight_slabs.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__
enum { APART = 1 }; /* each weight by itself */
#else
enum { APART = 0 };
#endif

static void test_side_by_side(void)
{
    enum { N = 40, BYTES = 100 << 10 };
    char *p[N];
    const size_t before = weight_slabs_count();
    for (int i = 0; i < N; i++) {
        REQUIRE((p[i] = weight_slab_alloc(BYTES + (size_t)i)));
        CHECK_EQ((uintptr_t)p[i] % 64, 0);
        memset(p[i], i + 1, BYTES + (size_t)i);
    }
    if (!APART) CHECK_EQ(weight_slabs_count() - before, 2); /* 2 and 4 MB */
    for (int i = 0; i < N; i++)
        CHECK(p[i][0] == i + 1 && memcmp(p[i], p[i] + 1, BYTES + (size_t)i - 1) == 0); /* all of it the same */
    for (int i = 0; i < N; i++) weight_slab_free(p[i]);
    CHECK_EQ(weight_slabs_count(), before);
    weight_slab_free(NULL);
}

static void test_small_and_large_ones_are_apart(void)
{
    static const size_t apart[] = {0, 1, WEIGHT_SLAB_LEAST - 1, WEIGHT_SLAB_MOST, 3 * (size_t)WEIGHT_SLAB_MOST},
                        within[] = {WEIGHT_SLAB_LEAST, WEIGHT_SLAB_MOST - 1};
    const size_t before = weight_slabs_count();
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        char *p = weight_slab_alloc(apart[i]);
        REQUIRE(p);
        memset(p, 1, apart[i]);
        CHECK_EQ(weight_slabs_count(), before);
        weight_slab_free(p);
    }
    for (size_t i = 0; i < sizeof within / sizeof *within; i++) {
        char *p = weight_slab_alloc(within[i]);
        REQUIRE(p);
        memset(p, 1, within[i]);
        CHECK_EQ(weight_slabs_count(), before + !APART);
        weight_slab_free(p);
        CHECK_EQ(weight_slabs_count(), before);
    }
    CHECK(!weight_slab_alloc(SIZE_MAX) && !weight_slab_alloc(SIZE_MAX - 100));
}

/* Pages of [p, p + n) that are in memory. */
static size_t pages_there(const char *p, size_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char in[1 << 12];
    const uintptr_t first = ((uintptr_t)p + page - 1) / page * page, last = ((uintptr_t)p + n) / page * page;
    size_t found = 0;
    if (last - first > sizeof in * page ||
        mincore((char *)(uintptr_t)p + (first - (uintptr_t)p), last - first, in) != 0)
        return SIZE_MAX;
    for (size_t i = 0; i < (last - first) / page; i++) found += in[i] & 1;
    return found;
}

static void test_freed_pages_go_back(void)
{
    enum { BYTES = 1 << 20 };
    char *first = weight_slab_alloc(BYTES / 4), *p = weight_slab_alloc(BYTES), *last = weight_slab_alloc(BYTES / 4);
    REQUIRE(first && p && last);
    memset(first, 1, BYTES / 4), memset(p, 2, BYTES), memset(last, 3, BYTES / 4);
    CHECK(pages_there(p, BYTES) >= BYTES / 4096 - 1);
    weight_slab_free(p);
    if (!APART) CHECK_EQ(pages_there(p, BYTES), 0);
    for (size_t i = 0; i < BYTES / 4; i++) REQUIRE(first[i] == 1 && last[i] == 3);
    p = weight_slab_alloc(BYTES / 2); /* does not come to lie on its neighbours */
    REQUIRE(p);
    memset(p, 4, BYTES / 2);
    for (size_t i = 0; i < BYTES / 4; i++) REQUIRE(first[i] == 1 && last[i] == 3);
    weight_slab_free(last), weight_slab_free(first), weight_slab_free(p);
}

static void test_without_memory(void)
{
    const int64_t live = mem_live();
    for (int k = 0; k < 4; k++) {
        mem_fail_at(k, 0);
        char *p = weight_slab_alloc(200 << 10);
        mem_fail_at(-1, 0);
        CHECK(p || (APART && k == 0)); /* where there is none for a slab, there is for the weight alone */
        if (p) memset(p, 1, 200 << 10);
        weight_slab_free(p);
        CHECK_EQ(mem_live(), live);
    }
}

enum { HELD = 24, ROUNDS = 3000 };
static void *come_and_go(void *arg)
{
    uint32_t draw = (uint32_t)(uintptr_t)arg;
    unsigned char *p[HELD] = {0};
    size_t n[HELD] = {0};
    int bad = 0;
    for (int i = 0; i < ROUNDS + HELD; i++) {
        draw = draw * 1664525u + 1013904223u;
        const size_t k = i < ROUNDS ? draw >> 16 : (uint32_t)(i - ROUNDS);
        const size_t at = k % HELD;
        if (p[at]) {
            bad |= p[at][0] != at + 1 || p[at][n[at] - 1] != at + 1 || p[at][n[at] / 2] != at + 1;
            weight_slab_free(p[at]), p[at] = NULL;
        } else if (i < ROUNDS) {
            n[at] = (size_t)(draw >> 8) % (300 << 10) + 1;
            if (!(p[at] = weight_slab_alloc(n[at]))) return arg;
            memset(p[at], (int)at + 1, n[at]);
        }
    }
    return bad ? arg : NULL;
}

static void test_several_threads(void)
{
    pthread_t thread[4];
    void *bad[4];
    const size_t before = weight_slabs_count();
    for (uintptr_t i = 0; i < 4; i++) REQUIRE(pthread_create(&thread[i], NULL, come_and_go, (void *)(i + 1)) == 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], &bad[i]);
    for (int i = 0; i < 4; i++) CHECK(!bad[i]);
    CHECK_EQ(weight_slabs_count(), before);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_side_by_side), CASE(test_small_and_large_ones_are_apart),
                                      CASE(test_freed_pages_go_back), CASE(test_without_memory),
                                      CASE(test_several_threads)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
