/* emu_offload.h - what tests/memory/offload_kit.h needs to run with the CUDA backend itself: its device table, host
 * side and kernels over the emulation. KILN_TEST_FULL=1 (make test-memory): 50 budgets, 1,000 orders, every failing
 * call.
 */
#ifndef KILN_TESTS_EMU_OFFLOAD_H
#define KILN_TESTS_EMU_OFFLOAD_H

#include "cu_emu.h"

#include "backend/cuda_load.h"

extern const cuda_library kiln_cuda_library;
#define DEVICE (*kiln_cuda_library.backend)
#define TRUTH DEVICE
#define SKIPPED 5 /* what runs on the host alone */
#include <stdlib.h>
#include <string.h>
/* Unoptimised builds, and so those with sanitizers, are ten times slower. */
static inline int slow_build(void) { return getenv("KILN_BUILD") && strstr(getenv("KILN_BUILD"), "debug"); }
#define BUDGETS (full ? 50u : slow_build() ? 5u : 10u)
#define OTHER_LIMITS (full ? 6u : 2u)
#define ORDERS (slow_build() ? 2u : 12u)
#define SPREAD (slow_build() ? 1 : 2)
#define DEAF (slow_build() ? 10u : 20u)

#include "../memory/fake_device.h"
static fake_report close_all(void)
{
    fake_report r = fake_device_close();
    cu_emu_forget();
    r.faults += cu_emu_faults();
    return r;
}
#define fake_device_close close_all

#endif
