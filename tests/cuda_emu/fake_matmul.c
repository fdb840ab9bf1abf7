/* fake_matmul.c - where there is no cuBLASLt. */
#include "backend/cuda/matmul.h"

matmul *matmul_make(const cu_product *p, int bias, size_t *workspace) { return (void)p, (void)bias, (void)workspace, NULL; }
kiln_status matmul_run(const matmul *m, const cu_product *p, const void *bias, void *workspace, cudaStream_t stream, error *e)
{
    (void)m, (void)p, (void)bias, (void)workspace, (void)stream;
    return error_set(e, KILN_ERR_BUG, "there is no library here");
}
void matmul_free(matmul *m) { (void)m; }
