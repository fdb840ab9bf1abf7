/* test_fuzz_tokenizer_json.c - the seeds of fuzz_tokenizer_json.c through its checks; see seeds.h. */
#include "fuzz_tokenizer_json.c"

#include "seeds.h"

static void test_every_seed_holds(void) { every_seed_holds("tokenizer_json", 20); }

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_every_seed_holds)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
