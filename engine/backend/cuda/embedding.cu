/* embedding.cu - rows by number, and a timestep's sines; see launch.h. */
#include "backend/cuda/cu_blocks.h"

/* An id that is in no table has no row: NaN, which whoever looks at the result finds. (A device has no other way to say
 * so that does not make the host wait.) */
static __global__ void embedding(cu_embedding m)
{
    int64_t row = blockIdx.x;
    int64_t id = m.id[row / m.id_columns * m.id_ld + row % m.id_columns];
    int known = id >= 0 && id < m.limit;
    for (int64_t c = threadIdx.x; c < m.columns; c += blockDim.x)
        cu_store(m.out, m.out_type, row * m.out_ld + c,
                 known ? cu_load(m.table, m.table_type, (row / m.every * m.step + id) * m.table_ld + c)
                       : __uint_as_float(0x7fc00000u));
}

/* Of a table that is stored by blocks: eight numbers a thread. */
static __global__ void embedding_blocks(cu_embedding m)
{
    int64_t row = blockIdx.x;
    int64_t id = m.id[row / m.id_columns * m.id_ld + row % m.id_columns];
    int known = id >= 0 && id < m.limit;
    for (int64_t c = (int64_t)threadIdx.x * 8; c < m.columns; c += (int64_t)blockDim.x * 8) {
        float v[8];
        if (known) cu_stored_read8(m.stored, id * m.table_ld + c, v);
        for (int i = 0; i < 8; i++)
            cu_store(m.out, m.out_type, row * m.out_ld + c + i, known ? v[i] : __uint_as_float(0x7fc00000u));
    }
}

/* diffusers get_timestep_embedding; the product t f is rounded to float, as every implementation of it does. */
static __global__ void timestep(cu_timestep m)
{
    int64_t row = blockIdx.x, half = m.dim / 2;
    for (int64_t c = threadIdx.x; c < m.dim; c += blockDim.x) {
        int64_t i = c % (half ? half : 1);
        float angle = m.t[row] * (float)exp(-log(m.max_period) * (double)i / ((double)half - m.shift));
        int cosine = (c < half) == (m.cos_first != 0);
        cu_store(m.out, m.out_type, row * m.out_ld + c,
                 c >= 2 * half ? 0.0f
                 : cosine      ? (float)cos((double)angle)
                               : (float)sin((double)angle));
    }
}

extern "C" cudaError_t cu_embedding_run(const cu_embedding *m, cudaStream_t stream)
{
    if (m->rows <= 0) return cudaSuccess;
    if (m->stored.block) return CU_LAUNCH(embedding_blocks, dim3((unsigned)m->rows), dim3(128), 0, stream, *m);
    return CU_LAUNCH(embedding, dim3((unsigned)m->rows), dim3(128), 0, stream, *m);
}

extern "C" cudaError_t cu_timestep_run(const cu_timestep *m, cudaStream_t stream)
{
    if (m->rows <= 0) return cudaSuccess;
    return CU_LAUNCH(timestep, dim3((unsigned)m->rows), dim3(128), 0, stream, *m);
}
