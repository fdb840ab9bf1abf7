/* seeds.h - a fuzzer's seeds, and what it ever found, through its own checks: without libFuzzer, as a test. The file
 * that includes it has included fuzz_NAME.c. */
#ifndef KILN_TESTS_FUZZ_SEEDS_H
#define KILN_TESTS_FUZZ_SEEDS_H

#include "base/file.h"
#include "base/memory_alloc.h"
#include "harness.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

/* Every file of tests/fuzz/corpus/NAME, or of $KILN_FUZZ_CORPUS/NAME, of which there are `at_least`. A check that does
 * not hold ends the program. */
static inline void every_seed_holds(const char *name, size_t at_least)
{
    char folder[600], path[1200];
    size_t n = 0;
    const char *other = getenv("KILN_FUZZ_CORPUS");
    if (other)
        snprintf(folder, sizeof folder, "%s/%s", other, name);
    else
        snprintf(folder, sizeof folder, "%s/tests/fuzz/corpus/%s", test_root(), name);
    DIR *d = opendir(folder);
    REQUIRE(d != NULL);
    for (struct dirent *x; (x = readdir(d));) {
        char *data = NULL;
        size_t size = 0;
        if (x->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, x->d_name);
        CHECK(file_read(path, 1 << 20, &data, &size, NULL) == KILN_OK);
        LLVMFuzzerTestOneInput((const uint8_t *)data, size);
        mem_free(data);
        n++;
    }
    closedir(d);
    CHECK(n >= at_least);
}

#endif
