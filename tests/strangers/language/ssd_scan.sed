# ssd_scan.sed - ssd_scan.cu for tests/cuda_emu, which runs kernels on the host: its header, and its launch.
s/#include <cuda_runtime.h>/#include "cu_shim.h"/
s/scan<<<\(.*\), dim3(LANES, WARPS), 0, (cudaStream_t)stream>>>(\*call);/cu_emu_run("scan", \1, dim3(LANES, WARPS), 0, 0, [\&] { scan(*call); });/
s/return (int)cudaGetLastError();/return stream != nullptr;/
