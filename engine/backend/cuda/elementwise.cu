/* elementwise.cu - add, mul, activations and conversions, element by element; see launch.h. */
#include "backend/cuda/cu.h"

/* The row of b for a row of the result. */
static __device__ __forceinline__ int64_t row_of_b(const cu_map &m, int64_t row)
{
    if (m.b_rows == CU_ROWS_SAME) return row;
    if (m.b_rows == CU_ROWS_ONE) return 0;
    int64_t place = 0;
    for (int d = m.outer - 1; d >= 0; d--) {
        place += row % m.dim[d] * m.b_stride[d];
        row /= m.dim[d];
    }
    return place;
}

template <int V> static __device__ __forceinline__ void second(const cu_map &m, float *b, int64_t row, int64_t column)
{
    if (m.kind == CU_MAP_GEGLU)
        cu_load_row<V>(b, m.x, m.x_type, row * m.x_ld + m.columns + column);
    else if (m.b_column)
        cu_load_row<V>(b, m.b, m.b_type, row_of_b(m, row) * m.b_ld + column);
    else
        b[0] = cu_load(m.b, m.b_type, row_of_b(m, row) * m.b_ld);
    for (int i = 1; i < V && m.kind != CU_MAP_GEGLU && !m.b_column; i++) b[i] = b[0];
}

static __device__ __forceinline__ float combine(const cu_map &m, float x, float b)
{
    switch (m.kind) {
    case CU_MAP_ADD: return x + b;
    case CU_MAP_MUL: return x * b;
    case CU_MAP_AFFINE: return x * m.scale + m.shift;
    case CU_MAP_GEGLU: return x * cu_gelu(b);
    default: return x;
    }
}

/* A row of threads works on one row of the matrix, V columns a thread. */
template <int V> static __global__ void map_rows(cu_map m)
{
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    int two = m.kind == CU_MAP_ADD || m.kind == CU_MAP_MUL || m.kind == CU_MAP_GEGLU;
    if (row >= m.rows) return;
    for (int64_t c = ((int64_t)blockIdx.y * blockDim.x + threadIdx.x) * V; c < m.columns;
         c += (int64_t)gridDim.y * blockDim.x * V) {
        float x[V], b[V] = {}, r[V] = {};
        cu_load_row<V>(x, m.x, m.x_type, row * m.x_ld + c);
        if (two) second<V>(m, b, row, c);
        if (m.finish.residual)
            cu_load_row<V>(r, m.finish.residual, m.finish.residual_type, row * m.finish.residual_ld + c);
        for (int i = 0; i < V; i++) {
            x[i] = cu_act(m.finish.act, combine(m, x[i], b[i]));
            if (m.finish.residual) x[i] += r[i];
        }
        cu_store_row<V>(m.out, m.out_type, row * m.out_ld + c, x);
    }
}

static int whole(const void *p, int64_t ld) { return ((uintptr_t)p & 15) == 0 && ld % 8 == 0; }

extern "C" cudaError_t cu_map_run(const cu_map *m, cudaStream_t stream)
{
    if (m->rows <= 0 || m->columns <= 0) return cudaSuccess;
    int eight = m->columns % 8 == 0 && whole(m->x, m->x_ld) && whole(m->out, m->out_ld) &&
                (!m->b || !m->b_column || whole(m->b, m->b_ld)) &&
                (!m->finish.residual || whole(m->finish.residual, m->finish.residual_ld));
    int64_t across = eight ? m->columns / 8 : m->columns;
    unsigned x = 8;
    while (x < 256 && x < across) x *= 2;
    unsigned y = 256 / x;
    int64_t pieces = (across + x - 1) / x;
    dim3 grid((unsigned)((m->rows + y - 1) / y), (unsigned)(pieces < 1024 ? pieces : 1024)), block(x, y);
    return eight ? CU_LAUNCH(map_rows<8>, grid, block, 0, stream, *m)
                 : CU_LAUNCH(map_rows<1>, grid, block, 0, stream, *m);
}
