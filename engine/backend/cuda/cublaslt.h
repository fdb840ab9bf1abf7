/* cublaslt.h - GEMMs by cuBLASLt, which is loaded at run time where it is installed. Layer: backend. Source:
 * cuBLAS Library, cublasLt. */
#ifndef KILN_BACKEND_CUDA_MATMUL_H
#define KILN_BACKEND_CUDA_MATMUL_H

#include "backend/cuda/cuda.h"

/* Looks for the library and starts it on the current device: once in a process, before any other call here.
 * KILN_CUBLASLT names its file; otherwise it is looked for where the system looks for libraries. *version: what
 * cublasLtGetVersion says, 0 where there is none. KILN_ERR_UNSUPPORTED when a file was named that cannot be used. */
kiln_status cublaslt_open(size_t *version, error *e);
/* Any thread; the current device is the one of cublaslt_open. bias: there is one. NULL when there is no library, or it
 * has nothing for this GEMM: activation and residual it can do in our order, and no geglu. Not for pictures.
 * workspace: bytes of scratch that running takes. */
cublaslt_gemm *cublaslt_make(const cu_gemm *, int bias, size_t *workspace);
/* bias: in the result's type, or NULL. Pointers of 16 bytes, workspace of 256. The residual may lie where the result
 * does. One run of a GEMM at a time. IO when the library refuses. */
kiln_status cublaslt_run(const cublaslt_gemm *, const cu_gemm *, const void *bias, void *workspace, cudaStream_t,
                         error *);
void cublaslt_free(cublaslt_gemm *);

#endif
