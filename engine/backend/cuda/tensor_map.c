/* tensor_map.c - see tensor_map.h. The driver's function is looked for at run time, so that nothing links the driver.
 */
#include "backend/cuda/tensor_map.h"

#include <pthread.h>
#include <string.h>

static __typeof__(&cuTensorMapEncodeTiled) encode;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void look_up(void)
{
    void *f = NULL;
    enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &found);
    if (status == cudaSuccess && found == cudaDriverEntryPointSuccess) memcpy(&encode, &f, sizeof f);
    if (status != cudaSuccess) cudaGetLastError();
}

int tensor_map_available(void)
{
    pthread_once(&once, look_up);
    return encode != NULL;
}

cudaError_t tensor_map_encode(CUtensorMap *out, const tensor_box *b)
{
    if (!tensor_map_available()) return cudaErrorNotSupported;
    const CUresult status =
        encode(out, b->f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, b->rank,
               (void *)(uintptr_t)b->first, b->size, b->bytes, b->box, b->step, CU_TENSOR_MAP_INTERLEAVE_NONE,
               CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return status == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}
