/* seeds.h - runs a fuzzer's seeds, and the inputs that once broke something, through its checks; without libFuzzer.
 * Included after the fuzzer's own file.
 */
#ifndef KILN_TESTS_FUZZ_SEEDS_H
#define KILN_TESTS_FUZZ_SEEDS_H

#include "base/file.h"
#include "base/memory_alloc.h"
#include "harness.h"

#include <dirent.h>
#include <stdio.h>

/* Runs every file in tests/fuzz/corpus/NAME, of which there must be at least `least`. */
static void run_seeds(const char *name, size_t least)
{
    char folder[600], path[1200];
    size_t n = 0;
    snprintf(folder, sizeof folder, "%s/tests/fuzz/corpus/%s", test_root(), name);
    DIR *d = opendir(folder);
    REQUIRE(d != NULL);
    for (struct dirent *x; (x = readdir(d));) {
        char *data = NULL;
        size_t size = 0;
        if (x->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", folder, x->d_name);
        CHECK(file_read(path, 1 << 20, &data, &size, NULL) == KILN_OK);
        LLVMFuzzerTestOneInput((const uint8_t *)data, size); /* ends the program when a check fails */
        mem_free(data);
        n++;
    }
    closedir(d);
    CHECK(n >= least);
}

#endif
