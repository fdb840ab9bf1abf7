/* state.cu - writing into a state; see launch.h. */
#include "backend/cuda/cu.h"

static __global__ void state_write(cu_state_write m)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < m.count;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t span = i / m.inner, outer = span / m.n, from = i / m.columns * m.x_ld + i % m.columns;
        int32_t offset = m.offset[m.one_offset ? 0 : outer];
        int64_t written = m.written ? m.written[m.one_written ? 0 : outer] : m.n;
        if (offset < 0 || written > m.n || span % m.n >= written) continue;
        int64_t to = (outer * m.places + (offset + span % m.n) % m.places) * m.inner + i % m.inner;
        if (m.out_type == CU_I32)
            static_cast<int32_t *>(m.out)[to] = static_cast<const int32_t *>(m.x)[from];
        else
            cu_store(m.out, m.out_type, to, cu_load(m.x, m.x_type, from));
    }
}

extern "C" cudaError_t cu_state_write_run(const cu_state_write *m, cudaStream_t stream)
{
    if (m->count <= 0) return cudaSuccess;
    int64_t blocks = (m->count + 255) / 256;
    return CU_LAUNCH(state_write, dim3((unsigned)(blocks < 65536 ? blocks : 65536)), dim3(256), 0, stream, *m);
}
