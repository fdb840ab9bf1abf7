/* test_cuda_invariant.c - tests/memory/test_invariant.c with the CUDA backend itself over the emulation. */
#include "cu_emu.h"

#include "backend/cuda_load.h"

extern const cuda_library kiln_cuda_library;
#define DEVICE (*kiln_cuda_library.backend)
#define TRUTH DEVICE
#define SKIPPED 4 /* what runs on the host alone */
#define BUDGETS 6
#define SEEDS 6

#include "../memory/fake_device.h"
static fake_report close_all(void)
{
    fake_report r = fake_device_close();
    cu_emu_forget();
    r.faults += cu_emu_faults();
    return r;
}
#define fake_device_close close_all
#include "../memory/test_invariant.c"
