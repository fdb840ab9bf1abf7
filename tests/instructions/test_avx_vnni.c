/* test_avx_vnni.c - int8_kernels_avxvnni.c compiled for AVX-512's encoding of its byte products, so that processors run
 * it that have these and no AVX-VNNI: the bits of the plain kernels, and rows of the op table at the level of AVX2. The
 * engine's own object has the other encoding (tests/instructions/test_encodings.sh); test_block_int8 takes it where
 * AVX-VNNI is.
 */
#include "harness.h"

#include "backend/cpu/cpu.h"
#include "backend/int8_cases.h"
#include "backend/ops_level.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int missing(void)
{
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vl")) return 0;
#endif
    test_skip("this processor has no byte products of AVX-512");
    return 1;
}

#if defined __x86_64__
static void test_same_bits(void)
{
    if (!missing()) int8_check_bits(&int8_kernels_avxvnni);
}
static void test_columns(void)
{
    if (missing()) return;
    int8_check_columns(&int8_kernels_avxvnni), int8_check_blocks(&int8_kernels_avxvnni);
}

/* In a child: the level is chosen once. */
static int chosen(const char *level, const char *blocks, const int8_kernels *by, int integers)
{
    pid_t child = fork();
    if (child == 0) {
        setenv("KILN_CPU_FEATURES", level, 1);
        if (blocks) setenv("KILN_CPU_BLOCKS", blocks, 1);
        _exit(cpu_int8_kernels(1) == by && (cpu_blocks() != BLOCKS_WIDENED) == integers ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
static void test_choice(void)
{
    if (missing()) return;
    CHECK(chosen("avx2", NULL, &int8_kernels_avxvnni, 1));
    CHECK(chosen("avx2", "widened", &int8_kernels_avxvnni, 0));
    CHECK(chosen("avx512", NULL, &int8_kernels_avx512vnni, 1));
    CHECK(chosen("none", NULL, &int8_kernels_plain, 0));
}

static void test_ops(void)
{
    if (missing()) return;
    static const char *const prefix[] = {"linear KILN_", "linear int8 ", "grouped_linear KILN_",
                                         "linear_transposed KILN_", "conv2d int8 "};
    for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
        CHECK_EQ(ops_run_level("avx2", "f32", "int8", prefix[i]), 0);
}
#else
static void test_same_bits(void) { missing(); }
static void test_columns(void) { missing(); }
static void test_choice(void) { missing(); }
static void test_ops(void) { missing(); }
#endif

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_same_bits), CASE(test_columns), CASE(test_choice), CASE(test_ops)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
