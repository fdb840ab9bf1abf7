/* test_huge_pages.c - what lies free by /proc/buddyinfo, and that large blocks ask for huge pages where some do. */
#include "harness.h"

#include "base/huge_pages.h"
#include "base/memory_alloc.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_what_lies_free(void)
{
    const size_t mb = 1 << 20;
    CHECK_EQ(
        huge_pages_available("Node 0, zone   Normal  64533  22748  10162   4070   3899   3787   3675   3428   1811    "
                             "823    379 \n"),
        (823 * 2 + 379 * 4) * mb);
    CHECK_EQ(huge_pages_available(
                 "Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      "
                 "1      3 \n"
                 "Node 0, zone    DMA32    116    161    112     87     70     51     30     32     27     "
                 "27    723 \n"
                 "Node 0, zone   Normal      9      9      9      9      9      9      9      9      9      "
                 " 5      0 \n"
                 "Node 1, zone   Normal      9      9      9      9      9      9      9      9      9      "
                 " 0      7 \n"
                 "Node 1, zone  Movable      0      0      0      0      0      0      0      0      0      "
                 " 1      1\n"),
             (5 * 2 + 7 * 4 + 2 + 4) * mb);
    static const char *const none[] = {"",
                                       "\n",
                                       "Node 0, zone",
                                       "Node 0, zone ",
                                       "Node 0, zone   Normal",
                                       "Node 0, zone   Normal ",
                                       "Node 0, zone   Normal 1 2 3 4 5 6 7 8 9",
                                       "Node 0, zone   Normal 1 2 3 4 5 6 7 8 9 x 5",
                                       "Node 0, zone   Normal 0 0 0 0 0 0 0 0 0 99999999999999999999999999 0",
                                       "Node 0, zone   Normal 0 0 0 0 0 0 0 0 0 -3 0"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        CHECK_MSG(huge_pages_available(none[i]) == 0, "'%s': %zu", none[i], huge_pages_available(none[i]));
    CHECK_EQ(huge_pages_available("zone A 0 0 0 0 0 0 0 0 0 1"), 2 * mb); /* cut off */
}

#if defined __SANITIZE_ADDRESS__
enum { MAPPED = 0 }; /* blocks are its own */
#else
enum { MAPPED = 1 };
#endif

/* 1: the mapping that holds p was asked huge pages for (the flag hg of its VmFlags). */
static int is_asked_for(const void *p)
{
    char line[512];
    int here = 0, asked = 0;
    FILE *f = fopen("/proc/self/smaps", "r");
    for (unsigned long from, to; f && fgets(line, sizeof line, f);) {
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2) here = (uintptr_t)p >= from && (uintptr_t)p < to;
        if (here && strncmp(line, "VmFlags:", 8) == 0) asked = strstr(line, " hg") != NULL;
    }
    if (f) fclose(f);
    return asked;
}

static size_t free_now(void)
{
    char text[8192] = "";
    FILE *f = fopen("/proc/buddyinfo", "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    return text[n] = '\0', huge_pages_available(text);
}

static void test_large_blocks_ask(void)
{
    const size_t large = 64 << 20, small = 1 << 20;
    char *block = mem_pages(large), *other = mem_pages(small);
    REQUIRE(block && other);
    memset(block, 1, large), memset(other, 2, small);
    CHECK(block[0] == 1 && block[large - 1] == 1 && other[small - 1] == 2);
    CHECK(!is_asked_for(other));
    if (!MAPPED)
        test_skip("the address sanitizer has blocks of its own");
    else if (free_now() <= (size_t)1 << 30)
        test_skip("less than 1 GB lies free in pieces of 2 MB");
    else
        CHECK(is_asked_for(block + (32 << 20)));
    mem_pages_free(block), mem_pages_free(other);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_what_lies_free), CASE(test_large_blocks_ask)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
