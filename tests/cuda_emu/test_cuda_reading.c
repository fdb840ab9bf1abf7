/* test_cuda_reading.c - tests/memory/test_reading.c with the CUDA backend itself over the emulation. */
#include "cu_emu.h"

#include "backend/cuda_load.h"

extern const cuda_library kiln_cuda_library;
#define DEVICE (*kiln_cuda_library.backend)
#define CLOSENESS 2e-5 /* sums in another order */
#define PACKED(precision) (precision)

#include "../memory/fake_device.h"
static fake_report close_all(void)
{
    fake_report r = fake_device_close();
    cu_emu_forget();
    r.faults += cu_emu_faults();
    return r;
}
#define fake_device_close close_all
#include "../memory/test_reading.c"
