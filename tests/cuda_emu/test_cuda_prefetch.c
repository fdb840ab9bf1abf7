/* test_cuda_prefetch.c - tests/memory/test_prefetch.c with the CUDA backend over the emulation: see emu_offload.h. */
#include "emu_offload.h"

#include "../memory/test_prefetch.c"
