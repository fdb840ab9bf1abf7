/* trails_kernel.cu - the op of trails.c on a CUDA device: a thread is a column of a picture, and goes along T. Shows:
 * an op's cuda(): it enqueues on the stream it is given, waits for nothing and allocates nothing.
 */
#include "trails_kernel.h"

#include <cuda_runtime.h>

enum { THREADS = 128 };

static __global__ void decay(decay_cuda_call c)
{
    const long long column = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (column >= c.n * c.width) return;
    const long long first = column / c.width * c.t * c.width + column % c.width;
    float sum = 0;
    for (long long t = 0; t < c.t; t++) {
        sum = fmaf(c.decay, sum, c.x[first + t * c.width]);
        c.y[first + t * c.width] = sum;
    }
    if (c.last) c.last[column] = sum;
}

extern "C" int decay_cuda_launch(const decay_cuda_call *call, void *stream)
{
    const long long columns = call->n * call->width;
    decay<<<(unsigned)((columns + THREADS - 1) / THREADS), THREADS, 0, (cudaStream_t)stream>>>(*call);
    return (int)cudaGetLastError();
}
