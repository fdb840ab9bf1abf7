/* test_cuda_patched.c - tests/memory/test_patched_programs.c with the CUDA backend itself, over the emulation: its
 * packing of weights that lie in no file. */
#include "cu_emu.h"

#include "backend/cuda_load.h"

extern const cuda_library kiln_cuda_library;
#define DEVICE (*kiln_cuda_library.backend)
#define TRUTH DEVICE
#define SKIPPED 1 /* what runs on the host alone */
#define BUDGETS 3
#define FORMS 5 /* b.3 has one for the norm and one for the product */

#include "../memory/fake_device.h"
static fake_report close_all(void)
{
    fake_report r = fake_device_close();
    cu_emu_forget();
    r.faults += cu_emu_faults();
    return r;
}
#define fake_device_close close_all
#include "../memory/test_patched_programs.c"
