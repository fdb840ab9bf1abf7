/* test_store_flush.c - results reach the index by themselves while a run goes on: whoever opens the store meanwhile
 * finds them, first ones and later ones, without a flush or a close; and a put does not wait for it.
 */
#include "store_kit.h"

#include "base/clock.h"

enum { SIZE = 4096, PATIENCE = 60 };

/* 1 as soon as another handle finds entry n. */
static int arrives(const char *folder, uint64_t n)
{
    for (double until = clock_seconds() + PATIENCE; clock_seconds() < until; usleep(10000)) {
        store *other = kit_open(folder);
        int got = other ? kit_get(other, n, SIZE) : 0;
        store_close(other);
        if (got) return got;
    }
    return 0;
}

static void test_a_run_that_goes_on_keeps_what_it_has(void)
{
    char folder[600];
    snprintf(folder, sizeof folder, "%s/store", test_folder());
    store *s = kit_open(folder);
    REQUIRE(s);
    for (uint64_t n = 0; n < 3; n++) { /* the second begins with an empty queue and a thread that waits */
        CHECK_EQ(kit_put(s, n, SIZE, 0.001), KILN_OK);
        CHECK_MSG(s->flusher_runs, "each result is a transaction of its own, and its node waits for it");
        CHECK_EQ(arrives(folder, n), 1);
    }
    store_close(s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_a_run_that_goes_on_keeps_what_it_has)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
