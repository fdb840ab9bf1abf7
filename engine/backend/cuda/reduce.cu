/* reduce.cu - reductions over any axes, and sums along one; see launch.h.
 *
 * A block folds a piece of a line, or of 32 columns; pieces are cut by shape alone and joined in order. Sums are
 * double: these kernels wait for memory, and a sum is then good whatever its length.
 */
#include "backend/cuda/cu.h"

enum { SUM, MEAN, MAX, MIN, PROD, L2, LOGSUMEXP, ARGMAX, ARGMIN }; /* kiln_reduce */

/* What a part of a line came to: the sum or the greatest; beside it the sum of exponentials, or a place. Whole numbers
 * are summed and multiplied modulo 2^32. */
typedef struct {
    double value, beside;
    uint32_t whole;
} part;

static __device__ __forceinline__ part start_of(int kind)
{
    part p = {kind == PROD ? 1.0 : 0.0, 0.0, kind == PROD ? 1u : 0u};
    if (kind == MAX || kind == ARGMAX || kind == LOGSUMEXP) p.value = -(double)INFINITY;
    if (kind == MIN || kind == ARGMIN) p.value = (double)INFINITY;
    if (kind >= ARGMAX) p.beside = -1;
    return p;
}

/* Is x better than the best so far, or as good and earlier? */
static __device__ __forceinline__ int is_better(int least, part x, part best)
{
    if (x.beside < 0 && best.beside >= 0) return 0;
    if (best.beside < 0 && x.beside >= 0) return 1;
    int nan = x.value != x.value, best_nan = best.value != best.value;
    if (nan || best_nan) return nan && (!best_nan || x.beside < best.beside);
    if (x.value == best.value) return x.beside < best.beside;
    return least ? x.value < best.value : x.value > best.value;
}

static __device__ __forceinline__ void join(int kind, part *p, part x)
{
    if (kind == PROD) {
        p->value *= x.value;
        p->whole *= x.whole;
    } else if (kind == LOGSUMEXP) {
        double top = p->value != p->value || x.value <= p->value ? p->value : x.value;
        double base = top == INFINITY || top == -INFINITY ? 0.0 : top;
        p->beside = (p->beside > 0 ? p->beside * (double)expf((float)(p->value - base)) : 0.0) +
                    (x.beside > 0 ? x.beside * (double)expf((float)(x.value - base)) : 0.0);
        p->value = top;
    } else if (kind == MAX || kind == MIN || kind >= ARGMAX) {
        if (is_better(kind == MIN || kind == ARGMIN, x, *p)) *p = x;
    } else {
        p->value += x.value;
        p->whole += x.whole;
    }
}

static __device__ __forceinline__ part number_at(const cu_reduce &m, int64_t at, int64_t place)
{
    part p = {0, 0, 0};
    if (m.x_type == CU_I32) {
        int v = static_cast<const int32_t *>(m.x)[at];
        p.value = (double)v, p.whole = (uint32_t)v;
    } else
        p.value = (double)cu_load(m.x, m.x_type, at);
    if (m.kind == L2) p.value *= p.value;
    if (m.kind == LOGSUMEXP) p.beside = 1;
    if (m.kind >= ARGMAX) p.beside = (double)place;
    return p;
}

static __device__ __forceinline__ int64_t steps(const int64_t *dim, const int64_t *step, int n, int64_t i)
{
    int64_t at = 0;
    for (int d = n - 1; d >= 0; d--) {
        at += i % dim[d] * step[d];
        i /= dim[d];
    }
    return at;
}

static __device__ __forceinline__ void finish(const cu_reduce &m, int64_t i, part p)
{
    int64_t to = i / m.out_columns * m.out_ld + i % m.out_columns;
    double v = p.value, n = (double)(m.gone * (m.line ? m.columns : 1));
    if (m.kind == MEAN) v /= n;
    if (m.kind == L2) v = sqrt(v);
    if (m.kind == LOGSUMEXP && v - v == 0) v += log(p.beside);
    if (m.kind >= ARGMAX) v = p.beside;
    if (m.out_type != CU_I32)
        cu_store(m.out, m.out_type, to, (float)v);
    else
        static_cast<int32_t *>(m.out)[to] = m.kind == SUM || m.kind == PROD ? (int32_t)p.whole : (int32_t)v;
}

/* A block a piece of a line. */
static __global__ void __launch_bounds__(128) reduce_lines(cu_reduce m)
{
    __shared__ part all[128];
    int64_t kept = (int64_t)blockIdx.x / m.pieces, first = (int64_t)blockIdx.x % m.pieces * m.per_piece;
    int64_t last = first + m.per_piece, base = steps(m.stay, m.stay_step, m.n_stay, kept);
    if (last > m.gone * m.columns) last = m.gone * m.columns;
    part own = start_of(m.kind);
    for (int64_t i = first + threadIdx.x; i < last; i += 128)
        join(m.kind, &own, number_at(m, base + steps(m.go, m.go_step, m.n_go, i / m.columns) + i % m.columns, i));
    all[threadIdx.x] = own;
    for (unsigned half = 64; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) join(m.kind, &all[threadIdx.x], all[threadIdx.x + half]);
    }
    if (threadIdx.x) return;
    if (m.pieces == 1)
        finish(m, kept, all[0]);
    else
        static_cast<part *>(m.parts)[blockIdx.x] = all[0];
}

/* 32 columns by 8 rows of threads: a piece of the rows. */
static __global__ void __launch_bounds__(256) reduce_columns(cu_reduce m)
{
    __shared__ part all[8][32];
    int64_t strips = (m.columns + 31) / 32, column = (int64_t)blockIdx.x % strips * 32 + threadIdx.x;
    int64_t piece = (int64_t)blockIdx.x / strips, kept = piece / m.pieces, first = piece % m.pieces * m.per_piece;
    int64_t last = first + m.per_piece, base = steps(m.stay, m.stay_step, m.n_stay, kept);
    if (last > m.gone) last = m.gone;
    part own = start_of(m.kind);
    for (int64_t r = first + threadIdx.y; r < last && column < m.columns; r += 8)
        join(m.kind, &own, number_at(m, base + steps(m.go, m.go_step, m.n_go, r) + column, r));
    all[threadIdx.y][threadIdx.x] = own;
    __syncthreads();
    if (threadIdx.y || column >= m.columns) return;
    for (int k = 1; k < 8; k++) join(m.kind, &own, all[k][threadIdx.x]);
    if (m.pieces == 1)
        finish(m, kept * m.columns + column, own);
    else
        static_cast<part *>(m.parts)[piece * m.columns + column] = own;
}

static __global__ void reduce_parts(cu_reduce m, int64_t n)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, width = m.line ? 1 : m.columns;
    if (i >= n) return;
    part all = start_of(m.kind);
    for (int64_t k = 0; k < m.pieces; k++)
        join(m.kind, &all, static_cast<const part *>(m.parts)[(i / width * m.pieces + k) * width + i % width]);
    finish(m, i, all);
}

/* ---- sums along an axis ---- */

static __device__ __forceinline__ double cumsum_load(const cu_cumsum &m, int64_t at)
{
    return m.x_type == CU_I32 ? (double)static_cast<const int32_t *>(m.x)[at] : (double)cu_load(m.x, m.x_type, at);
}
static __device__ __forceinline__ void cumsum_store(const cu_cumsum &m, int64_t at, double v)
{
    if (m.out_type == CU_I32)
        static_cast<int32_t *>(m.out)[at] = (int32_t)(uint32_t)(int64_t)v;
    else
        cu_store(m.out, m.out_type, at, (float)v);
}

/* A block a row: 256 numbers at a time, each thread's with those before it. */
static __global__ void __launch_bounds__(256) cumsum_rows(cu_cumsum m)
{
    __shared__ double all[2][256];
    int64_t row = blockIdx.x;
    double carry = 0;
    for (int64_t done = 0; done < m.along; done += 256) {
        int64_t i = done + threadIdx.x, c = m.reverse ? m.along - 1 - i : i;
        double own = i < m.along ? cumsum_load(m, row * m.x_ld + c) : 0.0;
        int from = 0;
        all[0][threadIdx.x] = own;
        for (unsigned step = 1; step < 256; step *= 2, from ^= 1) {
            __syncthreads();
            all[from ^ 1][threadIdx.x] =
                all[from][threadIdx.x] + (threadIdx.x >= step ? all[from][threadIdx.x - step] : 0.0);
        }
        __syncthreads();
        if (i < m.along)
            cumsum_store(m, row * m.out_ld + c,
                         carry + (!m.exclusive  ? all[from][threadIdx.x]
                                  : threadIdx.x ? all[from][threadIdx.x - 1]
                                                : 0.0));
        carry += all[from][255];
        __syncthreads();
    }
}

/* A thread a line. */
static __global__ void cumsum_columns(cu_cumsum m)
{
    int64_t line = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (line >= m.lines) return;
    int64_t c = line % m.columns, row = line / m.columns / m.inner * m.along * m.inner + line / m.columns % m.inner;
    double sum = 0;
    for (int64_t k = 0; k < m.along; k++) {
        int64_t r = row + (m.reverse ? m.along - 1 - k : k) * m.inner;
        double v = cumsum_load(m, r * m.x_ld + c);
        cumsum_store(m, r * m.out_ld + c, m.exclusive ? sum : sum + v);
        sum += v;
    }
}

/* ---- launches ---- */

extern "C" size_t cu_reduce_scratch(const cu_reduce *m)
{
    return m->pieces > 1 ? (size_t)(m->kept * m->pieces * (m->line ? 1 : m->columns)) * sizeof(part) : 0;
}

extern "C" cudaError_t cu_reduce_run(const cu_reduce *m, cudaStream_t stream)
{
    int64_t results = m->kept * (m->line ? 1 : m->columns), pieces = m->kept * m->pieces;
    if (results <= 0) return cudaSuccess;
    cudaError_t status = m->line ? CU_LAUNCH(reduce_lines, dim3((unsigned)pieces), dim3(128), 0, stream, *m)
                                 : CU_LAUNCH(reduce_columns, dim3((unsigned)(pieces * ((m->columns + 31) / 32))),
                                             dim3(32, 8), 0, stream, *m);
    if (status != cudaSuccess || m->pieces == 1) return status;
    return CU_LAUNCH(reduce_parts, dim3((unsigned)((results + 255) / 256)), dim3(256), 0, stream, *m, results);
}

extern "C" cudaError_t cu_cumsum_run(const cu_cumsum *m, cudaStream_t stream)
{
    if (m->lines <= 0 || m->along <= 0) return cudaSuccess;
    return m->last ? CU_LAUNCH(cumsum_rows, dim3((unsigned)m->lines), dim3(256), 0, stream, *m)
                   : CU_LAUNCH(cumsum_columns, dim3((unsigned)((m->lines + 255) / 256)), dim3(256), 0, stream, *m);
}
