/* test_fuzz_plugin_table.c - the seeds of fuzz_plugin_table.c through its checks; see seeds.h. */
#include "fuzz_plugin_table.c"

#include "seeds.h"

static void test_every_seed_holds(void) { every_seed_holds("plugin_table", 14); }

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_every_seed_holds)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
