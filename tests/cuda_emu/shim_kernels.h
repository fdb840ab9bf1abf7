/* shim_kernels.h - small kernels over the emulation, right and wrong ones, for test_cuda_shim.c. Each is launched at
 * once, without a device. */
#ifndef KILN_TESTS_SHIM_KERNELS_H
#define KILN_TESTS_SHIM_KERNELS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- right ---- */

void shim_sum_rows(float *out, const float *in, int rows,
                   int columns); /* shuffles in warps, shared memory between them */
void shim_product(float *out, const float *a, const float *b, int m, int n, int k); /* tiles in shared memory */
void shim_halves_of_warps(float *out, const float *in, int threads);  /* sums of 16 lanes each, then of all 32 */
void shim_visits(uint32_t *order, uint32_t blocks, uint32_t threads); /* order[k]: which thread of all came k-th */
/* out [16,8] = a [16,16] b [16,8], by one cu_mma of CU_BF16 or CU_F16 */
void shim_tensor_product(float *out, const float *a, const float *b, int f16);
void shim_convert(uint16_t *bf16, uint16_t *half, float *back, const float *in, int n); /* back: of `half` */

/* ---- right, or with something left out ---- */

void shim_turn_round(float *out, const float *in, int n, int barrier); /* out[i] = in[n - 1 - i] */
void shim_walk(float *out, const float *in, int n, int steps,
               int barrier); /* out[i] = in[(i + steps) % n]; the second barrier of each step */
void shim_copied(float *out, const float *in, int n,
                 int waited); /* out = in by copies in two groups, of which so many are waited for; n % 8 == 0 */
void shim_handed_on(float *out, const float *in, int threads, int barrier); /* out[t] = in[4 ((t + 32) % threads)] */
void shim_beside(float *out, int n, int write,
                 int read); /* out[i] = 1; element `write` is written as well, out[0] is element `read` */
void shim_unwritten(float *out, int fixed); /* out[0]: static, or dynamic shared memory that nobody wrote */

/* ---- wrong ---- */

void shim_barrier_of_some(int threads, int from); /* threads from `from` on end without it */
void shim_barrier_or_shuffle(int threads, int from);
void shim_shuffle_of_some(int threads); /* lanes 16 to 31 are named and do not come */
void shim_shuffle_unnamed(int threads); /* a lane comes that is not named */

/* A launch of a kernel that does nothing. */
void shim_launch(unsigned grid_y, unsigned threads, size_t shared);
/* The same, of one that asked for as much shared memory first. 0: it may not have that. */
int shim_launch_large(size_t asked, size_t shared);

#ifdef __cplusplus
}
#endif
#endif
