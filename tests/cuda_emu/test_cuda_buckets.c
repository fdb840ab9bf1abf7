/* test_cuda_buckets.c - a row of a product has the same bytes however many rows are beside it, where its program is
 * told lengths: parts of K that one block sums one after the other have the bytes of parts that are stored and added,
 * and a linear of any number of rows has the same parts. Blocks, programs and ops are in tests/plugin/test_buckets.c.
 */
#include "cu_emu.h"
#include "fake_cuda.h"
#include "harness.h"

#include "../memory/fake_device.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/launch.h"
#include "backend/cuda_load.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>

extern const cuda_library kiln_cuda_library;
enum { NUMBERS = 1 << 18, MOST = 1 << 15, MOST_PARTS = 16 };

static _Alignas(16) float left[NUMBERS], right[NUMBERS];
static _Alignas(16) float expected[MOST], got[MOST], partial[MOST_PARTS * MOST];

/* No sums of these are exact in f32. */
static void fill(int type)
{
    const uint32_t as[] = {[CU_F32] = KILN_F32, [CU_BF16] = KILN_BF16, [CU_F16] = KILN_F16};
    size_t size = type == CU_F32 ? 4 : 2;
    for (size_t i = 0; i < NUMBERS; i++) {
        const float a = (float)((i * 7919) % 4093) / 1021 - 2, b = (float)((i * 6151) % 4099) / 1019 - 2;
        dtype_convert((char *)left + i * size, as[type], &a, KILN_F32, 1);
        dtype_convert((char *)right + i * size, as[type], &b, KILN_F32, 1);
    }
}

static int launched(const cu_gemm *p, cudaStream_t stream)
{
    return (p->type == CU_F32 ? cu_gemm_run : cu_gemm_mma_run)(p, stream) == cudaSuccess &&
           cudaStreamSynchronize(stream) == cudaSuccess;
}

static void compare(cu_gemm p, int parts, cudaStream_t stream)
{
    const size_t bytes = (size_t)(p.M * p.N) * 4;
    p.a = left, p.w = right, p.partial = partial, p.out_type = CU_F32;
    p.k_packed = p.a_ld = p.K, p.out_columns = p.out_ld = p.N;
    REQUIRE(bytes <= sizeof got);
    p.out = expected, p.splits = parts, p.parts = 1;
    REQUIRE(launched(&p, stream));
    memset(got, 0xff, sizeof got);
    p.out = got, p.splits = 1, p.parts = parts;
    REQUIRE(launched(&p, stream));
    CHECK_MSG(memcmp(got, expected, bytes) == 0, "type %d, %d x %d x %d: %d parts have other bytes", p.type, (int)p.M,
              (int)p.N, (int)p.K, parts);
    if (parts == 1) return;
    p.parts = 1;
    REQUIRE(launched(&p, stream));
    CHECK_MSG(memcmp(got, expected, bytes) != 0, "type %d: parts make no difference, so nothing was tested", p.type);
}

static void test_parts_in_one_block(void)
{
    static const int types[] = {CU_F32, CU_BF16, CU_F16};
    cudaStream_t stream;
    fake_device_open(&(fake_setting){.bytes = 1 << 20, .seed = 5, .fail_at = -1});
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        fill(types[i]);
        compare((cu_gemm){.type = types[i], .M = 70, .N = 40, .K = 648}, 3, stream);
        compare((cu_gemm){.type = types[i], .M = 130, .N = 136, .K = 680}, 4, stream); /* a last part of fewer steps */
        compare((cu_gemm){.type = types[i], .M = 66, .N = 72, .K = 104}, 1, stream);
        compare((cu_gemm){.type = types[i], .M = 33, .N = 24, .K = 1096}, 16, stream); /* more than it has steps for */
    }
    cudaStreamDestroy(stream);
    CHECK_EQ(fake_device_close().faults, 0);
}

/* The parts of a linear of so many rows, N and K; of a program that is told lengths or of another. */
static int parts_of(int64_t rows, int64_t n, int64_t k, uint32_t bounded, int *in_one_block, int *by_library)
{
    error e = {0};
    kernel *made = NULL;
    const operand_desc x = {.dtype = KILN_BF16, .shape = {.rank = 2, .dim = {rows, k}}, .ld = k},
                       w = {.dtype = KILN_BF16, .shape = {.rank = 2, .dim = {n, k}}, .ld = k, .weight = 1};
    op_desc op = {.kind = OP_LINEAR, .n_in = 3, .in = {x, w}, .precision = KILN_BF16, .bounded = bounded};
    op.out = (operand_desc){.dtype = KILN_BF16, .shape = {.rank = 2, .dim = {rows, n}}, .ld = n};
    if (!CHECK_MSG(kiln_cuda_library.backend->prepare(&op, &made, &e) == KILN_OK, "%s", e.message)) return 0;
    const cu_gemm p = ((const cuda_kernel *)(const void *)made)->u.gemm.p;
    int few = strcmp(made->name, "gemv") == 0;
    *by_library = strcmp(made->name, "cublaslt") == 0;
    made->free(made);
    *in_one_block = p.parts > 1;
    return few ? -1 : p.splits > p.parts ? p.splits : p.parts;
}

static void test_all_buckets_have_the_same_parts(void)
{
    static const int64_t buckets[] = {2, 5, 16, 17, 64, 128, 200, 333, 1024, 4096, 20000},
                         shapes[][2] = {{96, 1024}, {4096, 4096}, {1024, 4096}, {2816, 2112}, {14336, 4096}, {40, 64}};
    error e = {0};
    memory_device *device = NULL;
    int once = 0, never = 0, wide = 0, other = 0, by_library, libraries = 0;
    REQUIRE(fake_cuda_vendor("KILN_CUBLASLT"));
    fake_device_open(&(fake_setting){.bytes = 1 << 20, .seed = 5, .fail_at = -1});
    REQUIRE(kiln_cuda_library.backend->open(0, &device, &e) == KILN_OK);
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        int one = 0, first = parts_of(2, shapes[s][0], shapes[s][1], 1, &one, &by_library);
        CHECK(first >= 1);
        for (size_t b = 0; b < sizeof buckets / sizeof buckets[0]; b++) {
            int parts = parts_of(buckets[b], shapes[s][0], shapes[s][1], 1, &one, &by_library);
            CHECK_MSG(!by_library, "%d rows by cuBLASLt, which chooses by their number", (int)buckets[b]);
            CHECK_MSG(parts == first, "%d rows: %d parts of K, not %d", (int)buckets[b], parts, first);
            once += one, never += !one;
            other += parts_of(buckets[b], shapes[s][0], shapes[s][1], 0, &one, &by_library) != first;
            libraries += by_library;
        }
        wide += first > 1;
    }
    CHECK_MSG(libraries > 20, "%d of other programs by cuBLASLt", libraries);
    CHECK_MSG(once > 4 && never > 20 && wide > 3 && other > 10, "%d in one block, %d stored, %d, %d", once, never, wide,
              other);
    int one, decoding = parts_of(1, 4096, 4096, 1, &one, &by_library);
    CHECK_MSG(decoding == -1, "one row is no bucket, and is read as fast as memory allows");
    CHECK_EQ(fake_device_close().faults, 0);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_parts_in_one_block), CASE(test_all_buckets_have_the_same_parts)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
