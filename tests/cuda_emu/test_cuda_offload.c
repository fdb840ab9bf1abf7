/* test_cuda_offload.c - tests/memory/test_offload.c with the CUDA backend over the emulation: see emu_offload.h. */
#include "emu_offload.h"

#include "../memory/test_offload.c"
