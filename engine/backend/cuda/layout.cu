/* layout.cu - elements that only change their place; see launch.h. */
#include "backend/cuda/cu.h"

template <class U> static __global__ void move(cu_move m, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int64_t from = 0, to = 0;
    for (int d = m.rank - 1; d >= 0; d--) {
        int64_t at = i % m.dim[d];
        i /= m.dim[d];
        from += at * m.from[d], to += at * m.to[d];
    }
    static_cast<U *>(m.dst)[to] = static_cast<const U *>(m.src)[from];
}

template <class U> static __global__ void reshape(cu_reshape m)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < m.n)
        static_cast<U *>(m.dst)[i / m.dst_columns * m.dst_ld + i % m.dst_columns] =
            static_cast<const U *>(m.src)[i / m.src_columns * m.src_ld + i % m.src_columns];
}

/* A row of threads copies one pixel. */
template <class U> static __global__ void upsample(cu_upsample m)
{
    int64_t pixel = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (pixel >= m.images * m.h * m.w) return;
    int64_t x = pixel % m.w, y = pixel / m.w % m.h, n = pixel / m.w / m.h;
    const U *from = static_cast<const U *>(m.src) + ((n * m.H + y * m.H / m.h) * m.W + x * m.W / m.w) * m.src_ld;
    U *to = static_cast<U *>(m.dst) + pixel * m.dst_ld;
    for (int64_t c = threadIdx.x; c < m.columns; c += blockDim.x) to[c] = from[c];
}

static dim3 blocks_for(int64_t n) { return dim3((unsigned)((n + 255) / 256)); }

#define BY_UNIT(unit, launch)                                                                                          \
    switch (unit) {                                                                                                    \
    case 2: {                                                                                                          \
        typedef uint16_t U;                                                                                            \
        return launch;                                                                                                 \
    }                                                                                                                  \
    case 4: {                                                                                                          \
        typedef uint32_t U;                                                                                            \
        return launch;                                                                                                 \
    }                                                                                                                  \
    case 8: {                                                                                                          \
        typedef uint2 U;                                                                                               \
        return launch;                                                                                                 \
    }                                                                                                                  \
    default: {                                                                                                         \
        typedef uint4 U;                                                                                               \
        return launch;                                                                                                 \
    }                                                                                                                  \
    }

extern "C" cudaError_t cu_move_run(const cu_move *m, cudaStream_t stream)
{
    int64_t n = 1;
    for (int d = 0; d < m->rank; d++) n *= m->dim[d];
    if (n <= 0) return cudaSuccess;
    BY_UNIT(m->unit, CU_LAUNCH(move<U>, blocks_for(n), dim3(256), 0, stream, *m, n))
}

extern "C" cudaError_t cu_reshape_run(const cu_reshape *m, cudaStream_t stream)
{
    if (m->n <= 0) return cudaSuccess;
    BY_UNIT(m->unit, CU_LAUNCH(reshape<U>, blocks_for(m->n), dim3(256), 0, stream, *m))
}

extern "C" cudaError_t cu_upsample_run(const cu_upsample *m, cudaStream_t stream)
{
    int64_t pixels = m->images * m->h * m->w;
    if (pixels <= 0 || m->columns <= 0) return cudaSuccess;
    unsigned x = 8;
    while (x < 128 && x < m->columns) x *= 2;
    dim3 block(x, 256 / x), grid((unsigned)((pixels + 256 / x - 1) / (256 / x)));
    BY_UNIT(m->unit, CU_LAUNCH(upsample<U>, grid, block, 0, stream, *m))
}
