/* test_cuda_calls.c - tests/memory/test_device_calls.c with the CUDA backend over the emulation: see emu_offload.h. */
#include "emu_offload.h"

#include "../memory/test_device_calls.c"
