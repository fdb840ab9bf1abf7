/* fake_cuda.h - the chip that the fake CUDA runtime claims to have; see fake_cuda.c. */
#ifndef KILN_TESTS_FAKE_CUDA_H
#define KILN_TESTS_FAKE_CUDA_H

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Compute capability; 9.0 unless told. Before the device is opened for the first time. */
void fake_cuda_chip(int major, int minor);
int fake_cuda_major(void);
/* To the end of a stream. */
cudaError_t fake_cuda_call(cudaStream_t s, void (*call)(void *), void *arg);

#ifdef __cplusplus
}
#endif

#endif
