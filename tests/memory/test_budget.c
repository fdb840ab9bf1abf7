/* test_budget.c - the account: exact sums, a limit no thread gets past, and asking others to give up. */
#include "harness.h"

#include "memory/budget.h"

#include <pthread.h>
#include <string.h>

static void test_sums_are_exact_and_the_limit_holds_to_the_byte(void)
{
    error e = {0};
    budget *b = budget_new(1000);
    REQUIRE(b);
    CHECK_EQ(budget_take(b, MEMORY_WEIGHTS, 600, "weights", &e), KILN_OK);
    CHECK_EQ(budget_take(b, MEMORY_VALUES, 400, "a tensor", &e), KILN_OK);
    CHECK_EQ(budget_take(b, MEMORY_VALUES, 1, "one byte", &e), KILN_ERR_NOMEM);
    CHECK_MSG(strstr(e.message, "one byte") && strstr(e.message, "--memory"), "%s", e.message);
    CHECK_EQ(budget_used(b), 1000);
    CHECK_EQ(budget_held(b, MEMORY_VALUES), 400);
    budget_give(b, MEMORY_VALUES, 400);
    CHECK_EQ(budget_take(b, MEMORY_STAGING, 400, "staging", NULL), KILN_OK);
    CHECK_EQ(budget_peak(b), 1000);
    budget_set_limit(b, 500); /* less than is used: nothing more until enough came back */
    CHECK_EQ(budget_take(b, MEMORY_VALUES, 1, "one byte", NULL), KILN_ERR_NOMEM);
    budget_give(b, MEMORY_WEIGHTS, 600);
    CHECK_EQ(budget_take(b, MEMORY_VALUES, 100, "a tensor", NULL), KILN_OK);
    budget_give(b, MEMORY_VALUES, 100), budget_give(b, MEMORY_STAGING, 400);
    CHECK_EQ(budget_used(b), 0);
    budget_free(b);
}

static void test_without_a_limit_all_is_counted_and_nothing_refused(void)
{
    budget *b = budget_new(0);
    REQUIRE(b);
    CHECK_EQ(budget_take(b, MEMORY_WEIGHTS, SIZE_MAX / 2, "much", NULL), KILN_OK);
    CHECK_EQ(budget_take(b, MEMORY_WEIGHTS, SIZE_MAX, "more than can be counted", NULL), KILN_ERR_NOMEM);
    CHECK_EQ(budget_used(b), SIZE_MAX / 2);
    budget_give(b, MEMORY_WEIGHTS, SIZE_MAX / 2);
    budget_free(b);
}

typedef struct {
    budget *b;
    size_t has, asked;
} owner;

static void give_up(void *arg, size_t bytes)
{
    owner *o = arg;
    size_t n = bytes < o->has ? bytes : o->has;
    o->asked += bytes;
    o->has -= n;
    budget_give(o->b, MEMORY_WEIGHTS, n);
}

static void test_pressure_asks_for_what_is_missing(void)
{
    owner o = {.b = budget_new(1000), .has = 900};
    REQUIRE(o.b);
    budget_on_pressure(o.b, give_up, &o);
    CHECK_EQ(budget_take(o.b, MEMORY_WEIGHTS, 900, "weights", NULL), KILN_OK);
    CHECK_EQ(budget_take(o.b, MEMORY_VALUES, 300, "a tensor", NULL), KILN_OK);
    CHECK_EQ(o.asked, 200);
    CHECK_EQ(budget_take(o.b, MEMORY_VALUES, 2000, "too much", NULL),
             KILN_ERR_NOMEM); /* it gave all it had, which is not enough */
    CHECK_EQ(o.has, 0);
    CHECK_EQ(budget_used(o.b), 300);
    budget_give(o.b, MEMORY_VALUES, 300);
    budget_free(o.b);
}

enum { THREADS = 4, ROUNDS = 20000 };

static void *take_and_give(void *arg)
{
    budget *b = arg;
    for (int i = 0; i < ROUNDS; i++) {
        size_t n = 1 + (size_t)(i % 300);
        if (budget_take(b, i % MEMORY_KINDS, n, "some", NULL) == KILN_OK) budget_give(b, i % MEMORY_KINDS, n);
    }
    return NULL;
}

static void test_threads_never_pass_the_limit(void)
{
    budget *b = budget_new(700);
    pthread_t t[THREADS];
    REQUIRE(b);
    for (int i = 0; i < THREADS; i++) pthread_create(&t[i], NULL, take_and_give, b);
    for (int i = 0; i < THREADS; i++) pthread_join(t[i], NULL);
    CHECK_EQ(budget_used(b), 0);
    CHECK(budget_peak(b) <= 700);
    budget_free(b);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_sums_are_exact_and_the_limit_holds_to_the_byte),
        CASE(test_without_a_limit_all_is_counted_and_nothing_refused),
        CASE(test_pressure_asks_for_what_is_missing),
        CASE(test_threads_never_pass_the_limit),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
