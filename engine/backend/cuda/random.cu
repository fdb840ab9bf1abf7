/* random.cu - random numbers by place, the same bytes as the host's; see philox.h and launch.h. */
#include "backend/cuda/cu.h"
#include "backend/philox_4x32.h"

static __global__ void random_numbers(cu_random m)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m.count) return;
    uint32_t word[4];
    for (int k = 0; k < 4; k++) word[k] = (uint32_t)m.seed[k / m.seed_columns * m.seed_ld + k % m.seed_columns];
    uint64_t seed = word[0] | (uint64_t)word[1] << 32, offset = word[2] | (uint64_t)word[3] << 32;
    m.out[i / m.columns * m.out_ld + i % m.columns] = philox_number((uint32_t)m.kind, seed, offset, (uint64_t)i);
}

extern "C" cudaError_t cu_random_run(const cu_random *m, cudaStream_t stream)
{
    if (m->count <= 0) return cudaSuccess;
    return CU_LAUNCH(random_numbers, dim3((unsigned)((m->count + 255) / 256)), dim3(256), 0, stream, *m);
}
