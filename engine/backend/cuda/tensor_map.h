/* tensor_map.h - descriptions of tensors for a chip's copy engine (TMA, sm_90): the driver encodes them. Layer:
 * backend. */
#ifndef KILN_BACKEND_CUDA_TENSOR_MAP_H
#define KILN_BACKEND_CUDA_TENSOR_MAP_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers of 16 bits; dimension 0 is dense, the others are `bytes` apart (bytes[0]: dimension 1's). A box of `box`
 * numbers is brought at once, every step[d]-th number of dimension d: box[d] = step[d] times how many. */
typedef struct {
    int f16; /* else bf16 */
    unsigned rank;
    const void *first;
    uint64_t size[5], bytes[4];
    uint32_t box[5], step[5];
} tensor_box;

/* 1: the driver has what it takes. Asked once, of the opened device's driver. */
int tensor_map_available(void);
/* Swizzle 128B: box[0] is 64 numbers. Nothing is kept of `b`; the tensor's memory has to stay. */
cudaError_t tensor_map_encode(CUtensorMap *out, const tensor_box *b);

#ifdef __cplusplus
}
#endif
#endif
