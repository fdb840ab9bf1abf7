/* test_array.c - arrays that grow. */
#include "base/array.h"
#include "base/memory_alloc.h"
#include "harness.h"

#include <stdint.h>

static void test_items_stay_while_it_grows(void)
{
    int *item = NULL;
    size_t n = 0, capacity = 0;
    for (int i = 0; i < 1000; i++) {
        CHECK(array_reserve(&item, &capacity, n + 1, sizeof *item));
        item[n++] = i;
    }
    CHECK(capacity >= 1000 && capacity < 2048);
    for (int i = 0; i < 1000; i++) CHECK(item[i] == i);
    mem_free(item);
}

static void test_a_size_that_overflows_leaves_it_as_it_was(void)
{
    char *item = NULL;
    size_t capacity = 0;
    CHECK(array_reserve(&item, &capacity, 3, 1));
    char *was = item;
    size_t had = capacity;
    CHECK(!array_reserve(&item, &capacity, SIZE_MAX, 1));
    CHECK(!array_reserve(&item, &capacity, SIZE_MAX / 2, 16));
    CHECK(item == was && capacity == had);
    mem_free(item);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_items_stay_while_it_grows),
                                      CASE(test_a_size_that_overflows_leaves_it_as_it_was)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
