/* test_amx_int8.c - products of bytes by AMX's tiles (int8_kernels_amx.c) over the model: the bits of the plain
 * kernels, like any others' (tests/backend/test_block_int8.c, which takes the engine's own where AMX is).
 */
#include "harness.h"

#include "amx_model.h"
#include "backend/int8_cases.h"

static int missing(void)
{
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512bf16")) return 0;
#endif
    test_skip("this processor has no AVX-512 with bf16, which AMX's kernels use beside the tiles");
    return 1;
}

#if defined __x86_64__
static void test_same_bits(void)
{
    if (missing()) return;
    unsigned long before = amx_model_count();
    int8_check_bits(&int8_kernels_amx);
    CHECK(amx_model_count() > before); /* these are the model's */
    CHECK(!amx_model_in_use());
}
static void test_columns(void)
{
    if (missing()) return;
    int8_check_columns(&int8_kernels_amx), int8_check_blocks(&int8_kernels_amx);
}
static void test_errors(void)
{
    if (!missing()) int8_check_errors(&int8_kernels_amx);
}
#else
static void test_same_bits(void) { missing(); }
static void test_columns(void) { missing(); }
static void test_errors(void) { missing(); }
#endif

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_same_bits), CASE(test_columns), CASE(test_errors)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
