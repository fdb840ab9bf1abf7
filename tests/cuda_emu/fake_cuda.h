/* fake_cuda.h - the chip that the fake CUDA runtime claims to have; see fake_cuda.c. */
#ifndef KILN_TESTS_FAKE_CUDA_H
#define KILN_TESTS_FAKE_CUDA_H

#include "fake_vendor.h"

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Compute capability; 9.0 unless told. Before the device is opened for the first time. */
void fake_cuda_chip(int major, int minor);
/* How many devices there are (1 unless told), of which the first whose stream is made is the one fake device: launches
 * and memory want it to be the calling thread's, as on a real one. */
void fake_cuda_devices(int n);
/* NVIDIA's libraries' stand-ins, which engine/backend/cuda opens by name (the environment variable, set unless it is):
 * NULL where another library is named, or with KILN_TEST_GPU=1. */
const fake_vendor *fake_cuda_vendor(const char *variable);
/* After the device was closed: work that was given to it. */
void fake_cuda_forget(void);
int fake_cuda_major(void);
/* 1: the driver knows no descriptions of tensors. */
void fake_cuda_old_driver(int old);

/* What is in a CUtensorMap here. */
enum { FAKE_TENSOR = 0x54454e53 };
typedef struct {
    uint32_t whole; /* FAKE_TENSOR */
    uint32_t rank;
    void *first;
    uint64_t bytes[4];
    uint32_t size[5];
    uint16_t box[5];
    uint8_t step[5];
} fake_tensor;
/* To the end of a stream. */
cudaError_t fake_cuda_call(cudaStream_t s, void (*call)(void *), void *arg);

#ifdef __cplusplus
}
#endif

#endif
