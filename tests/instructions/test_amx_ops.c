/* test_amx_ops.c - rows of the op table at the level of AMX, whose kernels run on the model: the whole backend finds it
 * there, and is linked with the emulated kernels. Where AMX is, tests/backend/test_ops.c runs the table on it.
 */
#include "harness.h"

#include "amx_model.h"
#include "backend/cpu/cpu.h"
#include "backend/ops_level.h"

#include "backend/cpu/int8_kernels.h"

#include <stdio.h>
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

static void test_linears(void)
{
    rows("tiles", "linear KILN_"), rows("tiles", "linear int8 "), rows("tiles", "linear tiles");
}
static void test_grouped_linears(void) { rows("tiles", "grouped_linear KILN_"), rows("tiles", "grouped_linear int8 "); }
static void test_transposed_linears(void) { rows("tiles", "linear_transposed KILN_"); }
static void test_convolutions(void)
{
    rows("tiles", "conv2d int8 "), rows("tiles", "conv2d tiles"), rows("tiles", "conv2d upsampled");
}

/* What a processor with AMX takes, asked in a child, since it is chosen once: tiles for many rows. */
static int chosen(const char *level, const char *blocks, const int8_kernels *many, const int8_kernels *few,
                  cpu_blocks_way way)
{
    pid_t child = fork();
    if (child == 0) {
        if (level) setenv("KILN_CPU_FEATURES", level, 1);
        if (blocks) setenv("KILN_CPU_BLOCKS", blocks, 1);
        _exit(cpu_int8_kernels(1) == many && cpu_int8_kernels(0) == few && cpu_blocks() == way ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void test_choice(void)
{
#if defined __x86_64__
    if (ops_machine_has("avx512bf16") && __builtin_cpu_supports("avx512vnni")) {
        const int8_kernels *tiles = &int8_kernels_amx, *vnni = &int8_kernels_avx512vnni, *plain = &int8_kernels_plain;
        CHECK(chosen(NULL, NULL, tiles, vnni, BLOCKS_BY_SHAPE));
        CHECK(chosen(NULL, "int8", tiles, vnni, BLOCKS_INT8));
        CHECK(chosen(NULL, "tiles", tiles, tiles, BLOCKS_INT8_TILES));
        CHECK(chosen(NULL, "widened", tiles, vnni, BLOCKS_WIDENED));
        CHECK(chosen("avx512bf16", NULL, vnni, vnni, BLOCKS_INT8));
        CHECK(chosen("none", "int8", plain, plain, BLOCKS_INT8));
        return;
    }
#endif
    test_skip("this processor has no AVX-512 with bf16 and byte products");
}

/* What a linear is made by, or experts, of this type and so many rows: asked in a child, as above. */
static int made_by(uint32_t kind, uint32_t type, int64_t rows, const char *name)
{
    pid_t child = fork();
    if (child == 0) {
        int experts = kind == OP_GROUPED_LINEAR;
        op_desc d = {.kind = kind, .n_in = experts ? 4 : 3, .precision = KILN_BF16};
        d.in[0] = (operand_desc){.dtype = KILN_BF16, .shape = {.rank = 2, .dim = {rows, 256}}, .ld = 256};
        d.in[1] = (operand_desc){.dtype = type, .shape = {.rank = 2, .dim = {64, 256}}, .ld = 256, .weight = 1};
        if (kind == OP_LINEAR_T) d.in[1].shape = (shape){.rank = 2, .dim = {256, 64}}, d.in[1].ld = 64;
        if (experts) d.in[1].shape = (shape){.rank = 3, .dim = {4, 64, 256}};
        if (experts) d.in[3] = (operand_desc){.dtype = KILN_I32, .shape = {.rank = 1, .dim = {5}}, .ld = 5};
        d.out = (operand_desc){.dtype = KILN_BF16, .shape = {.rank = 2, .dim = {rows, 64}}, .ld = 64};
        error e = {0};
        kernel *k = NULL;
        int ok = backend_cpu.prepare(&d, &k, &e) == KILN_OK;
        int is = ok && (*name ? strcmp(k->name, name) == 0 : strncmp(k->name, "int8", 4) != 0);
        if (!is) fprintf(stderr, "  %s\n", ok ? k->name : e.message);
        _exit(is ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void test_choice_by_shape(void)
{
#if defined __x86_64__
    if (ops_machine_has("avx512bf16") && __builtin_cpu_supports("avx512vnni")) {
        CHECK(made_by(OP_LINEAR, KILN_Q4_K, 64, "int8:amx"));
        CHECK(made_by(OP_LINEAR, KILN_Q4_K, 63, "int8:vnni"));
        CHECK(made_by(OP_LINEAR, KILN_Q8_0, 64, "")); /* widened */
        CHECK(made_by(OP_LINEAR, KILN_Q8_0, 63, "int8:vnni"));
        CHECK(made_by(OP_GROUPED_LINEAR, KILN_Q4_K, 128, "int8:amx"));
        CHECK(made_by(OP_GROUPED_LINEAR, KILN_Q4_K, 127, "int8:vnni"));
        CHECK(made_by(OP_LINEAR_T, KILN_Q8_0, 64, "int8_transposed:amx"));
        CHECK(made_by(OP_LINEAR_T, KILN_Q8_0, 63, "int8_transposed:vnni"));
        CHECK(made_by(OP_GROUPED_LINEAR, KILN_Q8_0, 512, "int8:vnni"));
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
                      packed[] = ", attention bf16 packed 2";
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
        CASE(test_linears), CASE(test_grouped_linears), CASE(test_transposed_linears), CASE(test_convolutions),
        CASE(test_choice),  CASE(test_choice_by_shape), CASE(test_attention_choice),   CASE(test_attention)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
