/* test_amx_ops.c - rows of the op table at the level of AMX, whose kernels run on the model: the whole backend finds it
 * there, and is linked with the emulated kernels. Where AMX is, tests/backend/test_ops.c runs the table on it.
 */
#include "harness.h"

#include "amx_model.h"
#include "backend/cpu/cpu.h"
#include "backend/ops_level.h"

#include "backend/cpu/int8_kernels.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void rows(const char *blocks, const char *prefix)
{
#if defined __x86_64__
    if (ops_machine_has("avx512bf16")) {
        CHECK_EQ(ops_run_level("amx", "bf16", blocks, prefix), 0);
        return;
    }
#endif
    test_skip("this processor has no AVX-512 with bf16, which AMX's kernels use beside the tiles");
}

static void test_linears(void) { rows("int8", "linear KILN_"), rows("int8", "linear int8 "); }
static void test_grouped_linears(void) { rows("int8", "grouped_linear KILN_"), rows("int8", "grouped_linear int8 "); }
static void test_transposed_linears(void) { rows("int8", "linear_transposed KILN_"); }
static void test_convolutions(void) { rows("int8", "conv2d int8 "); }

/* What a processor with AMX takes, asked in a child, since it is chosen once: products of integers when told to. */
static int chosen(const char *level, const char *blocks, const int8_kernels *by, int integers)
{
    pid_t child = fork();
    if (child == 0) {
        if (level) setenv("KILN_CPU_FEATURES", level, 1);
        if (blocks) setenv("KILN_CPU_BLOCKS", blocks, 1);
        _exit(cpu_int8_kernels() == by && cpu_int8_blocks() == integers ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void test_choice(void)
{
#if defined __x86_64__
    if (ops_machine_has("avx512bf16") && __builtin_cpu_supports("avx512vnni")) {
        CHECK(chosen(NULL, NULL, &int8_kernels_amx, 0));
        CHECK(chosen(NULL, "int8", &int8_kernels_amx, 1));
        CHECK(chosen("avx512bf16", NULL, &int8_kernels_avx512vnni, 1));
        CHECK(chosen("none", "int8", &int8_kernels_plain, 1));
        return;
    }
#endif
    test_skip("this processor has no AVX-512 with bf16 and byte products");
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_linears), CASE(test_grouped_linears), CASE(test_transposed_linears),
                                      CASE(test_convolutions), CASE(test_choice)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
