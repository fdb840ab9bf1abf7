/* ssd_scan.cu - the recurrence of ssd_scan.c on a CUDA device: a warp is a row of S, a lane every 32nd column of it. */
#include "ssd_scan.h"

#include <cuda_runtime.h>

enum { LANES = 32, WARPS = 4, COLUMNS = SSD_STATE_MAX / LANES };

static __global__ void scan(ssd_scan_call s)
{
    const long long row = (long long)blockIdx.x * WARPS + threadIdx.y, lane = threadIdx.x;
    if (row >= s.n * s.heads * s.width) return; /* a whole warp */
    const long long d = row % s.width, h = row / s.width % s.heads, n = row / s.width / s.heads;
    const long long g = h / (s.heads / s.groups);
    float state[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) {
        const long long k = lane + i * LANES;
        state[i] = k < s.state ? s.before[row * s.state + k] : 0;
    }
    for (long long t = 0; t < s.t; t++) {
        const long long at = n * s.t + t, shared = (at * s.groups + g) * s.state;
        const float dt = s.dt[at * s.heads + h], x = s.x[(at * s.heads + h) * s.width + d], keep = expf(dt * s.a[h]);
        float sum = 0;
        for (int i = 0; i < COLUMNS; i++) {
            const long long k = lane + i * LANES;
            if (k >= s.state) break;
            state[i] = keep * state[i] + dt * x * s.b[shared + k];
            sum += s.c[shared + k] * state[i];
        }
        for (int other = LANES / 2; other; other /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, other);
        if (!lane) s.y[(at * s.heads + h) * s.width + d] = s.d[h] * x + sum;
    }
    if (!s.last) return;
    for (int i = 0; i < COLUMNS; i++) {
        const long long k = lane + i * LANES;
        if (k < s.state) s.last[row * s.state + k] = state[i];
    }
}

extern "C" int ssd_scan_launch(const ssd_scan_call *call, void *stream)
{
    const long long rows = call->n * call->heads * call->width;
    scan<<<(unsigned)((rows + WARPS - 1) / WARPS), dim3(LANES, WARPS), 0, (cudaStream_t)stream>>>(*call);
    return (int)cudaGetLastError();
}
