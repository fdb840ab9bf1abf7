/* map_whole.h - map()'s operations on whole numbers of 32 bits, which wrap round; division and remainder round down,
 * and of zero give 0. C, C++ and CUDA: the CPU's and the GPU's kernels; the reference has them written differently.
 * Layer: backend.
 */
#ifndef KILN_BACKEND_MAP_WHOLE_H
#define KILN_BACKEND_MAP_WHOLE_H

#include "graph/map_ops.h"

#include <stdint.h>

#ifdef __CUDACC__
#define MAP_WHOLE static __device__ __forceinline__
#else
#define MAP_WHOLE static inline
#endif

MAP_WHOLE int32_t map_divide_down(int32_t a, int32_t b)
{
    if (b == 0) return 0;
    if (b == -1) return (int32_t)(0u - (uint32_t)a);
    int32_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

MAP_WHOLE int32_t map_whole_result(int op, int32_t a, int32_t b, int32_t c)
{
    switch (op) {
    case MAP_ADD: return (int32_t)((uint32_t)a + (uint32_t)b);
    case MAP_SUB: return (int32_t)((uint32_t)a - (uint32_t)b);
    case MAP_MUL: return (int32_t)((uint32_t)a * (uint32_t)b);
    case MAP_DIV: return map_divide_down(a, b);
    case MAP_MOD: return b ? (int32_t)((uint32_t)a - (uint32_t)map_divide_down(a, b) * (uint32_t)b) : 0;
    case MAP_NEGATE: return (int32_t)(0u - (uint32_t)a);
    case MAP_NOT: return !a;
    case MAP_LESS: return a < b;
    case MAP_LESS_EQUAL: return a <= b;
    case MAP_EQUAL: return a == b;
    case MAP_NOT_EQUAL: return a != b;
    case MAP_AND: return a && b;
    case MAP_OR: return a || b;
    case MAP_SELECT: return a ? b : c;
    case MAP_ABS: return a < 0 ? (int32_t)(0u - (uint32_t)a) : a;
    case MAP_SIGN: return (a > 0) - (a < 0);
    case MAP_MIN: return a < b ? a : b;
    default: return a > b ? a : b;
    }
}

#endif
