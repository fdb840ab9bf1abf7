/* warpgroup_kernels.cu - see warpgroup_kernels.h. Compiled for the emulation alone. */
#include "warpgroup_kernels.h"

#include "backend/cuda/cu_wgmma.h"

enum { M = WARPGROUP_ROWS, N = WARPGROUP_COLUMNS, DEEP = WARPGROUP_DEEP, STAGES = 2, STAGE = (M + N) * DEEP * 2 };

static void launch(unsigned threads, const std::function<void()> &kernel)
{
    cu_emu_run("warpgroup", dim3(1), dim3(threads), STAGES * STAGE + 2048, STAGES * STAGE + 2048, kernel);
}

static int box_of(CUtensorMap *map, const void *first, uint64_t columns, uint64_t rows, uint64_t apart, uint32_t wide,
                  uint32_t high, uint32_t step)
{
    const tensor_box b = {0, 2, first, {columns, rows}, {apart}, {wide, high}, {1, step}};
    return tensor_map_encode(map, &b) == cudaSuccess;
}
int warpgroup_box(const void *first, uint64_t columns, uint64_t apart, uint32_t wide, uint32_t step)
{
    CUtensorMap map;
    return box_of(&map, first, columns, 8, apart, wide, 8, step);
}

static void store(float *out, const float (&sum)[N / 2])
{
    int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, row = warp * 16 + lane / 4;
    for (int j = 0; j < N / 8; j++)
        for (int e = 0; e < 4; e++) out[(row + e / 2 * 8) * N + j * 8 + lane % 4 * 2 + e % 2] = sum[4 * j + e];
}

static void copy(const CUtensorMap *a, const CUtensorMap *b, unsigned char *tiles, cu_mbarrier *full, int steps,
                 warpgroup_fault f)
{
    uint32_t bytes = STAGE + (f == WARPGROUP_FEW_BYTES ? -16u : f == WARPGROUP_MANY_BYTES ? 16u : 0u);
    for (int s = 0; s < steps + (f == WARPGROUP_ABANDONED); s++) {
        unsigned char *to = tiles + s % STAGES * STAGE + (f == WARPGROUP_OFF_PLACE ? 128 : 0);
        int at[2] = {s * DEEP, 0};
        if (s >= STAGES) cu_mbarrier_wait(full + STAGES + s % STAGES, (uint32_t)(s / STAGES - 1) & 1);
        if (threadIdx.x % 32) continue;
        cu_mbarrier_arrive_expect(full + s % STAGES, bytes);
        cu_tma_load(to, a, full + s % STAGES, at), cu_tma_load(to + M * DEEP * 2, b, full + s % STAGES, at);
    }
}

static void multiply(float *out, unsigned char *tiles, cu_mbarrier *full, int steps, warpgroup_fault f)
{
    float sum[N / 2] = {};
    for (int s = 0; s < steps; s++) {
        unsigned char *at = tiles + s % STAGES * STAGE;
        if (f != WARPGROUP_TILE_UNAWAITED) cu_mbarrier_wait(full + s % STAGES, (uint32_t)(s / STAGES) & 1);
        if (f != WARPGROUP_UNFENCED) cu_wgmma_fence();
        for (int k = 0; k < DEEP / 16; k++)
            cu_wgmma<CU_BF16, N>::add(sum, cu_wgmma_columns(cu_wgmma_tile(at), k),
                                      cu_wgmma_columns(cu_wgmma_tile(at + M * DEEP * 2), k));
        cu_wgmma_commit_group();
        if (f == WARPGROUP_EARLY_RELEASE && threadIdx.x % 32 == 0) cu_mbarrier_arrive(full + STAGES + s % STAGES);
        if (f != WARPGROUP_UNFINISHED || s + 1 < steps) cu_wgmma_wait_group<0>();
        int times = f == WARPGROUP_EARLY_RELEASE ? 0 : f == WARPGROUP_TWO_ARRIVALS ? 2 : 1;
        for (int i = 0; i < times && threadIdx.x % 32 == 0; i++) cu_mbarrier_arrive(full + STAGES + s % STAGES);
    }
    store(out, sum);
}

void warpgroup_product(float *out, const uint16_t *a, const uint16_t *b, int k, warpgroup_fault f)
{
    CUtensorMap left, right;
    uint64_t columns = (uint64_t)k;
    if (!box_of(&left, a, columns, M, columns * 2, DEEP, M, 1) ||
        !box_of(&right, b, columns, N, columns * 2, DEEP, N, 1))
        return;
    launch(160, [&] {
        CU_DYNAMIC_SHARED(unsigned char, memory);
        cu_mbarrier *full = reinterpret_cast<cu_mbarrier *>(memory + STAGES * STAGE + 1024);
        if (threadIdx.x == 0) {
            for (int i = 0; i < STAGES; i++) cu_mbarrier_init(full + i, 1), cu_mbarrier_init(full + STAGES + i, 4);
            if (f != WARPGROUP_UNPUBLISHED) cu_mbarriers_fence();
        }
        __syncthreads();
        if (threadIdx.x / 32 == 4)
            copy(&left, &right, memory, full, k / DEEP, f);
        else
            multiply(out, memory, full, k / DEEP, f);
    });
}

void warpgroup_written(float *out, const uint16_t *a, const uint16_t *b, int fenced)
{
    launch(128, [&] {
        CU_DYNAMIC_SHARED(unsigned char, memory);
        for (int i = (int)threadIdx.x; i < (M + N) * DEEP; i += 128) {
            uint32_t at = (uint32_t)i * 2;
            at ^= (at >> 7 & 7) << 4;
            memcpy(memory + at, i < M * DEEP ? a + i : b + i - M * DEEP, 2);
        }
        __syncthreads();
        if (fenced) cu_mbarriers_fence();
        __syncthreads();
        float sum[N / 2] = {};
        cu_wgmma_fence();
        for (int k = 0; k < DEEP / 16; k++)
            cu_wgmma<CU_BF16, N>::add(sum, cu_wgmma_columns(cu_wgmma_tile(memory), k),
                                      cu_wgmma_columns(cu_wgmma_tile(memory + M * DEEP * 2), k));
        cu_wgmma_commit_group();
        cu_wgmma_wait_group<0>();
        store(out, sum);
    });
}
