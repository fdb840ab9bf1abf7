/* expression.cu - map()'s expressions, a number a thread; see launch.h. The code is run as it is: numbers are few words
 * of the launch's arguments, the same for all threads, so every branch is taken by all.
 */
#include "backend/cuda/cu.h"
#include "backend/map_whole.h"

static __device__ __forceinline__ float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }
static __device__ __forceinline__ float remainder_of(float a, float b)
{
    float m = fmodf(a, b);
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}
static __device__ __forceinline__ float least(float a, float b) { return a != a ? a : b != b ? b : b < a ? b : a; }
static __device__ __forceinline__ float most(float a, float b) { return a != a ? a : b != b ? b : b > a ? b : a; }

static __device__ float real_result(int op, float a, float b, float c)
{
    switch (op) {
    case MAP_ADD: return a + b;
    case MAP_SUB: return a - b;
    case MAP_MUL: return a * b;
    case MAP_DIV: return a / b;
    case MAP_NEGATE: return -a;
    case MAP_NOT: return a == 0 ? 1.0f : 0.0f;
    case MAP_LESS: return a < b ? 1.0f : 0.0f;
    case MAP_LESS_EQUAL: return a <= b ? 1.0f : 0.0f;
    case MAP_EQUAL: return a == b ? 1.0f : 0.0f;
    case MAP_NOT_EQUAL: return a != b ? 1.0f : 0.0f;
    case MAP_AND: return a != 0 && b != 0 ? 1.0f : 0.0f;
    case MAP_OR: return a != 0 || b != 0 ? 1.0f : 0.0f;
    case MAP_SELECT: return a != 0 ? b : c;
    case MAP_ABS: return fabsf(a);
    case MAP_SIGN: return a != a ? a : (float)((a > 0) - (a < 0));
    case MAP_MIN: return least(a, b);
    case MAP_MAX: return most(a, b);
    case MAP_MOD: return remainder_of(a, b);
    case MAP_FLOOR: return floorf(a);
    case MAP_CEIL: return ceilf(a);
    case MAP_ROUND: return rintf(a);
    case MAP_SQRT: return sqrtf(a);
    case MAP_RSQRT: return 1.0f / sqrtf(a);
    case MAP_EXP: return expf(a);
    case MAP_EXP2: return exp2f(a);
    case MAP_EXPM1: return expm1f(a);
    case MAP_LOG: return logf(a);
    case MAP_LOG2: return log2f(a);
    case MAP_LOG1P: return log1pf(a);
    case MAP_SIN: return sinf(a);
    case MAP_COS: return cosf(a);
    case MAP_TAN: return tanf(a);
    case MAP_TANH: return tanhf(a);
    case MAP_ATAN: return atanf(a);
    case MAP_ATAN2: return atan2f(a, b);
    case MAP_POW: return powf(a, b);
    case MAP_ERF: return erff(a);
    case MAP_SIGMOID: return cu_act(CU_ACT_SIGMOID, a);
    case MAP_SILU: return cu_act(CU_ACT_SILU, a);
    case MAP_GELU: return cu_gelu(a);
    case MAP_GELU_TANH: return cu_act(CU_ACT_GELU_TANH, a);
    case MAP_QUICK_GELU: return cu_act(CU_ACT_QUICK_GELU, a);
    case MAP_RELU: return a < 0 ? 0.0f : a;
    case MAP_SOFTPLUS: return softplus(a);
    default: return a != a ? 1.0f : 0.0f;
    }
}

/* A number of either kind. */
typedef union {
    float real;
    int whole;
} cu_number;

static __device__ __forceinline__ cu_number load(const cu_expression &m, int i, int64_t at)
{
    cu_number v;
    int whole = m.type[i] == CU_I32 ? static_cast<const int32_t *>(m.in[i])[at] : 0;
    if (m.integer)
        v.whole = whole;
    else
        v.real = m.type[i] == CU_I32 ? (float)whole : cu_load(m.in[i], m.type[i], at);
    return v;
}

static __device__ __forceinline__ int truncated(float v)
{
    if (v >= 2147483648.0f) return 2147483647;
    if (v <= -2147483648.0f) return -2147483647 - 1;
    return v != v ? 0 : (int)v;
}

static __device__ __forceinline__ cu_number apply(const cu_expression &m, const uint8_t *c, cu_number x, cu_number y,
                                                  cu_number z)
{
    cu_number r;
    if (m.integer)
        r.whole = map_whole_result(c[0], x.whole, y.whole, z.whole);
    else
        r.real = real_result(c[0], x.real, y.real, z.real);
    return r;
}

static __global__ void map_numbers(cu_expression m)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < m.count;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t rest = i, to = 0, at[CU_OPERANDS] = {};
        cu_number value[CU_REGISTERS] = {};
        for (int d = m.rank - 1; d >= 0; d--) {
            int64_t index = rest % m.dim[d];
            rest /= m.dim[d];
            to += index * m.out_stride[d];
            for (int k = 0; k < m.operands; k++) at[k] += index * m.stride[k][d];
        }
        for (int k = 0; k < m.n; k++) {
            const uint8_t *c = m.code[k];
            cu_number r;
            if (c[0] == MAP_LOAD)
                r = load(m, c[2], at[c[2]]);
            else if (c[0] == MAP_NUMBER && m.integer)
                r.whole = (int)m.number[c[2]];
            else if (c[0] == MAP_NUMBER)
                r.real = m.number[c[2]];
            else
                r = apply(m, c, value[c[2]], value[c[3]], value[c[4]]);
            value[c[1]] = r;
        }
        cu_number last = value[m.code[m.n - 1][1]];
        if (m.out_type == CU_I32)
            static_cast<int32_t *>(m.out)[to] = m.integer ? last.whole : truncated(last.real);
        else
            cu_store(m.out, m.out_type, to, last.real);
    }
}

extern "C" cudaError_t cu_expression_run(const cu_expression *m, cudaStream_t stream)
{
    if (m->count <= 0) return cudaSuccess;
    int64_t blocks = (m->count + 255) / 256;
    return CU_LAUNCH(map_numbers, dim3((unsigned)(blocks < 65536 ? blocks : 65536)), dim3(256), 0, stream, *m);
}
