/* test_fuzz_param.c - the fuzzer's seeds, and what it ever found, through its own checks; without the fuzzer. */
#include "fuzz_param.c"

#include "base/file.h"
#include "base/memory_alloc.h"
#include "harness.h"

#include <dirent.h>
#include <stdio.h>

static void test_every_seed_holds(void)
{
    char folder[600], path[1200];
    size_t n = 0;
    snprintf(folder, sizeof folder, "%s/tests/fuzz/corpus/param", test_root());
    DIR *d = opendir(folder);
    REQUIRE(d != NULL);
    for (struct dirent *x; (x = readdir(d));) {
        char *data = NULL;
        size_t size = 0;
        if (x->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, x->d_name);
        CHECK(file_read(path, 1 << 20, &data, &size, NULL) == KILN_OK);
        LLVMFuzzerTestOneInput((const uint8_t *)data, size); /* ends the program where a check does not hold */
        mem_free(data);
        n++;
    }
    closedir(d);
    CHECK(n >= 8);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_every_seed_holds)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
