/* trails_kernel.h - what trails.c hands to trails_kernel.cu: plain numbers and pointers, so that neither sees the
 * other's headers. */
#ifndef TRAILS_KERNEL_H
#define TRAILS_KERNEL_H

#ifdef __cplusplus
extern "C" {
#endif

/* x, y [n,t,width] and last [n,width] or NULL, on the device. */
typedef struct {
    const float *x;
    float *y, *last;
    long long n, t, width;
    float decay;
} decay_cuda_call;

int decay_cuda_launch(const decay_cuda_call *call, void *stream); /* 0, or a cudaError_t */

#ifdef __cplusplus
}
#endif
#endif
