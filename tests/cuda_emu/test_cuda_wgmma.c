/* test_cuda_wgmma.c - gemm_wgmma.cu's kernel against the plain one by each width of its blocks, as matrices and
 * pictures; that mistakes in such kernels are found by the emulation; and who may ask for it. The table of ops by it is
 * in test_cuda_ops.c.
 *
 * Numbers are small integers, whose sums f32 holds exactly, so sums are compared for equality.
 */
#include "cu_emu.h"
#include "fake_cuda.h"
#include "harness.h"
#include "warpgroup_kernels.h"

#include "../memory/fake_device.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/tensor_map.h"
#include "backend/cuda_load.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern const cuda_library kiln_cuda_library;
enum { SEEDS = 12, NUMBERS = 1 << 18, M = WARPGROUP_ROWS, N = WARPGROUP_COLUMNS, DEEP = 3 * WARPGROUP_DEEP };

static _Alignas(16) uint16_t left[NUMBERS], right[NUMBERS];
static float bias[512];
static void fill(uint32_t type)
{
    for (int i = 0; i < NUMBERS; i++) {
        const float a = (float)((i * 37 + i / 71) % 7 - 3), b = (float)((i * 29 + i / 53) % 5 - 2);
        dtype_convert(left + i, type, &a, KILN_F32, 1), dtype_convert(right + i, type, &b, KILN_F32, 1);
    }
    for (int i = 0; i < 512; i++) bias[i] = (float)(i % 9 - 4);
}
static float left_number(int i) { return (float)((i * 37 + i / 71) % 7 - 3); }
static float right_number(int i) { return (float)((i * 29 + i / 53) % 5 - 2); }

/* ---- the emulation ---- */

static int wrong_sums(const float *out, int k)
{
    int wrong = 0;
    for (int i = 0; i < M * N; i++) {
        float sum = 0;
        for (int j = 0; j < k; j++) sum += left_number(i / N * k + j) * right_number(i % N * k + j);
        wrong += !(out[i] == sum);
    }
    return wrong;
}

static void test_a_warpgroups_product_is_right(void)
{
    static float out[M * N];
    fill(KILN_BF16);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        cu_emu_seed(seed), warpgroup_product(out, left, right, DEEP, WARPGROUP_RIGHT);
        CHECK_EQ(wrong_sums(out, DEEP), 0);
    }
    warpgroup_written(out, left, right, 1);
    CHECK_EQ(wrong_sums(out, WARPGROUP_DEEP), 0);
    CHECK_EQ(cu_emu_faults(), 0);
}

/* Under at least half of the orders. */
static void test_mistakes_that_show_in_sums(void)
{
    static const struct {
        warpgroup_fault fault;
        int least;
    } rows[] = {
        {WARPGROUP_EARLY_RELEASE, SEEDS / 2}, {WARPGROUP_UNFINISHED, SEEDS}, {WARPGROUP_TILE_UNAWAITED, SEEDS / 2}};
    static float out[M * N];
    fill(KILN_BF16);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int shown = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            unsigned before = cu_emu_faults();
            memset(out, 0, sizeof out);
            cu_emu_seed(seed), warpgroup_product(out, left, right, DEEP, rows[i].fault);
            shown += wrong_sums(out, DEEP) > 0 || cu_emu_faults() > before;
        }
        CHECK_MSG(shown >= rows[i].least, "mistake %d shows under %d of %d orders", rows[i].fault, shown, SEEDS);
    }
    warpgroup_written(out, left, right, 0);
    CHECK(wrong_sums(out, WARPGROUP_DEEP) == M * N);
}

static void test_mistakes_that_are_said(void)
{
    static const struct {
        warpgroup_fault fault;
        const char *words;
    } rows[] = {{WARPGROUP_UNPUBLISHED, "a barrier which was not published"},
                {WARPGROUP_UNFENCED, "a product before its sums are fenced"},
                {WARPGROUP_MANY_BYTES, "a phase of a barrier that does not end"},
                {WARPGROUP_FEW_BYTES, "a phase of a barrier that does not end"},
                {WARPGROUP_OFF_PLACE, "no multiple of 1024 bytes"},
                {WARPGROUP_TWO_ARRIVALS, "a phase of a barrier that does not end"},
                {WARPGROUP_UNFINISHED, "products that nobody waited for"},
                {WARPGROUP_ABANDONED, "a box that nobody waited for"}};
    static float out[M * N];
    fill(KILN_BF16);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int said = 0;
        for (uint64_t seed = 0; seed < SEEDS && !said; seed++) {
            unsigned before = cu_emu_faults();
            cu_emu_seed(seed), warpgroup_product(out, left, right, DEEP, rows[i].fault);
            said = cu_emu_faults() > before && strstr(cu_emu_last_fault(), rows[i].words) != NULL;
        }
        CHECK_MSG(said, "mistake %d: %s", rows[i].fault, cu_emu_last_fault());
    }
    fake_cuda_chip(8, 0);
    warpgroup_product(out, left, right, WARPGROUP_DEEP, WARPGROUP_RIGHT);
    CHECK(strstr(cu_emu_last_fault(), "does not have: ") != NULL);
    fake_cuda_chip(9, 0);
}

static void test_tensors_that_the_driver_refuses(void)
{
    CHECK(warpgroup_box(left, 64, 128, 64, 1));
    CHECK(!warpgroup_box(left + 1, 64, 128, 64, 1)); /* not at a multiple of 16 bytes */
    CHECK(!warpgroup_box(left, 64, 136, 64, 1));     /* rows neither */
    CHECK(!warpgroup_box(left, 0, 128, 64, 1));
    CHECK(!warpgroup_box(left, 64, 128, 32, 1)); /* no row of 128 bytes */
    CHECK(!warpgroup_box(left, 64, 128, 64, 9));
}

/* ---- the kernel ---- */

typedef struct {
    const char *name;
    cu_gemm p;
} gemm_row;
#define PICTURE(n, h, w, c, o, kh_, kw_, oh, ow, s, t, l, d)                                                           \
    .M = (int64_t)(n) * (oh) * (ow), .N = o, .K = (int64_t)(c) * (kh_) * (kw_),                                        \
    .k_packed = (int64_t)(c) * (kh_) * (kw_), .a_ld = c, .picture = 1, .H = h, .W = w, .out_h = oh, .out_w = ow,       \
    .channels = c, .kh = kh_, .kw = kw_, .stride_h = s, .stride_w = s, .top = t, .left = l, .dilation_h = d,           \
    .dilation_w = d
static const gemm_row rows[] = {
    {"a matrix", {.M = 130, .N = 320, .K = 72, .k_packed = 72, .a_ld = 80}},
    {"one and a half blocks of columns", {.M = 65, .N = 384, .K = 64, .k_packed = 64, .a_ld = 64}},
    {"odd columns", {.M = 70, .N = 163, .K = 136, .k_packed = 136, .a_ld = 136}},
    {"K in parts", {.M = 100, .N = 72, .K = 648, .k_packed = 648, .a_ld = 648, .splits = 3}},
    {"more parts than steps", {.M = 100, .N = 40, .K = 72, .k_packed = 72, .a_ld = 72, .splits = 4}},
    {"geglu", {.M = 70, .N = 136, .K = 64, .k_packed = 64, .a_ld = 64, .finish = {.geglu = 1}}},
    {"a picture", {PICTURE(1, 16, 16, 24, 40, 3, 3, 16, 16, 1, 1, 1, 1)}},
    {"two taps of tails", {PICTURE(1, 11, 14, 80, 48, 3, 3, 11, 14, 1, 1, 1, 1)}},
    {"two pictures in a box", {PICTURE(3, 6, 5, 16, 40, 3, 3, 6, 5, 1, 1, 1, 1)}},
    {"every other place", {PICTURE(2, 17, 18, 16, 40, 3, 3, 8, 8, 2, 0, 0, 1)}},
    {"far taps", {PICTURE(1, 12, 13, 16, 40, 3, 3, 12, 13, 1, 2, 2, 2)}},
    {"a row of taps", {PICTURE(1, 9, 40, 8, 40, 1, 5, 9, 40, 1, 0, 2, 1)}},
    {"in parts", {PICTURE(1, 9, 9, 64, 40, 3, 3, 9, 9, 1, 1, 1, 1), .splits = 5}},
};

static int launched(cudaError_t status, cudaStream_t stream)
{
    return status == cudaSuccess && cudaStreamSynchronize(stream) == cudaSuccess;
}

static void compare(const gemm_row *r, int type, int out_type, cudaStream_t stream)
{
    enum { MOST = 64 << 10 };
    static _Alignas(16) float expected[MOST], got[MOST], partial[4 * MOST], residual[MOST];
    cu_gemm p = r->p;
    for (int i = 0; i < MOST; i++) residual[i] = (float)(i % 11 - 5);
    p.type = type, p.out_type = out_type, p.a = left, p.w = right, p.partial = partial;
    if (!p.splits) p.splits = 1;
    p.out_columns = p.finish.geglu ? p.N / 2 : p.N, p.out_ld = p.out_columns;
    p.finish.bias = bias, p.finish.act = CU_ACT_RELU;
    p.finish.residual = residual, p.finish.residual_type = CU_F32, p.finish.residual_ld = p.out_ld;
    if (p.finish.geglu && out_type != CU_F32) p.finish.residual = NULL; /* so four are stored at once */
    const size_t bytes = (size_t)(p.M * p.out_ld) * (out_type == CU_F32 ? 4 : 2);
    REQUIRE(bytes <= sizeof got && (size_t)(p.splits * p.M * p.N) * 4 <= sizeof partial && cu_gemm_wgmma_takes(&p));
    p.out = expected;
    REQUIRE(launched(cu_gemm_run(&p, stream), stream));
    static const int processors[] = {132, 1}; /* blocks of 128 columns; of what takes one the least time */
    for (int i = 0; i < 2; i++) {
        memset(got, 0xff, sizeof got), memset(partial, 0xff, sizeof partial);
        p.out = got;
        cu_emu_seed((uint64_t)i + 3);
        CHECK(launched(cu_gemm_wgmma_run(&p, processors[i], stream), stream));
        CHECK_MSG(memcmp(got, expected, bytes) == 0, "%s, %d processors: not the plain kernel's sums", r->name,
                  processors[i]);
        for (size_t k = (bytes + 3) / 4; k < sizeof got / 4; k++)
            if (!isnan(got[k])) {
                CHECK_MSG(0, "%s: something was written behind the result", r->name);
                break;
            }
    }
}

static void test_the_plain_kernels_sums(void)
{
    cudaStream_t stream;
    uint64_t blocks;
    const unsigned before = cu_emu_faults();
    fake_device_open(&(fake_setting){.bytes = 1 << 20, .seed = 5, .fail_at = -1});
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    for (int f16 = 0; f16 < 2; f16++) {
        fill(f16 ? KILN_F16 : KILN_BF16);
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            compare(&rows[i], f16 ? CU_F16 : CU_BF16, CU_F32, stream);
            compare(&rows[i], f16 ? CU_F16 : CU_BF16, f16 ? CU_F16_SATURATED : CU_BF16, stream);
            if (f16) compare(&rows[i], CU_F16, CU_F16, stream);
        }
    }
    CHECK(cu_emu_ran("gemm_wgmma", &blocks) == 2 * 5 * sizeof rows / sizeof rows[0]);
    cudaStreamDestroy(stream);
    CHECK_EQ(fake_device_close().faults, 0);
    cu_emu_forget();
    CHECK_EQ(cu_emu_faults(), before);
}

static void test_what_it_does_not_take(void)
{
    const cu_gemm fine = {.type = CU_BF16, .M = 65, .N = 33, .K = 64, .k_packed = 64, .a_ld = 64, .splits = 1};
    const cu_gemm picture = {PICTURE(1, 16, 16, 24, 40, 3, 3, 16, 16, 1, 1, 1, 1), .type = CU_F16};
    CHECK(cu_gemm_wgmma_takes(&fine) && cu_gemm_wgmma_takes(&picture));
    cu_gemm p[8] = {fine, fine, fine, fine, fine, fine, picture, picture};
    p[0].M = 64, p[1].N = 32, p[2].type = CU_F32, p[3].K = 60, p[4].a_ld = 68, p[5].a = left + 1;
    p[6].stride_w = 9, p[7].channels = 20;
    for (int i = 0; i < 8; i++) CHECK_MSG(!cu_gemm_wgmma_takes(&p[i]), "row %d is taken", i);
}

/* ---- asking for it ---- */

static void opened(int sm, int old_driver, const char *says)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        error e = {0};
        memory_device *device = NULL;
        setenv("KILN_CUDA_GEMM", "wgmma", 1);
        fake_cuda_chip(sm / 10, sm % 10), fake_cuda_old_driver(old_driver);
        fake_device_open(&(fake_setting){.bytes = 1 << 20, .seed = 5, .fail_at = -1});
        const backend *b = kiln_cuda_library.backend;
        int fine = b->open(0, &device, &e) == KILN_OK;
        const char *said = fine ? b->features() : e.message;
        fine = strstr(said, says) != NULL;
        if (!fine) printf("  sm_%d: %s\n", sm, said);
        fflush(stdout);
        _exit(!fine);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_who_may_ask_for_it(void)
{
    opened(90, 0, "tensor cores by warpgroups");
    opened(89, 0, "KILN_CUDA_GEMM=wgmma: the device is no sm_90");
    opened(100, 0, "KILN_CUDA_GEMM=wgmma: the device is no sm_90");
    opened(90, 1, "KILN_CUDA_GEMM=wgmma: the driver is older than 12.0");
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_who_may_ask_for_it),
                                      CASE(test_a_warpgroups_product_is_right),
                                      CASE(test_mistakes_that_show_in_sums),
                                      CASE(test_mistakes_that_are_said),
                                      CASE(test_tensors_that_the_driver_refuses),
                                      CASE(test_the_plain_kernels_sums),
                                      CASE(test_what_it_does_not_take)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
