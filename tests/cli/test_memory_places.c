/* test_memory_places.c - commands without memory, at each place of the code that can be without (command_faults.h). */
#include "command_table.h"

static void test_runs(void) { fail_commands(0, FIRST_CHECK); }
static void test_others(void) { fail_commands(FIRST_CHECK, COMMAND_ROWS); }

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_runs), CASE(test_others)};
    return commands_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
