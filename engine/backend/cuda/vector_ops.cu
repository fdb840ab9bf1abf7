/* vector_ops.cu - kiln_ops' vector ops on a device; see launch.h.
 *
 * No operation is fused, so that each element is the same bytes as on the host (engine/backend/host_vector_ops.c). Only
 * dot adds up in another order.
 */
#include "backend/cuda/cu.h"

/* The emulation is compiled without contraction, so that plain operators are these functions there. */
#ifdef KILN_CUDA_EMU
static inline double mul64(double a, double b) { return a * b; }
static inline double add64(double a, double b) { return a + b; }
static inline float mul32(float a, float b) { return a * b; }
static inline float add32(float a, float b) { return a + b; }
static inline float div32(float a, float b) { return a / b; }
#else
static __device__ __forceinline__ double mul64(double a, double b) { return __dmul_rn(a, b); }
static __device__ __forceinline__ double add64(double a, double b) { return __dadd_rn(a, b); }
static __device__ __forceinline__ float mul32(float a, float b) { return __fmul_rn(a, b); }
static __device__ __forceinline__ float add32(float a, float b) { return __fadd_rn(a, b); }
static __device__ __forceinline__ float div32(float a, float b) { return __fdiv_rn(a, b); }
#endif

enum { THREADS = 256 };

static dim3 blocks_for(int64_t n) { return dim3((unsigned)((n + THREADS - 1) / THREADS)); }
static __device__ __forceinline__ int64_t thread_index() { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }

static __device__ __forceinline__ double combined(int64_t i, int terms, const double *c, const float *const *x)
{
    double sum = mul64(c[0], (double)x[0][i]);
    for (int k = 1; k < terms; k++) sum = add64(sum, mul64(c[k], (double)x[k][i]));
    return sum;
}

static __global__ void vector_combine(cu_combine m)
{
    int64_t i = thread_index();
    if (i < m.n) m.out[i] = m.terms ? (float)combined(i, m.terms, m.c, m.x) : 0.0f;
}

extern "C" cudaError_t cu_combine_run(const cu_combine *m, cudaStream_t stream)
{
    return CU_LAUNCH(vector_combine, blocks_for(m->n), dim3(THREADS), 0, stream, *m);
}

static __global__ void vector_difference(cu_difference m)
{
    int64_t i = thread_index();
    if (i < m.n) m.out[i] = (float)add64((double)m.x[i], mul64(add64((double)m.a[i], -(double)m.b[i]), m.t));
}

extern "C" cudaError_t cu_difference_run(const cu_difference *m, cudaStream_t stream)
{
    return CU_LAUNCH(vector_difference, blocks_for(m->n), dim3(THREADS), 0, stream, *m);
}

enum { SUMMERS = 512 };

/* One block: a latent is small, and a sum that is always cut the same way is always the same. */
static __global__ void vector_dot(cu_dot m)
{
    CU_DYNAMIC_SHARED(double, part);
    int t = (int)threadIdx.x;
    double sum = 0;
    for (int64_t i = t; i < m.n; i += SUMMERS) {
        double a = add64(combined(i, m.terms, m.a, m.x), m.shift);
        sum = add64(sum, m.has_b ? mul64(a, add64(combined(i, m.terms, m.b, m.x), m.shift)) : a);
    }
    part[t] = sum;
    for (int half = SUMMERS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) part[t] += part[t + half];
    }
    if (t == 0) *m.out = part[0];
}

extern "C" cudaError_t cu_dot_run(const cu_dot *m, cudaStream_t stream)
{
    return CU_LAUNCH(vector_dot, dim3(1), dim3(SUMMERS), SUMMERS * sizeof(double), stream, *m);
}

static __global__ void vector_blend(cu_blend m)
{
    int64_t i = thread_index(), cell = i / m.channels, picture = cell / m.cells;
    if (picture >= m.pictures) return;
    float mask = m.mask[picture % m.masks * m.cells + cell % m.cells];
    m.out[i] = add32(mul32(m.a[i], mask), mul32(m.b[i], add32(1.0f, -mask)));
}

extern "C" cudaError_t cu_blend_run(const cu_blend *m, cudaStream_t stream)
{
    return CU_LAUNCH(vector_blend, blocks_for(m->pictures * m->cells * m->channels), dim3(THREADS), 0, stream, *m);
}

/* The i-th cell of the area, pictures one after the other: where it is among all cells. */
static __device__ __forceinline__ int64_t cell_of(const cu_area &a, int64_t i)
{
    int64_t x = i % a.w, y = i / a.w % a.h, picture = i / (a.w * a.h);
    return (picture * a.height + a.y + y) * a.width + a.x + x;
}

static __global__ void vector_crop(cu_area a, const float *x, float *out)
{
    int64_t i = thread_index();
    if (i < a.pictures * a.h * a.w * a.channels) out[i] = x[cell_of(a, i / a.channels) * a.channels + i % a.channels];
}

extern "C" cudaError_t cu_crop_run(const cu_area *a, const float *x, float *out, cudaStream_t stream)
{
    return CU_LAUNCH(vector_crop, blocks_for(a->pictures * a->h * a->w * a->channels), dim3(THREADS), 0, stream, *a, x,
                     out);
}

/* A thread for each cell. */
static __global__ void vector_accumulate(cu_accumulate m)
{
    const cu_area &a = m.area;
    int64_t i = thread_index(), cells = a.h * a.w;
    if (i >= a.pictures * cells) return;
    int64_t cell = cell_of(a, i);
    float weight = m.weight ? m.weight[i / cells % m.weights * cells + i % cells] : 1.0f;
    m.total[cell] = add32(m.total[cell], weight);
    for (int64_t k = 0; k < a.channels; k++) {
        float *sum = m.sum + cell * a.channels + k;
        *sum = add32(*sum, mul32(weight, m.part[i * a.channels + k]));
    }
}

extern "C" cudaError_t cu_accumulate_run(const cu_accumulate *m, cudaStream_t stream)
{
    return CU_LAUNCH(vector_accumulate, blocks_for(m->area.pictures * m->area.h * m->area.w), dim3(THREADS), 0, stream,
                     *m);
}

static __global__ void vector_divide(float *x, const float *total, int64_t cells, int64_t channels)
{
    int64_t i = thread_index();
    if (i >= cells * channels) return;
    float by = total[i / channels];
    if (by != 1.0f && by != 0.0f) x[i] = div32(x[i], by);
}

extern "C" cudaError_t cu_divide_run(float *x, const float *total, int64_t cells, int64_t channels, cudaStream_t stream)
{
    return CU_LAUNCH(vector_divide, blocks_for(cells * channels), dim3(THREADS), 0, stream, x, total, cells, channels);
}
