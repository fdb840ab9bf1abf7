# trails_kernel.sed - trails_kernel.cu for tests/cuda_emu, which runs kernels on the host: the launch waits in the stream for its turn.
s/#include <cuda_runtime.h>/#include "cu_shim.h"/
s/decay<<<\(.*\), THREADS, 0, (cudaStream_t)stream>>>(\*call);/const dim3 grid(\1); return (int)cu_emu_give((cudaStream_t)stream, [grid, s = *call] { cu_emu_run("decay", grid, dim3(THREADS), 0, 0, [\&] { decay(s); });  });/
s/return (int)cudaGetLastError();//
