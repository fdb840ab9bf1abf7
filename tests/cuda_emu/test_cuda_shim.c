/* test_cuda_shim.c - the emulation itself: right kernels are right under every order of threads, and mistakes planted
 * in kernels are found.
 *
 * Numbers are small integers, or sums of them below 2^24, so f32 is exact in any order and every comparison is for
 * equality.
 */
#include "cu_emu.h"
#include "fake_cuda.h"
#include "harness.h"
#include "shim_kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SEEDS = 50, N = 96 };

static float numbers[4096];
static void fill(void)
{
    for (int i = 0; i < 4096; i++) numbers[i] = (float)((i * 37 + 11) % 101 - 50);
}

/* ---- right kernels ---- */

static void test_sums_by_shuffles(void)
{
    enum { ROWS = 5, COLUMNS = 300 };
    float out[ROWS];
    fill();
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        cu_emu_seed(seed), shim_sum_rows(out, numbers, ROWS, COLUMNS);
        for (int r = 0; r < ROWS; r++) {
            float sum = 0;
            for (int i = 0; i < COLUMNS; i++) sum += numbers[r * COLUMNS + i];
            CHECK(out[r] == sum);
        }
    }
    CHECK_EQ(cu_emu_faults(), 0);
}

static void test_products_by_tiles(void)
{
    enum { M = 19, O = 21, K = 30 };
    float out[M * O];
    fill();
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        int wrong = 0;
        cu_emu_seed(seed), shim_product(out, numbers, numbers + 1000, M, O, K);
        for (int i = 0; i < M * O; i++) {
            float sum = 0;
            for (int k = 0; k < K; k++) sum += numbers[i / O * K + k] * numbers[1000 + k * O + i % O];
            wrong += out[i] != sum;
        }
        CHECK_EQ(wrong, 0);
    }
    CHECK_EQ(cu_emu_faults(), 0);
}

/* One instruction of the tensor cores; on sm_75 two of half the depth, and none for bf16. */
static void test_products_of_tensor_cores(void)
{
    static const cu_emu_kind kinds[] = {CU_EMU_MMA16_BF16, CU_EMU_MMA16_F16, CU_EMU_MMA8_F16};
    float out[16 * 8 > N ? 16 * 8 : N];
    fill();
    for (int i = 0; i < 3; i++) {
        int wrong = 0;
        uint64_t before = cu_emu_count(kinds[i]);
        fake_cuda_chip(i == 2 ? 7 : 8, i == 2 ? 5 : 0);
        shim_tensor_product(out, numbers, numbers + 1000, i > 0);
        for (int e = 0; e < 16 * 8; e++) {
            float sum = 0;
            for (int k = 0; k < 16; k++) sum += numbers[e / 8 * 16 + k] * numbers[1000 + k * 8 + e % 8];
            wrong += out[e] != sum;
        }
        CHECK_EQ(wrong, 0);
        CHECK_EQ(cu_emu_count(kinds[i]) - before, i == 2 ? 64 : 32);
    }
    CHECK_EQ(cu_emu_faults(), 0);
    uint64_t asynchronous = cu_emu_count(CU_EMU_ASYNC_COPY);
    shim_copied(out, numbers, N, 0); /* there is nothing to wait for */
    CHECK(memcmp(out, numbers, N * sizeof *out) == 0 && cu_emu_count(CU_EMU_ASYNC_COPY) == asynchronous);
    fake_cuda_chip(9, 0);
}

static void test_halves_of_a_warp_go_their_own_ways(void)
{
    float out[2 * 64];
    fill();
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        cu_emu_seed(seed), shim_halves_of_warps(out, numbers, 64);
        for (int t = 0; t < 64; t++) {
            float half = 0, all = 0;
            for (int i = 0; i < 32; i++) {
                float v = numbers[t / 32 * 32 + i];
                all += v, half += i / 16 == t % 32 / 16 ? v : 0;
            }
            CHECK(out[2 * t] == half && out[2 * t + 1] == all);
        }
    }
    CHECK_EQ(cu_emu_faults(), 0);
}

static void test_every_thread_once_in_the_seeds_order(void)
{
    enum { BLOCKS = 12, THREADS = 40, ALL = BLOCKS * THREADS };
    static uint32_t order[3][ALL];
    for (int i = 0; i < 3; i++) {
        unsigned char seen[ALL] = {0};
        cu_emu_seed(i == 1 ? 2 : 1), shim_visits(order[i], BLOCKS, THREADS);
        for (int k = 0; k < ALL; k++) seen[order[i][k] % ALL]++;
        CHECK(memchr(seen, 0, ALL) == NULL && memchr(seen, 2, ALL) == NULL);
    }
    CHECK(memcmp(order[0], order[1], sizeof order[0]) != 0);
    CHECK(memcmp(order[0], order[2], sizeof order[0]) == 0);
}

/* Blocks come one after the other, whole; their order, and that of the threads of one, are others under other seeds.
 * More than one step from block to block has to be seen too: orders that only begin elsewhere keep neighbours together.
 */
static void test_blocks_and_threads_come_in_many_orders(void)
{
    enum { BLOCKS = 12, THREADS = 40, ALL = BLOCKS * THREADS };
    static uint32_t order[ALL], blocks[SEEDS][BLOCKS], threads[SEEDS][THREADS];
    int kinds[2] = {0}, steps[BLOCKS] = {0}, seen_steps = 0;
    for (int seed = 0; seed < SEEDS; seed++) {
        cu_emu_seed((uint64_t)seed), shim_visits(order, BLOCKS, THREADS);
        for (int k = 0; k < ALL; k++) {
            CHECK(order[k] < ALL && order[k] / THREADS == order[k / THREADS * THREADS] / THREADS);
            if (k % THREADS == 0) blocks[seed][k / THREADS] = order[k] / THREADS;
            if (order[k] / THREADS == 0) threads[seed][k % THREADS] = order[k];
        }
        int same[2] = {0};
        for (int before = 0; before < seed; before++) {
            same[0] |= memcmp(blocks[before], blocks[seed], sizeof blocks[0]) == 0;
            same[1] |= memcmp(threads[before], threads[seed], sizeof threads[0]) == 0;
        }
        kinds[0] += !same[0], kinds[1] += !same[1];
        seen_steps += steps[(blocks[seed][1] + BLOCKS - blocks[seed][0]) % BLOCKS]++ == 0;
    }
    printf("  %d seeds: %d orders of blocks with %d steps, %d orders of threads\n", SEEDS, kinds[0], seen_steps,
           kinds[1]);
    /* of 48 orders of blocks (12 beginnings, steps 1 5 7 11) 50 draws leave out some; of 40! of threads none comes
     * twice */
    CHECK(kinds[0] >= 12 && seen_steps >= 2 && kinds[1] == SEEDS);
}

static void test_roundings(void)
{
    /* Ties to even; the largest that stays finite and the least that does not; subnormals of f16; signed zeros and
     * infinities. */
    static const struct {
        uint32_t f32;
        uint16_t bf16, f16;
    } rows[] = {
        {0x00000000, 0x0000, 0x0000}, {0x80000000, 0x8000, 0x8000}, {0x3f800000, 0x3f80, 0x3c00},
        {0x3f808000, 0x3f80, 0x3c04}, {0x3f818000, 0x3f82, 0x3c0c}, {0x3f808001, 0x3f81, 0x3c04},
        {0x3f801000, 0x3f80, 0x3c00}, {0x3f803000, 0x3f80, 0x3c02}, {0x3f801001, 0x3f80, 0x3c01},
        {0xbf803000, 0xbf80, 0xbc02}, {0x477fe000, 0x4780, 0x7bff}, {0x477fefff, 0x4780, 0x7bff},
        {0x477ff000, 0x4780, 0x7c00}, {0x7f7f7fff, 0x7f7f, 0x7c00}, {0x7f7f8000, 0x7f80, 0x7c00},
        {0x33800000, 0x3380, 0x0001}, {0x33000000, 0x3300, 0x0000}, {0x33000001, 0x3300, 0x0001},
        {0x33c00000, 0x33c0, 0x0002}, {0x38800000, 0x3880, 0x0400}, {0x387fffff, 0x3880, 0x0400},
        {0x7f800000, 0x7f80, 0x7c00}, {0xff800000, 0xff80, 0xfc00},
    };
    enum { ROWS = sizeof rows / sizeof rows[0] };
    float in[ROWS + 2], back[ROWS + 2];
    uint16_t bf16[ROWS + 2], f16[ROWS + 2];
    const uint32_t nan[2] = {0x7f800001, 0xffffffff};
    for (int i = 0; i < ROWS; i++) memcpy(in + i, &rows[i].f32, 4);
    memcpy(in + ROWS, nan, sizeof nan);
    shim_convert(bf16, f16, back, in, ROWS + 2);
    for (int i = 0; i < ROWS; i++)
        CHECK_MSG(bf16[i] == rows[i].bf16 && f16[i] == rows[i].f16, "%08x: %04x %04x", rows[i].f32, bf16[i], f16[i]);
    for (int i = ROWS; i < ROWS + 2; i++)
        CHECK((bf16[i] & 0x7fff) > 0x7f80 && (f16[i] & 0x7fff) > 0x7c00 && isnan(back[i]));
}

/* ---- planted mistakes ---- */

static int differ(const float *a, const float *b) { return memcmp(a, b, N * sizeof *a) != 0; }

static void test_a_missing_barrier_shows(void)
{
    float turned[N], walked[N], out[N];
    int shown[2] = {0}, wrong = 0;
    fill();
    for (int i = 0; i < N; i++) turned[i] = numbers[N - 1 - i], walked[i] = numbers[(i + 3) % N];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        cu_emu_seed(seed);
        shim_turn_round(out, numbers, N, 1), wrong += differ(out, turned);
        shim_walk(out, numbers, N, 3, 1), wrong += differ(out, walked);
        shim_turn_round(out, numbers, N, 0), shown[0] += differ(out, turned);
        shim_walk(out, numbers, N, 3, 0), shown[1] += differ(out, walked);
    }
    printf("  a missing barrier gave other bytes under %d and %d of %d seeds\n", shown[0], shown[1], SEEDS);
    CHECK(wrong == 0 && shown[0] > 0 && shown[1] > 0);
}

/* Warps do not go in step: who reads what another warp copied, without a barrier, is early under some seed. */
static void test_a_missing_barrier_between_warps_shows(void)
{
    enum { THREADS = 128 };
    float out[THREADS], moved[THREADS];
    int shown = 0, wrong = 0;
    fill();
    for (int i = 0; i < THREADS; i++) moved[i] = numbers[4 * ((i + 32) % THREADS)];
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        cu_emu_seed(seed);
        shim_handed_on(out, numbers, THREADS, 1), wrong += memcmp(out, moved, sizeof out) != 0;
        shim_handed_on(out, numbers, THREADS, 0), shown += memcmp(out, moved, sizeof out) != 0;
    }
    printf("  a missing barrier between warps gave other bytes under %d of %d seeds\n", shown, SEEDS);
    CHECK(wrong == 0 && shown > SEEDS / 2);
}

static void test_a_copy_that_is_not_waited_for_shows(void)
{
    float out[N];
    fill();
    shim_copied(out, numbers, N, 2);
    CHECK(!differ(out, numbers));
    shim_copied(out, numbers, N, 1);
    CHECK(memcmp(out, numbers, N / 2 * sizeof *out) == 0);
    for (int i = N / 2; i < N; i++) CHECK(isnan(out[i]));
    shim_copied(out, numbers, N, 0);
    for (int i = 0; i < N; i++) CHECK(isnan(out[i]));
}

static void test_shared_memory_begins_as_nan(void)
{
    float out = 0;
    shim_unwritten(&out, 0);
    CHECK(isnan(out));
    out = 0, shim_unwritten(&out, 1);
    CHECK(isnan(out));
}

/* `call` is a fault, of these words. */
#define FAULT(call, words)                                                                                             \
    do {                                                                                                               \
        unsigned before = cu_emu_faults();                                                                             \
        call;                                                                                                          \
        CHECK_MSG(cu_emu_faults() > before, "%s: no fault", #call);                                                    \
        CHECK_MSG(strstr(cu_emu_last_fault(), words) != NULL, "%s: %s", #call, cu_emu_last_fault());                   \
    } while (0)
#define NO_FAULT(call)                                                                                                 \
    do {                                                                                                               \
        unsigned before = cu_emu_faults();                                                                             \
        call;                                                                                                          \
        CHECK_MSG(cu_emu_faults() == before, "%s: %s", #call, cu_emu_last_fault());                                    \
    } while (0)

static void test_writing_beside_shared_memory_is_found(void)
{
    float out[N];
    NO_FAULT(shim_beside(out, N, N - 1, 0));
    CHECK(out[0] == 1);
    FAULT(shim_beside(out, N, N, 0), "beside: something was written beside the shared memory (block ");
    FAULT(shim_beside(out, N, -1, 0), "beside the shared memory");
    FAULT(shim_beside(out, N, N + 200, 0), "beside the shared memory");
    NO_FAULT(shim_beside(out, N, 0, N)); /* reading is no fault, but what is there is no number */
    CHECK(isnan(out[0]) && out[1] == 1);
    NO_FAULT(shim_beside(out, N, 0, -1));
    CHECK(isnan(out[0]));
}

static void test_a_barrier_that_not_all_reach_is_found(void)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        cu_emu_seed(seed);
        FAULT(shim_barrier_of_some(64, 7),
              "barrier_of_some: a barrier that not all threads of the block reach (block 0 0 0, thread 0 0 0)");
        FAULT(shim_barrier_or_shuffle(64, 32 + 7), "a barrier that not all threads of the block reach");
    }
    NO_FAULT(shim_barrier_of_some(64, 64));
    NO_FAULT(shim_barrier_of_some(64, 0));
}

static void test_a_warp_that_is_not_whole_is_found(void)
{
    FAULT(shim_shuffle_of_some(32),
          "shuffle_of_some: an instruction of a warp in which not all that it names take part");
    FAULT(shim_shuffle_unnamed(32), "that does not name it (block 0 0 0, thread 16 0 0)");
    float out[2 * 48];
    fill();
    FAULT(shim_halves_of_warps(out, numbers, 48), "not all that it names take part"); /* the last warp is half a one */
}

static void test_an_instruction_that_the_chip_does_not_have_is_found(void)
{
    float out[16 * 8];
    fill();
    NO_FAULT(shim_tensor_product(out, numbers, numbers + 1000, 0));
    fake_cuda_chip(7, 5);
    FAULT(shim_tensor_product(out, numbers, numbers + 1000, 0),
          "tensor_product: an instruction that the chip does not have: mma.m16n8k16 of bf16 (block 0 0 0, thread ");
    fake_cuda_chip(9, 0);
}

static void test_launches_that_a_chip_refuses(void)
{
    NO_FAULT(shim_launch(65535, 1, 0));
    FAULT(shim_launch(65536, 1, 0), "nothing: a grid that is too large");
    NO_FAULT(shim_launch(1, 1024, 48 << 10));
    FAULT(shim_launch(1, 1025, 0), "more than 1024 threads");
    FAULT(shim_launch(1, 0, 0), "a launch of nothing");
    FAULT(shim_launch(1, 1, (48 << 10) + 1), "cudaFuncSetAttribute");
    NO_FAULT(CHECK(shim_launch_large(100 << 10, 100 << 10)));
    FAULT(CHECK(shim_launch_large(100 << 10, (100 << 10) + 1)), "cudaFuncSetAttribute");
    NO_FAULT(CHECK(!shim_launch_large((227 << 10) + 1, 1)));
    FAULT(shim_launch(1, 1, (227 << 10) + 1), "more shared memory than there is");
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        CASE(test_sums_by_shuffles),
        CASE(test_products_by_tiles),
        CASE(test_products_of_tensor_cores),
        CASE(test_halves_of_a_warp_go_their_own_ways),
        CASE(test_every_thread_once_in_the_seeds_order),
        CASE(test_blocks_and_threads_come_in_many_orders),
        CASE(test_roundings),
        CASE(test_a_missing_barrier_shows),
        CASE(test_a_missing_barrier_between_warps_shows),
        CASE(test_a_copy_that_is_not_waited_for_shows),
        CASE(test_shared_memory_begins_as_nan),
        CASE(test_writing_beside_shared_memory_is_found),
        CASE(test_a_barrier_that_not_all_reach_is_found),
        CASE(test_a_warp_that_is_not_whole_is_found),
        CASE(test_an_instruction_that_the_chip_does_not_have_is_found),
        CASE(test_launches_that_a_chip_refuses),
    };
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
