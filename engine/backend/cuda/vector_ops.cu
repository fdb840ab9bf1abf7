/* vector_ops.cu - arithmetic on numbers that nodes keep on the device: a sampler's latents; see launch.h.
 *
 * In f64 and without fused operations, so that a sum is the same bytes as on the host.
 */
#include "backend/cuda/cu.h"

#ifdef KILN_CUDA_EMU
static inline double add_gemm_delta(double sum, double c, double x)
{
    volatile double gemm = c * x;
    return sum + gemm;
}
#else
static __device__ __forceinline__ double add_gemm_delta(double sum, double c, double x)
{
    return __dadd_rn(sum, __dmul_rn(c, x));
}
#endif

static __global__ void combine_numbers(cu_combine m)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m.n) return;
    double sum = 0;
    for (int k = 0; k < m.terms; k++) sum = add_gemm_delta(sum, m.c[k], (double)m.x[k][i]);
    m.out[i] = (float)sum;
}

extern "C" cudaError_t cu_combine_run(const cu_combine *m, cudaStream_t stream)
{
    if (m->n <= 0) return cudaSuccess;
    return CU_LAUNCH(combine_numbers, dim3((unsigned)((m->n + 255) / 256)), dim3(256), 0, stream, *m);
}

enum { SUMMERS = 512 };

/* One block: a latent is small, and a sum that is always cut the same way is always the same. */
static __global__ void square_sum(double *out, const float *x, int64_t n)
{
    CU_DYNAMIC_SHARED(double, part);
    int t = (int)threadIdx.x;
    double sum = 0;
    for (int64_t i = t; i < n; i += SUMMERS) sum = add_gemm_delta(sum, (double)x[i], (double)x[i]);
    part[t] = sum;
    for (int half = SUMMERS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) part[t] += part[t + half];
    }
    if (t == 0) *out = part[0];
}

extern "C" cudaError_t cu_square_sum_run(double *out, const float *x, int64_t n, cudaStream_t stream)
{
    return CU_LAUNCH(square_sum, dim3(1), dim3(SUMMERS), SUMMERS * sizeof(double), stream, out, x, n);
}
