/* test_fuzz_editor.c - the seeds of fuzz_editor.c through its checks; see seeds.h. */
#include "fuzz_editor.c"

#include "seeds.h"

static void test_every_seed_holds(void) { every_seed_holds("editor", 8), CHECK(n_converted >= 8); }

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_every_seed_holds)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
