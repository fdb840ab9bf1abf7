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

/* The way of attention, and what result keys say of it. */
static int attends(const char *level, const char *gemm, const char *asked, cpu_attention_way way, const char *text)
{
    pid_t child = fork();
    if (child == 0) {
        if (level) setenv("KILN_CPU_FEATURES", level, 1);
        if (gemm) setenv("KILN_CPU_GEMM", gemm, 1);
        if (asked) setenv("KILN_CPU_ATTENTION", asked, 1);
        const char *said = strstr(backend_cpu.numerics(), ", attention");
        int right = said ? strncmp(said, text, strlen(text)) == 0 && said[strlen(text)] == ',' : !*text;
        _exit(cpu_attention() == way && right ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void test_attention_choice(void)
{
    static const char tiles[] = ", attention bf16 tiles", pairs[] = ", attention bf16",
                      packed[] = ", attention bf16 packed";
    if (!ops_machine_has("avx512bf16")) {
        test_skip("this processor has no AVX-512 with bf16");
        return;
    }
    int vbmi = 0;
#if defined __x86_64__
    vbmi = __builtin_cpu_supports("avx512vbmi") != 0;
#endif
    const cpu_attention_way most = vbmi ? ATTEND_BY_PACKED : ATTEND_BY_TILES;
    const char *best = vbmi ? packed : tiles;
    CHECK(attends(NULL, NULL, NULL, most, best));
    CHECK(attends(NULL, NULL, "tiles", ATTEND_BY_TILES, tiles));
    CHECK(attends(NULL, NULL, "packed", most, best));
    CHECK(attends("avx512bf16", NULL, "packed", ATTEND_BY_PAIRS, pairs)); /* with a warning */
    CHECK(attends("amx", "f32", NULL, ATTEND_BY_F32, ""));
    CHECK(attends("amx", "f32", "tiles", ATTEND_BY_TILES, tiles));
    CHECK(attends(NULL, NULL, "pairs", ATTEND_BY_PAIRS, pairs));
    CHECK(attends(NULL, NULL, "f32", ATTEND_BY_F32, ""));
    CHECK(attends("avx512bf16", NULL, NULL, ATTEND_BY_PAIRS, pairs));
    CHECK(attends("avx512bf16", NULL, "tiles", ATTEND_BY_PAIRS, pairs)); /* with a warning */
    CHECK(attends("avx512", NULL, "pairs", ATTEND_BY_F32, ""));
    CHECK(attends(NULL, NULL, "squares", most, best));
}

static void test_attention(void) { rows("widened", "attention "); }

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        CASE(test_linears), CASE(test_grouped_linears),  CASE(test_transposed_linears), CASE(test_convolutions),
        CASE(test_choice),  CASE(test_attention_choice), CASE(test_attention)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
