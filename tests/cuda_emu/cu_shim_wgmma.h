/* cu_shim_wgmma.h - what cu_wgmma.h names, on the host. A box comes some time after it was asked for, in any order;
 * products are computed when they are waited for, from shared memory as it is then, and their sums are NaN until then;
 * what threads write to shared memory they see once it was fenced. */
#ifndef KILN_TESTS_CU_SHIM_WGMMA_H
#define KILN_TESTS_CU_SHIM_WGMMA_H

#include "backend/cuda/launch.h"
#include "cu_shim.h"
#include <cuda.h> /* fake/ */

typedef uint64_t cu_barrier;

uint32_t cu_shared(const void *p);
void cu_barrier_init(cu_barrier *b, uint32_t arrivals);
void cu_barriers_published();
void cu_barrier_arrive(cu_barrier *b);
void cu_barrier_expect(cu_barrier *b, uint32_t bytes);
void cu_barrier_wait(cu_barrier *b, uint32_t parity);

void cu_emu_box(void *to, const CUtensorMap *map, cu_barrier *b, const int *x, unsigned rank);
template <int rank> static inline void cu_box(void *to, const CUtensorMap *map, cu_barrier *b, const int (&x)[rank])
{
    cu_emu_box(to, map, b, x, rank);
}

void cu_products_begin();
void cu_products_group();
void cu_emu_product(float *sum, unsigned n, uint64_t left, uint64_t right, int f16);
void cu_emu_products_wait(unsigned groups);
template <int n> static inline void cu_products_wait() { cu_emu_products_wait(n); }
template <int TYPE, int N> struct cu_products {
    static void add(float (&sum)[N / 2], uint64_t left, uint64_t right)
    {
        cu_emu_product(sum, N, left, right, TYPE == CU_F16);
    }
};

#endif
