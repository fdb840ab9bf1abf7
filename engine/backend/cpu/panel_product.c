/* panel_product.c - see panel_product.h. GFLOP/s of one processor, medians of 150 turns of oneDNN 2.6, these panels and
 * OpenBLAS (EPYC, Zen 3, AVX2), m by k by n: 96 x 1280 x 512 48, 80, 65; 256 x 320 x 512 48, 71, 65; 128 x 5120 x 128
 * 45, 62, 62; 96 x 1280 x 192 73, 76, 74; 192 x 640 x 384 69, 70, 78.
 */
#include "backend/cpu/panel_product.h"

#include "backend/cpu/cpu.h"

#include "base/memory_alloc.h"

#include <string.h>

/* A piece of a panel is to stay in the nearest cache while all rows are multiplied by it: 256 to 512 are as quick. */
enum { DEEP = 512 };

size_t panel_product_weight_bytes(size_t n, size_t k) { return round_up(n, PANEL_OUTPUTS) * k * sizeof(float); }

void panel_product_pack(const float *b, int columns, size_t n, size_t k, float *packed)
{
    for (size_t first = 0; first < n; first += PANEL_OUTPUTS, packed += k * PANEL_OUTPUTS) {
        const size_t there = n - first < PANEL_OUTPUTS ? n - first : PANEL_OUTPUTS;
        if (there < PANEL_OUTPUTS) memset(packed, 0, k * PANEL_OUTPUTS * sizeof *packed);
        for (size_t i = 0; i < k; i++)
            for (size_t o = 0; o < there; o++)
                packed[i * PANEL_OUTPUTS + o] = columns ? b[i * n + first + o] : b[(first + o) * k + i];
    }
}

size_t panel_product_scratch_bytes(size_t m, size_t n)
{
    return n % PANEL_OUTPUTS ? m * PANEL_OUTPUTS * sizeof(float) : 0;
}

void panel_product_run(size_t m, size_t n, size_t k, const float *a, const float *packed, const float *bias, float *c,
                       float *scratch)
{
    const cpu_kernels *kernels = cpu_kernels_get();
    const size_t rest = n % PANEL_OUTPUTS;
    for (size_t from = 0, deep; from < k; from += deep) {
        deep = k - from < DEEP ? k - from : DEEP;
        for (size_t first = 0; first < n; first += PANEL_OUTPUTS) {
            const int whole = first + PANEL_OUTPUTS <= n;
            kernels->gemm(m, PANEL_OUTPUTS, deep, a + from, k, 1, packed + first * k + from * PANEL_OUTPUTS,
                          PANEL_OUTPUTS, whole ? c + first : scratch, whole ? n : PANEL_OUTPUTS, from > 0);
        }
    }
    for (size_t r = 0; r < m && rest; r++) memcpy(c + r * n + n - rest, scratch + r * PANEL_OUTPUTS, rest * sizeof *c);
    for (size_t r = 0; r < m && bias; r++) kernels->add(c + r * n, bias, n);
}
