/* cu_shim_wgmma.h - what cu_wgmma.h names, on the host. A box comes some time after it was asked for, in any order;
 * products are computed when they are waited for, from shared memory as it is then, and their sums are NaN until then;
 * what threads write to shared memory they see once it was fenced. */
#ifndef KILN_TESTS_CU_SHIM_WGMMA_H
#define KILN_TESTS_CU_SHIM_WGMMA_H

#include "backend/cuda/launch.h"
#include "cu_shim.h"
#include <cuda.h> /* fake/ */

typedef uint64_t cu_mbarrier;

uint32_t cu_shared(const void *p);
void cu_mbarrier_init(cu_mbarrier *b, uint32_t arrivals);
void cu_mbarriers_fence();
void cu_mbarrier_arrive(cu_mbarrier *b);
void cu_mbarrier_arrive_expect(cu_mbarrier *b, uint32_t bytes);
void cu_mbarrier_wait(cu_mbarrier *b, uint32_t parity);

void cu_emu_tma_load(void *to, const CUtensorMap *map, cu_mbarrier *b, const int *x, unsigned rank);
template <int rank>
static inline void cu_tma_load(void *to, const CUtensorMap *map, cu_mbarrier *b, const int (&x)[rank])
{
    cu_emu_tma_load(to, map, b, x, rank);
}

void cu_wgmma_fence();
void cu_wgmma_commit_group();
void cu_emu_wgmma(float *sum, unsigned n, uint64_t left, uint64_t right, int f16);
void cu_emu_wgmma_wait_group(unsigned groups);
template <int n> static inline void cu_wgmma_wait_group() { cu_emu_wgmma_wait_group(n); }
template <int TYPE, int N> struct cu_wgmma {
    static void add(float (&sum)[N / 2], uint64_t left, uint64_t right)
    {
        cu_emu_wgmma(sum, N, left, right, TYPE == CU_F16);
    }
};

#endif
