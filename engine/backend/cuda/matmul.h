/* matmul.h - matrix products by cuBLASLt, which is looked for at run time and not required. Layer: backend. Source: cuBLAS Library, cublasLt. */
#ifndef KILN_BACKEND_CUDA_MATMUL_H
#define KILN_BACKEND_CUDA_MATMUL_H

#include "backend/cuda/cuda.h"

/* bias: there is one. NULL when there is no library, or it has nothing for this product: activation and residual it can do in our order, and no
 * geglu. Not for pictures. workspace: bytes of scratch that running takes. */
matmul *matmul_make(const cu_product *, int bias, size_t *workspace);
/* bias: in the result's type, or NULL. Pointers of 16 bytes. */
kiln_status matmul_run(const matmul *, const cu_product *, const void *bias, void *workspace, cudaStream_t, error *);
void matmul_free(matmul *);

#endif
