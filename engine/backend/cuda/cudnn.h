/* cudnn.h - convolutions by cuDNN, which is loaded at run time, when it is asked for
 * (KILN_CUDA_GEMM=cudnn). Layer: backend. Source: NVIDIA cuDNN API Reference, the legacy convolution functions. */
#ifndef KILN_BACKEND_CUDA_CONVOLUTION_H
#define KILN_BACKEND_CUDA_CONVOLUTION_H

#include "backend/cuda/cuda.h"

/* Looks for the library and starts it on the current device: once in a process, before any other call here. KILN_CUDNN
 * names its file; otherwise it is looked for where the system looks for libraries. *version: what cudnnGetVersion says,
 * never 0. KILN_ERR_UNSUPPORTED with a sentence when it is not there or cannot be used. */
kiln_status cudnn_open(size_t *version, error *e);
/* Of a picture whose weights are packed without gaps. Any thread; the current device is the one of cudnn_open.
 * NULL when the library has nothing for it. scratch: bytes that running takes, aligned to 256. */
cudnn_conv *cudnn_make(const cu_gemm *, size_t *scratch);
/* With its epilogue. Pointers of 16 bytes. The residual may lie where the result does. IO when the library or a launch
 * is refused. */
kiln_status cudnn_run(const cudnn_conv *, const cu_gemm *, void *scratch, cudaStream_t, error *);
void cudnn_free(cudnn_conv *);

#endif
