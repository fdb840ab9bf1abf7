# ssd_scan_stream.sed - ssd_scan.cu for tests/cuda_emu as a part of kiln's run: the launch waits in the stream for its turn.
s/#include <cuda_runtime.h>/#include "cu_shim.h"/
s/scan<<<\(.*\), dim3(LANES, WARPS), 0, (cudaStream_t)stream>>>(\*call);/const dim3 grid(\1); return (int)cu_emu_give((cudaStream_t)stream, [grid, s = *call] { cu_emu_run("scan", grid, dim3(LANES, WARPS), 0, 0, [\&] { scan(s); }); });/
s/return (int)cudaGetLastError();//
