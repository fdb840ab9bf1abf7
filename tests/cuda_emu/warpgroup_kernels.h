/* warpgroup_kernels.h - a product of a warpgroup over boxes, right or with something left out, for test_cuda_wgmma.c.
 */
#ifndef KILN_TESTS_WARPGROUP_KERNELS_H
#define KILN_TESTS_WARPGROUP_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    WARPGROUP_RIGHT,
    WARPGROUP_UNPUBLISHED,    /* a copy counts on barriers that were only initialised */
    WARPGROUP_EARLY_RELEASE,  /* a stage goes back before its products were waited for */
    WARPGROUP_UNFINISHED,     /* sums are read before the last products are waited for */
    WARPGROUP_TILE_UNAWAITED, /* products of a tile that may not have come */
    WARPGROUP_UNFENCED,       /* products of sums that were written just now */
    WARPGROUP_FEW_BYTES,      /* less expected than comes */
    WARPGROUP_MANY_BYTES,     /* more expected than comes */
    WARPGROUP_OFF_PLACE,      /* a tile that begins beside a multiple of 1024 */
    WARPGROUP_TWO_ARRIVALS,   /* a warp gives a stage back twice */
    WARPGROUP_ABANDONED       /* the last box is not waited for */
} warpgroup_fault;

enum { WARPGROUP_ROWS = 64, WARPGROUP_COLUMNS = 128, WARPGROUP_DEEP = 64 };
/* out [64, 128] = a [64, K] b [128, K]^T of bf16 numbers; K a multiple of 64; a and b at multiples of 16. */
void warpgroup_product(float *out, const uint16_t *a, const uint16_t *b, int k, warpgroup_fault fault);
/* The same of one step, whose tiles threads write themselves; fenced: 0: and do not say so. */
void warpgroup_written(float *out, const uint16_t *a, const uint16_t *b, int fenced);
/* A tensor of rows x columns numbers that the driver is asked to describe. 1: it did. */
int warpgroup_box(const void *first, uint64_t columns, uint64_t apart, uint32_t wide, uint32_t step);

#ifdef __cplusplus
}
#endif
#endif
