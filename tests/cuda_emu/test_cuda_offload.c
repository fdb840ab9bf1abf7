/* test_cuda_offload.c - tests/memory/test_offload.c with the CUDA backend itself: its device table, host side and kernels over the emulation.
 * KILN_TEST_FULL=1 (make test-memory): 50 budgets, 1,000 orders, every failing call.
 */
#include "cu_emu.h"

#include "backend/cuda_load.h"

extern const cuda_library kiln_cuda_library;
#define DEVICE (*kiln_cuda_library.backend)
#define TRUTH DEVICE
#define SKIPPED 5 /* what runs on the host alone */
#define BUDGETS (full ? 50 : 10)
#define ORDERS 12
#define SPREAD 2

#include "../memory/fake_device.h"
static fake_report close_all(void)
{
    fake_report r = fake_device_close();
    cu_emu_forget();
    r.faults += cu_emu_faults();
    return r;
}
#define fake_device_close close_all
#include "../memory/test_offload.c"
